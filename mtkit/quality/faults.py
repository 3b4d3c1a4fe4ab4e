"""Translations that look broken: a source text and its translation in, the faults that can be seen without a model out.

A rule may look at nothing else, so that a line's faults never depend on other lines. Each one is there because neural
translation is known to fail that way, and each is as mild as catching it allows: a false alarm costs a second search.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, get_args

from mtkit.quality.numbers import lost_numbers

FaultKind = Literal["empty", "loop", "length", "copy", "number", "url"]
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
TOO_SHORT, TOO_LONG, UNFINISHED = "too short", "too long", "unfinished"  # details of "length"

# Scripts that set no spaces between words: each character counts as a word.
_CHARACTER_WORDS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_TOKEN = re.compile(rf"[{_CHARACTER_WORDS}\U00020000-\U0003ffff]|[^\W_{_CHARACTER_WORDS}]+")
_IS_CHARACTER_WORD = re.compile(rf"[{_CHARACTER_WORDS}\U00020000-\U0003ffff]")
# Letters of other scripts that such a character says as much as.
_WIDE = (
    (re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"), 3.0),
    (re.compile(r"[\u3040-\u30ff\uac00-\ud7af]"), 2.0),
)
_END = re.compile(r"[.!?…。！？؟।۔։።။។][\"'”’»›)\]」』\s]*$")
_ENDLESS = re.compile(r"[\u0e00-\u0eff]\s*$")  # Thai and Lao set no full stops
# Bounded repetitions: a line may be very long, and have no spaces.
_URL = re.compile(
    r"(?:https?://|ftp://|www\.)[^\s<>\"“”«»]+|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}"
    r"|\b(?:[\w-]{1,63}\.){1,5}(?:com|org|net|edu|gov|info|io|eu|de|fr|pt|br|es|it|nl|uk|ch|at|be|jp|cn|ru)\b(?:/[^\s<>\"“”«»]*)?",
    re.IGNORECASE | re.ASCII,
)
_URL_TAIL = ".,;:!?…'\"”’»›)]}"
_STUTTER = re.compile(r"([^\W\d_]{1,10}?)\1{5,}")  # hahahahahaha, within a word
_MARKS_LOOP = re.compile(r"([^\w\s])(?:(?:\s+\1){3,}|(?:\s*\1){4,})")  # ? ? ? ? ?
_MILD_MARKS_LOOP = re.compile(r"([^\w\s])(?:\s*\1){2,}")
_MILD_STUTTER = re.compile(r"([^\W\d_]{1,10}?)\1{2,}")
_COMMON_RUN = 5  # words in a row taken over from the source before a translation may count as copied in part
_USUAL_LOG_RATIO = 0.05  # ln(translation / source), in letters; seen: -0.1 to 0.2, by language pair and direction
_SLACK = 0.85  # how far from that a long translation may be: 1 in 1,000 references is 0.5 to 0.7 away
_SHORT_PERIODS = 200  # how many are tried: loops are short, and only a whole text said twice has a long one
_FEW_LONG_GRAMS = 20  # tokens below which a text is not searched for loose repetition


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a translation."""

    kind: FaultKind
    detail: str = ""  # what is lost or repeated, as it stands in the text


def find_faults(
    src: str,
    text: str,
    *,
    finished: bool = True,
    tgt_lang: str | None = None,
) -> tuple[Fault, ...]:
    """What looks wrong with a translation, at most one fault of each kind but "number" and "url", in fixed order.

    finished: False if the search gave up at its length limit.
    tgt_lang: language of the translation, such as "fr": numbers are also looked for in its words.
    A blank source is translated by a blank text; nothing else is asked of it.
    """
    if not src.strip():
        return ()
    if not text.strip() or (_has_words(src) and not _has_words(text)):
        return (Fault("empty"),)
    faults = [*_loop(src, text), *_length(src, text, finished), *_copy(src, text)]
    faults += [Fault("number", number) for number in lost_numbers(_without_urls(src), text, tgt_lang=tgt_lang)]
    faults += [Fault("url", url) for url in _lost_urls(src, text)]
    return tuple(faults)


def n_letters(text: str) -> float:
    """The text's length in letters of an alphabet: a Chinese character counts as three, kana and Hangul as two."""
    text = text.strip()
    return len(text) + sum((weight - 1) * len(wide.findall(text)) for wide, weight in _WIDE if not text.isascii())


def _has_words(text: str) -> bool:
    return any(c.isalnum() for c in text)


def words_of(text: str) -> list[str]:
    """Its words without punctuation; of a script that sets no spaces, each character."""
    return _TOKEN.findall(text)


def _tokens(text: str) -> list[str]:
    return words_of(text.casefold())


# Loops


@dataclass(frozen=True)
class _Repetition:
    """A unit of tokens that follows itself."""

    unit: tuple[str, ...]
    n_tokens: int  # from its first to its last token, the last unit perhaps cut

    @property
    def times(self) -> float:
        return self.n_tokens / len(self.unit)

    @property
    def n_letters(self) -> float:
        return sum(map(n_letters, self.unit)) * self.times

    @property
    def is_loop(self) -> bool:
        """Whether nobody speaks like that: "very, very, very" is well, and so is a short cry repeated once."""
        words = len(self.unit)
        letters = sum(map(n_letters, self.unit))
        if self.times >= 4:
            return True
        return (self.times >= 3 and (words >= 2 or letters >= 12)) or (self.times >= 2 and words >= 4 and letters >= 12)


def _loop(src: str, text: str) -> list[Fault]:
    tokens = _tokens(text)
    loops = [found for found in _repetitions(tokens) if found.is_loop]
    if loops:
        worst = max(loops, key=lambda found: found.n_letters)
        in_src = [found for found in _repetitions(_tokens(src)) if found.times >= min(worst.times - 1, 3)]
        if not any(2 * found.n_letters >= worst.n_letters for found in in_src):
            return [Fault("loop", " ".join(worst.unit))]
    stutter = _STUTTER.search(text.casefold())
    if stutter and len(stutter[0]) >= 10 and not _MILD_STUTTER.search(src.casefold()):
        return [Fault("loop", stutter[1])]
    marks = _MARKS_LOOP.search(text)
    if marks and not _MILD_MARKS_LOOP.search(src):
        return [Fault("loop", marks[1])]
    if _repeated_share(tokens) > 0.35 + _repeated_share(_tokens(src)):
        return [Fault("loop")]
    return []


def _repetitions(tokens: Sequence[str]) -> list[_Repetition]:
    """For each period, the longest stretch of tokens that repeats itself after so many; only of two times and more."""
    last_at: dict[str, int] = {}
    periods = set()
    for at, token in enumerate(tokens):
        if token in last_at:
            periods.add(at - last_at[token])
        last_at[token] = at
    if len(tokens) % 2 == 0 and periods:
        periods.add(len(tokens) // 2)
    found = []
    for period in [*sorted(periods)[:_SHORT_PERIODS], *sorted(periods)[_SHORT_PERIODS:][-1:]]:
        longest, run, end = 0, 0, 0
        for at in range(period, len(tokens)):
            run = run + 1 if tokens[at] == tokens[at - period] else 0
            if run > longest:
                longest, end = run, at + 1
        if longest >= period:
            start = end - longest - period
            found.append(_Repetition(tuple(tokens[start : start + period]), longest + period))
    return found


def _repeated_share(tokens: Sequence[str]) -> float:
    """The share of four tokens in a row that came before; 0 for short texts."""
    if len(tokens) < _FEW_LONG_GRAMS:
        return 0.0
    grams = list(zip(*(tokens[shift:] for shift in range(4)), strict=False))
    return 1 - len(set(grams)) / len(grams)


# Length


def _length(src: str, text: str, finished: bool) -> list[Fault]:
    if not finished:
        return [Fault("length", UNFINISHED)]
    n_src, n_text = n_letters(src), n_letters(text)
    cut_off = _END.search(src) and not _END.search(text) and not _ENDLESS.search(text)
    if is_likely_length(n_src, n_text, cut_off=bool(cut_off)):
        return []
    return [Fault("length", TOO_SHORT if n_text < n_src else TOO_LONG)]


def is_likely_length(n_src: float, n_text: float, *, cut_off: bool = False) -> bool:
    """Whether a source of n_src letters may have a translation of n_text letters.

    Gale and Church (1993) let the difference spread with the square root of the length; on sentence pairs of everyday
    language, captions and news the logarithm of the ratio fits better, with a spread of which one part stays the same
    (translators' ways) and one falls with the length (whether one word more or less was needed).
    cut_off: its end looks missing, too, so that less room is left below.
    """
    log_ratio = math.log(max(n_text, 0.5) / max(n_src, 0.5)) - _USUAL_LOG_RATIO
    width = 1 / math.sqrt(max(n_src, 1.0))
    low = 0.55 * _SLACK + 0.6 * width if cut_off else _SLACK + width
    return -low <= log_ratio <= _SLACK + 1.7 * width


# Copies


def _copy(src: str, text: str) -> list[Fault]:
    if not _is_copy(_TOKEN.findall(_without_urls(src)), _TOKEN.findall(_without_urls(text))):
        return []
    return [Fault("copy")]


def _is_copy(src: Sequence[str], text: Sequence[str]) -> bool:
    """Whether so many ordinary words are taken over that names and words common to both languages do not explain it."""
    if not src or not text:
        return False
    folded_src, folded_text = [t.casefold() for t in src], [t.casefold() for t in text]
    if folded_src == folded_text:
        n_plain = _n_plain(text)
        return n_plain >= 2 or (n_plain == 1 and len(text) >= 3)
    known = set(folded_src)
    if len(text) < _COMMON_RUN or sum(t in known for t in folded_text) < 0.6 * len(text):
        return False
    match = SequenceMatcher(None, folded_src, folded_text, autojunk=False).find_longest_match()
    return match.size >= max(_COMMON_RUN, 0.6 * len(text)) and _n_plain(text[match.b : match.b + match.size]) >= 4


def _n_plain(tokens: Sequence[str]) -> int:
    """How many of the tokens are neither names nor numbers, as far as can be seen: those in small letters.

    Of characters of scripts without spaces, three make a word. Where all is in capitals, every word counts.
    """
    shouted = len(tokens) > 1 and all(token.isupper() for token in tokens)
    n_characters = sum(bool(_IS_CHARACTER_WORD.match(token)) for token in tokens)
    n_caseless = sum(t.isalpha() and t.upper() == t.lower() and not _IS_CHARACTER_WORD.match(t) for t in tokens)
    n_small = sum(token.islower() or (shouted and len(token) > 1) for token in tokens)
    return n_small + n_caseless + n_characters // 3


# URLs


def _urls(text: str) -> list[str]:
    found = []
    for match in _URL.finditer(text):
        url = match[0].rstrip(_URL_TAIL)
        if url.count("(") > url.count(")") and match[0][len(url) : len(url) + 1] == ")":
            url += ")"
        found.append(url)
    return found


def _lost_urls(src: str, text: str) -> list[str]:
    """Links and addresses of the source that the translation does not hold letter by letter."""
    folded = text.casefold()
    return [url for url in _urls(src) if url.casefold() not in folded]


def _without_urls(text: str) -> str:
    return _URL.sub(" ", text)
