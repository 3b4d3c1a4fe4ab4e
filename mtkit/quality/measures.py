"""Check whether two texts give one quantity in different units: 10 miles are 16 km, thirty pounds are 14 kilos.

It covers the units that translators convert, in English, French, German, Portuguese, Spanish, Italian and Dutch.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

_TOLERANCE = 0.15  # a converted number may be rounded by this share: 12 feet are 4 m
_EXACT = 0.001  # the same between metric units: 150 cm are 1.5 m
_DEGREES = 2  # by which a converted temperature may differ
# For each quantity its units: their size in a common unit, and their names.
_UNITS: dict[str, dict[float, str]] = {
    "length": {
        1609.34: "mi|miles?|mph|meilen?|milles?|milhas?|millas?|migli[ao]|mijl(?:en)?",
        0.9144: "yards?|yds?|jardas?|yardas?|iarde?",
        0.3048: "feet|foot|ft|fu(?:ß|ss)|pieds?|pés?|pies?|pied[ei]|voet",
        0.0254: "inch(?:es)?|zoll|pouces?|polegadas?|pulgadas?|pollic[ei]|duim",
        1000: "kms?|km/h|kmh|kph|[a-z]*kilomet(?:er|re)[ns]?|kilomètres?|qui?l[ôó]metros?|kil[óo]metros?|chilometr[io]",
        1: "m|met(?:er|re)[ns]?|mètres?|metros?|metri",
        0.01: "cm|[cz]entimet(?:er|re)[ns]?|centimètres?|cent[íi]metros?|centimetri",
        0.001: "mm|millimet(?:er|re)[ns]?|millimètres?|mil[íi]metros?|millimetr[io]",
    },
    "mass": {
        0.4536: "pounds?|lbs?|pfund|livres?|libras?|libbr[ae]|pond",
        0.02835: "ounces?|oz|unzen?|onces?|onças?|onzas?|ons",
        6.35: "stone",
        1000: "tons?|tonnes?|tonnen|toneladas?|tonnellat[ae]|ton",
        1: "kg|kilos?|kilogram(?:me|m)?s?|qui?los?|qui?logramas?|kilogramos?|chil[io]|chilogramm[io]",
        0.001: "g|gr|gram(?:me|m)?s?|gramas?|gramos?|gramm[io]",
    },
    "volume": {
        3.785: "gallons?|gallonen|gal(?:ão|ões)|gal[óo]n(?:es)?|gallon[ei]",
        0.946: "quarts?",
        0.473: "pints?|pintes?",
        0.0296: "ounces?|oz|unzen?|onces?|onças?|onzas?",
        159: "barrels?|barris|barril(?:es)?|barils?|barili?|vaten",
        1: "l|lit(?:er|re)[ns]?|litros?|litri",
        0.01: "cl|[cz]entilit(?:er|re)[ns]?|centilitros?",
        0.001: "ml|millilit(?:er|re)[ns]?|mililitros?",
    },
    "area": {
        4047: "acres?",
        10_000: "ha|hektare?n?|hectares?|hect[áa]reas?|ettari",
        2.59e6: "square miles?|quadratmeilen?",
        1e6: r"km²|km2|(?:square |quadrat)kilomet(?:er|re)[ns]?|kilomètres carrés|qui?l[ôóo]metros [qc]uadrados",
        0.0929: "(?:square |sq )(?:feet|foot|ft)",
        1: "m²|m2|(?:square |quadrat)met(?:er|re)[ns]?|mètres carrés|metros [qc]uadrados",
    },
    "time": {
        60: "min|minutes?|minuten?|minutos?|minut[io]",
        3600: "h|hours?|[a-z]*stunden?|heures?|horas?|or[ae]|uur|uren",
        86_400: "days?|tage?n?|jours?|dias?|días?|giorn[io]|dag(?:en)?",
        604_800: "weeks?|wochen?|semaines?|semanas?|settiman[ae]|weken",
        2_629_800: "months?|monate?n?|mois|mês|mes(?:es)?|mesi|maand(?:en)?",
        31_557_600: "years?|jahre?n?|ans?|années?|anos?|años?|ann[io]|jaar|jaren",
    },
}
_DEGREE = re.compile(
    r"°|º|\b(?:degrees?|grad|degrés?|graus?|grados?|grad[io]|graden|fahrenheit|celsius)\b", re.IGNORECASE
)
_FEET_AND_INCHES = re.compile(
    r"(?<!\d)(\d{1,3})\s?(?:['’′]\s?|feet\s|foot\s|ft\.?\s?)(?:and\s)?(\d{1,2})(?!\d)\s?(?:[\"”″]|''|’’|inch(?:es)?\b|in\b)?",
    re.IGNORECASE,
)


class Conversion:
    """Converts numbers of one text to the units of another, given the units that both mention."""

    def __init__(self, src: str, text: str) -> None:
        units = _units_in(text)
        self._factors = {
            size / other
            for measure, size in _units_in(src)
            for other_measure, other in units
            if measure == other_measure and size != other
        }
        self._degrees = bool(_DEGREE.search(src) and _DEGREE.search(text))

    def is_possible(self, values: Iterable[float], others: Sequence[float]) -> bool:
        """Return whether one of the values, converted, is nearly one of the others, which are sorted."""
        return any(_has_between(others, *limits) for value in values for limits in self._limits(value))

    def _limits(self, value: float) -> Iterator[tuple[float, float]]:
        """Yield the lowest and the highest accepted value, for each way to convert it."""
        for factor in self._factors:
            tolerance = _EXACT if math.log10(factor).is_integer() else _TOLERANCE
            yield value * factor * (1 - tolerance), value * factor * (1 + tolerance)
        if self._degrees:
            for degrees in ((value - 32) / 1.8, value * 1.8 + 32):
                yield degrees - _DEGREES, degrees + _DEGREES


def _has_between(others: Sequence[float], low: float, high: float) -> bool:
    at = bisect_left(others, low)
    return at < len(others) and others[at] <= high


def feet_with_inches(text: str) -> dict[int, float]:
    """Return lengths such as 5'10" or 5 feet 10 inches in feet, by the index of either number's first digit."""
    found = {}
    for match in _FEET_AND_INCHES.finditer(text):
        if int(match[2]) < 12:
            feet = int(match[1]) + int(match[2]) / 12
            found.update({match.start(1): feet, match.start(2): feet})
    return found


def _units_in(text: str) -> set[tuple[str, float]]:
    """Return the units in a text: what each measures, and its size."""
    units = {unit for unit, pattern in _patterns().items() if pattern.search(text)}
    if re.search(r"\d['’′]", text):
        units.add(("length", 0.3048))
    if re.search(r"\d(?:[\"”″]|'')", text):
        units.add(("length", 0.0254))
    return units


@cache
def _patterns() -> dict[tuple[str, float], re.Pattern[str]]:
    return {
        (measure, size): re.compile(rf"(?<![^\W\d_])(?:{names})(?![^\W\d_])", re.IGNORECASE)
        for measure, sizes in _UNITS.items()
        for size, names in sizes.items()
    }
