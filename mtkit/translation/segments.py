"""Long text in, segments that a model can take out: cut where the sense allows, never cut short."""

import re
import unicodedata
from collections.abc import Callable

_CLOSING = r"[\"'”’»›)\]]*"
# Each ends with the white space (group 1, perhaps none) that is left out between two segments.
_SENTENCE_ENDS = re.compile(
    rf"(?:(?<![.!?…])[.!?…]+{_CLOSING}(?=\s)|(?<![。！？])[。！？]+{_CLOSING})(\s*)"  # runs are not tried from within
)
_CLAUSE_ENDS = re.compile(rf"(?:[,;:–—]{_CLOSING}(?=\s)|[，、；：]{_CLOSING})(\s*)")
_WORD_ENDS = re.compile(r"(\s+)")
_ABBREVIATION = re.compile(r"(?:^|[\s(\"'«“])[^\W\d_a-zß-ÿ]\w{0,2}\.$")  # Mr. Dr. J.: no end, so keep reading
_ZERO_WIDTH_JOINER = "\u200d"
_LONGEST_CLUSTER = 16  # how far to look for the start of what looks like one character


def split_long(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Text in segments that fit, in order, without the white space between them; [text] if it fits as it is.

    Otherwise every sentence becomes a segment, since sentences are what models learn from. One that does not fit is
    halved at the clause end nearest its middle, else between words, else anywhere, until its parts fit.
    """
    text = text.strip()
    if fits(text):
        return [text]
    return [part for sentence in _sentences(text) for part in _halve(sentence, fits)]


def join_segments(texts: list[str]) -> str:
    """Translated segments as one line."""
    return " ".join(text for text in texts if text)


def _sentences(text: str) -> list[str]:
    cuts = [cut for cut in _cuts(_SENTENCE_ENDS, text) if _starts_sentence(text, *cut)]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _starts_sentence(text: str, end: int, start: int) -> bool:
    """Whether what follows a full stop can begin a sentence: no small letter, and no name after Mr."""
    return not text[start].islower() and not _ABBREVIATION.search(text[max(0, end - 5) : end])


def _halve(text: str, fits: Callable[[str], bool]) -> list[str]:
    if len(text) < 2 or fits(text):
        return [text]
    end, start = _cut_nearest_middle(text)
    return [*_halve(text[:end], fits), *_halve(text[start:], fits)]


def _cut_nearest_middle(text: str) -> tuple[int, int]:
    """Where the first part ends and where the second begins; neither is empty."""
    middle = len(text) / 2
    for pattern in (_CLAUSE_ENDS, _WORD_ENDS):
        cuts = _cuts(pattern, text)
        if cuts:
            return min(cuts, key=lambda cut: abs((cut[0] + cut[1]) / 2 - middle))
    before_middle = range(len(text) // 2, max(0, len(text) // 2 - _LONGEST_CLUSTER), -1)
    at = next((at for at in before_middle if not _belongs_to_previous(text, at)), len(text) // 2)
    return at, at


def _cuts(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    """(end, start) around each match's gap, one at the very end of the text left out."""
    spans = (match.span(1) for match in pattern.finditer(text))
    return [(end, start) for end, start in spans if start < len(text)]


def _belongs_to_previous(text: str, at: int) -> bool:
    """Whether a cut before text[at] would tear an accent from its letter, or an emoji apart."""
    mark = unicodedata.combining(text[at]) or unicodedata.category(text[at]) in ("Mn", "Me", "Sk", "Cf")
    return bool(mark) or text[at - 1] == _ZERO_WIDTH_JOINER
