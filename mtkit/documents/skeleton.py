"""A text as a skeleton with segments: what stands between the segments comes back as it was.

Segments may stand inside others, such as text boxes inside paragraphs; a token holds the place of each inner one.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import NamedTuple

from mtkit.errors import DataError
from mtkit.text.inline import Inline

_LEFT, _RIGHT = "\U000ffffc", "\U000ffffd"  # private characters around the number of a held-out text
_TOKEN = re.compile(f"{_LEFT}([0-9]+){_RIGHT}")


class Edit(NamedTuple):
    """A replacement for characters start to end of a text."""

    start: int
    end: int
    text: str


class Filled(NamedTuple):
    """The translation of a segment, with its codes, as the document writes it."""

    text: str
    is_doubtful: bool = False  # a person should look at it


Put = Callable[[Filled], Sequence[Edit]]
Also = Callable[[Mapping[int, Filled]], Sequence[Edit]]


def _accept(_translation: str) -> str:
    return ""


@dataclass(frozen=True)
class Segment:
    """Text with inline codes that is translated as a whole: a paragraph, a heading, a cell."""

    inline: Inline
    place: str  # for a person, such as "line 12"
    _: KW_ONLY
    put: Put  # returns the edits that write a translation into the text
    write: Callable[[str], str] = str  # turns text into the format's, such as & into &amp;
    refuse: Callable[[str], str] = _accept  # returns why a translation cannot take its place; "" if it can
    lang: str | None = None  # the language that the document gives it
    foreign: tuple[str, ...] = ()  # phrases in another language, which are codes

    @classmethod
    def at(cls, start: int, end: int, inline: Inline, place: str, *, write: Callable[[str], str] = str) -> "Segment":
        """Return a segment whose translation takes the place of characters start to end, which are inline.source."""
        return cls(inline, place, put=lambda filled: [Edit(start, end, filled.text)], write=write)


@dataclass(frozen=True)
class Reading:
    """A text with its segments.

    held_out: segments inside codes of others, such as attributes. `text`, or the source of another segment, has a token
    in the place of each; see `hold_out`. Their `put` returns one edit, whose text replaces the token.
    also: returns further edits, which depend on several segments together, such as a mark of their entry.
    """

    text: str
    segments: Sequence[Segment]
    held_out: Sequence[Segment] = ()
    also: Also | None = None

    @cached_property
    def all_segments(self) -> Sequence[Segment]:
        """The segments, followed by those held out."""
        return [*self.segments, *self.held_out]

    def merged(self, translations: Mapping[int, Filled]) -> str:
        """Return the text with translations of some segments, by their indices in `all_segments`."""
        n = len(self.segments)
        edits = [edit for i, filled in translations.items() if i < n for edit in self.segments[i].put(filled)]
        edits += self.also(translations) if self.also else ()
        values = [segment.inline.source for segment in self.held_out]
        for index, filled in translations.items():
            if index >= n:
                [edit] = self.held_out[index - n].put(filled)
                values[index - n] = edit.text
        return _put_back(apply(self.text, edits), values)


def hold_out(text: str, intervals: Sequence[tuple[int, int]]) -> str:
    """Return the text with a token in the place of each interval. The intervals are in order.

    Raises DataError if the text has such tokens already.
    """
    refuse_tokens(text)
    return apply(text, (Edit(start, end, token(number)) for number, (start, end) in enumerate(intervals)))


def refuse_tokens(text: str) -> None:
    """Raise DataError if a text already contains tokens of held-out segments."""
    if _LEFT in text or _RIGHT in text:
        raise DataError("contains the private characters U+FFFFC or U+FFFFD; remove them")


def token(number: int) -> str:
    """Return the token of the held-out segment with this number."""
    return f"{_LEFT}{number}{_RIGHT}"


def without_held_out(text: str) -> str:
    """Remove the tokens of held-out segments from a text."""
    return _TOKEN.sub("", text)


def _put_back(text: str, values: Sequence[str]) -> str:
    """Replace the tokens, including those inside values."""
    return _TOKEN.sub(lambda token: _put_back(values[int(token[1])], values), text) if values else text


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with edits, which must not overlap."""
    parts, at = [], 0
    for start, end, new in sorted(edits):
        if start < at:
            raise ValueError(f"edits overlap at character {start}")
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


Render = Callable[[str], str]


class Skeleton:
    """A text whose segments are added in the order of their ends, inner ones before those around them."""

    def __init__(self, text: str) -> None:
        """Raises DataError if the text has tokens of its own."""
        refuse_tokens(text)
        self._text = text
        self._segments: list[Segment] = []
        self._starts: list[int] = []  # of those segments that stand in no other one so far
        self._places: list[tuple[int, int]] = []  # their numbers and ends

    def raw(self, start: int, end: int) -> str:
        """Return characters start to end of the text, with tokens in the places of the segments among them."""
        parts, at = [], start
        for index in range(bisect_left(self._starts, start), len(self._starts)):
            if self._starts[index] >= end:
                break
            number, stop = self._places[index]
            parts += [self._text[at : self._starts[index]], token(number)]
            at = stop
        return "".join([*parts, self._text[at:end]])

    def add(
        self,
        start: int,
        end: int,
        inline: Inline,
        place: str,
        write: Render = str,
        render: Render = str,
        *,
        lang: str | None = None,
        foreign: tuple[str, ...] = (),
    ) -> None:
        """Make characters start to end a segment; `raw` of them is inline.source.

        write: turns text into that of the document. render: turns the translation with its codes into it.
        lang, foreign: as of a `Segment`.
        """

        def put(filled: Filled) -> list[Edit]:
            is_source = filled.text == inline.source
            return [Edit(start, end, inline.source if is_source else render(filled.text))]

        inside = slice(bisect_left(self._starts, start), bisect_left(self._starts, end))  # not those that follow it
        self._starts[inside] = [start]
        self._places[inside] = [(len(self._segments), end)]
        self._segments.append(Segment(inline, place, put=put, write=write, lang=lang, foreign=foreign))

    def reading(self) -> Reading:
        """Return the text with its segments, in order."""
        return Reading(self.raw(0, len(self._text)), (), self._segments)
