"""What a line of a text is: it ends with LF, CRLF or CR, but not, as in str.splitlines, with a form feed or U+2028."""

import re
from collections.abc import Iterator

NEWLINE = re.compile(r"\r\n?|\n")


def lines_in(text: str) -> list[str]:
    """Return the lines of a text without their ends; behind the last end there is one more, which may be empty."""
    return NEWLINE.split(text)


def line_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each of these lines starts and ends."""
    at = 0
    for newline in NEWLINE.finditer(text):
        yield at, newline.start()
        at = newline.end()
    yield at, len(text)
