"""What is an inline tag, in HTML and in the strings of programs."""

import pytest

from mtkit.text.inline_tags import tag_names, without_tags


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('Click <a href="x" title="a > b">here</a>!', ["<a>", "</a>"]),
        ("one<br>two<BR/>three<br />", ["<br>", "<br>", "<br>"]),
        ("<0>Read</0> it<1/>", ["<0>", "</0>", "<1>"]),
        ("<my-tag x:y='1'>a</my-tag>", ["<my-tag>", "</my-tag>"]),
        ("3 < 4, a <- b, I <3 you, <3>", ["<3>"]),
        ("<https://example.org> or <me@example.org>", []),
        ("%<n>d of %<all>.2f in 5%<b>x</b>", ["<b>", "</b>"]),  # Ruby's placeholders
        ("<!-- a comment --> and <!DOCTYPE html>", []),
    ],
)
def test_a_tag_has_a_name_and_no_attributes(text, names):
    assert tag_names(text) == names


def test_text_without_tags_has_spaces_for_them():
    assert without_tags('a<b class=">">c</b><2/>d < e') == "a c  d < e"
