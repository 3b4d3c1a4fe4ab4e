"""Durations as people write them in a config: 90s, 30m, 2h, 1h30m; seconds out, and back."""

import re

_UNITS = {"h": 3600, "m": 60, "s": 1}
_PATTERN = re.compile("".join(rf"(?:(?P<{unit}>\d+){unit})?" for unit in _UNITS))


def seconds_of(text: str) -> float:
    """The seconds that a duration such as "1h30m" lasts.

    Raises ValueError if it is none, or none at all.
    """
    found = _PATTERN.fullmatch(text)
    seconds = sum(int(found[unit] or 0) * length for unit, length in _UNITS.items()) if found else 0
    if not seconds:
        raise ValueError(f"{text} is no duration; write 90s, 30m, 2h or 1h30m")
    return float(seconds)


def duration_of(seconds: float) -> str:
    """The same the other way, in two units at most: "42s", "1m5s", "3h20m"."""
    whole = round(seconds)
    if whole < 3600:
        parts = [(whole // 60, "m"), (whole % 60, "s")]
    else:
        minutes = round(seconds / 60)
        parts = [(minutes // 60, "h"), (minutes % 60, "m")]
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
