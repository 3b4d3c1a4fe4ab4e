"""A document as a skeleton with segments: what stands between the segments comes back as it was.

A reader of a format turns bytes into a `Document`; nothing here knows a format or a translator.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from mtkit.documents.inline import Inline
from mtkit.errors import DataError

_LEFT, _RIGHT = "\U000ffffc", "\U000ffffd"  # private characters around the number of a held-out text
_TOKEN = re.compile(f"{_LEFT}([0-9]+){_RIGHT}")


class Edit(NamedTuple):
    """Characters start to end of a text, and what takes their place."""

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
    put: Put  # returns the edits that write a translation into the text
    write: Callable[[str], str] = str  # turns text into the format's, such as & into &amp;
    refuse: Callable[[str], str] = _accept  # returns why a translation cannot take its place; "" if it can

    @classmethod
    def at(cls, start: int, end: int, inline: Inline, place: str, write: Callable[[str], str] = str) -> "Segment":
        """Return a segment whose translation takes the place of characters start to end, which are inline.source."""
        return cls(inline, place, lambda filled: [Edit(start, end, filled.text)], write)


@dataclass(frozen=True)
class Reading:
    """A text with its segments.

    held_out: segments that stand inside codes of others, such as attributes. A token stands for each in `text`, or in
    the source of another one; see `hold_out`. Their `put` returns one edit, whose text takes the place of the token.
    also: returns further edits, which depend on several segments together, such as a mark of the entry they are in.
    """

    text: str
    segments: Sequence[Segment]
    held_out: Sequence[Segment] = ()
    also: Also | None = None

    @cached_property
    def all_segments(self) -> Sequence[Segment]:
        """The segments, and behind them those held out."""
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
    """Return the text with a token in the place of each of these intervals, which stand in order.

    Raises DataError if the text has such tokens already.
    """
    refuse_tokens(text)
    return apply(text, (Edit(start, end, token(number)) for number, (start, end) in enumerate(intervals)))


def refuse_tokens(text: str) -> None:
    """Raise DataError if a text has tokens of held-out segments already."""
    if _LEFT in text or _RIGHT in text:
        raise DataError("contains the private characters U+FFFFC or U+FFFFD; remove them")


def token(number: int) -> str:
    """Return what stands in the place of the held-out segment of this number."""
    return f"{_LEFT}{number}{_RIGHT}"


def without_held_out(text: str) -> str:
    """Return the text without tokens of what is held out."""
    return _TOKEN.sub("", text)


def _put_back(text: str, values: Sequence[str]) -> str:
    """Replace the tokens, also those in the values."""
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


Parsed = TypeVar("Parsed")  # a text as its format sees it, such as an XML tree


@dataclass(frozen=True)
class Part(Generic[Parsed]):
    """A text with segments: a whole document, or a member of an archive.

    The text is parsed once, for its segments and for its structure.
    """

    name: str  # of the member; "" for a whole document
    text: str
    parse: Callable[[str], Parsed]  # raises DataError for a text of another format
    read: Callable[[Parsed], Reading]
    structure: Callable[[Parsed], object]  # what no translation may change; may raise DataError, too
    encode: Callable[[str], bytes]

    @cached_property
    def parsed(self) -> Parsed:
        """The text as its format sees it. Raises DataError with the name of the member."""
        with naming(self.name):
            return self.parse(self.text)

    @cached_property
    def reading(self) -> Reading:
        """The text with its segments. Raises DataError with the name of the member."""
        parsed = self.parsed
        with naming(self.name):
            return self.read(parsed)

    def merged(self, translations: Mapping[int, Filled]) -> tuple[str, dict[int, str]]:
        """Return the text with translations, but without those that it cannot hold; also return why, by their index."""
        if not translations:
            return self.text, {}
        unwritable = {index: why for index, filled in translations.items() if (why := self._fault(index, filled.text))}
        wanted = self.structure(self.parsed)
        some = {index: filled for index, filled in translations.items() if index not in unwritable}
        text, culprits = self.reading.merged(some), set[int]()
        if not self._is_sound(wanted, text):
            culprits = self._culprits(wanted, some)
            text = self.reading.merged({index: filled for index, filled in some.items() if index not in culprits})
            if not self._is_sound(wanted, text):
                text, culprits = self.text, set(some)
        return text, dict(sorted({**unwritable, **dict.fromkeys(culprits, _BREAKS)}.items()))

    def _fault(self, index: int, text: str) -> str:
        """Return why a translation cannot take the place of a segment: itself, or for the encoding; "" if it can."""
        try:
            self.encode(text)
        except UnicodeEncodeError as error:
            character = text[error.start]
            return f"its translation has {character!r}, which {error.encoding} cannot write; convert the file to UTF-8"
        return self.reading.all_segments[index].refuse(text)

    def _culprits(self, wanted: object, translations: Mapping[int, Filled]) -> set[int]:
        """Return which of the translations, which together change the structure, do so, by halving groups of them.

        Of groups that are left when _MOST_CHECKS are made, all count: the time stays in proportion to the text.
        """
        culprits: set[int] = set()
        groups, n_checks = _halves(list(translations)), 1
        while groups:
            group = groups.pop()
            some, n_checks = {index: translations[index] for index in group}, n_checks + 1
            if n_checks <= _MOST_CHECKS and self._is_sound(wanted, self.reading.merged(some)):
                continue
            if n_checks > _MOST_CHECKS or len(group) == 1:
                culprits.update(group)
            else:
                groups += _halves(group)
        return culprits

    def _is_sound(self, wanted: object, text: str) -> bool:
        try:
            return self.structure(self.parse(text)) == wanted
        except DataError:
            return False


def _halves(group: list[int]) -> list[list[int]]:
    half = len(group) // 2
    return [group[half:], group[:half]]


@contextmanager
def naming(member: str) -> Iterator[None]:
    """Put the name of a member, if it has one, before the message of a DataError."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{shown(member)}: {error}" if member else str(error)) from None


def shown(name: str) -> str:
    """Return the name of a member for a message."""
    return name if name.isprintable() else ascii(name)


_MOST_CHECKS = 200  # of a text's structure: enough to find some twenty culprits among a hundred thousand segments
_BREAKS = "its translation would change the structure of the document"


def _first(parts: Sequence[bytes]) -> bytes:
    return parts[0]


@dataclass(frozen=True)
class Document:
    """A document that has been read."""

    parts: Sequence[Part[Any]]
    pack: Callable[[Sequence[bytes]], bytes] = field(default=_first)  # the parts' bytes into those of the file
    placeholders: Sequence[str] = ()  # regular expressions of what a translation must keep exactly
    remarks: Sequence[str] = ()  # what the user should know of how it was read
