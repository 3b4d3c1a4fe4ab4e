"""A file of scores: a number at the start of each line, one line a pair; columns after a tab are ignored."""

from collections.abc import Iterator
from pathlib import Path

from mtkit.errors import DataError
from mtkit.pair_files.lines import read_lines


def read_scores(path: Path) -> Iterator[float]:
    """Yield the scores in order. Raises DataError for a line that does not begin with a number."""
    for number, line in enumerate(read_lines(path), start=1):
        text = line.partition("\t")[0]
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if value != value:
            raise DataError(
                f"{path}: line {number}: {text!r} is not a number; write one, such as -inf for a pair to leave out"
            )
        yield value
