"""Find what looks broken in a translation, from source text and translation alone, without a model.

A line's faults therefore never depend on other lines. Each rule covers one known way in which neural translation
fails. The rules are as lenient as possible, because every false alarm costs a second search.
"""

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from mtkit.quality.numbers import lost_numbers
from mtkit.text.addresses import addresses_in, without_addresses
from mtkit.text.inline import LONGEST_SENTENCE
from mtkit.text.sentences import final_marks, sentence_spans
from mtkit.text.words import LONG_RUN, LONGEST_WORD, STANDS_ALONE, has_letters, n_letters, words_of

FoundKind = Literal["empty", "loop", "length", "omission", "copy", "number", "url"]  # by `find_faults`
FaultKind = Literal[FoundKind, "left"]
FOUND_KINDS: tuple[FoundKind, ...] = get_args(FoundKind)
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
TOO_SHORT, TOO_LONG, UNFINISHED = "too short", "too long", "unfinished"  # details of "length"
_NO_SENTENCE = f"more than {LONGEST_SENTENCE:,} characters without the end of a sentence"  # details of "left"
_NO_WORD = f"a word of {LONGEST_WORD} characters or more"
WHY_LEFT = f"{_NO_SENTENCE}, or {_NO_WORD}"

_NO_FULL_STOP = re.compile(r"[\u0e00-\u0eff]\s*$")  # Thai and Lao
_STUTTER = re.compile(r"([^\W\d_]{1,10}?)\1{5,}")  # hahahahahaha, within a word
_MARKS_LOOP = re.compile(r"([^\w\s])(?:(?:\s+\1){3,}|(?:\s*\1){4,})")  # ? ? ? ? ?
_MILD_MARKS_LOOP = re.compile(r"([^\w\s])(?:\s*\1){2,}")
_MILD_STUTTER = re.compile(r"([^\W\d_]{1,10}?)\1{2,}")
_EMPTY_BRACKETS = re.compile(r"\(\s*\)|\[\s*\]|«\s*»|“\s*”|（\s*）|「\s*」")
_BRACKETS = re.compile(
    r"\([^()]*\w[^()]*\)|\[[^\[\]]*\w[^\[\]]*\]|«[^«»]*\w[^«»]*»|“[^“”]*\w[^“”]*”|（[^（）]*\w[^（）]*）"
)
_SHOWN = 30  # characters of a text that was left
_N_CODES = sys.maxunicode + 1
_MIN_COPIED_RUN = 5  # a partial copy has at least this many source words in a row
_USUAL_LOG_RATIO = 0.05  # ln(translation / source), in letters; measured: -0.1 to 0.2, by language pair and direction
_SLACK = 0.85  # how far a long translation may differ from that; 1 in 1,000 references differs by 0.5 to 0.7
_MANY_SENTENCES = 1000  # letters; from this length on, the differences of single sentences nearly cancel out
_SLACK_OF_MANY = 0.45  # by language pair and direction the logarithm is -0.3 to 0.1 (measured)
# Of the logarithm of the lengths, for a translation with fewer sentences than its source. Chosen on the 2,908 pairs of
# Tatoeba's training text (en-fr, en-de) with several source sentences: 11 are below it; with any one sentence of the
# translation left out, 86 % are.
_FEWER_SENTENCES = -0.2
_MAX_PERIODS = 200  # how many to try, shortest first, because only a text that is repeated as a whole has a long one
MOST_REPEATED = 0.35  # share of 4-grams that occurred before, beyond the source's share
_MIN_TOKENS_FOR_SHARE = 20  # in shorter texts the share of repeated 4-grams means nothing


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a translation."""

    kind: FaultKind
    detail: str = ""  # what is lost or repeated, as written in the text
    segment: int | None = None  # of a line that was translated in several segments: its number, from 1


def find_faults(
    src: str,
    text: str,
    *,
    finished: bool = True,
    tgt_lang: str | None = None,
) -> tuple[Fault, ...]:
    """Return what looks wrong with a translation, in a fixed order; only "number" and "url" can occur several times.

    finished: False if the translation hit the length limit.
    tgt_lang: language of the translation, such as "fr", for numbers written as words.
    A blank source has no faults, whatever its translation.
    """
    if not src.strip():
        return ()
    if not text.strip() or (_has_words(src) and not _has_words(text)):
        return (Fault("empty"),)
    faults = [*find_loop(src, text), *(_length(src, text, finished) or _omission(src, text)), *_copy(src, text)]
    faults += [Fault("number", number) for number in lost_numbers(without_addresses(src), text, tgt_lang=tgt_lang)]
    faults += [Fault("url", url) for url in lost_urls(src, text)]
    return tuple(faults)


def _has_words(text: str) -> bool:
    return any(c.isalnum() for c in text)


def _tokens(text: str) -> list[str]:
    return words_of(text.casefold())


# Loops


@dataclass(frozen=True)
class _Repetition:
    """A unit of tokens, repeated."""

    unit: tuple[str, ...]
    n_tokens: int  # over all repetitions; the last one may be incomplete

    @property
    def times(self) -> float:
        return self.n_tokens / len(self.unit)

    @property
    def n_letters(self) -> float:
        return sum(map(n_letters, self.unit)) * self.times

    @property
    def is_loop(self) -> bool:
        """Whether this is more than natural emphasis, such as "very, very, very" or a short cry repeated once."""
        words = len(self.unit)
        letters = sum(map(n_letters, self.unit))
        if self.times >= 4:
            return True
        return (self.times >= 3 and (words >= 2 or letters >= 12)) or (self.times >= 2 and words >= 4 and letters >= 12)


def find_loop(src: str, text: str) -> list[Fault]:
    """Return the fault "loop", with what is repeated, if the translation repeats itself as the source does not."""
    tokens = _tokens(text)
    loops = [repetition for repetition in _repetitions(tokens) if repetition.is_loop]
    if loops:
        worst = max(loops, key=lambda loop: loop.n_letters)
        in_src = [loop for loop in _repetitions(_tokens(src)) if loop.times >= min(worst.times - 1, 3)]
        if not any(2 * loop.n_letters >= worst.n_letters for loop in in_src):
            return [Fault("loop", " ".join(worst.unit))]
    stutter = _STUTTER.search(text.casefold())
    if stutter and len(stutter[0]) >= 10 and not _MILD_STUTTER.search(src.casefold()):
        return [Fault("loop", stutter[1])]
    marks = _MARKS_LOOP.search(text)
    if marks and not _MILD_MARKS_LOOP.search(src):
        return [Fault("loop", marks[1])]
    if repeated_share(tokens) > MOST_REPEATED + repeated_share(_tokens(src)):
        return [Fault("loop")]
    return []


def _repetitions(tokens: Sequence[str]) -> list[_Repetition]:
    """Return, for each period in tokens, the longest stretch that repeats with it, if at least twice."""
    last_index: dict[str, int] = {}
    periods = set()
    for index, token in enumerate(tokens):
        if token in last_index:
            periods.add(index - last_index[token])
        last_index[token] = index
    if len(tokens) % 2 == 0 and periods:
        periods.add(len(tokens) // 2)
    repetitions = []
    for period in [*sorted(periods)[:_MAX_PERIODS], *sorted(periods)[_MAX_PERIODS:][-1:]]:
        longest, run, end = 0, 0, 0
        for index in range(period, len(tokens)):
            run = run + 1 if tokens[index] == tokens[index - period] else 0
            if run > longest:
                longest, end = run, index + 1
        if longest >= period:
            start = end - longest - period
            repetitions.append(_Repetition(tuple(tokens[start : start + period]), longest + period))
    return repetitions


def repeated_share(tokens: Sequence[str]) -> float:
    """Return the share of 4-grams of tokens that occurred before; 0 for short texts."""
    if len(tokens) < _MIN_TOKENS_FOR_SHARE:
        return 0.0
    grams = list(zip(*(tokens[shift:] for shift in range(4)), strict=False))
    return 1 - len(set(grams)) / len(grams)


# Length


def _length(src: str, text: str, finished: bool) -> list[Fault]:
    if not finished:
        return [Fault("length", UNFINISHED)]
    n_src, n_text = n_letters(src), n_letters(text)
    cut_off = final_marks(src) and not final_marks(text) and not _NO_FULL_STOP.search(text)
    if is_likely_length(n_src, n_text, cut_off=bool(cut_off)):
        return []
    return [Fault("length", TOO_SHORT if n_text < n_src else TOO_LONG)]


def length_error(src: str, text: str) -> float:
    """Return how far a translation's length is from the usual one: the absolute log of the ratio."""
    return abs(log_length_ratio(src, text) - _USUAL_LOG_RATIO)


def is_likely_length(n_src: float, n_text: float, *, cut_off: bool = False) -> bool:
    """Return whether n_text letters are a plausible length for the translation of n_src letters.

    In Gale and Church (1993) the spread of the difference grows with the square root of the length. On sentence pairs
    of everyday language, captions and news the logarithm of the ratio fits better; its spread has a constant part (the
    translator's style) and a part that falls with the length (one word more or less).
    cut_off: the end also looks missing; the lower limit is then stricter.
    """
    log_ratio = math.log(max(n_text, 0.5) / max(n_src, 0.5)) - _USUAL_LOG_RATIO
    slack = _SLACK_OF_MANY if n_src >= _MANY_SENTENCES else _SLACK
    width = 1 / math.sqrt(max(n_src, 1.0))
    low = 0.55 * _SLACK + 0.6 * width if cut_off else slack + width
    return -low <= log_ratio <= slack + 1.7 * width


# Omissions


def log_length_ratio(src: str, text: str) -> float:
    """Return the logarithm of the letters of a translation for each letter of its source."""
    return math.log(max(n_letters(text), 0.5) / max(n_letters(src), 0.5))


def _emptied(src: str, text: str) -> list[Fault]:
    """Return the fault "omission" if the translation has brackets with nothing between them, unlike the source."""
    if not _EMPTY_BRACKETS.search(text) or _EMPTY_BRACKETS.search(src):
        return []
    in_src = _BRACKETS.search(src)
    return [Fault("omission", in_src[0][1:-1] if in_src else "")]


def _omission(src: str, text: str) -> list[Fault]:
    """Return the fault "omission" if the translation is shorter than its source and has fewer sentences."""
    if emptied := _emptied(src, text):
        return emptied
    n_src = len(sentence_spans(src.strip()))
    if n_src < 2 or _NO_FULL_STOP.search(text):
        return []
    if log_length_ratio(src, text) >= _FEWER_SENTENCES or len(sentence_spans(text.strip())) >= n_src:
        return []
    return [Fault("omission")]


# Copies


def find_left(src: str) -> list[Fault]:
    """Return the fault "left" if a part of a source is too long to be text, so that it stays unchanged."""
    run = LONG_RUN.search(without_addresses(src)) if len(src) >= LONGEST_WORD else None
    left, why = (src, _NO_SENTENCE) if len(src) > LONGEST_SENTENCE else (run[0] if run else "", _NO_WORD)
    return [Fault("left", f"{why}: {left[:_SHOWN]}...")] if has_letters(left) else []


def _copy(src: str, text: str) -> list[Fault]:
    return [Fault("copy")] if is_copy(words_of(without_addresses(src)), words_of(without_addresses(text))) else []


def is_copy(src: Sequence[str], text: Sequence[str]) -> bool:
    """Return whether more ordinary words are copied than names and words common to both languages explain.

    src, text: as `words_of` splits them.
    """
    if not src or not text:
        return False
    folded_src, folded_text = [t.casefold() for t in src], [t.casefold() for t in text]
    if folded_src == folded_text:
        n_plain = _n_plain(text)
        n_words = sum(not word.isdigit() for word in text)  # not those of 3.5 kg
        return n_plain >= 2 or (n_plain == 1 and n_words >= 3)
    known = set(folded_src)
    if len(text) < _MIN_COPIED_RUN or sum(t in known for t in folded_text) < 0.6 * len(text):
        return False
    run = _longest_common_run(folded_src, folded_text, max(_MIN_COPIED_RUN, math.ceil(0.6 * len(text))))
    return run is not None and _n_plain(text[run]) >= 4


def _longest_common_run(src: Sequence[str], text: Sequence[str], least: int) -> slice | None:
    """Return where text has the longest run of words that src has, too; None if it is shorter than least.

    least: more than half of the text's words, so that a run must contain the words in the middle, which are found fast.
    Of runs of the same length, the first in src counts, then the first in text.
    """
    ids: dict[str, int] = {}
    a, b = ("".join(chr(ids.setdefault(word, len(ids)) % _N_CODES) for word in words) for words in (src, text))
    first, last = len(b) - least, least  # the words that every run of at least this length has
    runs = []  # minus the length, start in src, start in text
    at = a.find(b[first:last])
    while at >= 0:
        before = _n_common(a[:at][::-1], b[:first][::-1])
        size = before + last - first + _n_common(a[at + last - first :], b[last:])
        runs.append((-size, at - before, first - before))
        at = a.find(b[first:last], at + 1)
    longest, _, start = min(runs, default=(0, 0, 0))
    return slice(start, start - longest) if -longest >= least else None


def _n_common(a: str, b: str) -> int:
    """Count the characters with which both texts begin."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a.startswith(b[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _n_plain(tokens: Sequence[str]) -> int:
    """Count the tokens that look like neither names nor numbers: those in lower case.

    In scripts without spaces, three characters make a word. If the whole text is in capitals, every word counts.
    """
    shouted = len(tokens) > 1 and all(token.isupper() for token in tokens)
    n_characters = sum(bool(STANDS_ALONE.match(token)) for token in tokens)
    n_caseless = sum(t[0].isalpha() and t.upper() == t.lower() and not STANDS_ALONE.match(t) for t in tokens)
    n_small = sum(token.islower() or (shouted and len(token) > 1) for token in tokens)
    return n_small + n_caseless + n_characters // 3


# URLs


def lost_urls(src: str, text: str) -> list[str]:
    """Return links and addresses of the source that the translation does not contain letter by letter."""
    folded = text.casefold()
    return [url for url in addresses_in(src) if url.casefold() not in folded]
