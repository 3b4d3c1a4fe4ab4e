"""Read pairs from an open file that holds both sides, by its file extension."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from mtkit.errors import DataError
from mtkit.pair_files import json_lines, po, tables, tmx, units, xliff
from mtkit.pair_files.compression import MAGIC
from mtkit.pair_files.pairs import Languages, Pair, Tally

_UNITS: dict[str, Callable[[BinaryIO, str, Tally], Iterator[units.Unit]]] = {
    ".csv": tables.csv_units,
    ".jsonl": json_lines.units,
    ".po": po.units,
    ".tmx": tmx.units,
    ".xlf": xliff.units,
    ".xliff": xliff.units,
}
EXTENSIONS = (".tsv", *_UNITS)
STATES_ITS_ENCODING = (".po", ".tmx", ".xlf", ".xliff")


def extension(path: Path) -> str:
    """Return a file extension in lower case, without the one of a compression: ".tmx" for a.TMX.gz."""
    name = path.with_suffix("") if path.suffix.lower() in MAGIC else path
    return name.suffix.lower()


def pairs(file: BinaryIO, extension: str, name: str, langs: Languages | None, tally: Tally) -> Iterator[Pair]:
    """Yield the pairs of an open file, and count its contents in the tally.

    langs: source and target; None: those of the file, if it has two. TSV has no languages and gives every line's pair.
    """
    if extension == ".tsv":
        yield from tables.tsv_pairs(file, name, tally)
        return
    yield from units.pairs_of(_UNITS[extension](file, name, tally), name, langs, tally)


def own_languages(file: BinaryIO, extension: str, name: str) -> Languages | None:
    """Return the languages named at the beginning of the file; None if there are not exactly two."""
    return None if extension == ".tsv" else units.own_languages(_UNITS[extension](file, name, Tally()))


def check_extension(path: Path) -> None:
    """Raise DataError for a folder, and for a file extension without a format that has both sides in one file."""
    if path.is_dir():
        raise DataError(f"{path}: this is a folder; give a file in it")
    if extension(path) not in (*EXTENSIONS, ".zip"):
        known = ", ".join((*EXTENSIONS, ".zip"))
        raise DataError(
            f"{path}: unknown file extension {path.suffix!r}; mtkit reads pairs from {known} (all but .zip also "
            "with .gz, .xz or .zst behind it), or from two text files, given as src and tgt"
        )
