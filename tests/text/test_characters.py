"""What a character is to a reader, and how wide."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.text.characters import characters, divides_character, is_control, n_columns

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
FLAG = "\U0001f1eb\U0001f1f7"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ab", ["a", "b"]),
        ("e\u0301\u0323x", ["e\u0301\u0323", "x"]),
        ("\u0301a", ["\u0301", "a"]),
        (f"a{FAMILY}b", ["a", FAMILY, "b"]),
        (f"{FLAG}{FLAG}\U0001f1eb", [FLAG, FLAG, "\U0001f1eb"]),
        ("\U0001f44d\U0001f3fd\u2764\ufe0f", ["\U0001f44d\U0001f3fd", "\u2764\ufe0f"]),
        ("น้ำ", ["น้ำ"]),  # Thai: SARA AM stands above
        ("", []),
    ],
)
def test_text_is_split_into_the_characters_a_reader_sees(text, expected):
    assert list(characters(text)) == expected


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("ae\u0301\u200d\ufe0f\U0001f1eb\U0001f468"))))
def test_the_characters_joined_are_the_text(text):
    assert "".join(characters(text)) == text


@given(st.text("aé\u0301ि\u200d\u200c\U0001f1eb\U0001f468\U0001f3fd", min_size=1).map("a".__add__))
def test_a_cut_divides_a_character_exactly_if_it_is_inside_one(text):
    ends = list(itertools.accumulate(map(len, characters(text))))
    assert [i for i in range(1, len(text)) if not divides_character(text, i)] == ends[:-1]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("abc", 3),
        ("e\u0301té", 3),
        ("我们", 4),
        ("ｶﾅ", 2),  # half-width
        (FAMILY, 2),
        (FLAG, 2),
        ("\U0001f44d\U0001f3fd", 2),
        ("น้ำ", 2),
        ("क्\u200dष", 2),
        ("Silben\u00adtrennung", 14),
    ],
)
def test_width_counts_columns_of_a_terminal(text, columns):
    assert n_columns(text) == columns


def test_controls_are_what_a_reader_cannot_see_but_for_line_ends_tabs_and_joiners():
    assert all(map(is_control, "\x1b\u202e\u200b\u2028\ue000\ufeff\u00ad"))
    assert not any(map(is_control, "a\n\t\u200c\u200dé "))
