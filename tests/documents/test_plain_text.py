"""Plain text: paragraphs, wrapped or not."""

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


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\U000ffffc\U000ffffd"), max_size=200))
def test_any_text_comes_back(text):
    assert translated(text.encode(), "text").raw == text.encode()
