"""Add the final mark that a sentence was typed without, as the training text has it: full stop or question mark.

The first one or two words decide, because "Have you" begins questions and "Have a" does not.
"""

import re
from collections import Counter
from collections.abc import Mapping

from mtkit.text.capitals import WORD
from mtkit.text.sentences import QUESTIONS, final_marks
from mtkit.text.words import MARKS

_FEWEST_LINES = 5  # that begin with the same words
_SURE = 0.8  # share of these lines that must end with the same kind of mark
_FEW = 0.02  # share of lines without a final mark; above it, the model has learnt to read such lines
SHORTEST = 3  # words: less may be a label, such as Contact us
LETTER_AT_END = re.compile(rf"[^\W_][{MARKS}]*\Z")  # or a digit
_STATEMENT, _QUESTION, _UNCLEAR = ".", "?", ""


class OpeningCounts:
    """Counts how often lines with the same first words are questions."""

    def __init__(self) -> None:
        self.n_lines = self.n_unmarked = 0
        self._lines, self._questions = Counter[str](), Counter[str]()
        self._marks = Counter[str]()

    def add(self, text: str) -> None:
        """Count a line of the training text."""
        self.n_lines += 1
        if not (marks := final_marks(text)):
            self.n_unmarked += 1
            return
        self._marks[marks] += 1
        for opening in _openings(text):
            self._lines[opening] += 1
            self._questions[opening] += not QUESTIONS.isdisjoint(marks)

    def marks(self) -> dict[str, str]:
        """Return the mark of each opening: "" where it is unclear; {} for text with other marks, or often without them.

        Two words are only there if the first one alone has another mark.
        """
        usual = {marks for marks, _ in self._marks.most_common(2)}
        if usual != {_STATEMENT, _QUESTION} or self.n_unmarked > _FEW * self.n_lines:
            return {}
        marks = {opening: self._mark(opening) for opening, n in self._lines.items() if n >= _FEWEST_LINES}
        return {opening: mark for opening, mark in marks.items() if marks.get(opening.partition(" ")[0]) != mark} | {
            opening: mark for opening, mark in marks.items() if " " not in opening
        }

    def _mark(self, opening: str) -> str:
        share = self._questions[opening] / self._lines[opening]
        return _QUESTION if share >= _SURE else _STATEMENT if share <= 1 - _SURE else _UNCLEAR


def missing_mark(text: str, marks: Mapping[str, str]) -> str:
    """Return the final mark that a sentence lacks; "" if it has one, or if that is unclear. marks: of each opening."""
    if not marks or not LETTER_AT_END.search(text) or len(text.split()) < SHORTEST:
        return ""
    return next((marks[opening] for opening in _openings(text) if opening in marks), _UNCLEAR)


def _openings(text: str) -> list[str]:
    """Return the first two words in small letters, and the first one alone."""
    words = [match[0].lower() for match, _ in zip(WORD.finditer(text), range(2), strict=False)]
    return [" ".join(words[:n]) for n in range(len(words), 0, -1)]
