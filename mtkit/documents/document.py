"""A document: texts with segments, and what is checked before a translation is written into one.

A reader of a format turns bytes into a `Document`; nothing here knows a format or a translator.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from mtkit.documents.skeleton import Filled, Reading
from mtkit.errors import DataError

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
        """Return the text with translations. Leave out those that it cannot hold, and return why, by their indices."""
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
        """Return why the segment or the encoding refuses a translation; "" if both accept it."""
        try:
            self.encode(_MARKS.sub("", text))
        except UnicodeEncodeError as error:
            character = text[error.start]
            return f"its translation has {character!r}, which {error.encoding} cannot write; convert the file to UTF-8"
        return self.reading.all_segments[index].refuse(text)

    def _culprits(self, wanted: object, translations: Mapping[int, Filled]) -> set[int]:
        """Find the translations that change the structure, by halving groups of them.

        After _MOST_CHECKS, all translations in the groups that are left count as culprits, so that the time stays in
        proportion to the text.
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


_MARKS = re.compile("[\U000ffff0-\U000ffffd]")  # private characters of readers, which are not written
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
    remarks: Sequence[str] = ()  # what the user should know about the reading
    src_lang: str | None = None  # text in another language or script stays; None: nothing is known to be
