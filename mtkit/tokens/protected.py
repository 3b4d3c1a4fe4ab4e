"""Find the parts of a text that a translation must keep as they are: what matches patterns, and what no piece spells.

Patterns describe what must never change, such as addresses and variables. The tokenizer shows what the model cannot
know: characters that it has no piece for, so that the model sees single bytes or <unk>. Nor does a model know words of
a hundred letters.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

from mtkit.text.characters import characters
from mtkit.text.placeholders import PROSE, may_have_prose
from mtkit.text.scripts import letters_in, scripts_of
from mtkit.text.sentences import FINAL
from mtkit.text.words import LONG_RUN, LONGEST_WORD, Span
from mtkit.tokens.placeholders import Placeholders
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.tokens.unseen_characters import UnknownCharacters

_LABEL = re.compile(r"\W*((?:[^\W\d_a-z][\w.'’-]{0,20}\s){0,2}[^\W\d_a-z][\w.'’-]{0,20})\s?(:)(?=\s)")  # of a speaker
_WRITTEN_BREAK = re.compile(r"(?<!\\)\\[nrt]")  # which divides the text, as a line break does
_LOST = ("<super>", "<sub>")  # kinds of characters, such as ² and ™, that mean another thing when they are normalised
_NUMBER = re.compile(r"\d+(?:[.,:/–—−-]\d+)*")


class Protected(NamedTuple):
    """The protected parts of a text, all in order and without overlap."""

    spans: Sequence[Span] = ()
    unknown: Sequence[Span] = ()  # those that the model cannot copy, because it does not see all of their characters
    whole: Sequence[Span] = ()  # those that match a pattern, and what the model has tokens for: no cut divides them

    def within(self, start: int, end: int) -> "Protected":
        """Return what is protected in a part of the text."""
        if not self.spans and not self.whole:
            return self
        return Protected(*(_within(spans, start, end) for spans in self))


NOTHING = Protected()


class Protector:
    """Finds protected text. What the model has tokens of its own for is not, because it copies that itself."""

    def __init__(self, tokenizer: Tokenizer, src_lang: str | None = None) -> None:
        """src_lang: foreign letters are those of other scripts."""
        self.patterns: tuple[str, ...] = PROSE
        self._placeholders = Placeholders(PROSE)
        self._is_prose = True
        self._own = tokenizer.placeholders
        self._scripts = scripts_of(src_lang)
        self._tokenizer = tokenizer
        self._characters = UnknownCharacters(tokenizer)

    def with_patterns(self, patterns: Sequence[str]) -> "Protector":
        """Return one for the same model and other patterns of text that must not change."""
        other = copy(self)
        other.patterns, other._placeholders = tuple(patterns), Placeholders(patterns)
        other._is_prose = other.patterns == PROSE
        return other

    def find(self, text: str) -> Protected:
        """Return the protected parts of a text."""
        own = self._own.spans(text) if self._own else []
        runs = [run.span() for run in LONG_RUN.finditer(text)] if len(text) >= LONGEST_WORD else []
        runs = [run for run in runs if not meets(own, run)]
        found = self._placeholders.spans(text) if not self._is_prose or may_have_prose(text) else []
        patterns = [span for span in found if not (meets(own, span) or meets(runs, span))]
        spans = sorted([*patterns, *runs])
        whole = sorted([*spans, *own])
        if self._characters.knows_all(text):
            return Protected(spans, runs, whole)
        others = _joined([span for span in self._unknown(text) if not meets(whole, span)])
        unknown = [
            span
            for span in patterns
            if any(self._is_unknown(character) for character in characters(text[slice(*span)]))
        ]
        return Protected(sorted([*spans, *others]), sorted([*runs, *unknown, *others]), whole)

    def values(self, text: str) -> list[str]:
        """Return the protected parts of a text, in order."""
        return [text[start:end] for start, end in self.find(text).spans]

    def _unknown(self, text: str) -> list[Span]:
        """Return where characters stand that the model does not see and cannot guess from the letters around them."""
        found: list[Span] = []
        end = 0
        for character in characters(text):
            start, end = end, end + len(character)
            if not self._is_unknown(character) or _WRITTEN_BREAK.match(text, start):
                continue
            is_inside_word = text[start - 1 : start].isalpha() and text[end : end + 1].isalpha()  # a hyphen
            is_inside_word = is_inside_word and character not in FINAL
            if self._is_foreign(character) if character[0].isalpha() else not is_inside_word:
                found.append((start, end))
        numbers = [match.span() for match in _NUMBER.finditer(text) if meets(found, match.span())]
        label = _LABEL.match(text)
        if label and (label.start(2), label.end(2)) in found and not self._has_word(label[1].lower()):
            numbers.append((label.start(1), label.end(2)))
        return sorted([*found, *numbers])

    def keeps_letter(self, letter: str) -> bool:
        """Return whether a letter stays as it is, because the model does not know it and it is of another script."""
        return self._is_foreign(letter) and self._is_unknown(letter)

    def _has_word(self, words: str) -> bool:
        """Return whether the tokenizer has a piece for one of these words, so that they are not only a name."""
        ids = [self._tokenizer.untagged(self._tokenizer.encode(word)) for word in words.split()]
        return any(len(of_word) == 1 and len(word) > 1 for of_word, word in zip(ids, words.split(), strict=True))

    def _is_unknown(self, character: str) -> bool:
        treated = self._characters.treatment_of(character)
        if treated is None or character.isspace():
            return False
        return treated[0] in ("unknown", "bytes") or (
            treated[0] == "changed" and unicodedata.decomposition(character[0]).startswith(_LOST)
        )

    def _is_foreign(self, character: str) -> bool:
        return bool(self._scripts) and not letters_in(self._scripts)[ord(character[0])]


def meets(spans: Sequence[Span], span: Span) -> bool:
    """Return whether a span overlaps one of others, which are in order and do not overlap."""
    before = bisect_left(spans, (span[1], 0))
    return before > 0 and spans[before - 1][1] > span[0]


def _within(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """Return what spans have between two places, as seen from the first."""
    found = spans[max(0, bisect_left(spans, (start, 0)) - 1) : bisect_left(spans, (end, 0))]
    return [(max(first, start) - start, min(last, end) - start) for first, last in found if last > start]


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Join spans that touch or overlap; they are in order."""
    whole: list[Span] = []
    for start, end in spans:
        if whole and start <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        else:
            whole.append((start, end))
    return whole
