"""Read numbers that a text writes in words.

It reads Chinese and Japanese numerals and the number words of seven European languages, which share one table
(number_words.json). A word that is a number in one language and something else in another ("once", "sei") only makes
the search for lost numbers more lenient.
"""

import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path

from mtkit.text.words import LETTERS

LANGUAGES = frozenset({"en", "fr", "de", "pt", "es", "it", "nl", "zh", "ja"})

_CHINESE_DIGITS = {c: value for value, cs in enumerate(("〇零", *"一二三四五六七八九")) for c in cs} | {
    "两": 2,
    "兩": 2,
}
_CHINESE_UNITS = {"十": 10, "百": 100, "千": 1000}
_CHINESE_SCALES = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_CHINESE = re.compile(f"[{''.join((*_CHINESE_DIGITS, *_CHINESE_UNITS, *_CHINESE_SCALES))}]+")
_WORD = re.compile(LETTERS)
_GAP = re.compile(r"[\s-]*")  # what may separate two words of one number
_LINKS = frozenset({"and", "et", "und", "e", "y", "en"})
_ROMAN = re.compile(
    r"\b(?=[IVXLCDM]{2}|[IVX])M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})(?=(?:e|er|ème)?\b)"
    r"|\b(?=[ivx]{2})(?:x{0,3})(?:ix|iv|v?i{0,3})\b"
)
_HALVES = re.compile(r"\b([^\W\d_]+)einhalb(tausend)?")
_MAX_RUN = 12  # words; longer runs are read in parts
_MAX_DIGITS = 20  # Chinese digits in a row that can be one number; longer rows are read digit by digit


def values_of_words(text: str) -> set[Decimal]:
    """Return every value that words, Chinese numerals and Roman numerals of the text can mean."""
    values = {Decimal(value) for run in _runs(text) for value in _readings(run)}
    if any(word in _tables()["scales"]["12"].split() for word in _WORD.findall(text.lower())):
        values |= {12 * value for value in values}
    for match in _HALVES.finditer(text.lower()):  # dreieinhalbtausend
        values |= {(sum(_values_of_word(match[1])) + Decimal("0.5")) * (1000 if match[2] else 1)}
    for word in _WORD.findall(text.lower()):
        values |= _lone_values().get(word, frozenset())
    for numeral in _CHINESE.findall(text):
        values |= {Decimal(value) for value in _chinese_readings(numeral)}
    return values | {Decimal(_roman(match[0])) for match in _ROMAN.finditer(text) if match[0]}


def numbers_in_words(text: str) -> list[int]:
    """Return the numbers that the text spells out, in order: [25] for "twenty-five"."""
    return [_as_a_whole(run) for run in _runs(text)]


def scales_of(word: str) -> tuple[int, ...]:
    """Return the factors that this word can apply to the number before it ("3 million", "3 千"); () if none."""
    if word[:1] in _CHINESE_SCALES or word[:1] in _CHINESE_UNITS:
        return (_CHINESE_SCALES.get(word[0]) or _CHINESE_UNITS[word[0]],)
    if word in _tables()["scales"]["12"].split():
        return (12,)
    scale = _values().get(word, 0)
    if scale < 100 or scale % 100:
        return ()
    return (10**9, 10**12) if scale in (10**9, 10**12) else (scale,)


@cache
def _tables() -> dict[str, dict[str, str]]:
    """Load words by value: "values" form numbers together (21: "twenty one"), "lone" words do not (12: "noon")."""
    tables: dict[str, dict[str, str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return tables


@cache
def _values() -> dict[str, int]:
    return {word: int(value) for value, words in _tables()["values"].items() for word in words.split()}


@cache
def _lone_values() -> dict[str, frozenset[Decimal]]:
    """Return what a word can mean on its own: "half" is 30 (minutes) or 0.5."""
    values: dict[str, frozenset[Decimal]] = {}
    for value, words in _tables()["lone"].items():
        for word in words.split():
            values[word] = values.get(word, frozenset()) | {Decimal(value)}
    return values


@cache
def _compound_parts() -> re.Pattern[str]:
    """Return a pattern for one part of a German or Dutch compound such as zweihundertdreiundvierzig, longest first."""
    parts = " ".join(_tables()["compound_parts"].values()).split()
    return re.compile("|".join(sorted(parts, key=len, reverse=True)))


def _values_of_word(word: str) -> list[int]:
    """Return the values that make up a word: [20] for twenty, [3, 20] for dreiundzwanzig, [] for any other word."""
    table = _values()
    for stem in _stems(word):
        if stem in table:
            return [table[stem]]
    values, at = [], 0
    while part := _compound_parts().match(word, at):
        values += [table[part[0]]] if part[0] in table else []
        at = part.end()
    if values[-2:] == [4, 20]:  # vierundzwanzig, which is not quatre-vingt
        values[-2:] = [20, 4]
    return values if sum(values) > 1 else []  # too many other words begin with "ein" and "en"


def _stems(word: str) -> Iterator[str]:
    """Yield the word, and the number words whose ordinal it may be: twentieth, vingtième, cinquième, zwölfte."""
    yield word
    for ending, replacements in (("ieth", ("y",)), ("th", ("",)), ("ième", ("", "e")), ("te", ("",)), ("ten", ("",))):
        if word.removesuffix("s").endswith(ending):
            stem = word.removesuffix("s").removesuffix(ending)
            yield from (stem + replacement for replacement in replacements)
            if ending == "ième":
                yield {"cinqu": "cinq", "neuv": "neuf"}.get(stem, stem)


def _runs(text: str) -> Iterator[list[int]]:
    """Yield the values of neighbouring number words: [2, 1000, 13] for "deux mille treize"."""
    run: list[int] = []
    end = 0
    for match in _WORD.finditer(text.lower()):
        adjacent = _GAP.fullmatch(text, end, match.start()) is not None
        values = _values_of_word(match[0])
        if run and not (adjacent and (values or match[0] in _LINKS) and len(run) < _MAX_RUN):
            yield run
            run = []
        run += values
        end = match.end()
    if run:
        yield run


def _readings(run: Sequence[int]) -> Iterator[int]:
    """Yield the value of every stretch of a run: "two and five" may be 2 and 5. Also years: nineteen eighty-eight."""
    for start in range(len(run)):
        for end in range(start + 1, len(run) + 1):
            yield _evaluate(run[start:end])
            for middle in range(start + 1, end):
                century, year = _evaluate(run[start:middle]), _evaluate(run[middle:end])
                if 10 <= century <= 99 and 1 <= year <= 99:
                    yield 100 * century + year


def _as_a_whole(run: Sequence[int]) -> int:
    """Return the most likely value of a run. Two numbers of two digits make a year: twenty thirteen."""
    century, year = run[0], _evaluate(run[1:])
    return 100 * century + year if 10 <= century <= 20 and 10 <= year <= 99 else _evaluate(run)


def _evaluate(run: Sequence[int]) -> int:
    """Add up a run of values; hundreds and thousands multiply what comes before them."""
    total, current = 0, 0
    for value in run:
        if value == 100:
            current = max(current, 1) * 100
        elif value >= 1000:
            total += max(current, 1) * value
            current = 0
        elif value == 20 and current % 100 == 4:  # quatre-vingt
            current += 80 - 4
        else:
            current += value
    return total + current


def _chinese_readings(numeral: str) -> Iterator[int]:
    """Yield the values of a Chinese numeral: 230 for 二百三十, 2013 for 二〇一三 (and its digits)."""
    if all(c in _CHINESE_DIGITS for c in numeral):
        if len(numeral) <= _MAX_DIGITS:
            yield int("".join(str(_CHINESE_DIGITS[c]) for c in numeral))
        yield from (_CHINESE_DIGITS[c] for c in numeral)
        return
    total, section, digit = 0, 0, 0
    for c in numeral:
        if c in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[c]
        elif c in _CHINESE_UNITS:
            section += max(digit, 1) * _CHINESE_UNITS[c]
            digit = 0
        else:
            total += max(section + digit, 1) * _CHINESE_SCALES[c]
            section, digit = 0, 0
    yield total + section + digit


def _roman(numeral: str) -> int:
    values = [{"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}[c] for c in numeral.upper()]
    return sum(-v if any(after > v for after in values[i + 1 : i + 2]) else v for i, v in enumerate(values))
