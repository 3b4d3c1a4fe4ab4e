"""The output files of a cleaning, for kept and for dropped pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.config.data import CorpusFiles
from mtkit.errors import UsageError
from mtkit.files import file_in_the_way
from mtkit.pair_files.compression import packing
from mtkit.pair_files.corpus_files import WRITTEN
from mtkit.pair_files.one_file import extension

_REJECTED = ".rejected.tsv.gz"


@dataclass(frozen=True)
class Output:
    """The output files for the kept and the dropped pairs of some corpora."""

    kept: tuple[Path, ...]  # a file of pairs, or one of each side, or of the source side alone
    rejected: Path
    corpora: range  # indices
    has_translations: bool = True

    @property
    def shard_names(self) -> list[str]:
        """Return the names of the files of kept pairs in a shard, which can be joined to the output."""
        sides = ("src", "tgt")[: len(self.kept)] if len(self.kept) == 2 or not self.has_translations else ("pairs",)
        return [f"{side}{packing(path)}" for side, path in zip(sides, self.kept, strict=True)]

    @property
    def is_of_another_format(self) -> bool:
        """Whether the shards of kept pairs, which are TSV, are not in the format of the output."""
        return self.has_translations and len(self.kept) == 1 and extension(self.kept[0]) != ".tsv"

    @property
    def rejected_name(self) -> str:
        """Return the name of the file of dropped pairs in a shard."""
        return f"rejected{packing(self.rejected)}"


def one_output(kept: Sequence[Path], rejected: Path | None, corpora: Sequence[CorpusFiles]) -> Output:
    """Return the outputs if all corpora go into the same files. Raises UsageError if the names do not fit."""
    for path in kept:
        if path.is_dir():
            raise UsageError(f"--output {path}: is a folder, which only the corpora of a config can go to; name a file")
    unpacked = [path.with_suffix("") if packing(path) else path for path in kept]
    if len(kept) > 2 or (len(kept) == 1 and extension(kept[0]) not in WRITTEN):
        raise UsageError(
            f"--output {' '.join(map(str, kept))}: give one name that ends in {', '.join(WRITTEN)}, or two names, "
            "source first, such as -o clean.en -o clean.de"
        )
    name = unpacked[0].stem if len(kept) == 1 or unpacked[0].suffix else unpacked[0].name
    output = Output(tuple(kept), rejected or kept[0].with_name(f"{name}{_REJECTED}"), range(len(corpora)))
    _check([output], corpora)
    return output


def output_for_each(folders: Sequence[Path], corpora: Sequence[CorpusFiles]) -> list[Output]:
    """Return the outputs of each corpus in a folder, named after its files. Raises UsageError."""
    if len(folders) != 1 or folders[0].is_file():
        raise UsageError(
            f"--output {' '.join(map(str, folders))}: name one folder, to which the cleaned corpora of the config go"
        )
    folders[0].mkdir(parents=True, exist_ok=True)
    outputs: list[Output] = []
    for index, corpus in enumerate(corpora):
        names = [path.name for path in corpus.paths] if corpus.src else [_tsv_name(corpus)]
        taken = {path.name for output in outputs for path in (*output.kept, output.rejected)}
        if taken.intersection([*names, names[0] + _REJECTED]):
            names = [f"{index + 1}-{name}" for name in names]
        kept = tuple(folders[0] / name for name in names)
        rejected, own = folders[0] / (names[0] + _REJECTED), range(index, index + 1)
        outputs.append(Output(kept, rejected, own, has_translations=not corpus.is_untranslated))
    _check(outputs, corpora)
    return outputs


def _tsv_name(corpus: CorpusFiles) -> str:
    path = next(path for path in corpus.paths)
    unpacked = path.with_suffix("") if packing(path) else path
    return unpacked.stem + ".tsv" + packing(path)


def _check(outputs: Sequence[Output], corpora: Sequence[CorpusFiles]) -> None:
    """Raise UsageError if an output is also an input or another output, or its folder does not exist."""
    inputs = {path.resolve() for corpus in corpora for path in corpus.paths}
    seen: set[Path] = set()
    for path in (path for output in outputs for path in (*output.kept, output.rejected)):
        if path.resolve() in inputs:
            raise UsageError(f"--output {path}: is one of the corpora to clean; give another name")
        if path.resolve() in seen:
            raise UsageError(f"--output {path}: named twice; give each output a name of its own")
        if (part := file_in_the_way(path.parent)) is not None:
            raise UsageError(f"--output {path}: {part} is a file, not a folder; choose another name")
        if not path.parent.is_dir():
            raise UsageError(f"--output {path}: there is no folder {path.parent}; make it first, or correct the name")
        seen.add(path.resolve())
