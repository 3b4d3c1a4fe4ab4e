"""Convert durations of a config, such as 90s, 30m, 2h or 1h30m, to seconds and back."""

import re

_UNITS = {"h": 3600, "m": 60, "s": 1}
_PATTERN = re.compile("".join(rf"(?:(?P<{unit}>\d+){unit})?" for unit in _UNITS))


def seconds_of(text: str) -> float:
    """Return the seconds of a duration such as "1h30m".

    Raises ValueError if the text is not a duration above 0.
    """
    match = _PATTERN.fullmatch(text)
    seconds = sum(int(match[unit] or 0) * length for unit, length in _UNITS.items()) if match else 0
    if not seconds:
        raise ValueError(f"{text} is not a duration; write 90s, 30m, 2h or 1h30m")
    return float(seconds)


def duration_of(seconds: float) -> str:
    """Format seconds in at most two units: "42s", "1m5s", "3h20m"."""
    whole = round(seconds)
    if whole < 3600:
        parts = [(whole // 60, "m"), (whole % 60, "s")]
    else:
        minutes = round(seconds / 60)
        parts = [(minutes // 60, "h"), (minutes % 60, "m")]
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
