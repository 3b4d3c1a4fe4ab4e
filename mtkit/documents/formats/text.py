"""Plain text: blank lines separate paragraphs; the lines of a wrapped paragraph are one text, other lines one each."""

import re
import textwrap
from collections.abc import Iterator, Sequence

from mtkit.documents.document import Document, Edit, Filled, Put, Reading, Segment
from mtkit.documents.inline import Inline
from mtkit.documents.placeholders import PROSE
from mtkit.documents.reading import Options, line_of, text_part

_LINE = re.compile(r"[^\r\n]*\S[^\r\n]*")
_LIST_ITEM = re.compile(r"\s*(?:[-*•–+]|\(?\w{1,3}[.)])\s")
_WRAPPED = 40  # characters: the lines of a wrapped paragraph are longer, but for the last
_EVEN = 0.6  # and at least so long, relative to the longest

Line = re.Match[str]


def read(raw: bytes, options: Options) -> Document:
    """Read a plain text."""
    return Document([text_part(raw, _read, _n_paragraphs)], placeholders=PROSE)


def _read(text: str) -> Reading:
    place = line_of(text)
    segments = []
    for lines in _paragraphs(text):
        start, end = lines[0].start() + _indent(lines[0]), lines[-1].start() + len(lines[-1][0].rstrip())
        inline = Inline(text[start:end], " ".join(line[0].strip() for line in lines), ())
        segments.append(Segment(inline, place(start), _put(lines, start, end, text)))
    return Reading(text, segments)


def _put(lines: Sequence[Line], start: int, end: int, text: str) -> Put:
    def put(filled: Filled) -> list[Edit]:
        if len(lines) == 1 or filled.text == text[start:end]:
            return [Edit(start, end, filled.text)]
        first, other = (" " * _indent(line) for line in lines[:2])
        newline = "\r\n" if text[lines[0].end() : lines[0].end() + 2] == "\r\n" else "\n"
        wrapped = textwrap.wrap(
            filled.text,
            max(len(line[0]) for line in lines),
            initial_indent=first,
            subsequent_indent=other,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return [Edit(start, end, newline.join(wrapped).lstrip())]

    return put


def _paragraphs(text: str) -> Iterator[list[Line]]:
    """Yield the lines of each text that is translated as a whole."""
    block: list[Line] = []
    for line in _LINE.finditer(text):
        if block and (_blank_between(text, block[-1], line) or _LIST_ITEM.match(line[0])):
            yield from _as_one_or_each(block)
            block = []
        block.append(line)
    if block:
        yield from _as_one_or_each(block)


def _blank_between(text: str, before: Line, after: Line) -> bool:
    return text.count("\n", before.end(), after.start()) > 1


def _as_one_or_each(block: list[Line]) -> Iterator[list[Line]]:
    lengths = [len(line[0].rstrip()) for line in block]
    longest = max(lengths)
    if len(block) > 1 and longest > _WRAPPED and min(lengths[:-1]) >= _EVEN * longest:
        yield block
    else:
        yield from ([line] for line in block)


def _indent(line: Line) -> int:
    return len(line[0]) - len(line[0].lstrip())


def _n_paragraphs(text: str) -> object:
    return sum(1 for block in re.split(r"\n[^\S\n]*\n", text) if block.strip())
