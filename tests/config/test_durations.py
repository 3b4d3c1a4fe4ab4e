"""Durations of a config; the seconds were worked out by hand."""

import pytest

from mtkit.config.durations import duration_of, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1h1m1s", 3661), ("010m", 600)]
)
def test_hours_minutes_and_seconds_add_up(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "30x", "30m1h", "1h1h", "1.5h", "-3m", "0s", "30 m", "1h\n"])
def test_other_text_is_refused_with_examples(text):
    with pytest.raises(ValueError, match="1h30m"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0s"), (42.4, "42s"), (65, "1m5s"), (120, "2m"), (3600, "1h"), (12_010, "3h20m"), (12_050, "3h21m")],
)
def test_seconds_are_formatted_in_two_units(seconds, text):
    assert duration_of(seconds) == text
