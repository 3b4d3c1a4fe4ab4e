"""Which bracket closes which."""

import pytest

from mtkit.text.brackets import ends_of, nested_ends_of


def brackets(text):
    """Return each letter as a bracket of its name: in capitals it opens, else it closes; a dot is neither."""
    return [("" if c == "." else "open" if c.isupper() else "close", c.lower()) for c in text]


@pytest.mark.parametrize(
    ("text", "ends", "nested"),
    [
        ("A.a", {0: 2}, {0: 2}),
        ("AABbaa", {0: 5, 1: 4, 2: 3}, {0: 5, 1: 4, 2: 3}),
        ("ABab", {0: 2, 1: 3}, {0: 2}),  # crosswise
        ("aAbBA", {}, {}),
        ("ABa", {0: 2}, {0: 2}),
        ("AaA", {0: 1}, {0: 1}),
    ],
)
def test_a_closing_bracket_belongs_to_the_last_open_one_of_its_name(text, ends, nested):
    assert ends_of(brackets(text)) == ends
    assert nested_ends_of(brackets(text), most_levels=9) == nested


def test_what_opens_too_deep_has_no_partner():
    assert nested_ends_of(brackets("ABCcba"), most_levels=2) == {0: 5, 1: 4}
