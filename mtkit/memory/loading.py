"""Open the translation memory of a translator: a built one, or any file of pairs, which is then indexed in memory."""

from pathlib import Path

from mtkit.config.data import UNNAMED
from mtkit.console import log
from mtkit.errors import DataError
from mtkit.languages import are_one_language
from mtkit.memory.index import Memory, is_memory
from mtkit.pair_files.corpus_files import read_one_file
from mtkit.pair_files.lines import require_regular
from mtkit.pair_files.pairs import Languages, Tally

_MANY = 50_000  # units that take some 5 s to index


def load_memory(path: Path, langs: Languages | None) -> Memory:
    """Open a memory for text in these languages; None: of any.

    Raises DataError if there is no such file, or if it has no unit in these languages.
    """
    direction = "-".join(langs or ())
    if not path.exists():
        raise DataError(f"{path}: no such file, though decode.memory names it; correct the path")
    if is_memory(path):
        memory = Memory.open(path)
        if langs and memory.langs != UNNAMED and not all(map(are_one_language, memory.langs, langs)):
            raise DataError(
                f"{path}: a memory for {'-'.join(memory.langs)}, but the model translates {direction}; build one from "
                f"the same files with `mtkit memory build --langs {','.join(langs)}`"
            )
        return memory
    require_regular(path)
    tally = Tally()
    memory = Memory.of_pairs(read_one_file(path, langs, tally), langs or UNNAMED, str(path))
    if not memory.n_units:
        raise DataError(f"{path}: no unit with text in both languages{f' ({direction})' if langs else ''}: {tally}")
    if tally.remark():
        log.info(f"{path}: {tally.remark()}")
    if memory.n_units > _MANY:
        log.info(f"{path}: index it once, so that mtkit starts sooner: mtkit memory build {path} -o memory.sqlite")
    return memory
