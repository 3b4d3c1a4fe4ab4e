"""Find numbers in a source text that its translation has lost.

Languages write the same number differently, so numbers are compared by what they can mean: 1,000 is 1 000, 1.000,
"thousand" or "mille"; 3 pm is 15 h; 2:30 is "halb drei"; the 18th century is the XVIIIe; the 1990s are "les années 90";
2 1/2 is 2,5 or "zweieinhalb"; 10 miles are 16 km.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from mtkit.languages import primary_code
from mtkit.quality.measures import Conversion, feet_with_inches
from mtkit.quality.number_words import LANGUAGES, scales_of, values_of_words

_SPACES = " \u00a0\u2009\u202f"
# Digits, and what may separate the parts of one number, date or time; a space only before three digits.
_CHAIN = re.compile(rf"\d+(?:(?:[.,:'’·/-]|[{_SPACES}](?=\d{{3}}(?!\d))|[{_SPACES}]?[hH][{_SPACES}]?)\d+)*")
_GROUPING = frozenset(",.'’·" + _SPACES)
_AS_ASCII = str.maketrans("：，．٫٬", ":,..,")
_SCALE_WORD = re.compile(r"[\s-]?([^\W\d_]+)")
_CLOCK = re.compile(r"\s?(?:[ap]\.?\s?m\b|o['’]?clock|uhr|h\b|heures?|horas?|ore\b|uur|時|点|點|时)", re.IGNORECASE)
_AT = re.compile(r"\b(?:at|from|until|till|by|um|gegen|ab|von|bis|vers|à|às|alle|om|las)\s$", re.IGNORECASE)
# Words before an hour which say that the time is up to half an hour away from it.
_HALF_PAST = re.compile(
    r"\b(?:half|quarter|halb|viertel|dreiviertel|kwart)(?: past| to| of| after| before| vor| nach| over| voor)?\s$",
    re.IGNORECASE,
)
_NEXT_HOUR = re.compile(
    r"\b(?:half|quarter|halb|viertel|dreiviertel|kwart|to|of|before|vor|voor|moins|menos|meno|para)\b", re.IGNORECASE
)  # in a text that may name the hour after the one that a clock shows: halb drei, ten to three
_FRACTION = re.compile(r"\s?(?:([¼-¾⅐-⅞])|(\d)/(\d{1,2})(?!\d))")  # after a whole number
_PERCENT = re.compile(r"\s?(?:%|per ?cent|prozent|pour ?cent|por ?cento|por ?ciento|procent)", re.IGNORECASE)
_AND_A_HALF = re.compile(
    r"\b(?:and a half|et demie?|e mei[oa]|y medi[oa]|e mezz[oa]|en (?:een )?halve?)\b", re.IGNORECASE
)
_MONTHS = frozenset(map(str, range(1, 13)))
_SMALL = 12  # numbers up to here are often written as words
_LONG_ROW = 5  # digits; a row of this length in both texts is the same number, however it is grouped
_ROW = re.compile(r"\d(?:\W{0,2}\d)*")
_FEWEST_OWN_DIGITS = 6  # of a telephone number, without its prefix
_BETWEEN_DIGITS = re.compile(r"(?<=\d)\W{1,2}(?=\d)")
_MAX_CHAIN = 8  # parts; longer chains are only read part by part


@dataclass(frozen=True)
class _Chain:
    """Digits that belong together, as parts ("12", "30") and the separators between them (":")."""

    text: str
    start: int  # index of its first character
    parts: tuple[str, ...]
    separators: tuple[str, ...]
    before: str  # the 24 characters before it
    after: str  # the next 24 characters

    @property
    def is_in_word(self) -> bool:
        """Whether it is a single digit at the end of a word; translations may drop it: CO2 is "carbon dioxide"."""
        return self.before[-1:].isalpha() and len(self.text) == 1

    @cached_property
    def is_clock(self) -> bool:
        """Whether it is a time of day, or may be one."""
        if self.is_near_hour or _CLOCK.match(self.after):
            return True
        if len(self.parts) != 2 or self.separators[0] != ".":
            return len(self.parts) == 2 and self.separators[0].strip(_SPACES).lower() in (":", "h")
        is_time = len(self.parts[0]) <= 2 and self.parts[0] <= "24" and len(self.parts[1]) == 2 and self.parts[1] < "60"
        return is_time and _AT.search(self.before) is not None

    @cached_property
    def is_near_hour(self) -> bool:
        """Whether it is an hour up to half an hour away from the time: half past 5."""
        return len(self.parts) == 1 and _HALF_PAST.search(self.before) is not None

    @cached_property
    def is_one_number(self) -> bool:
        """Whether its parts mean nothing on their own: 10,000 does not contain 10. Parts around a space may."""
        is_other = self.is_clock or self.is_date or " " in self.separators
        return bool(_together(self, 0, len(self.parts))) and not is_other

    @cached_property
    def is_date(self) -> bool:
        separators = set(self.separators)
        same = len(separators) == 1 and separators <= set("/.-")
        if not same or len(self.parts) == 3 or self.separators[0] == "/":
            return same
        return self.after.startswith(".") and self.parts[1].lstrip("0") in _MONTHS


@dataclass(frozen=True)
class _Text:
    """All numbers that a text may contain, in every reading."""

    values: frozenset[Decimal]  # written in digits, words or numerals
    in_words: frozenset[Decimal]
    chains: frozenset[tuple[str, ...]]  # the parts of each
    n_parts_of_dates: frozenset[int]
    names_next_hour: bool

    @classmethod
    def parse(cls, text: str) -> "_Text":
        in_words = values_of_words(text)
        chains = list(_chains(text))
        values = set(in_words)
        if _AND_A_HALF.search(text):
            values |= {value + Decimal("0.5") for value in [*in_words, *(Decimal(chain.parts[-1]) for chain in chains)]}
        values.update(value for chain in chains for value in _values_of(chain))
        values.update(Decimal(str(unicodedata.numeric(c))) for c in text if unicodedata.category(c) == "No")
        values.update(Decimal(str(round(feet, 4))) for feet in feet_with_inches(text).values())
        return cls(
            frozenset(values),
            frozenset(in_words),
            frozenset(chain.parts for chain in chains),
            frozenset(len(chain.parts) for chain in chains if chain.is_date),
            _NEXT_HOUR.search(text) is not None,
        )


def lost_numbers(src: str, text: str, *, tgt_lang: str | None = None) -> list[str]:
    """Return the numbers of src, as written there, that the translation contains in no known form.

    tgt_lang: language of the translation, such as "fr". If its number words are unknown, a number up to 12 counts as
    lost only if the translation has a number in digits that src does not explain.
    """
    chains = [chain for chain in _chains(src) if not chain.is_in_word]
    if not chains:
        return []
    parsed = _Text.parse(text)
    lost = [chain for chain in chains if not _is_kept(chain, parsed)]
    if lost:
        rows = _rows_kept(src, text)
        lost = [chain for chain in lost if not any(chain.start in row for row in rows)]
    if lost:
        conversion, values = Conversion(src, text), sorted(map(float, parsed.values))
        feet = feet_with_inches(src)
        lost = [chain for chain in lost if not conversion.is_possible(_quantities(chain, feet), values)]
    if lost and primary_code(tgt_lang) not in LANGUAGES:
        parsed_src = _Text.parse(src)
        unexplained = [chain for chain in _chains(text) if not _is_kept(chain, parsed_src)]
        lost = [chain for chain in lost if unexplained or any(Decimal(part) > _SMALL for part in chain.parts)]
    return [chain.text for chain in lost]


def _chains(text: str) -> Iterator[_Chain]:
    plain = _with_ascii_digits(text)
    for match in _CHAIN.finditer(plain):
        pieces = re.split(r"(\D+)", match[0])
        after = plain[match.end() : match.end() + 24]
        before = plain[max(0, match.start() - 24) : match.start()]
        shown = text[match.start() : match.end()]
        yield _Chain(shown, match.start(), tuple(pieces[::2]), tuple(pieces[1::2]), before, after)


def _values_of(chain: _Chain) -> set[Decimal]:
    """Return every value that a chain or its parts can have."""
    values = set() if chain.is_one_number else set(map(Decimal, chain.parts))
    if len(chain.parts) <= _MAX_CHAIN:
        for start, end in itertools.combinations(range(len(chain.parts) + 1), 2):
            values |= _together(chain, start, end)
    values |= _scaled({Decimal(chain.parts[-1]), *_together(chain, 0, len(chain.parts))}, chain.after)
    if chain.is_clock and (hour := Decimal(chain.parts[0])) <= 24:
        values.add(hour - 12 if hour > 12 else hour or Decimal(12))  # 17 Uhr is 5, and 0 Uhr is 12 am
    return values | _other_readings(chain)


def _with_ascii_digits(text: str) -> str:
    """Replace the digits of any script by 0 to 9; the text keeps its length."""
    if text.isascii():
        return text
    return re.sub(r"\d", lambda match: str(unicodedata.decimal(match[0])), text.translate(_AS_ASCII))


def _together(chain: _Chain, start: int, end: int) -> set[Decimal]:
    """Return the values that these parts can have as one number: 1,234 is 1234 or 1.234."""
    parts, separators = chain.parts[start:end], chain.separators[start : end - 1]
    values = _whole(parts, separators)
    if separators and separators[-1] in (".", ","):
        whole = _whole(parts[:-1], separators[:-1]) if len(parts) > 2 else {Decimal(parts[0])}
        values |= {Decimal(f"{value}.{parts[-1]}") for value in whole}
    return values


def _other_readings(chain: _Chain) -> set[Decimal]:
    """Return further values that a whole chain can mean: 2.5 for 2½ and 2:30 (hours), 0.25 for 25 %."""
    values = set[Decimal]()
    if fraction := _FRACTION.match(chain.after):
        numerator, denominator = fraction[2] or "0", fraction[3] or "1"
        if Decimal(denominator):
            part = (
                Decimal(str(unicodedata.numeric(fraction[1])))
                if fraction[1]
                else Decimal(numerator) / Decimal(denominator)
            )
            values.add(Decimal(chain.parts[-1]) + part)
    if chain.is_clock and chain.parts[1:] in (("15",), ("30",), ("45",)) and not _CLOCK.match(chain.after):
        values.add(Decimal(chain.parts[0]) + Decimal(chain.parts[1]) / 60)
    if _PERCENT.match(chain.after):
        values |= {value / 100 for value in _together(chain, 0, len(chain.parts)) or {Decimal(chain.parts[-1])}}
    return values


def _quantities(chain: _Chain, feet: dict[int, float]) -> list[float]:
    """Return what a chain can mean before a unit; feet: the result of `feet_with_inches`."""
    if chain.start in feet:
        return [feet[chain.start]]
    together = _together(chain, 0, len(chain.parts)) or set(map(Decimal, chain.parts))
    return [float(value) for value in {*_scaled(together, chain.after), *_other_readings(chain)}]


def _scaled(values: set[Decimal], after: str) -> set[Decimal]:
    """Return the values, and their products with the scale words that follow ("million")."""
    while scale_word := _SCALE_WORD.match(after):  # more than one: mil milhões
        scales = scales_of(scale_word[1].lower())
        if not scales:
            break
        values = values | {value * scale for value in values for scale in scales}
        after = after[scale_word.end() :]
    return values


def _whole(parts: tuple[str, ...], separators: tuple[str, ...]) -> set[Decimal]:
    """Return the whole number written in groups of three digits (India: of two, except the last), if it is one."""
    grouped = len(parts[0]) <= 3 and len(parts[-1]) == 3 and all(len(part) in (2, 3) for part in parts[1:])
    if len(parts) > 1 and grouped and len(set(separators)) == 1 and separators[0] in _GROUPING:
        return {Decimal("".join(parts))}
    return set()


def _is_kept(chain: _Chain, text: _Text) -> bool:
    """Return whether the text contains the chain as one number, or else each of its parts."""
    values = [Decimal(part) for part in chain.parts]
    together = _together(chain, 0, len(values)) if not _CLOCK.match(chain.after) else set()  # 2.30 Uhr is not 2.3
    together = together or set(values if len(values) == 1 else [])
    if not (_scaled(together, chain.after) | _other_readings(chain)).isdisjoint(text.values):
        return True
    if chain.parts in text.chains:  # 2.30 is 2:30
        return True
    if chain.is_one_number:
        return text.in_words.issuperset(values)  # quatre-vingt-dix-neuf virgule neuf
    missing = [value for index, value in enumerate(values) if _forms(chain, index, text).isdisjoint(text.values)]
    if chain.is_clock and missing and missing[-1] == 0 and chain.parts[1:] == ("00",):
        del missing[-1]  # 8:00 is "eight"
    if len(values) == 2 and chain.separators[0] == "/" and max(values) <= 10:
        return True  # 1/2: languages have many words for a fraction
    if chain.is_date and len(missing) == 1 and len(values) not in text.n_parts_of_dates:
        return 1 <= missing[0] <= 12  # the month, by its name
    return not missing


def _forms(chain: _Chain, index: int, text: _Text) -> set[Decimal]:
    """Return the values that one part of a chain may have in this translation."""
    value = Decimal(chain.parts[index])
    forms = {value}
    if chain.is_clock and value < 60:
        if index == 0:
            forms |= {value + 12, value - 12}  # 3 pm is 15 h
            if text.names_next_hour and (chain.is_near_hour or (chain.parts[1:] and Decimal(chain.parts[1]) >= 15)):
                forms |= {value + 1, value - 11}  # 2:30 is halb drei
            if chain.is_near_hour:
                forms |= {value - 1, value + 11}
        else:
            forms.add(60 - value)  # 4:50 is ten to five
    if 1000 < value < 2100 and value % 10 == 0 and value != 2000:
        forms.add(value % 100)  # the 1990s are the 90s
        forms.add(value // 100 + 1)  # the 1700s are the 18th century
    elif 10 <= value < 100 and value % 10 == 0:
        forms |= {century + value for century in (1700, 1800, 1900)}
    if chain.is_date and len(chain.parts) == 3 and index == 2:
        forms |= {value % 100, value + 1900, value + 2000}  # 3/14/24
    if 11 <= value <= 21:
        forms.update(100 * (value - 1) + decade for decade in range(0, 100, 10))
    return forms


def _rows_kept(src: str, text: str) -> list[range]:
    """Return where src has a long row of digits, such as a telephone number, that the text has too, however grouped."""
    digits_of_text = _BETWEEN_DIGITS.sub("", _with_ascii_digits(text))
    rows = [match for pattern in (_CHAIN, _ROW) for match in pattern.finditer(_with_ascii_digits(src))]
    kept = []
    for match in rows:
        digits = re.sub(r"\D", "", match[0])
        own = [digits]
        if digits.startswith("0") or src[: match.start()].endswith("+"):  # +33 1 23 45 ... is 01 23 45 ...
            own += [digits[n:] for n in range(1, 6) if len(digits) - n >= _FEWEST_OWN_DIGITS]
        if len(digits) >= _LONG_ROW and any(part in digits_of_text for part in own):
            kept.append(range(*match.span()))
    return kept
