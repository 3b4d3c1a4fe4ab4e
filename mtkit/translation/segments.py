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
_WORD_START = r"(?<![^\s(\[\"'«»“„‘‚])"
_ABBREVIATION = re.compile(  # at the end of the text: not the end of a sentence
    rf"{_WORD_START}(?:"
    r"[^\W\d_a-zß-ÿ]\w{0,2}"  # Mr. Dr. J.
    r"|(?![ap]\.\s?m\.|u\.\s?s\.\s?w\.|[ou]\.\s?ä\.)"  # these end sentences, too, and so does U.S.
    r"(?=[^a-zß-ÿ]{0,12}[a-zß-ÿ])[^\W\d_](?:\.\s?[^\W\d_]){1,5}"  # e.g. z. B. S.u.S.E.
    r"|eg|ie|cf|ca|vs|viz|bzw|vgl|sog|ggf|evtl|inkl|incl|resp|approx|p\.\s?ex|par ex|Prof|Chap|Sect"
    r")\.$"
)
_LONGEST_ABBREVIATION = 20
_LETTER = re.compile(r"(?:^|\s|\()[a-zß-ÿ]\.$")  # before another: the z. of z. B.
_REST_OF_ABBREVIATION = re.compile(r"[^\W\d_]\.|Chr\b")
_DAY = re.compile(r"(?<!\d)[0-3]?\d\.$")
_MONTH = re.compile(
    r"(?:Januar|Jänner|Februar|Feber|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b"
    r"|(?:Jan|Feb|Mär|Apr|Jun|Jul|Aug|Sept?|Okt|Nov|Dez)\."
)
_ORDINAL = re.compile(  # German: im 19. Jahrhundert
    r"(?<!\w)(?:der|die|das|dem|den|des|im|ins|vom|zum|zur|beim|(?<!I )am|(?:ein|kein|jede|diese)(?:e?[rsnm]|e)?)"
    r"\s\d{1,3}\.$",
    re.IGNORECASE,
)
_HEADING_NUMBER = re.compile(  # 1. A.1. 2-1. VIII. or Chapter 1.: the whole of it
    r"(?:[^\W\d_a-zß-ÿ][^\W\d_]{2,}\s+)?(?:§\s?)?(?:(?:[^\W\d_][.-]?)?\d+(?:[.–-]\d+)*[a-z]?|[IVXLC]+)\.\Z"
)
_LONGEST_NUMBER = 40
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
    found, begin = [], 0
    for end, start in _cuts(_SENTENCE_ENDS, text):
        if not _is_number(text[begin : min(end, begin + _LONGEST_NUMBER)]) and _starts_sentence(text, end, start):
            found.append(text[begin:end])
            begin = start
    return [*found, text[begin:]]


def _is_number(text: str) -> bool:
    """Return whether a text is but the number of a heading or of a list item, which belongs to what follows."""
    return text.endswith(".") and bool(_HEADING_NUMBER.match(text))


def _starts_sentence(text: str, end: int, start: int) -> bool:
    """Return whether a sentence can begin after a full stop: not in lower case, nor inside Mr. Smith or 3. Oktober."""
    if text[start].islower():
        return False
    before = max(0, end - _LONGEST_ABBREVIATION)
    if _ABBREVIATION.search(text, before, end):
        return False
    if _LETTER.search(text, before, end) and _REST_OF_ABBREVIATION.match(text, start):
        return False
    if _DAY.search(text, before, end) and _MONTH.match(text, start):
        return False
    return not (text[start].isupper() and _ORDINAL.search(text, before, end))


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
