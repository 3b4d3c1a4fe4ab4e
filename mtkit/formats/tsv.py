"""TSV: source, tab, target on each line; without a header, without quotes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from mtkit.errors import DataError
from mtkit.formats.lines import lines_of
from mtkit.formats.pairs import Languages, Pair


def pairs(file: BinaryIO, name: str) -> Iterator[Pair]:
    """Yield the first two columns of each line. Raises DataError, with the line, if it has no tab."""
    for number, line in enumerate(lines_of(file, name), start=1):
        columns = line.split("\t", 2)
        if len(columns) < 2:
            raise DataError(f"{name}: line {number}: no tab; write each line as source, tab, target")
        yield Pair(columns[0], columns[1], name, number)


@contextmanager
def writing(file: TextIO, _langs: Languages) -> Iterator[Callable[[str, str], None]]:
    """Give a function that writes a pair as a line."""
    yield lambda src, tgt: print(src, tgt, sep="\t", file=file)
