"""Splitting long text: where it is cut, that every part fits, and that nothing gets lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.translation.candidates import join_segments
from mtkit.translation.pieces import split_long


def at_most(n_characters: int):
    return lambda text: len(text) <= n_characters


def test_text_that_fits_is_one_segment():
    assert split_long("One. Two. Three.", at_most(16)) == ["One. Two. Three."]


@pytest.mark.parametrize(
    ("text", "limit", "segments"),
    [
        ("The cat sleeps. It snores! Does it?", 20, ["The cat sleeps.", "It snores!", "Does it?"]),
        ('He said "Come in." Then he left...  Why?', 30, ['He said "Come in."', "Then he left...", "Why?"]),
        ("Mr. Smith met J. R. Jones. They talked.", 30, ["Mr. Smith met J. R. Jones.", "They talked."]),
        ("It costs 3.50 e.g. today. Not 4.", 28, ["It costs 3.50 e.g. today.", "Not 4."]),
        ("我喜欢橙子。你呢？我也是。", 7, ["我喜欢橙子。", "你呢？", "我也是。"]),
        ("when it rains, the cat sleeps, and we read", 32, ["when it rains,", "the cat sleeps, and we read"]),
        ("a list: 1,000 oranges; pears", 15, ["a list:", "1,000 oranges;", "pears"]),
        ("one two three four five six", 14, ["one two three", "four five six"]),
        ("abcdefgh", 4, ["abcd", "efgh"]),
    ],
)
def test_text_is_cut_at_sentence_ends_then_clauses_then_words_then_anywhere(text, limit, segments):
    assert split_long(text, at_most(limit)) == segments


def test_an_accent_or_an_emoji_is_not_split():
    family = "👩\u200d👩\u200d👧"
    assert split_long("aae\u0301bb", at_most(4)) == ["aa", "e\u0301bb"]
    assert split_long("xx" + family, at_most(5)) == ["xx", family]
    assert split_long("x" + family, at_most(5)) == ["x", family]
    assert split_long("कककि", at_most(3)) == ["कक", "कि"]  # a vowel sign of Hindi


@given(st.text(alphabet="ab. ,;!?\u0301\u200d。é\n\"'MR", max_size=300), st.integers(1, 40))
def test_every_segment_fits_and_nothing_but_white_space_is_lost(text, limit):
    segments = split_long(text, at_most(limit))
    assert all(len(segment) <= limit for segment in segments)
    assert "".join("".join(segments).split()) == "".join(text.split())


@pytest.mark.parametrize(
    "text", ["a" * 60_000, "^" * 4_000, "a, " * 20_000, "Word. " * 10_000, "." * 12_000, "é \u0301" * 1_800]
)
def test_an_enormous_line_is_split_without_deep_recursion(text):
    segments = split_long(text, at_most(20))
    assert all(len(segment) <= 20 for segment in segments)
    assert "".join("".join(segments).split()) == "".join(text.split())


def test_segments_are_joined_by_single_spaces():
    assert join_segments(["Un.", "", "Deux."]) == "Un. Deux."


def test_segments_are_joined_by_the_white_space_of_the_source():
    assert join_segments(["Un.", "Deux.", "", "Trois."], [" ", "  ", "\t", "\u00a0"]) == "Un.  Deux.\u00a0Trois."
    assert join_segments(["", "Un."], ["", "  "]) == "Un."


def test_between_sentences_without_white_space_the_target_script_decides():
    assert join_segments(["Hello.", "And you?"], ["", None]) == "Hello. And you?"
    assert join_segments(["我喜欢橙子。", "你呢？"], [None, None]) == "我喜欢橙子。你呢？"
    assert join_segments(["a", "\\n", "b"], ["", "", ""]) == "a\\nb"
