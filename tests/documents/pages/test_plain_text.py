"""Plain text: paragraphs, wrapped or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_documents import loud, translated

WRAPPED = """A heading

This is a paragraph whose lines an editor has wrapped at some sixty
characters, so that all of them together are a text of two sentences.
Here is the second one.

  - a list
  - of items that
    hang

12 %
"""


def test_a_text_that_is_translated_into_itself_has_the_same_bytes():
    for raw in (WRAPPED.encode(), WRAPPED.replace("\n", "\r\n").encode(), b"", b"\n\n", "\ufeffa\n".encode()):
        assert translated(raw, "text").raw == raw


def test_a_wrapped_paragraph_is_one_text_and_is_wrapped_again():
    def longer(text: str) -> str:
        return " ".join(word + word for word in text.split())

    lines = translated(WRAPPED.encode(), "text", longer).raw.decode().split("\n")
    assert lines[0] == "AA headingheading"
    paragraph = lines[2 : lines.index("", 2)]
    assert len(paragraph) > 3
    assert max(map(len, paragraph)) <= 69
    assert " ".join(paragraph).startswith("ThisThis isis aa paragraphparagraph whosewhose")


def test_lines_of_a_list_are_texts_of_their_own():
    found = translated(b"- one thing\n- another\nshort\nlines\n", "text", loud)
    assert found.raw == b"- ONE THING\n- ANOTHER\nSHORT\nLINES\n"
    assert found.n_segments == 4


@pytest.mark.parametrize("marks", [("A.", "B.", "C."), ("I.", "II.", "III."), ("> A.", "> B.", "> C.")])
def test_lines_that_capitals_count_are_texts_of_their_own(marks):
    lines = [f"{mark} The old cat of the house sleeps under the tree" for mark in marks]
    assert translated("\n".join(lines).encode(), "text", loud).n_segments == 3


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\U000ffffc\U000ffffd"), max_size=200))
def test_any_text_comes_back(text):
    assert translated(text.encode(), "text").raw == text.encode()


def test_marks_indentation_and_tabs_stay():
    lines = [
        "- one thing",
        "* another",
        "1) first",
        "(a) letter",
        "# heading",
        "> quoted",
        "[x] done",
        "\tindented",
        "a\tb c",
    ]
    loud_lines = [
        "- ONE THING",
        "* ANOTHER",
        "1) FIRST",
        "(a) LETTER",
        "# HEADING",
        "> QUOTED",
        "[x] DONE",
        "\tINDENTED",
        "A\tB C",
    ]
    for newline in ("\n", "\r\n", "\r"):
        found = translated(newline.join(lines).encode(), "text", loud).raw.decode()
        assert found == newline.join(loud_lines)


def test_a_sentence_a_line_stays_a_sentence_a_line():
    text = (
        "The cat sleeps under the table in the garden.\nMy brother is hungry and eats my oranges.\nI love my house.\n"
    )
    assert translated(text.encode(), "text", loud).raw.decode() == text.upper()


def test_a_wrapped_quotation_keeps_its_marks():
    text = (
        "> This is what a friend wrote to me in a letter of\n> many lines that a program has wrapped and\n> quoted.\n"
    )
    found = translated(text.encode(), "text", loud).raw.decode()
    assert all(line.startswith("> ") for line in found.splitlines())
    assert found.replace("> ", "").split() == text.upper().replace("> ", "").split()


def test_paragraphs_with_old_line_ends_stay_apart():
    text = "This is a paragraph of more than forty characters.\r\rThis is another one, and it is as long as that.\r"
    assert translated(text.encode(), "text", loud).raw.decode() == text.upper()
