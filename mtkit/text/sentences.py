"""Find the sentences and clauses of a text, and the marks that end it."""

import re
from collections.abc import Callable, Iterable

from mtkit.text.characters import divides_character
from mtkit.text.inline_tags import without_tags
from mtkit.text.templates import TEMPLATE

# Marks that end a sentence (Unicode's Sentence_Terminal, and the ellipsis, of scripts that are in use). Some do so only
# before white space: 3.5 is a number.
_FINAL_BEFORE_SPACE = ".!?…\u061f\u06d4\u0589\u1362\u1367\u17d4\uff0e\u037e"  # Arabic to Khmer, full-width, Greek
_UNSPACED = "。！？\uff61"  # of Chinese and Japanese, which put no space behind them
_FINAL_ANYWHERE = _UNSPACED + "\u0964\u0965\u104b\u0f0d\u0f0e"  # danda, Burmese, Tibetan
FINAL = _FINAL_BEFORE_SPACE + _FINAL_ANYWHERE
QUESTIONS = frozenset("?？\u061f\u1367\u037e")
_PAUSING_BEFORE_SPACE = ",;:\u060c\u061b"
_PAUSING_ANYWHERE = "，、；："
PAUSING = _PAUSING_BEFORE_SPACE + _PAUSING_ANYWHERE  # marks inside a sentence
_DASHES = "–—"
# What may stand between such a mark and the space: brackets and quotation marks. German and Danish close „so“ and »so«,
# with marks that open a quotation elsewhere, so those count only before white space.
_CLOSING = "\"'”’»›)]}」』）］】》〉"
_DIRECTION = "\u061c\u200e\u200f\u202c\u2069"  # marks of direction, and ends of text in another one, show nothing
_CLOSING_BEFORE_SPACE = f"{_CLOSING}“‘«‹*_{_DIRECTION}"  # also of Markdown
MASKS = range(0x100000, 0x10FFFE)  # private characters: each stands for a part, such as a tag, that stays whole
_MASKS = f"{chr(MASKS[0])}-{chr(MASKS[-1])}"
_ATTACHED = rf"(?:\[\d{{1,3}}\]|[{_MASKS}])*+"  # numbers of notes, and such parts
_SPACED_CLOSING = r"(?:[ \u00a0\u202f][»›](?!\S))?+"  # French: « Entrez. »
AT_END = f"{_CLOSING_BEFORE_SPACE} \t\n\r\v\f\u00a0\u2009\u202f\u3000"

_GLUED = rf"(?<=[^\W\d_])[{_FINAL_BEFORE_SPACE}]+[{re.escape(_CLOSING)}]*(?=[{_MASKS}¿¡]*[^\W\d_])"  # to a sentence


def _ends(before_space: str, anywhere: str, glued: str = "(?!)") -> re.Pattern[str]:
    """Match whole runs of marks. Group 1 is the white space behind, perhaps none, which belongs to no sentence."""
    return re.compile(
        rf"(?:(?<![{before_space}])[{before_space}]+[{re.escape(_CLOSING_BEFORE_SPACE)}]*{_SPACED_CLOSING}{_ATTACHED}(?=\s)"
        rf"|(?<![{anywhere}])[{anywhere}]+[{re.escape(_CLOSING)}]*|{glued})(\s*)"
    )


_SENTENCE_ENDS = _ends(_FINAL_BEFORE_SPACE, _FINAL_ANYWHERE, _GLUED)
_CLAUSE_ENDS = _ends(_PAUSING_BEFORE_SPACE + _DASHES, _PAUSING_ANYWHERE)
_WORD_START = r"(?<![^\s(\[\"'«»“„‘‚])"
_ABBREVIATION = re.compile(  # at the end of the text: not the end of a sentence
    rf"{_WORD_START}(?:"
    r"[^\W\d_a-zß-ÿ]\w{0,2}"  # Mr. Dr. J.
    r"|(?![ap]\.\s?m\.|u\.\s?s\.\s?w\.|[ou]\.\s?ä\.)"  # these end sentences, too, and so does U.S.
    r"(?=[^a-zß-ÿ]{0,12}[a-zß-ÿ])[^\W\d_](?:\.\s?[^\W\d_]){1,5}"  # e.g. z. B. S.u.S.E.
    r"|eg|ie|cf|ca|vs|viz|bzw|vgl|sog|ggf|evtl|inkl|incl|resp|approx|p\.\s?ex|par ex|Prof|Chap|Sect"
    r")\.$"
)
# Such initials end a sentence only before a word that often begins one, because a wrong cut ("the U.S." | "Navy")
# spoils both translations, and a missing cut does little harm. This rule is right about all 13 such places in Tatoeba
# and FLORES (English), of which 9 are inside a sentence.
_INITIALS = re.compile(r"(?<!\w)(?:[ap]\.\s?m|[A-Z](?:\.[A-Z]){1,5})\.$")  # a.m. U.S. J.F.
_OPENER = re.compile(
    rf"[\"'“‘«(¿¡{_MASKS}]*(?:An?|The|This|That|These|Those|There|Here|I|You|He|She|It|We|They|My|Your|His|Her|Its|Our|Their"
    r"|What|Who|Where|Why|How|When|While|If|In|On|At|After|Before|As|But|And|So|Or|Then|No|Not|Yes|Please)\b"
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
_OPENED = re.compile(r"(?<![¿¡])[¿¡]++(?=[^¿¡?!]*\Z)")  # without the mark that closes it
GREEK_QUESTION = re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]\s?;\Z")  # as people type U+037E
_UNMARKED = re.compile(r"[\u0e00-\u0eff][^\w\u0e00-\u0eff]*\Z")  # ends in Thai or Lao
_MAYBE_LAST = r"\b(?:etc|ecc|usw|osv|itd|atd|Inc|Ltd|Jr|Sr|Co)\."  # abbreviations that often end a sentence, too
_KEPT_STOP = re.compile(rf"(?:\.\s?\w{{0,3}}\.|…|{_MAYBE_LAST})\Z", re.IGNORECASE)  # p.m. U.S. etc. an ellipsis
_MAYBE_LAST_STOP = re.compile(rf"{_MAYBE_LAST}\Z", re.IGNORECASE)
_NUMBER_STOP = re.compile(r"(?:\d|\b[IVX]{2,})\.\Z")  # perhaps of an ordinal number: 3. Ludwig XIV.
_HEADING_NUMBER = re.compile(  # 1. A.1. 2-1. VIII. or Chapter 1.: the whole of it
    r"(?:[^\W\d_a-zß-ÿ][^\W\d_]{2,}\s+)?(?:§\s?)?(?:(?:[^\W\d_][.-]?)?\d+(?:[.–-]\d+)*[a-z]?|[IVXLC]+)\.\Z"
)
_LONGEST_NUMBER = 40
_MAYBE_CODE = re.compile(r"\{[{%#/]|#\{|<[%?]")
_WHITE_SPACE = re.compile(r"\s+")
# Two sentences without a space between them: unlike in example.com, U.S.A and fmt.Println, the first has three words
# and ends in lower case; the second has two words and begins with a capital. In 697,000 lines of Tatoeba, Multi30k and
# FLORES two lines have such a place, and it is the end of a sentence in both.
_BEFORE_GLUED = re.compile(r"\w\S*\s+\S*\w\S*\s+(?:\S*[-'’])?(?P<last>[^\W\d_]{2,})\W+\Z")
_AFTER_GLUED = re.compile(rf"[{_MASKS}¿¡]*(?P<first>[^\W\d_]+)(?:['’]\w+)?,?\s+\S*\w")
_MOST_GLUED = 100  # characters to look at before and after such a place
_LONGEST_CLUSTER = 16  # how far back to look for the start of a displayed character


def at_end(members: str) -> re.Pattern[str]:
    """Match all of these characters at the end of a text: from their first one only, so that a run is read once.

    members: for the inside of a class.
    """
    return re.compile(rf"(?<![{members}])[{members}]+\Z")


# What `sentence_spans`, `ends_with_abbreviation` and `is_final_mark_added` decide by, for the page of browsers.
PATTERNS = {
    "sentenceEnds": _SENTENCE_ENDS,
    "abbreviation": _ABBREVIATION,
    "initials": _INITIALS,
    "opener": _OPENER,
    "letter": _LETTER,
    "restOfAbbreviation": _REST_OF_ABBREVIATION,
    "day": _DAY,
    "month": _MONTH,
    "ordinal": _ORDINAL,
    "headingNumber": _HEADING_NUMBER,
    "maybeCode": _MAYBE_CODE,
    "beforeGlued": _BEFORE_GLUED,
    "afterGlued": _AFTER_GLUED,
    "opened": _OPENED,
    "greekQuestion": GREEK_QUESTION,
    "unmarked": _UNMARKED,
    "keptStop": _KEPT_STOP,
    "maybeLastStop": _MAYBE_LAST_STOP,
    "numberStop": _NUMBER_STOP,
    "closing": at_end(re.escape(_CLOSING)),
    "atEnd": at_end(re.escape(AT_END)),
    "final": at_end(FINAL),
    "finalOrGreek": at_end(f"{FINAL};"),
    "stopsAtEnd": at_end("."),
    "spaceAtEnd": at_end(r"\s"),
    "onlyFinal": re.compile(rf"\A[{FINAL}; ]+\Z"),
}
LIMITS = {
    "longestAbbreviation": _LONGEST_ABBREVIATION,
    "longestNumber": _LONGEST_NUMBER,
    "mostGlued": _MOST_GLUED,
    "finalAnywhere": _FINAL_ANYWHERE,
}

Span = tuple[int, int]  # from, up to


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, in order, without the white space between them."""
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[Span]:
    """Return the spans of the sentences of a text, in order; the white space between them belongs to none.

    Template code, such as {% trans "No. No." %}, is in one sentence.
    """
    spans, begin = [], 0
    in_code = {i for code in TEMPLATE.finditer(text) for i in range(*code.span())} if _MAYBE_CODE.search(text) else ()
    for end, start in _gaps(_SENTENCE_ENDS, text):
        if (
            end not in in_code
            and not _is_number(text[begin : min(end, begin + _LONGEST_NUMBER)])
            and _starts_sentence(text, end, start)
        ):
            spans.append((begin, end))
            begin = start
    return [*spans, (begin, len(text))]


def part_spans(text: str, fits: Callable[[str], bool]) -> list[Span]:
    """Return the spans of the parts of a sentence that fit, in order; the white space between them belongs to none.

    What does not fit is halved at the clause end nearest its middle, else between words, else anywhere.
    """
    parts, waiting = [], [(0, len(text))]
    while waiting:
        start, end = waiting.pop()
        part = text[start:end]
        if len(part) < 2 or fits(part):
            parts.append((start, end))
        else:
            first, second = _cut_nearest_middle(part)
            waiting += [(start + second, end), (start, start + first)]
    return parts


def _cut_nearest_middle(text: str) -> Span:
    """Return where the first part ends and the second begins; neither is empty."""
    middle = len(text) / 2
    gaps = clause_gaps(text) or [gap.span() for gap in _WHITE_SPACE.finditer(text) if gap.end() < len(text)]
    if gaps:
        return min(gaps, key=lambda gap: abs(sum(gap) / 2 - middle))
    before_middle = range(len(text) // 2, max(0, len(text) // 2 - _LONGEST_CLUSTER), -1)
    cut = next((index for index in before_middle if not divides_character(text, index)), len(text) // 2)
    return cut, cut


def without_closing(text: str) -> str:
    """Return the text without quotation marks, brackets and white space at its end."""
    return text.rstrip(AT_END)


def share_of_several(lines: Iterable[str]) -> float:
    """Return the share of the lines that have more than one sentence; 0 without lines."""
    n_lines = n_several = 0
    for line in lines:
        n_lines += 1
        n_several += len(sentence_spans(line.strip())) > 1
    return n_several / max(1, n_lines)


def ends_without_space(text: str) -> bool:
    """Return whether the text ends with a mark of a script that puts no space between sentences."""
    return text.rstrip(_CLOSING).endswith(tuple(_UNSPACED))


def final_marks(text: str) -> str:
    """Return the marks that end the text's last sentence, with anything after them, such as '?"'; "" if none."""
    bare = without_closing(text)
    words = bare.rstrip(f"{FINAL};" if GREEK_QUESTION.search(bare) else FINAL)
    return text[len(words) :] if len(words) < len(bare) else ""


def has_final_mark(text: str) -> bool:
    """Return whether a text ends with a final mark that nothing follows, and does not consist of it alone."""
    marks = final_marks(text)
    return bool(marks) and not marks.strip(f"{FINAL}; ") and len(marks) < len(text)


def without_final_mark(text: str) -> str:
    """Return the text without the mark at its end, and without the ¿ or ¡ that belongs to it."""
    return _OPENED.sub("", text.removesuffix(final_marks(text)).rstrip()) if has_final_mark(text) else text


def is_final_mark_added(src: str, translation: str) -> bool:
    """Return whether a translation ends its sentence with a mark that its source, a heading or the like, does not have.

    False for a source in Thai or Lao, which have no such marks. The full stop of an abbreviation or of a German ordinal
    number does not end a sentence; after any number, it counts as an added mark only if the source ends with a number.
    """
    if not has_final_mark(translation) or _UNMARKED.search(src):
        return False
    if _NUMBER_STOP.search(translation) and not without_closing(src)[-1:].isdigit():
        return False
    own_stop = _KEPT_STOP.search(translation) or _ORDINAL.search(translation)
    return not own_stop and not final_marks(without_tags(src))


def ends_with_abbreviation(text: str) -> bool:
    """Return whether a text, perhaps with white space behind it, ends with an abbreviation, such as p.m. or etc."""
    end = text.rstrip()
    return any(pattern.search(end) for pattern in (_INITIALS, _ABBREVIATION, _MAYBE_LAST_STOP))


def clause_gaps(text: str) -> list[Span]:
    """Return the span of the gap after each clause, except one at the end of the text; it may be empty."""
    return _gaps(_CLAUSE_ENDS, text)


def _gaps(pattern: re.Pattern[str], text: str) -> list[Span]:
    return [match.span(1) for match in pattern.finditer(text) if match.end(1) < len(text)]


def _is_number(text: str) -> bool:
    """Return whether a text is only the number of a heading or list item, which belongs to the text after it."""
    return text.endswith(".") and bool(_HEADING_NUMBER.match(text))


def _starts_sentence(text: str, end: int, start: int) -> bool:
    """Return whether a sentence can begin after a full stop: not in lower case, nor inside Mr. Smith or 3. Oktober."""
    if text[start].islower():
        return False
    before = max(0, end - _LONGEST_ABBREVIATION)
    if start == end and not text[before:end].rstrip(_CLOSING).endswith(tuple(_FINAL_ANYWHERE)):
        return _are_glued(text, end)
    if _INITIALS.search(text, before, end):
        return bool(_OPENER.match(text, start))
    if _ABBREVIATION.search(text, before, end):
        return False
    if _LETTER.search(text, before, end) and _REST_OF_ABBREVIATION.match(text, start):
        return False
    if _DAY.search(text, before, end) and _MONTH.match(text, start):
        return False
    return not (text[start].isupper() and _ORDINAL.search(text, before, end))


def _are_glued(text: str, end: int) -> bool:
    """Return whether two sentences meet here without a space."""
    first = _BEFORE_GLUED.search(text, max(0, end - _MOST_GLUED), end)
    second = _AFTER_GLUED.match(text, end, end + _MOST_GLUED)
    return bool(first and second and first["last"].islower() and second["first"].istitle())
