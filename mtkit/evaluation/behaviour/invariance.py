"""Checks of what must not matter: the case of letters, marks and spaces, the length of a line, a line without text."""

import itertools
import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from mtkit.evaluation.behaviour.check import Case, Languages, Row, SentencesCheck
from mtkit.evaluation.metrics.scores import sentence_scores
from mtkit.quality.faults import find_faults, n_letters

_STOP = re.compile(r"[.!。]+\s*$")
_NO_LETTERS = re.compile(r"[\W_]+")


class _HarmlessCheck(SentencesCheck):
    """A check of changes that should not matter: the translation stays the same, or nearly."""

    min_chrf: float = Field(
        100.0, ge=0, le=100, description="how alike both translations must be, by chrF; 100: what is compared is equal"
    )

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """How far the second translation is from the first."""
        original, changed = map(self.compared, texts)
        if original == changed:
            return ""
        [chrf] = sentence_scores([changed], original, "chrf")
        return "" if chrf >= self.min_chrf < 100 else f"not the same translation (chrF {chrf:.0f})"

    def compared(self, text: str) -> str:
        """What of a translation has to stay."""
        raise NotImplementedError

    @staticmethod
    def variants(sentence: str, changed: Sequence[str]) -> list[Case]:
        """The sentence with each of those that differ from it."""
        return [Case((sentence, other)) for other in dict.fromkeys(changed) if other != sentence] if sentence else []


class CaseCheck(_HarmlessCheck):
    """Small and capital letters do not matter."""

    nothing = "does not change with the case of its letters"
    check: Literal["case"] = "case"
    changes: list[Literal["lower", "upper", "title", "first"]] = Field(
        ["lower", "upper"],
        min_length=1,
        description="all in small letters, in capitals, capitals at each word's beginning, or the first letter's other "
        "case: lower, upper, title, first",
    )

    def cases_of(self, row: Row, languages: Languages) -> list[Case]:
        """The sentence with each change."""
        sentence = row[0].strip()
        changed = {
            "lower": sentence.lower(),
            "upper": sentence.upper(),
            "title": re.sub(r"\w+('\w+)?", lambda word: word[0].capitalize(), sentence),
            "first": sentence[:1].swapcase() + sentence[1:],
        }
        return self.variants(sentence, [changed[change] for change in self.changes])

    def compared(self, text: str) -> str:
        """The text whatever the case."""
        return " ".join(text.casefold().split())


class PunctuationCheck(_HarmlessCheck):
    """Marks and spaces do not matter."""

    nothing = "has nothing that could be changed"
    check: Literal["punctuation"] = "punctuation"
    changes: list[Literal["no_stop", "exclamation", "spaces", "apostrophes"]] = Field(
        ["no_stop", "exclamation", "spaces", "apostrophes"],
        min_length=1,
        description="no full stop, an exclamation mark for it, more spaces, the other kind of apostrophes: no_stop, "
        "exclamation, spaces, apostrophes",
    )

    def cases_of(self, row: Row, languages: Languages) -> list[Case]:
        """The sentence with each change."""
        sentence = row[0].strip()
        curly, straight = sentence.replace("'", "\u2019"), sentence.replace("\u2019", "'")
        changed = {
            "no_stop": _STOP.sub("", sentence),
            "exclamation": _STOP.sub("!", sentence),
            "spaces": "  ".join(re.split(r" +", sentence)),
            "apostrophes": straight if sentence == curly else curly,
        }
        return self.variants(sentence, [changed[change] for change in self.changes])

    def compared(self, text: str) -> str:
        """The words, whatever their case."""
        return _NO_LETTERS.sub(" ", text.casefold()).strip()


class BlankCheck(SentencesCheck):
    """A blank line stays blank."""

    nothing = "is not blank"
    check: Literal["blank"] = "blank"
    sentences: list[str] = Field(["", "  ", "\t"], description="blank lines, in double quotes")

    def cases_of(self, row: Row, languages: Languages) -> list[Case]:
        """The line if it is blank."""
        return [] if row[0].strip() else [Case((row[0],))]

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Whether something was made of nothing."""
        return "text for a blank line" if texts[0].strip() else ""


class LongCheck(SentencesCheck):
    """A very long line is translated to its end, once: as long as its sentences make when translated one by one."""

    check: Literal["long"] = "long"
    min_letters: int = Field(600, ge=1, description="sentences are joined to lines of at least so many characters")
    tolerance: float = Field(
        0.2, gt=0, lt=1, description="by which share a line's translation may be shorter or longer than its sentences'"
    )

    def cases(self, rows: Sequence[Row], languages: Languages) -> list[tuple[set[int], Case]]:
        """Lines of the sentences in turn; the last begins anew with the first sentence where there are not enough."""
        sentences = [(number, row[0].strip()) for number, row in enumerate(rows) if row[0].strip()]
        n = n_letters(" ".join(sentence for _, sentence in sentences))
        if (
            sentences and n < self.min_letters
        ):  # a line that repeats itself would make its translation's loops look right
            raise ValueError(
                f"all sentences make {n:,.0f} letters, min_letters={self.min_letters}: give more sentences"
            )
        found: list[tuple[set[int], Case]] = []
        line: list[tuple[int, str]] = []
        for count, one in enumerate(itertools.cycle(sentences), start=1):
            line.append(one)
            parts = tuple(sentence for _, sentence in line)
            if n_letters(" ".join(parts)) >= self.min_letters:
                found.append(({number for number, _ in line}, Case((" ".join(parts),), others=parts)))
                line = []
                if count >= len(sentences):
                    break
        return found

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Whether the line's translation has a length of its own, or a loop."""
        loops = [fault for fault in find_faults(case.sources[0], texts[0]) if fault.kind == "loop"]
        if loops:
            return f"repeats itself: {loops[0].detail}".removesuffix(": ")
        n, n_alone = n_letters(texts[0]), n_letters(" ".join(texts[1:]))
        if 1 - self.tolerance <= n / max(n_alone, 1) <= 1 + self.tolerance:
            return ""
        word = "cut" if n < n_alone else "too long"
        return f"{word}: {n:,.0f} letters, while its sentences one by one make {n_alone:,.0f}"
