"""Count the lines of a text in which a tokenizer's normalisation changes characters, and name these characters."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from mtkit.text.characters import INVISIBLE
from mtkit.tokens.unseen_characters import printable

_MOST_NAMED = 5


@dataclass(frozen=True)
class ChangedCharacter:
    """A character and its normalised form."""

    text: str
    becomes: str  # "" if it is dropped
    n_lines: int

    @property
    def is_visible(self) -> bool:
        """Whether a reader sees the character itself: it is neither white space nor invisible."""
        return not self.text.isspace() and self.text not in INVISIBLE

    def __str__(self) -> str:
        """Show the change, such as "， -> ,"."""
        return f"{printable(self.text)} -> {printable(self.becomes) if self.becomes else 'nothing'}"


@dataclass(frozen=True)
class Changes:
    """The characters of a text that normalisation changes, the most frequent first; canonical equivalents are equal."""

    n_lines: int
    n_changed: int  # lines with at least one
    characters: Sequence[ChangedCharacter]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the changes that `dataclasses.asdict` made into these values."""
        return cls(**{**values, "characters": [ChangedCharacter(**character) for character in values["characters"]]})

    @property
    def visible(self) -> list[ChangedCharacter]:
        """Those that a reader sees, which a translation may miss."""
        return [character for character in self.characters if character.is_visible]

    def __str__(self) -> str:
        """Describe the changes, such as "17 % of lines: ， -> ,"; "none" if there are none."""
        if not self.characters:
            return "none"
        percentage = 100 * self.n_changed / self.n_lines
        share = f"{percentage:.0f} %" if percentage >= 1 else f"{percentage:.2g} %"
        named = ", ".join(map(str, self.characters[:_MOST_NAMED]))
        n_others = len(self.characters) - _MOST_NAMED
        return f"{share} of lines: {named}" + (f", and {n_others:,} more" if n_others > 0 else "")


class ChangedCharacters:
    """Collects the changes line by line; memory grows only with the number of different characters."""

    def __init__(self, normalize: Callable[[str], str]) -> None:
        """normalize: what the tokenizer does to the characters inside a text."""
        self._normalize = normalize
        self._unchanged: set[str] = set()
        self._becomes: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self.n_lines = self.n_changed = 0

    def add(self, line: str) -> list[ChangedCharacter]:
        """Count the next line, and return its changes in the order of their code points."""
        self.n_lines += 1
        if self._unchanged.issuperset(line):
            return []
        changed = [character for character in sorted({*line} - self._unchanged) if self._changes(character)]
        self._counts.update(changed)
        self.n_changed += bool(changed)
        return [ChangedCharacter(character, self._becomes[character], 1) for character in changed]

    def all(self) -> Changes:
        """Return the changes of all lines so far."""
        characters = [ChangedCharacter(c, self._becomes[c], n) for c, n in self._counts.most_common()]
        return Changes(self.n_lines, self.n_changed, characters)

    def _changes(self, character: str) -> bool:
        if character not in self._becomes:
            inside = f"a{character}a"  # at an end, spaces would be trimmed
            normalized = self._normalize(inside)
            if unicodedata.normalize("NFC", normalized) == unicodedata.normalize("NFC", inside):
                self._unchanged.add(character)
                return False
            self._becomes[character] = normalized[1:-1]
        return True
