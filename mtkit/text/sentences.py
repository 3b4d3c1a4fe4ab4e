"""Where sentences and their clauses end: a text in, its sentences out."""

import re

_CLOSING = r"[\"'”’»›)\]]*"
# Group 1 is the white space (perhaps none) between two segments, which belongs to neither.
_SENTENCE_ENDS = re.compile(
    rf"(?:(?<![.!?…])[.!?…]+{_CLOSING}(?=\s)|(?<![。！？])[。！？]+{_CLOSING})(\s*)"  # whole runs of marks
)
_CLAUSE_ENDS = re.compile(rf"(?:[,;:–—]{_CLOSING}(?=\s)|[，、；：]{_CLOSING})(\s*)")
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

Span = tuple[int, int]  # from, up to


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, in order, without the white space between them."""
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[Span]:
    """Return where the sentences of a text stand, in order; the white space between them belongs to none."""
    spans, begin = [], 0
    for end, start in _gaps(_SENTENCE_ENDS, text):
        if not _is_number(text[begin : min(end, begin + _LONGEST_NUMBER)]) and _starts_sentence(text, end, start):
            spans.append((begin, end))
            begin = start
    return [*spans, (begin, len(text))]


def clause_gaps(text: str) -> list[Span]:
    """Return where the gap after each clause begins and ends, except one at the end of the text; it may be empty."""
    return _gaps(_CLAUSE_ENDS, text)


def _gaps(pattern: re.Pattern[str], text: str) -> list[Span]:
    return [match.span(1) for match in pattern.finditer(text) if match.end(1) < len(text)]


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
