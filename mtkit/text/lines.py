"""Split a text into lines at LF, CRLF and CR but, unlike str.splitlines, not at a form feed or U+2028."""

import re
from collections.abc import Iterator

from mtkit.text.addresses import PATH_START
from mtkit.text.sentences import GREEK_QUESTION, is_final_mark_added, without_final_mark
from mtkit.text.templates import FORMULA
from mtkit.text.words import has_letters

# A capital with a full stop is not a mark, because names begin so (J. Smith), and neither is the z. of z. B.
_NUMBER = r"\d{1,3}[.)]|(?:[a-z]|[ivx]{1,4})(?:\)|\.(?!\s[^\W\d_]{1,2}\.))|(?:[A-Z]|[IVX]{1,4})\)"
_LIST_MARK = re.compile(rf"[^\S\r\n]*+(?:(?:[-*•–+]|\(?(?:{_NUMBER})|#{{1,6}}|>{{1,9}}|\[[ xX]\])[^\S\r\n]++)*")
# Breaks of lines and between cells, also those that programs write as \n, or people as <br>. A path such as C:\new has
# none, and neither has a formula such as \(\theta\).
BREAK_TAG = re.compile(r"<br\s{0,9}/?>", re.IGNORECASE)
_BREAK = re.compile(rf"{FORMULA}|(?:\b{PATH_START}|\\\\)\S*|(?P<break>[\n\t\f]|(?:\\[nrt])+|(?i:{BREAK_TAG.pattern}))")
SAME_EDGES = ("…", "...", ".. .", "……"), (":", "："), (";", "；"), (",", "，", "、"), ("-", "–", "—", "―")
_LAST = re.compile(r"\s?(?:…|\.{3}|[:;,]|(?<=\s)[-–—]|[–—])\s*\Z")
_FIRST = re.compile(r"\A\s*(?:…|\.{3}|[–—-](?=\s)|[–—])\s*")
PATTERNS = {"break": _BREAK, "listMark": _LIST_MARK, "last": _LAST, "first": _FIRST}  # for the page of browsers
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


def list_mark(line: str) -> str:
    """Return the indentation of a line, with the marks of a list, a heading or a quotation; "" if no letters follow."""
    found = _LIST_MARK.match(line)
    assert found is not None
    return found[0] if has_letters(line[found.end() :]) else ""


def text_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the span of each line or cell that is not empty, without the marks of a list before it."""
    at = 0
    for found in [*_BREAK.finditer(text), None]:
        if found is not None and not found["break"]:
            continue
        start, end = at, len(text) if found is None else found.start()
        start += len(list_mark(text[start:end]))
        if start < end:
            yield start, end
        at = end if found is None else found.end()


def keep_edges(src: str, translation: str) -> str:
    """Return the translation with the ellipsis, colon, semicolon, comma or dash that its source begins or ends with.

    A translation that has such a mark there keeps its own. A final mark that the source does not have, as in a heading,
    is removed.
    """
    if not translation:
        return translation
    if is_final_mark_added(src, translation):
        translation = without_final_mark(translation)
    if (
        (last := _LAST.search(src))
        and not GREEK_QUESTION.search(src)
        and not _has_same(translation[-4:], last[0].strip())
    ):
        rest = translation.rstrip(".")
        translation = rest + src[last.start() :].rstrip() if rest else translation
    if (first := _FIRST.match(src)) and not _has_same(translation[:4], first[0].strip()):
        translation = first[0].lstrip() + translation
    return translation


def _has_same(edge: str, mark: str) -> bool:
    """Return whether the edge of a translation has the mark, or what stands for it in other scripts."""
    return any(other in edge for same in SAME_EDGES if mark in same for other in same)
