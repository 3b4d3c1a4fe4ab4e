"""Collect the segments of a text, which may stand inside each other, and leave a token in the place of each."""

from bisect import bisect_left
from collections.abc import Callable

from mtkit.documents.document import Edit, Filled, Reading, Segment, refuse_tokens, token
from mtkit.documents.inline import Inline

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

    def add(self, start: int, end: int, inline: Inline, place: str, write: Render = str, render: Render = str) -> None:
        """Make characters start to end a segment; `raw` of them is inline.source.

        write: turns text into that of the document. render: turns the translation with its codes into it.
        """

        def put(filled: Filled) -> list[Edit]:
            is_source = filled.text == inline.source
            return [Edit(start, end, inline.source if is_source else render(filled.text))]

        first = bisect_left(self._starts, start)
        del self._starts[first:], self._places[first:]
        self._starts.append(start)
        self._places.append((len(self._segments), end))
        self._segments.append(Segment(inline, place, put, write))

    def reading(self) -> Reading:
        """Return the text with its segments, in order."""
        return Reading(self.raw(0, len(self._text)), (), self._segments)
