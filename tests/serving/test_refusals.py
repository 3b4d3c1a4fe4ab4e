"""Messages of refusals."""

import pytest

from mtkit.serving.refusals import without_options


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "is a PDF, not a text; use the file extension of its format, or --format",
            "is a PDF, not a text; use the file extension of its format",
        ),
        (
            "line 1: is not JSON: expecting value, before 'x'; correct it there, or choose its format with --format",
            "line 1: is not JSON: expecting value, before 'x'; correct it there",
        ),
        (
            "it is probably latin-1: give --encoding latin-1, or save it as UTF-8",
            "it is probably latin-1: save it as UTF-8",
        ),
        ("not UTF-8; give the right --encoding, or save it as UTF-8", "not UTF-8; save it as UTF-8"),
        (
            "no column looks like text; choose columns with --columns; there are a, b",
            "no column looks like text; there are a, b",
        ),
        ("line 2: is bad", "line 2: is bad"),
    ],
)
def test_advice_to_use_options_of_a_command_is_left_out(message, shown):
    assert without_options(message) == shown
