"""Characters that a model does not see as they are written: lines in, a table of such characters out.

A tokenizer may have no piece for a character (the model then sees its UTF-8 bytes, or only that something is unknown),
or its normalisation may turn it into something else, or into nothing. What belongs together on the screen, such as a
letter with its accents or an emoji of several code points, is looked at, and reported, as one character.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from mtkit.data.special_ids import UNK_ID
from mtkit.data.tokenizer import Tokenizer

Treatment = Literal["unknown", "bytes", "dropped", "changed"]
_TREATMENTS: tuple[Treatment, ...] = get_args(Treatment)  # from the worst on
_ZERO_WIDTH_JOINER = "\u200d"
_KINDS = {"Cc": "control character", "Co": "private use", "Cn": "not assigned", "Cs": "half a surrogate pair"}
_LONGEST_SHOWN = 3  # code points of one character that the table names
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs"})  # not printed as they are: terminals obey some


@dataclass
class UnknownCharacter:
    """A character that the model sees otherwise than it is written, and where."""

    text: str  # one code point, or several that make one character
    treatment: Treatment
    seen: str  # what the model sees: <0xE2> <0x82>, <unk>, the changed text, or "" for nothing
    count: int
    first_line: int  # from 1

    @property
    def code_points(self) -> str:
        """Such as "U+0065 U+0301"."""
        return " ".join(f"U+{ord(c):04X}" for c in self.text)

    @property
    def name(self) -> str:
        """The Unicode names of its code points; for those without one, of what kind they are."""
        return " + ".join(unicodedata.name(c, "") or _KINDS.get(unicodedata.category(c), "no name") for c in self.text)


class UnknownCharacters:
    """Collects them line by line, in memory that grows with the kinds of characters only."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._byte_ids = frozenset(tokenizer.byte_ids())
        self._seen: dict[str, tuple[Treatment, str] | None] = {" ": None}
        self._found: dict[str, UnknownCharacter] = {}
        self._known = {" "}  # code points that are well with whatever known ones stand around them
        self.n_lines = 0  # up to the last one looked at

    def add(self, line: str, number: int | None = None) -> None:
        """Look at the next line. number: its own, from 1, if lines before it were left out."""
        self.n_lines = number or self.n_lines + 1
        if self._known.issuperset(line):
            return
        for character in characters(line):
            if character not in self._seen:
                self._seen[character] = self._look_at(character)
                if self._seen[character] is None and len(character) == 1 and not _belongs_to_previous(character):
                    self._known.add(character)
            treated = self._seen[character]
            if treated is None:
                continue
            if character in self._found:
                self._found[character].count += 1
            else:
                self._found[character] = UnknownCharacter(character, *treated, count=1, first_line=self.n_lines)

    def all(self) -> list[UnknownCharacter]:
        """Those found, the worst treated first, then the most frequent."""
        return sorted(
            self._found.values(),
            key=lambda found: (_TREATMENTS.index(found.treatment), -found.count, found.first_line, found.text),
        )

    def _look_at(self, character: str) -> tuple[Treatment, str] | None:
        """How the tokenizer treats the character and what becomes of it; None if it stays what it is."""
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
        """What normalisation makes of the character inside a text: at an end, spaces would be trimmed."""
        inside = self._tokenizer.normalize(f"a{character}a")
        if len(inside) >= 2 and inside[0] == inside[-1] == "a":
            return inside[1:-1]
        return self._tokenizer.normalize(character)


def unknown_characters(lines: Iterable[str], tokenizer: Tokenizer) -> list[UnknownCharacter]:
    """The characters of the lines that the tokenizer does not pass on as they are, the worst treated first."""
    collector = UnknownCharacters(tokenizer)
    for line in lines:
        collector.add(line)
    return collector.all()


def table(found: Iterable[UnknownCharacter], *, at_most: int = 50) -> Iterator[str]:
    """The lines of a table for people; a single one that says so if nothing was found."""
    rows = list(found)
    if not rows:
        yield "the tokenizer knows every character of this text"
        return
    yield f"{'count':>7} {'line':>7}  {'':<8}{'the model sees':<24}{'code points':<16}name"
    for row in rows[:at_most]:
        n_more = max(len(row.text) - _LONGEST_SHOWN, 0)
        shown = UnknownCharacter(row.text[:_LONGEST_SHOWN], row.treatment, row.seen, row.count, row.first_line)
        name = f"{shown.name}, and {n_more} more" if n_more else shown.name
        columns = [(_printable(row.text), 8), (_seen_in_words(row), 24), (shown.code_points, 16)]
        text = "".join(cell + " " * max(1, width - _width(cell)) for cell, width in columns)
        yield f"{row.count:>7,} {row.first_line:>7,}  {text}{name}"
    if len(rows) > at_most:
        yield f"{len(rows) - at_most:,} further characters, {sum(row.count for row in rows[at_most:]):,} times in all"


def _seen_in_words(row: UnknownCharacter) -> str:
    if row.treatment == "dropped":
        return "nothing"
    if row.treatment == "bytes" and row.seen.count("<0x") > 4:
        return f"{row.seen.count('<0x')} bytes"
    return _printable(row.seen)


def _printable(text: str) -> str:
    """The text for a terminal: what would not show, or would steer it, in words or as an escape."""
    if text == " ":
        return "a space"
    if unicodedata.category(text[0]).startswith("M"):
        text = "\u25cc" + text  # a dotted circle carries the mark
    return "".join(_escaped(c) if unicodedata.category(c) in _HIDDEN and c not in " \u200d" else c for c in text)


def _width(text: str) -> int:
    """About how many columns of a terminal the text takes."""
    if _ZERO_WIDTH_JOINER in text:
        text = text.partition(_ZERO_WIDTH_JOINER)[0]
    shown = [c for c in text if not _belongs_to_previous(c)]
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in shown)


def _escaped(c: str) -> str:
    return f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"


def characters(text: str) -> Iterator[str]:
    """The text cut into what a reader takes for one character each; joined, they are the text again.

    A plainer rule than Unicode's own (UAX 29): marks, variation selectors, skin tones and tags stay with what stands
    before them, as does what follows a zero-width joiner; regional indicators go in pairs.
    """
    start, n_flags = 0, 0
    for at in range(1, len(text)):
        n_flags = n_flags + 1 if _is_flag_letter(text[at - 1]) else 0
        joined = text[at - 1] == _ZERO_WIDTH_JOINER and at - 1 > start
        if joined or _belongs_to_previous(text[at]) or (_is_flag_letter(text[at]) and n_flags % 2 == 1):
            continue
        yield text[start:at]
        start = at
    if text:
        yield text[start:]


def _belongs_to_previous(c: str) -> bool:
    if c.isascii():
        return False
    return (
        unicodedata.category(c).startswith("M")  # variation selectors are marks, too
        or c == _ZERO_WIDTH_JOINER
        or "\U0001f3fb" <= c <= "\U0001f3ff"
        or "\U000e0020" <= c <= "\U000e007f"
    )


def _is_flag_letter(c: str) -> bool:
    return "\U0001f1e6" <= c <= "\U0001f1ff"
