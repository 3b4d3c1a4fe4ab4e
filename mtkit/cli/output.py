"""Where a command's lines go: stdout, or a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mtkit.data import corpus


@contextmanager
def line_writer(path: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that writes one line: to the file, which appears when all is done, or at once to stdout."""
    if path is None:
        yield lambda line: print(line, flush=True)
        return

    with corpus.open_output(path) as file:
        yield lambda line: print(line, file=file)
