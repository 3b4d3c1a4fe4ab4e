"""Split a text into lines at LF, CRLF and CR but, unlike str.splitlines, not at a form feed or U+2028."""

import re
from collections.abc import Iterator

NEWLINE = re.compile(r"\r\n?|\n")


def lines_in(text: str) -> list[str]:
    """Return the lines of a text without their ends, and the text after the last end, which may be empty."""
    return NEWLINE.split(text)


def line_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each of these lines."""
    at = 0
    for newline in NEWLINE.finditer(text):
        yield at, newline.start()
        at = newline.end()
    yield at, len(text)
