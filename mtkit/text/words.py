"""Split text into words, find their places, and measure the amount of text."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache

Span = tuple[int, int]  # from, up to

# The constants in capitals stand within the brackets of a regular expression, but for LETTERS.
# Scripts without spaces between words, where each character counts as a word: Thai, Lao, Burmese, Khmer, kana, Han.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Characters that carry as much text as several letters of an alphabet, and as how many.
WIDE = (("\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff", 3), ("\u3040-\u30ff\uac00-\ud7af", 2))
_JOINERS = "\u00ad\u200c\u200d\u2060"  # soft hyphen, zero-width non-joiner and joiner, word joiner


def _ranges(codes: Iterable[int]) -> str:
    ends: list[list[int]] = []
    for code in codes:
        if ends and ends[-1][1] == code - 1:
            ends[-1][1] = code
        else:
            ends.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ends)


# Accents and vowels on or beside a letter, which \w lacks, and what joins letters: they divide no word (UAX 29, rule
# WB4). Without them, each letter of Hindi would be a word.
_WITH_MARKS = (*range(0x300, 0x3100), *range(0xA600, 0xAC00))  # beyond these blocks are few but Han and Hangul
MARKS = _JOINERS + _ranges(code for code in _WITH_MARKS if unicodedata.category(chr(code)) in ("Mn", "Mc"))
LETTERS = rf"[^\W\d_]+(?:[{MARKS}]+[^\W\d_]*)*"  # of one word
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+(?:[{MARKS}]+[^\W_{UNSPACED}]*)*")
_FIRST_WIDE = min(characters[0] for characters, _ in WIDE)
LONGEST_WORD = 100  # characters; the longest in 814,000 lines of Tatoeba, Multi30k and FLORES has 36
# What is longer is data, such as a key, and no word; but Tibetan has no spaces, either.
LONG_RUN = re.compile(rf"[^\s{UNSPACED}\u0f00-\u0fff]{{{LONGEST_WORD},}}")
STANDS_ALONE = re.compile(f"[{UNSPACED}]")  # a character that is a word


# These two are compiled when a text first needs them, because together they take 10 ms.
@cache
def _word_or_sign() -> re.Pattern[str]:
    return re.compile(rf"(?:[^\W{UNSPACED}]+(?:[{MARKS}]+[^\W{UNSPACED}]*)*['’]?|\S)[{MARKS}]*")


@cache
def _wide() -> list[tuple[re.Pattern[str], int]]:
    return [(re.compile(f"[{characters}]"), weight) for characters, weight in WIDE]


def has_letters(text: str) -> bool:
    """Return whether a text has a letter of any script; one without, such as 3.50, needs no translation."""
    return any(map(str.isalpha, text))


def words_of(text: str) -> list[str]:
    """Split a text into words without punctuation; in a script without spaces, into characters."""
    return _WORD.findall(text)


def word_spans(text: str, whole: Sequence[Span] = ()) -> list[Span]:
    """Return the span of each word: letters, digits and their marks, or one other character that is not white space.

    An apostrophe belongs to the letters before it, so that inline codes find a place between l' and orange. Each
    character of a script without spaces is a word.
    whole: parts of the text that are one word each, whatever they hold, in order and without overlap.
    """
    spans: list[Span] = []
    at = 0
    for start, end in whole:
        spans += [*(match.span() for match in _word_or_sign().finditer(text, at, start)), (start, end)]
        at = end
    return [*spans, *(match.span() for match in _word_or_sign().finditer(text, at))]


def n_letters(text: str) -> float:
    """Return the text's length in letters of an alphabet: a Chinese character counts as 3, kana and Hangul as 2."""
    text = text.strip()
    if text.isascii():
        return float(len(text))
    if not text or max(text) < _FIRST_WIDE:
        return float(len(text))
    return float(len(text) + sum((weight - 1) * len(wide.findall(text)) for wide, weight in _wide()))
