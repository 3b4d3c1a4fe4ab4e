"""Read lines from standard input, and write lines to standard output or a file."""

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG

from mtkit.console import log
from mtkit.errors import UsageError
from mtkit.pair_files import compression
from mtkit.pair_files import lines as text_lines

_CHUNK_BYTES = 1 << 16


@contextmanager
def line_writer(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes one line: at once to stdout, or to a file that appears when the block ends."""
    if path is None:
        yield lambda line: print(line, flush=True)
        return
    with compression.open_output(path) as file:
        yield lambda line: print(line, file=file)


def stdin_is_file() -> bool:
    """Return whether standard input is a regular file (`< lines.txt`), not a pipe, a terminal or closed."""
    try:
        return sys.stdin is not None and S_ISREG(os.fstat(sys.stdin.fileno()).st_mode)
    except OSError:  # an object in memory, which has no file descriptor
        return False


def check_stdin(options: str = "--input") -> None:
    """Raise UsageError if there is no standard input. options: give a file instead.

    Commands call this before they load a model.
    """
    if sys.stdin is None:  # closed (<&-)
        raise UsageError(f"standard input is closed; give a file with {options}, or pipe lines into the command")


def arriving_windows(max_lines: int, what: str = "lines") -> Iterator[list[str]]:
    """Yield standard input in lists of 1 to max_lines lines, as soon as a line is there.

    So `tail -f` gives single lines, and a file gives full windows. The input must be UTF-8; a BOM and the CR of CRLF
    are dropped, and the last line needs no LF. Raises DataError with the line and byte if the input is not UTF-8 or a
    line is too long, and UsageError if there is no standard input. what: the lines, for a user at a terminal.
    """
    check_stdin()
    if sys.stdin.isatty():
        log.info(f"reading {what} from the terminal; press Ctrl-D to finish")
    n_lines, max_bytes = 0, text_lines.max_line_bytes()
    for raw_lines in _arriving(max_lines, max_bytes):
        numbered = enumerate(raw_lines, start=n_lines + 1)
        lines = [text_lines.decode_line(raw, number, "standard input", max_bytes) for number, raw in numbered]
        n_lines += len(lines)
        yield lines


def _arriving(max_lines: int, max_bytes: int) -> Iterator[list[bytes]]:
    """Yield raw lines with their line ends; if a line has more than max_bytes, yield its beginning and stop."""
    whole: list[bytes] = []  # lines that have arrived
    partial = bytearray()  # the beginning of the next one
    while len(partial) < max_bytes + text_lines.LINE_FRAME and (chunk := _read()):
        first, *others = chunk.split(b"\n")
        partial += first
        for part in others:
            whole.append(bytes(partial) + b"\n")
            partial = bytearray(part)
        while len(whole) >= max_lines or (whole and not _more_is_ready()):
            yield whole[:max_lines]
            del whole[:max_lines]
    whole += [bytes(partial)] if partial else []
    for start in range(0, len(whole), max_lines):
        yield whole[start : start + max_lines]


def _read() -> bytes:
    """Wait for at least one byte, and return the bytes that have arrived; b"" at the end."""
    try:
        descriptor = sys.stdin.fileno()
    except OSError:  # an object in memory, which has no file descriptor
        return sys.stdin.buffer.readline(_CHUNK_BYTES)
    while True:
        try:
            return os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:  # another process set it not to wait: nothing is there yet
            select.select([descriptor], [], [])


def _more_is_ready() -> bool:
    """Return whether a read would return at once; also True at the end of the input."""
    try:
        return bool(select.select([sys.stdin.fileno()], [], [], 0)[0])
    except OSError:  # no file descriptor, or a pipe on Windows, which select does not know
        return False
