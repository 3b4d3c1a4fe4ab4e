"""The messages of a program, such as "%s: <b>cannot</b> open": read them as text with codes, and write translations."""

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mtkit.documents.messages import icu
from mtkit.documents.messages.access_keys import with_key, without_key
from mtkit.documents.pages import html_text
from mtkit.documents.pieces import Piece, trimmed
from mtkit.text.inline import Code, Inline, Kind, inline_of
from mtkit.text.inline_tags import ENTITY, NUMBERED_TAG
from mtkit.text.placeholders import placeholder_pattern
from mtkit.text.sentences import FINAL
from mtkit.text.words import has_letters

# A line break inside a wrapped paragraph: after a long line without the end of a sentence, not before a list item.
_SOFT_BREAK = re.compile(r"(?<=[^\n]{40})(?<!\s)[ \t]*\n[ \t]*(?=[\w(\"'%{])(?!\w{1,3}[.)]\s)")
_ENDS_LINE = f"{FINAL}:;"
_LONGEST_ENTITY = 40  # characters, if it is escaped
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]*\x1b\[[0-9;]{0,20}m|[\x00-\x09\x0b-\x1f\x7f]+")
WRITTEN_BREAK = re.compile(r"[ \t]*(?:(?:&amp;|&)#(?:[xX]0{0,4}[9aAdD]|0{0,4}(?:9|10|13));[ \t]*)+")  # or tab, for XML
_BREAK = re.compile(
    rf"{_CONTROL.pattern}|{WRITTEN_BREAK.pattern}|(?<![ \t])[ \t]*\n[ \t]*|(?<![\s.!?])  +(?=\S)"
)  # or the gap of a table
_TABS = re.compile(r"(?:[ \t]|(?:&amp;|&)#[xX]?0*9;)+")
_BLOCKS = re.compile(  # of HTML, which end a sentence
    r"(?:</?(?:p|div|li|ul|ol|h[1-6]|table|tr|td|th|dl|dt|dd|blockquote|section|hr|br)\b[^<>]{0,1000}>\s*)++",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Message:
    """A message, with the beginning and end that its translation must share."""

    inline: Inline
    write: Callable[[str], str]
    _before: str
    _after: str
    _source: str
    _key: str  # the access key's mark and letter, such as "&F"; "" without

    def translation(self, written: str) -> str:
        """Return the message for a translation of `inline`, with its codes."""
        if written == self.inline.source:
            return self._source
        text = f"{self._before}{written}{self._after}"
        if not self._key:
            return text
        tags = [(start, end) for start, end, _ in html_text.tags(text)]
        kept = [match.span() for pattern in (placeholder_pattern(), ENTITY) for match in pattern.finditer(text)]
        return with_key(text, self._key, [*tags, *kept])


def message_of(source: str, marks: str = "&_") -> Message | None:
    """Return a message to be translated; None if it has no words.

    Tags, control characters and the line breaks of wrapped paragraphs are codes. White space at the ends stays, and so
    do codes around all of the text. The mark of an access key is taken out of the text, and put back by `translation`.
    marks: of access keys.
    """
    text, key = without_key(source, marks)
    inner = trimmed(text, list(_pieces(text)))
    if not inner:
        return None
    start, end = inner[0].start, inner[-1].end
    has_entities = any(piece.code is None and ENTITY.search(text, piece.start, piece.end) for piece in inner)
    parse, write = (html.unescape, html_text.write) if has_entities else (str, str)
    parts = [piece.code or parse(text[piece.start : piece.end]) for piece in inner]
    inline = inline_of(parts, text[start:end])
    if not has_letters(placeholder_pattern().sub("", inline.text)):
        return None
    return Message(inline, write, text[:start], text[end:], source, key)


def _pieces(text: str) -> Iterator[Piece]:
    at = 0
    for match in _BLOCKS.finditer(text):
        start, end = match.start(), match.start() + len(match[0].rstrip())
        yield from _pieces_between(text, at, start)
        yield Piece(start, end, Code(text[start:end], "single", text="\n"))
        at = end
    yield from _pieces_between(text, at, len(text))


def _pieces_between(text: str, first: int, last: int) -> Iterator[Piece]:
    for piece in html_text.pieces(text[first:last]):
        start, end = first + piece.start, first + piece.end
        if piece.code is None:
            yield from _numbered_tags(text, start, end)
        else:
            yield Piece(start, end, piece.code)


def _numbered_tags(text: str, first: int, last: int) -> Iterator[Piece]:
    at = first
    for tag in NUMBERED_TAG.finditer(text, first, last):
        kind: Kind = "single" if tag["single"] else "close" if tag["close"] else "open"
        yield from breaks(text, at, tag.start())
        yield Piece(*tag.span(), Code(tag[0], kind, tag["number"]))
        at = tag.end()
    yield from breaks(text, at, last)


def breaks(text: str, first: int, last: int) -> Iterator[Piece]:
    """Yield a text without tags as pieces: line breaks of wrapped paragraphs and control characters are codes."""
    at = first
    for match in _BREAK.finditer(text, first, last):
        start, end = match.span()
        if "\n" in match[0] and not _is_soft(text, start):
            continue
        if at < start:
            yield Piece(at, start)
        shown = "" if "\x1b" in match[0] else "\n" if "#" in match[0] and not _TABS.fullmatch(match[0]) else " "
        yield Piece(start, end, Code(text[start:end], "single", text=shown))
        at = end
    if at < last:
        yield Piece(at, last)


def _is_soft(text: str, start: int) -> bool:
    """Return whether a sentence goes on behind a line break."""
    if not _SOFT_BREAK.match(text, start):
        return False
    end = text[max(0, start - _LONGEST_ENTITY) : start]
    end = html.unescape(html.unescape(end)) if end.endswith(";") else end  # twice: XML may hold HTML
    return end[-1] not in _ENDS_LINE


def refuse_branches(text: str) -> Callable[[str], str]:
    """Return a function that says why no translation of a text can be used; "" unless it has branches of ICU."""
    why = "it has branches (plural, select); translate it by hand" if icu.has_branches(text) else ""
    return lambda _translation: why
