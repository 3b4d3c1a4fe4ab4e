"""Read and write files of parallel text in any format, chosen by their file extensions."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from mtkit.errors import UsageError
from mtkit.languages import are_one_language, language_in_name
from mtkit.pair_files import archive, json_lines, moses, one_file, tables, tmx
from mtkit.pair_files.compression import open_outputs, reading
from mtkit.pair_files.encodings import as_utf8
from mtkit.pair_files.pairs import Languages, Pair, Tally, segment

_WRITERS = {".csv": tables.csv_writing, ".jsonl": json_lines.writing, ".tmx": tmx.writing, ".tsv": tables.tsv_writing}
WRITTEN = tuple(_WRITERS)  # file extensions of one file with both sides


def read_one_file(
    path: Path, langs: Languages | None, tally: Tally | None = None, encodings: Sequence[str] = ()
) -> Iterator[Pair]:
    """Yield the pairs of a file that holds both sides.

    langs: source and target; None: those of the file, if it has two. encodings: of the text, if it is not UTF-8; of
    several, the first that fits each line. Raises DataError with the place of what cannot be read.
    """
    one_file.check_extension(path)
    tally = Tally() if tally is None else tally
    _check_encodings(path, encodings)
    extension = one_file.extension(path)
    if extension == ".zip":
        yield from archive.pairs(path, langs, tally)
        return
    with reading(path) as file:
        tally.n_bytes_read = partial(_position, file)
        text = as_utf8(file, str(path), encodings) if encodings else file
        yield from one_file.pairs(text, extension, str(path), langs, tally)


def read_tsv(path: Path, tally: Tally, encodings: Sequence[str] = ()) -> Iterator[Pair]:
    """Yield the pairs of a TSV file, whatever its name."""
    with reading(path) as file:
        tally.n_bytes_read = partial(_position, file)
        yield from tables.tsv_pairs(as_utf8(file, str(path), encodings) if encodings else file, str(path), tally)


def read_two_files(src: Path, tgt: Path, tally: Tally, encodings: Sequence[str] = ()) -> Iterator[Pair]:
    """Yield the pairs of two text files. Raises DataError if their numbers of lines differ."""
    with reading(src) as src_file, reading(tgt) as tgt_file:
        tally.n_bytes_read = partial(_position, src_file)
        files = src_file, tgt_file
        if encodings:
            files = as_utf8(src_file, str(src), encodings), as_utf8(tgt_file, str(tgt), encodings)
        yield from moses.pairs(files[0], str(src), files[1], str(tgt), tally)


def _position(file: BinaryIO) -> int:
    """Return how many bytes of the file on disk have been read; 0 for a pipe."""
    try:
        return os.lseek(file.fileno(), 0, os.SEEK_CUR)
    except OSError:
        return 0


def _check_encodings(path: Path, encodings: Sequence[str]) -> None:
    if encodings and one_file.extension(path) in (*one_file.STATES_ITS_ENCODING, ".zip"):
        raise UsageError(f"--encoding: {path} declares its encoding itself; correct it there, or leave the option out")


def own_languages(path: Path, encodings: Sequence[str] = ()) -> Languages | None:
    """Return the languages named at the beginning of a file with both sides; None if there are not exactly two.

    encodings: as in `read_one_file`.
    """
    one_file.check_extension(path)
    _check_encodings(path, encodings)
    if (extension := one_file.extension(path)) == ".zip":
        return archive.own_languages(path)
    with reading(path) as file:
        text = as_utf8(file, str(path), encodings, counting=False) if encodings else file
        return one_file.own_languages(text, extension, str(path))


def check_outputs(outputs: Sequence[Path], langs: Languages) -> None:
    """Raise UsageError unless these are one file of a known format by its extension, or two text files.

    The languages in the names of two text files must not be swapped.
    """
    extensions = [one_file.extension(path) for path in outputs]
    if len(outputs) == 1 and extensions[0] in _WRITERS:
        if extensions[0] == ".tmx" and {*langs} & {"src", "tgt"}:
            raise UsageError(
                f"--output {outputs[0]}: TMX states both languages, but no {'source' if 'src' in langs else 'target'} "
                "language is known; give both with --langs, such as en-de"
            )
        return
    if len(outputs) == 2 and not {*extensions} & {*_WRITERS, *one_file.EXTENSIONS, ".zip"}:
        if outputs[0].resolve() == outputs[1].resolve():
            raise UsageError(f"--output {outputs[1]}: both sides would go into one file; give two")
        check_order(outputs, langs)
        return
    raise UsageError(
        f"--output {' '.join(map(str, outputs))}: give one file whose extension is {', '.join(_WRITERS)}, or two "
        "text files, source first, such as -o out.en -o out.de; .gz, .xz or .zst may follow each extension"
    )


def check_order(outputs: Sequence[Path], langs: Languages) -> None:
    """Raise UsageError if one of two outputs, source first, has a name that ends in the other side's language."""
    if len(outputs) != 2:
        return
    for output, own, other in zip(outputs, langs, reversed(langs), strict=True):
        named = language_in_name(output)
        if named and are_one_language(named, other) and not are_one_language(named, own):
            raise UsageError(
                f"--output {output}: the text for it would be in {own}, because the source is {langs[0]} and the "
                f"target {langs[1]}; give the file of the source first: -o {outputs[1]} -o {outputs[0]}"
            )


def check_distinct(outputs: Sequence[tuple[str, Path | None]], inputs: Sequence[Path]) -> None:
    """Raise UsageError if an output is one of the inputs, or the same file as another output.

    outputs: the option that names each, and its path; None: it is not written. A terminal or /dev/null may be both.
    """
    taken = {path.resolve(): f"the input {path}" for path in inputs}
    for option, path in outputs:
        if path is None or path.is_char_device():
            continue
        if (other := taken.get(path.resolve())) is not None:
            raise UsageError(f"{option} {path}: the same file as {other}; give another name")
        taken[path.resolve()] = f"{option} {path}"


@contextmanager
def writing(outputs: Sequence[Path], langs: Languages) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that writes a source and a target text; the files appear together when the block ends.

    outputs: one file of a format by its extension, or two text files. Line breaks and tabs inside a text become
    spaces.
    """
    check_outputs(outputs, langs)
    with open_outputs(outputs) as files:
        if len(files) == 2:
            writer = moses.writing(files[0], files[1])
        else:
            writer = _WRITERS[one_file.extension(outputs[0])](files[0], langs)
        with writer as write:
            yield lambda src, tgt: write(segment(src), segment(tgt))
