"""List the characters of a text that a model does not see as written, and print them as a table.

A tokenizer may have no piece for a character, so that the model sees its UTF-8 bytes or <unk>, or normalisation may
change or drop it. A letter with its accents, or an emoji of several code points, counts as one character.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from mtkit.text.characters import ZERO_WIDTH_JOINER, belongs_to_previous, characters, n_columns
from mtkit.tokens.special_ids import UNK_ID
from mtkit.tokens.tokenizer import Tokenizer

Treatment = Literal["unknown", "bytes", "dropped", "changed"]
_TREATMENTS: tuple[Treatment, ...] = get_args(Treatment)  # the worst first
_KINDS = {"Cc": "control character", "Co": "private use", "Cn": "not assigned", "Cs": "half a surrogate pair"}
_LONGEST_SHOWN = 3  # code points of one character that the table names
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs"})  # printed as escapes: terminals obey some


@dataclass
class UnknownCharacter:
    """A character that the model does not see as written, and its first line."""

    text: str  # one or several code points
    treatment: Treatment
    seen: str  # what the model sees: <0xE2> <0x82>, <unk>, the changed text, or "" for nothing
    count: int
    first_line: int  # from 1

    @property
    def code_points(self) -> str:
        """Its code points, such as "U+0065 U+0301"."""
        return " ".join(f"U+{ord(c):04X}" for c in self.text)

    @property
    def name(self) -> str:
        """The Unicode names of its code points, or the category of one without a name."""
        return " + ".join(unicodedata.name(c, "") or _KINDS.get(unicodedata.category(c), "no name") for c in self.text)


class UnknownCharacters:
    """Collects unknown characters line by line; memory grows only with the number of different ones."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._byte_ids = frozenset(tokenizer.byte_ids())
        self._seen: dict[str, tuple[Treatment, str] | None] = {" ": None}
        self._unknown: dict[str, UnknownCharacter] = {}
        self._known = {" "}  # code points that are seen as written beside any others of this set
        self.n_lines = 0  # up to the last one added

    def add(self, line: str, number: int | None = None) -> None:
        """Add the next line. number: its line number, from 1, if lines before it were skipped."""
        self.n_lines = number or self.n_lines + 1
        if self._tokenizer.placeholders is not None:
            line = self._tokenizer.placeholders.without(line)  # which the model copies whole
        if self.knows_all(line):
            return
        for character in characters(line):
            treated = self.treatment_of(character)
            if treated is None:
                continue
            if character in self._unknown:
                self._unknown[character].count += 1
            else:
                self._unknown[character] = UnknownCharacter(character, *treated, count=1, first_line=self.n_lines)

    def knows_all(self, text: str) -> bool:
        """Return whether all code points of a text have already turned out to be seen as written."""
        return self._known.issuperset(text)

    def all(self) -> list[UnknownCharacter]:
        """Return the unknown characters, the worst treated first, then the most frequent."""
        return sorted(
            self._unknown.values(),
            key=lambda unknown: (
                _TREATMENTS.index(unknown.treatment),
                -unknown.count,
                unknown.first_line,
                unknown.text,
            ),
        )

    def treatment_of(self, character: str) -> tuple[Treatment, str] | None:
        """Return how the tokenizer treats a character and what the model sees; None if it sees it as written."""
        if character not in self._seen:
            self._seen[character] = self._find_treatment(character)
            if self._seen[character] is None and len(character) == 1 and not belongs_to_previous(character):
                self._known.add(character)
        return self._seen[character]

    def _find_treatment(self, character: str) -> tuple[Treatment, str] | None:
        ids = self._tokenizer.encode(character)
        if UNK_ID in ids:
            return "unknown", "<unk>"
        if not self._byte_ids.isdisjoint(ids):
            first, *others = self._tokenizer.pieces(ids)
            return "bytes", " ".join(piece for piece in (first.removeprefix("\u2581"), *others) if piece)
        normalized = self._normalized(character)
        if normalized == character:
            return None
        return ("changed", normalized) if normalized else ("dropped", "")

    def _normalized(self, character: str) -> str:
        """Normalise the character inside a text: at an end, spaces would be trimmed."""
        inside = self._tokenizer.normalize(f"a{character}a")
        if len(inside) >= 2 and inside[0] == inside[-1] == "a":
            return inside[1:-1]
        return self._tokenizer.normalize(character)


def table(unknown: Iterable[UnknownCharacter], *, at_most: int = 50) -> Iterator[str]:
    """Yield the lines of a table to print; a single line if there is nothing to list."""
    rows = list(unknown)
    if not rows:
        yield "the tokenizer knows every character of this text"
        return
    yield f"{'count':>7} {'line':>7}  {'':<8}{'the model sees':<24}{'code points':<16}name"
    for row in rows[:at_most]:
        n_more = max(len(row.text) - _LONGEST_SHOWN, 0)
        shown = UnknownCharacter(row.text[:_LONGEST_SHOWN], row.treatment, row.seen, row.count, row.first_line)
        name = f"{shown.name}, and {n_more} more" if n_more else shown.name
        columns = [(printable(row.text), 8), (_seen_in_words(row), 24), (shown.code_points, 16)]
        text = "".join(cell + " " * max(1, width - n_columns(cell)) for cell, width in columns)
        yield f"{row.count:>7,} {row.first_line:>7,}  {text}{name}"
    if len(rows) > at_most:
        yield f"{len(rows) - at_most:,} further characters, {sum(row.count for row in rows[at_most:]):,} times in all"


def _seen_in_words(row: UnknownCharacter) -> str:
    if row.treatment == "dropped":
        return "nothing"
    if row.treatment == "bytes" and row.seen.count("<0x") > 4:
        return f"{row.seen.count('<0x')} bytes"
    return printable(row.seen)


def printable(text: str) -> str:
    """Return the text safe for a terminal, with invisible characters as words or escapes."""
    if text == " ":
        return "a space"
    if unicodedata.category(text[0]).startswith("M"):
        text = "\u25cc" + text  # a dotted circle under the mark
    kept = (" ", ZERO_WIDTH_JOINER)
    return "".join(ascii(c)[1:-1] if unicodedata.category(c) in _HIDDEN and c not in kept else c for c in text)
