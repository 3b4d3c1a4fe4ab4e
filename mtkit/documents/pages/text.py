"""Plain text: blank lines separate paragraphs; the lines of a wrapped paragraph are one text, other lines one each.

Indentation, tabs, and the marks of lists, headings and quotations are not text.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

from mtkit.documents.document import Document
from mtkit.documents.places import line_of
from mtkit.documents.reading import Options, text_part
from mtkit.documents.skeleton import Edit, Filled, Put, Reading, Segment
from mtkit.text.inline import Inline
from mtkit.text.lines import NEWLINE, list_mark
from mtkit.text.placeholders import PROSE
from mtkit.text.sentences import FINAL, without_closing

_LINE = re.compile(r"(?:(?<=[\r\n\f])|\A)[^\S\r\n\f]*+[^\s][^\r\n\f]*+")
_BREAK = re.compile(rf"{NEWLINE.pattern}|\f")
_ENDS_LINE = FINAL + ":;："
_WRAPPED = 40  # characters: the lines of a wrapped paragraph are longer, but for the last
_EVEN = 0.6  # and at least so long, relative to the longest
_MAYBE_ITEM = re.compile(r"\s*(?:[A-Z]|[IVX]{1,4})\.\s")  # A. or II., or the initial of a name, which list_mark leaves
_CELL = re.compile(r"[^\t]*[^\s][^\t]*")

Line = re.Match[str]


def read(raw: bytes, options: Options) -> Document:
    """Read a plain text."""
    return Document([text_part(raw, _read, _n_blank_lines, options)], placeholders=PROSE)


def _read(text: str) -> Reading:
    place = line_of(text)
    return Reading(text, [segment for lines in _paragraphs(text) for segment in _segments(text, lines, place)])


def _segments(text: str, lines: Sequence[Line], place: Callable[[int], str]) -> Iterator[Segment]:
    """Yield the segments of lines that are one text; of a single line with tabs, what stands between them."""
    start, end = lines[0].start() + len(list_mark(lines[0][0])), lines[-1].start() + len(lines[-1][0].rstrip())
    if len(lines) > 1:
        joined = " ".join(line[0][len(list_mark(line[0])) :].rstrip() for line in lines)
        yield Segment(Inline(text[start:end], joined, ()), place(start), put=_put(text, lines, start, end))
        return
    for cell in _CELL.finditer(text, start, end):
        first = cell.end() - len(cell[0].lstrip())
        last = cell.start() + len(cell[0].rstrip())
        yield Segment.at(first, last, Inline(text[first:last], text[first:last], ()), place(first))


def _put(text: str, lines: Sequence[Line], start: int, end: int) -> Put:
    def put(filled: Filled) -> list[Edit]:
        if filled.text == text[start:end]:
            return [Edit(start, end, filled.text)]
        wrapped = textwrap.wrap(
            filled.text,
            max(len(line[0]) for line in lines),
            initial_indent=" " * len(list_mark(lines[0][0])),
            subsequent_indent=list_mark(lines[1][0]),
            break_long_words=False,
            break_on_hyphens=False,
        )
        newline = _BREAK.match(text, lines[0].end())
        return [Edit(start, end, (newline[0] if newline else "\n").join(wrapped).lstrip())]

    return put


def _paragraphs(text: str) -> Iterator[list[Line]]:
    """Yield the lines of each text that is translated as a whole."""
    block: list[Line] = []
    for line in _LINE.finditer(text):
        if block and not _goes_on(text, block[-1], line):
            yield from _as_one_or_each(block)
            block = []
        block.append(line)
    if block:
        yield from _as_one_or_each(block)


def _goes_on(text: str, before: Line, line: Line) -> bool:
    """Return whether a line may belong to the paragraph of the one before: it is next, and begins no item."""
    if len(_BREAK.findall(text, before.end(), line.start())) > 1 or "\f" in text[before.end() : line.start()]:
        return False
    mark = list_mark(line[0])
    if _MAYBE_ITEM.match(line[0], len(mark)):
        return False
    return not mark.strip() or (mark.startswith(">") and mark.strip() == list_mark(before[0]).strip())


def _as_one_or_each(block: list[Line]) -> Iterator[list[Line]]:
    lengths = [len(line[0].rstrip()) for line in block]
    longest, before_last = max(lengths), block[:-1]
    n_ends = sum(without_closing(line[0]).endswith(tuple(_ENDS_LINE)) for line in before_last)
    is_wrapped = longest > _WRAPPED and min(lengths[:-1], default=0) >= _EVEN * longest
    if len(block) > 1 and is_wrapped and 2 * n_ends <= len(before_last) and "\t" not in "".join(_rests(block)):
        yield block
    else:
        yield from ([line] for line in block)


def _rests(block: Sequence[Line]) -> list[str]:
    return [line[0][len(list_mark(line[0])) :] for line in block]


def _n_blank_lines(text: str) -> object:
    return sum(1 for line in _BREAK.split(text) if not line.strip())
