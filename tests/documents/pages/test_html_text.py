"""Lines of HTML: what is text and what is a code."""

import html
import html.parser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.documents.pages.html_text import parse, write


def codes(line: str) -> list[str]:
    return [code.markup for span in parse(line).spans for code in span.all_codes()]


@pytest.mark.parametrize(
    ("line", "text", "found"),
    [
        ("I love <b>oranges</b>.", "I love oranges.", ["<b>", "</b>"]),
        ("a &amp; b &lt;3 &eacute;", "a & b <3 é", []),
        ('see <a href="x>y" title=\'"\'>this</a>', "see this", ['<a href="x>y" title=\'"\'>', "</a>"]),
        ("one<br>two<br/>three", "one two three", ["<br>", "<br/>"]),
        ("run <code>ls -l <b>x</b></code> now", "run  now", ["<code>ls -l <b>x</b></code>"]),
        ('<i translate="no">The <i>Who</i></i>!', "!", ['<i translate="no">The <i>Who</i></i>']),
        ("<!-- a > b --> x", " x", ["<!-- a > b -->"]),
        ("<!--> x --> y", " x --> y", ["<!-->"]),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2", []),
        ("<code>not closed", "not closed", ["<code>"]),
        ("<B>big</b>", "big", ["<B>", "</b>"]),
        ("a</p>b", "ab", ["</p>"]),
        ("", "", []),
    ],
)  # fmt: skip
def test_tags_are_codes_and_entities_characters(line, text, found):
    inline = parse(line)
    assert (inline.text, codes(line), inline.source) == (text, found, line)


def test_a_slash_closes_a_tag_unless_it_ends_a_value_without_quotes():
    spans = parse("<a href=x/>this</a> <img src=x /> <b class='x'/>").spans
    assert [len(span.codes) for span in spans] == [2, 1, 1]


class Peer(html.parser.HTMLParser):
    """The text of a line as Python's parser sees it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""

    def handle_data(self, data: str) -> None:
        self.text += data


@given(
    st.lists(
        st.sampled_from(["a", " ", "<b>", "</b>", "<i x='1'>", "&amp;", "&lt;", "é", "<hr/>", "<img>"]), max_size=12
    )
)
def test_the_text_is_what_pythons_parser_reads(parts):
    line = "".join(parts)
    peer = Peer()
    peer.feed(line)
    peer.close()
    assert parse(line).text == peer.text


@given(st.text(alphabet="<>/ab='\" !-&;"))
def test_any_line_is_parsed_and_kept(line):
    assert parse(line).source == line


@given(st.text())
def test_written_text_is_read_back(text):
    assert parse(write(text)).text == html.unescape(write(text)) == text or "&" in text


def test_hostile_lines_take_little_time():
    for line in ("<" * 50_000, '<a "' * 20_000, "<!--" * 20_000, "<code>" * 2_000, "<a b='" * 10_000):
        assert parse(line).source == line
