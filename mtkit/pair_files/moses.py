"""Moses format: two text files, one sentence per line; line n of one translates line n of the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from mtkit.console import counted
from mtkit.errors import DataError
from mtkit.pair_files.lines import lines_of
from mtkit.pair_files.pairs import Pair, Tally


def pairs(src_file: BinaryIO, src_name: str, tgt_file: BinaryIO, tgt_name: str, tally: Tally) -> Iterator[Pair]:
    """Yield the pairs, and count them. Raises DataError, at the end of the shorter file, if the line counts differ."""
    src_lines, tgt_lines = lines_of(src_file, src_name), lines_of(tgt_file, tgt_name)
    n = 0
    for src in src_lines:
        tgt = next(tgt_lines, None)
        if tgt is None:
            raise unequal(src_name, n + 1 + sum(1 for _ in src_lines), tgt_name, n)
        n += 1
        tally.n_units += 1
        if "\r" in src and "\r" in tgt:
            tally.n_with_cr += 1
        yield Pair(src, tgt, src_name, n)
    if next(tgt_lines, None) is not None:
        raise unequal(src_name, n, tgt_name, n + 1 + sum(1 for _ in tgt_lines))


def unequal(src_name: str, n_src: int, tgt_name: str, n_tgt: int) -> DataError:
    """Return the error for files whose numbers of lines differ."""
    hint = "" if ".zip:" in src_name else f"; to see where they slip: mtkit data doctor {src_name} {tgt_name}"
    return DataError(
        f"{src_name} has {counted(n_src, 'line')}, {tgt_name} has {n_tgt:,}; line n of one must translate line n of "
        f"the other (use a blank line for a missing sentence){hint}"
    )


@contextmanager
def writing(src_file: TextIO, tgt_file: TextIO) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that writes a pair."""

    def write(src: str, tgt: str) -> None:
        src_file.write(f"{src}\n")
        tgt_file.write(f"{tgt}\n")

    yield write
