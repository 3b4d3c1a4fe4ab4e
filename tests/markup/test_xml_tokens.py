"""XML as tokens: they cover the text, and expat sees the same; what would be dangerous is refused."""

import re
from xml.parsers import expat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import DataError
from mtkit.markup import xml_tokens
from mtkit.markup.xml_parser import check

XML = """<?xml version='1.0' encoding="UTF-8"?>
<!DOCTYPE a SYSTEM "x>y.dtd">
<!-- a <b> -- >
-->
<a x:k = 'one "two" &gt; &#x41;' n="<!--"><x:b/>t &amp; &#233;<![CDATA[<raw> & ]]]><c
 d="e>f" >\r\nend</c ></a>
<?done with > this?>
""".replace(" -- >", " - >").replace('n="<!--"', 'n="!-->"')


def _as_expat(text: str) -> list[tuple[object, ...]]:
    """Return the events of a text as expat sees them; texts that follow each other are one."""
    events: list[tuple[object, ...]] = []
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = lambda name, attributes: events.append(("open", name, attributes))
    parser.EndElementHandler = lambda name: events.append(("close", name))
    parser.CommentHandler = lambda text: events.append(("comment", text))
    parser.ProcessingInstructionHandler = lambda name, text: events.append(("instruction", name))
    parser.CharacterDataHandler = lambda text: events.append(("text", text))
    parser.Parse(text.encode(), True)
    return _joined(events)


def _as_tokens(text: str) -> list[tuple[object, ...]]:
    events: list[tuple[object, ...]] = []
    for token in xml_tokens.tokens(text):
        if token.kind in ("open", "empty"):
            events.append(("open", token.name, {name: found.value for name, found in token.attributes.items()}))
        if token.kind in ("close", "empty"):
            events.append(("close", token.name))
        if token.kind == "comment":
            events.append(("comment", token.markup[4:-3].replace("\r\n", "\n")))
        if token.kind == "instruction" and token.name != "xml":
            events.append(("instruction", token.name))
        if token.kind in ("text", "cdata"):
            events.append(("text", token.content.replace("\r\n", "\n")))
    depth = 0
    inside = []  # without the white space around the root, which expat does not report
    for event in events:
        depth += {"open": 1, "close": -1}.get(str(event[0]), 0)
        if event[0] != "text" or depth:
            inside.append(event)
    return _joined(inside)


def _joined(events: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    joined: list[tuple[object, ...]] = []
    for event in events:
        if event[0] == "text" and joined and joined[-1][0] == "text":
            joined[-1] = ("text", f"{joined[-1][1]}{event[1]}")
        elif event != ("text", ""):
            joined.append(event)
    return joined


_PIECES = ["<b>", "</b>", "<x:i k='v\"&amp;>'/>", "text", "&lt;&#65;", " ", "\n", "é𝔸", "<!-- - <b> -->", "<?p > ?>",
           "<![CDATA[<b>]>]]>", '<c k = "a\'b" >', "</c >", ">", "'", '"', "\u2028", "\x85"]  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=20).map(lambda pieces: f"<a>{''.join(pieces)}</a>"))
def test_expat_sees_the_same(text):
    try:
        check(text)
    except DataError:
        return
    assert _as_tokens(text) == _as_expat(text)
    found = list(xml_tokens.tokens(text))
    assert "".join(token.markup for token in found) == text
    assert [token.start for token in found] == [0, *(token.end for token in found[:-1])]


def test_tokens_cover_a_document_of_everything():
    check(XML)
    assert "".join(token.markup for token in xml_tokens.tokens(XML)) == XML
    assert _as_tokens(XML) == _as_expat(XML)


def test_an_attribute_says_where_its_value_stands():
    [token] = [token for token in xml_tokens.tokens(XML) if token.name == "a" and token.kind == "open"]
    value, start, end = token.attributes["x:k"]
    assert XML[start:end] == 'one "two" &gt; &#x41;' and value == 'one "two" > A'
    assert token.get("n") == "!-->" and token.get("none") == ""


def test_the_end_of_each_element_is_known():
    found = list(xml_tokens.tokens("<a><b/><b>x</b></a>"))
    assert xml_tokens.ends_of(found) == {0: 5, 1: 1, 2: 4}


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", "too early"),
        ("<a>\n<b>", "line 2.*too early"),
        ("<a>\n</b></a>", "line 2.*mismatched.*end tag"),
        ("<a>\n&#2;</a>", "line 2.*remove it"),
        ("<a>\n&nbsp;</a>", "line 2.*undefined.*replace it by the character"),
        ("<!DOCTYPE a SYSTEM 'x'>\n<a>&nbsp;</a>", "line 2.*&nbsp;.*replace it by the character"),
        ("<a>\nthis & that</a>", "line 2.*&amp;"),
        ("<a>\n\x0b</a>", "line 2.*control character 0x0b"),
        ('<!DOCTYPE a [<!ENTITY b "cc">]>\n<a>&b;</a>', "line 1.*DOCTYPE.*remove them"),
        ("<a>" * 201 + "</a>" * 201, "more than 200 elements"),
    ],
)
def test_what_is_no_xml_or_dangerous_is_refused(text, facts):
    with pytest.raises(DataError) as error:
        check(text)
    assert re.search(facts, str(error.value), re.DOTALL)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_what_is_escaped_reads_as_it_was(text):
    text = f"{text}\r<&\"'>"
    events = _as_expat(f"<a b=\"{xml_tokens.escape_value(text)}\" c='{xml_tokens.escape_value(text)}'></a>")
    assert events[0] == ("open", "a", {"b": text, "c": text})
    assert _as_expat(f"<a>{xml_tokens.escape(text)}</a>")[1] == ("text", text)
    assert xml_tokens.unescape(xml_tokens.escape(text)) == text


def test_a_document_type_ends_behind_its_own_declarations():
    doctype = """<!DOCTYPE a SYSTEM "x>y" [ <!-- ]> ' --> <!ENTITY b "]>"> <?c ]> ?> %d; ] >"""
    assert [token.markup for token in xml_tokens.tokens(f"{doctype}<a/>")] == [doctype, "<a/>"]
