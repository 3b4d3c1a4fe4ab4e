"""Where a line of a text ends."""

import pytest

from mtkit.text.lines import line_spans, lines_in


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\nb\r\nc\rd", ["a", "b", "c", "d"]),
        ("a\n\n", ["a", "", ""]),
        ("a\u2028b\x0bc\x0cd\x85e", ["a\u2028b\x0bc\x0cd\x85e"]),
        ("", [""]),
    ],
)
def test_a_line_ends_with_lf_crlf_or_cr_alone(text, lines):
    assert lines_in(text) == lines
    assert [text[start:end] for start, end in line_spans(text)] == lines
