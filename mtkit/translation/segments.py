"""Split a text that is too long for the model into segments, at sentence ends if possible, without losing any text."""

import re
from collections.abc import Callable, Sequence

from mtkit.text.characters import divides_character
from mtkit.text.sentences import clause_gaps, ends_without_space, sentences

_WHITE_SPACE = re.compile(r"\s+")
_LONGEST_CLUSTER = 16  # how far back to look for the start of a displayed character


def split_long(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split a text into segments that fit, in order, without the white space between them; [text] if all of it fits.

    Each sentence becomes a segment, since models are trained on sentences. A sentence that does not fit is halved at
    the clause end nearest its middle, else between words, else anywhere, until its parts fit.
    """
    text = text.strip()
    if fits(text):
        return [text]
    return [part for sentence in sentences(text) for part in _halve(sentence, fits)]


def join_segments(texts: Sequence[str], gaps: Sequence[str] = ()) -> str:
    """Join translated segments into one line.

    gaps: the white space before each segment in the source; default: a space.
    """
    line = ""
    for text, gap in zip(texts, gaps or [" "] * len(texts), strict=True):
        line += gap_after(line, gap) + text if text else ""
    return line


def gap_after(line: str, gap: str) -> str:
    """Return the white space to put between a line and the translation of its next segment.

    gap: the white space in the source. Where it has none, as between Chinese sentences, there is a space unless the
    translation puts none between its sentences, either.
    """
    return "" if not line else gap or ("" if ends_without_space(line) else " ")


def _halve(text: str, fits: Callable[[str], bool]) -> list[str]:
    if len(text) < 2 or fits(text):
        return [text]
    end, start = _cut_nearest_middle(text)
    return [*_halve(text[:end], fits), *_halve(text[start:], fits)]


def _cut_nearest_middle(text: str) -> tuple[int, int]:
    """Return where the first part ends and the second begins; neither is empty."""
    middle = len(text) / 2
    gaps = clause_gaps(text) or [gap.span() for gap in _WHITE_SPACE.finditer(text) if gap.end() < len(text)]
    if gaps:
        return min(gaps, key=lambda gap: abs(sum(gap) / 2 - middle))
    before_middle = range(len(text) // 2, max(0, len(text) // 2 - _LONGEST_CLUSTER), -1)
    cut = next((index for index in before_middle if not divides_character(text, index)), len(text) // 2)
    return cut, cut
