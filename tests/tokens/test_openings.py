"""Sentences get the final mark that the training text gives to those that begin with the same words."""

import pytest

from mtkit.tokens.openings import OpeningCounts, missing_mark

LINES = [
    *5 * ["Have you seen it?", "Have I seen it?", "It is hot.", "You see it.", "So it is.", "So is it hot?", "Why me?"],
    *7 * ["Have a seat."],
    *4 * ["Who is it?"],
]


def marks_of(lines):
    counts = OpeningCounts()
    for line in lines:
        counts.add(line)
    return counts.marks()


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("have you seen her", "?"),
        ("Have a good day", "."),
        ("Have the others seen it", ""),  # 10 of 17 lines with "have" are questions
        ("it was hot", "."),
        ("why is it hot", "?"),
        ("So are you", ""),
        ("why is it so\u0301", "?"),  # a combining mark at the end
        ("Who is it", ""),  # only four lines
        ("Dogs see it", ""),  # unknown
        ("It is hot!", ""),  # it has a mark
        ("It is hot:", ""),
        ("It is", ""),  # may be a label
    ],
)
def test_the_first_words_decide_about_the_mark(text, mark):
    assert missing_mark(text, marks_of(LINES)) == mark


@pytest.mark.parametrize(
    "lines",
    [
        [*LINES, "a heading", "a title", "a label"],  # which it has often enough to be learnt: 3 of 49
        [line.replace("?", ";") for line in LINES],  # as in Greek
        ["It is hot."] * 99,
        [],
    ],
)
def test_text_with_other_marks_or_often_without_them_decides_nothing(lines):
    assert marks_of(lines) == {}
