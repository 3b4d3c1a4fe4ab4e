"""TSV: source, tab, target on each line; without a header, without quotes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from mtkit.errors import DataError
from mtkit.pair_files.lines import lines_of
from mtkit.pair_files.pairs import Languages, Pair
from mtkit.pair_files.units import header_of

TAB = "\t"


def pairs(file: BinaryIO, name: str) -> Iterator[Pair]:
    """Yield the first two columns of each line.

    Raises DataError, with the line, if it has no tab, is a header, or if CR separates it from a second pair.
    """
    for number, line in enumerate(lines_of(file, name), start=1):
        columns = line.split(TAB, 2)
        if len(columns) < 2:
            raise DataError(f"{name}: line {number}: no tab; write each line as source, tab, target")
        if number == 1 and header_of(line.split(TAB)):
            raise DataError(
                f"{name}: line 1: a header ({', '.join(line.split(TAB)[:10])}), which a .tsv does not have; name the "
                "file .csv, where a header tells the columns, or remove the line if the first two columns are source "
                "and target; if it is a pair, move it further down"
            )
        if "\r" in line and any(TAB in part for part in line.split("\r")[1:]):
            raise DataError(
                f"{name}: line {number}: a CR, then a tab, as if a second pair began there; only LF ends lines: if CR "
                "should, too, convert the file: sed 's/\\r$//' FILE | tr '\\r' '\\n'"
            )
        yield Pair(columns[0], columns[1], name, number)


@contextmanager
def writing(file: TextIO, _langs: Languages) -> Iterator[Callable[[str, str], None]]:
    """Give a function that writes a pair as a line."""
    yield lambda src, tgt: print(src, tgt, sep="\t", file=file)
