"""SubRip and WebVTT: cues that share a sentence are one text, which is shared out over them again; timings stay."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mtkit.documents.document import Document
from mtkit.documents.pieces import Piece, partners_of, trimmed
from mtkit.documents.places import Source, line_of
from mtkit.documents.reading import Options, parsed_part
from mtkit.documents.skeleton import Edit, Filled, Put, Reading, Segment
from mtkit.documents.subtitles.cues import DIRECTION, TAG, Cue, Cues, cues_of, groups, is_webvtt, turn_mark, turns
from mtkit.documents.subtitles.shares import MOST_PER_SECOND, Word, lines, shares, tagged_words
from mtkit.text.characters import n_columns
from mtkit.text.inline import Code, Kind, Part, inline_of
from mtkit.text.lines import NEWLINE
from mtkit.text.placeholders import PROSE
from mtkit.text.words import has_letters

_CODE = re.compile(rf"{TAG.pattern}|{DIRECTION.pattern}|[♪♫♬♩]+|(?:^|(?<=\s))#(?=\s|$)", re.MULTILINE)
_BRACKETED = re.compile(r"[\[(（【][ \t]*([^\[\]()（）【】]*\w[^\[\]()（）【】]*?)[ \t]*[\])）】]")
_DOTS = r"(?:\.{2,}|…|&hellip;)"
_DOTS_BEFORE, _DOTS_BEHIND = re.compile(rf"\A{_DOTS}[ \t]*"), re.compile(rf"[ \t]*{_DOTS}\Z")
_LINE_BREAKS = ("\\N", "\\h")  # in SubRip, taken from another format
_ALONE = frozenset(["v", "c"])  # a tag of these may stay open until the cue ends

Interval = tuple[int, int]


def read(raw: bytes, options: Options) -> Document:
    """Read subtitles: WebVTT if they begin with that word, else SubRip."""
    return Document([parsed_part(raw, cues_of, _read, _structure, options, is_markup=False)], placeholders=PROSE)


def _structure(found: Cues) -> object:
    """Return numbers, timings and everything else outside the text of cues, and the tags without partners, counted."""
    tags = (tag for cue in found.cues for line in cue.lines for tag in TAG.finditer(found.text, *line))
    return found.headers, len(found.cues), Counter(tag[0] for tag in tags if not tag["name"] or tag["name"] == "v")


def _read(found: Cues) -> Reading:
    text, place = found.text, line_of(found.text)
    style = _Style.of(text)
    segments = []
    for group in groups(text, found.cues):
        boxes = [box for cue in group for box in _boxes(text, cue, style, len(group) > 1)]
        boxes = (
            [_without_dots(text, box, box is boxes[0], box is boxes[-1]) for box in boxes] if len(group) > 1 else boxes
        )
        for shared in [boxes] if len(group) > 1 else [[box] for box in boxes]:
            segment = _segment(shared, style, place)
            if segment is not None:
                segments.append(segment)
    return Reading(text, segments)


@dataclass(frozen=True)
class _Style:
    """How a file writes text."""

    newline: str
    parse: Callable[[str], str]
    write: Callable[[str], str]

    @classmethod
    def of(cls, text: str) -> "_Style":
        newline = NEWLINE.search(text)
        first = newline[0] if newline else "\n"
        if is_webvtt(text):
            return cls(first, html.unescape, lambda translation: html.escape(translation, quote=False))
        return cls(first, str, str)


@dataclass(frozen=True)
class _Box:
    """What one speaker says in one cue."""

    interval: Interval  # where it stands in the document, without codes around it
    parts: Sequence[Part]
    duration_s: float
    most_lines: int

    @property
    def width(self) -> int:
        return n_columns("".join(part for part in self.parts if isinstance(part, str)))


def _boxes(text: str, cue: Cue, style: _Style, is_shared: bool) -> Iterator[_Box]:
    """Yield the texts of a cue. is_shared: with others it has a sentence, to which codes of one pair may belong."""
    found = turns(text, cue)
    for of_turn in found:
        source = Source.of_lines(text, of_turn)
        mark = turn_mark(text, of_turn[0])
        first = 0 if mark is None else mark[1] - of_turn[0][0]
        start, end = _trimmed(source.text, first, is_shared)
        parts = list(_parts(source.text, start, end, style))
        if start < end:
            most_lines = max(2, len(of_turn)) if len(found) == 1 else len(of_turn)
            yield _Box(source.interval(start, end), parts, cue.duration_s / len(found), most_lines)


def _trimmed(text: str, first: int, is_shared: bool) -> Interval:
    """Return where text stands without codes and brackets around it. first: the first character behind a dash."""
    pieces = list(_pieces(text, first, len(text)))
    if is_shared:
        partners = partners_of(pieces)
        pieces = [
            piece if i in partners or _is_alone(piece) else Piece(piece.start, piece.end)
            for i, piece in enumerate(pieces)
        ]
    dash = [Piece(0, first, Code(text[:first], "single"))] if first else []
    inner = trimmed(text, [*dash, *pieces])
    if not inner:
        return 0, 0
    start, end = inner[0].start, inner[-1].end
    bracketed = _BRACKETED.fullmatch(text, start, end)
    return bracketed.span(1) if bracketed else (start, end)


def _without_dots(text: str, box: _Box, is_first: bool, is_last: bool) -> _Box:
    """Leave out ... where the sentence goes on in another cue: it stays where it is."""
    (start, end), parts = box.interval, list(box.parts)
    if not is_first and isinstance(parts[0], str) and (dots := _DOTS_BEFORE.match(text[start:end])):
        start, parts[0] = start + dots.end(), _DOTS_BEFORE.sub("", parts[0])
    if not is_last and isinstance(parts[-1], str) and (dots := _DOTS_BEHIND.search(text[start:end])):
        end, parts[-1] = end - len(dots[0]), _DOTS_BEHIND.sub("", parts[-1])
    return replace(box, interval=(start, end), parts=parts) if start < end else box


def _is_alone(piece: Piece) -> bool:
    return piece.code is None or piece.code.kind == "single" or piece.code.name in _ALONE


def _pieces(text: str, start: int, end: int) -> Iterator[Piece]:
    at = start
    for match in _CODE.finditer(text, start, end):
        if at < match.start():
            yield Piece(at, match.start())
        at = match.end()
        yield Piece(match.start(), at, _code(match))
    if at < end:
        yield Piece(at, end)


def _code(match: re.Match[str]) -> Code:
    name = (match["name"] or "").lower()
    kind: Kind = "close" if match["close"] and name else "open" if name else "single"
    return Code(match[0], kind, name, " " if match[0] in _LINE_BREAKS else "")


def _parts(text: str, start: int, end: int, style: _Style) -> Iterator[Part]:
    for piece in _pieces(text, start, end):
        yield piece.code or " ".join(NEWLINE.split(style.parse(text[piece.start : piece.end])))


def _segment(boxes: Sequence[_Box], style: _Style, place: Callable[[int], str]) -> Segment | None:
    """Return the text of boxes that follow one another as one; None if it has no letters."""
    parts: list[Part] = []
    for box in boxes:
        parts += [" ", *box.parts] if parts else box.parts
    if not any(isinstance(part, str) and has_letters(part) for part in parts):
        return None
    return Segment(inline_of(parts), place(boxes[0].interval[0]), put=_put(boxes, style, parts), write=style.write)


def _put(boxes: Sequence[_Box], style: _Style, parts: Sequence[Part]) -> Put:
    source = inline_of(parts).source

    def put(filled: Filled) -> list[Edit]:
        if filled.text == source:
            return []
        words = tagged_words(filled.text, style.parse)
        most = [box.duration_s * MOST_PER_SECOND for box in boxes]
        found = _closed(shares(words, [box.width for box in boxes], most))
        return [
            Edit(*box.interval, style.newline.join(lines(of_box, box.most_lines)))
            for box, of_box in zip(boxes, found, strict=True)
        ]

    return put


def _closed(found: Sequence[Sequence[Word]]) -> Iterator[list[Word]]:
    """Yield the shares; a tag that closes in a later one is closed at the end of each before, and opened again."""
    still_open: list[re.Match[str]] = []
    tags = [[tag for word in share for tag in TAG.finditer(word.text) if tag["name"]] for share in found]
    later = Counter(tag["name"].lower() for of_share in tags for tag in of_share if tag["close"])
    for share, of_share in zip(found, tags, strict=True):
        again = "".join(tag[0] for tag in still_open)
        for tag in of_share:
            name = tag["name"].lower()
            if not tag["close"]:
                still_open.append(tag)
                continue
            later[name] -= 1
            last = next((n for n in reversed(range(len(still_open))) if still_open[n]["name"].lower() == name), None)
            if last is not None:
                del still_open[last]
        still_open = [tag for tag in still_open if later[tag["name"].lower()] > 0]
        ends = "".join(f"</{tag['name']}>" for tag in reversed(still_open))
        words = list(share)
        if words:
            words[0] = Word(again + words[0].text.lstrip() if again else words[0].text, words[0].width)
            words[-1] = Word(words[-1].text + ends, words[-1].width)
        yield words
