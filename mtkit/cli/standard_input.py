"""Standard input as lines, in windows of whatever has arrived: a line is not kept waiting for the next one."""

import os
import select
import sys
from collections.abc import Iterator

from mtkit.data import corpus
from mtkit.errors import UsageError

_CHUNK_BYTES = 1 << 16


def arriving_windows(max_lines: int) -> Iterator[list[str]]:
    """Lists of 1 to max_lines lines each, as soon as there is one: `tail -f` gives single lines, a file full windows.

    Strict UTF-8; a BOM and the CR of CRLF are dropped; the last line needs no LF.
    Raises DataError with line and byte where the input is no UTF-8, UsageError if there is no standard input.
    """
    if sys.stdin is None:  # so Python shows that it was closed (<&-)
        raise UsageError("standard input is closed; give a file with --input, or pipe lines into the command")
    n_lines = 0
    for raw_lines in _arriving(max_lines):
        lines = [corpus.decode_line(raw, n_lines + i, "standard input") for i, raw in enumerate(raw_lines, start=1)]
        n_lines += len(lines)
        yield lines


def _arriving(max_lines: int) -> Iterator[list[bytes]]:
    whole: list[bytes] = []  # lines that have arrived
    partial = b""  # the beginning of the next one
    while chunk := _read():
        *lines, partial = (partial + chunk).split(b"\n")
        whole += lines
        while len(whole) >= max_lines or (whole and not _more_is_ready()):
            yield whole[:max_lines]
            whole = whole[max_lines:]
    whole += [partial] if partial else []
    for start in range(0, len(whole), max_lines):
        yield whole[start : start + max_lines]


def _read() -> bytes:
    """What has arrived, waiting for at least a byte; b"" at the end."""
    try:
        number = sys.stdin.fileno()
    except OSError:  # replaced by an object in memory, which has no file number
        return sys.stdin.buffer.readline()
    while True:
        try:
            return os.read(number, _CHUNK_BYTES)
        except BlockingIOError:  # a process that shares it does not wait: nothing is there yet
            select.select([number], [], [])


def _more_is_ready() -> bool:
    """Whether reading would not wait; True at the end of the input too."""
    try:
        return bool(select.select([sys.stdin.fileno()], [], [], 0)[0])
    except OSError:  # no file number, or (on Windows) a pipe, of which one cannot ask
        return False
