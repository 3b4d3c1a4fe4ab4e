"""Split a text that is too long for the model into segments, at sentence ends if possible; drop nothing."""

import re
import unicodedata
from collections.abc import Callable

_CLOSING = r"[\"'”’»›)\]]*"
# Group 1 is the white space (perhaps none) between two segments, which belongs to neither.
_SENTENCE_ENDS = re.compile(
    rf"(?:(?<![.!?…])[.!?…]+{_CLOSING}(?=\s)|(?<![。！？])[。！？]+{_CLOSING})(\s*)"  # whole runs of marks
)
_CLAUSE_ENDS = re.compile(rf"(?:[,;:–—]{_CLOSING}(?=\s)|[，、；：]{_CLOSING})(\s*)")
_WORD_ENDS = re.compile(r"(\s+)")
_ABBREVIATION = re.compile(r"(?:^|[\s(\"'«“])[^\W\d_a-zß-ÿ]\w{0,2}\.$")  # Mr. Dr. J.: not the end of a sentence
_ZERO_WIDTH_JOINER = "\u200d"
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


def join_segments(texts: list[str]) -> str:
    """Join translated segments into one line."""
    return " ".join(text for text in texts if text)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, in order, without the white space between them."""
    cuts = [cut for cut in _cuts(_SENTENCE_ENDS, text) if _starts_sentence(text, *cut)]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _starts_sentence(text: str, end: int, start: int) -> bool:
    """Return whether a sentence can begin after a full stop: not in lower case, nor with a name after Mr."""
    return not text[start].islower() and not _ABBREVIATION.search(text[max(0, end - 5) : end])


def _halve(text: str, fits: Callable[[str], bool]) -> list[str]:
    if len(text) < 2 or fits(text):
        return [text]
    end, start = _cut_nearest_middle(text)
    return [*_halve(text[:end], fits), *_halve(text[start:], fits)]


def _cut_nearest_middle(text: str) -> tuple[int, int]:
    """Return where the first part ends and the second begins; neither is empty."""
    middle = len(text) / 2
    for pattern in (_CLAUSE_ENDS, _WORD_ENDS):
        cuts = _cuts(pattern, text)
        if cuts:
            return min(cuts, key=lambda cut: abs((cut[0] + cut[1]) / 2 - middle))
    before_middle = range(len(text) // 2, max(0, len(text) // 2 - _LONGEST_CLUSTER), -1)
    cut = next((index for index in before_middle if not _belongs_to_previous(text, index)), len(text) // 2)
    return cut, cut


def _cuts(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    """Return (end, start) around the gap of each match, except a gap at the very end of the text."""
    spans = (match.span(1) for match in pattern.finditer(text))
    return [(end, start) for end, start in spans if start < len(text)]


def _belongs_to_previous(text: str, index: int) -> bool:
    """Return whether a cut before text[index] would split an accent from its letter, or an emoji."""
    mark = unicodedata.combining(text[index]) or unicodedata.category(text[index]) in ("Mn", "Me", "Sk", "Cf")
    return bool(mark) or text[index - 1] == _ZERO_WIDTH_JOINER
