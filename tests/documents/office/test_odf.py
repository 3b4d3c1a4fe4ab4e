"""ODT, ODS and ODP: spans, notes, spaces and cells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_archives import member, zipped
from tiny_documents import loud, translated

from mtkit.errors import DataError

_NAMES = ("office", "text", "table", "style", "manifest")
SPACES = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in _NAMES) + (
    ' xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    ' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0" xmlns:officeooo="x" xmlns:draw="y"'
)
STYLES = (
    '<style:style style:name="T1" style:family="text"><style:text-properties fo:font-weight="bold"/></style:style>'
    '<style:style style:name="T2" style:family="text"><style:text-properties officeooo:rsid="001a"/></style:style>'
    '<style:style style:name="T3" style:family="text"><style:text-properties style:text-position="super 58%"/>'
    "</style:style>"
    '<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Preformatted_20_Text"/>'
)


def content(body: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<office:x {SPACES}>{STYLES}{body}</office:x>'


def odt(body: str, **others: str) -> bytes:
    members = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content(body)}
    return zipped(members | {f"{name}.xml": text for name, text in others.items()}, stored=("mimetype",))


def changed(body: str) -> str:
    raw = odt(body)
    assert translated(raw, "odf").raw == raw
    return member(translated(raw, "odf", loud).raw, "content.xml")


def bold(text: str) -> str:
    return f'<text:span text:style-name="T1">{text}</text:span>'


def revised(text: str) -> str:
    return f'<text:span text:style-name="T2">{text}</text:span>'


def raised(text: str) -> str:
    return f'<text:span text:style-name="T3">{text}</text:span>'


NOTE = (
    '<text:note text:id="n1"><text:note-citation>x</text:note-citation><text:note-body><text:p>in the note</text:p>'
    "</text:note-body></text:note>"
)
FRAME = "<draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box><svg:desc>a cat</svg:desc></draw:frame>"
LOUD_FRAME = FRAME.replace("boxed", "BOXED").replace("a cat", "A CAT")
FORMULA = '<table:table-cell office:value-type="string" table:formula'


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("one two", "ONE TWO"),
        (f"one {bold('two')} six", f"ONE {bold('TWO')} SIX"),
        (f"on{revised('e tw')}o", "ONE TWO"),
        (bold(f"one {revised('two')}"), bold("ONE TWO")),
        (bold("one two"), bold("ONE TWO")),
        (f"{bold('one <text:a>two</text:a>')} is six", f"{bold('ONE')} <text:a>{bold('TWO')}</text:a> IS SIX"),
        ("one.<text:s/><text:s text:c='2'/> Two", "one.<text:s/><text:s text:c='2'/> Two".upper()),
        ("one<text:tab/>two<text:line-break/>six", "ONE<text:tab/>TWO<text:line-break/>SIX"),
        (f"one{NOTE} two", f"ONE{NOTE.replace('in the note', 'IN THE NOTE')} TWO"),
        (f"one two.{NOTE}", f"ONE TWO.{NOTE.replace('in the note', 'IN THE NOTE')}"),
        (f"{FRAME}one", f"{LOUD_FRAME}ONE"),
        (f"one {FRAME} {bold('two')}", f"ONE {LOUD_FRAME} {bold('TWO')}"),
        ("Page <text:page-number>one</text:page-number>", "PAGE <text:page-number>one</text:page-number>"),
        ('run <text:span text:style-name="Source_20_Text">ls</text:span>',
         'RUN <text:span text:style-name="Source_20_Text">ls</text:span>'),
        ('see <text:a office:title="the cat">this</text:a>', 'SEE <text:a office:title="THE CAT">THIS</text:a>'),
        ('a <text:bookmark-start text:name="b"/>big<text:bookmark-end text:name="b"/> dog',
         'A <text:bookmark-start text:name="b"/>BIG<text:bookmark-end text:name="b"/> DOG'),
    ],
)  # fmt: skip
def test_only_text_changes(inside, expected):
    if "<TEXT:S" in expected:  # as many spaces, counted anew
        expected = 'ONE. <text:s text:c="3"/>TWO'
    assert changed(f"<text:p>{inside}</text:p>") == content(f"<text:p>{expected}</text:p>")


@pytest.mark.parametrize(
    "body",
    [
        "<text:tracked-changes><text:deletion><text:p>gone</text:p></text:deletion></text:tracked-changes>",
        '<text:p text:style-name="P1">print this</text:p>',
        '<table:table-cell office:value-type="date"><text:p>3 May</text:p></table:table-cell>',
        f'{FORMULA}="of:=[.A1]"><text:p>x y</text:p></table:table-cell>',
        f'{FORMULA}="of:=[.A1]=&quot;Yes&quot;"/><text:p>Yes</text:p>',
    ],
)  # fmt: skip
def test_what_is_no_text_stays(body):
    assert changed(body) == content(body)


def test_a_raised_number_is_a_mark_that_the_translator_does_not_read():
    seen = []
    found = translated(odt(f"<text:p>so{raised('1')} on</text:p>"), "odf", lambda text: seen.append(text) or "i tak")
    assert seen == ["so on"]
    assert member(found.raw, "content.xml") == content(f"<text:p>i{raised('1')} tak</text:p>")


def test_a_superscript_that_the_translation_lacks_does_not_raise_a_whole_word():
    raw = odt(f"<text:p>le 1{raised('er')} mai</text:p>")
    found = translated(raw, "odf", lambda _: "the first may")
    assert member(found.raw, "content.xml") == content("<text:p>the first may</text:p>")
    found = translated(raw, "odf", lambda _: "the 1st may")
    assert member(found.raw, "content.xml") == content(f"<text:p>the 1{raised('st')} may</text:p>")


def test_cells_headers_and_titles_change():
    cell = '<table:table-cell office:value-type="string"><text:p>in a cell</text:p></table:table-cell>'
    raw = odt(cell, styles=content("<text:p>on each page</text:p>"), meta=content("<dc:title>my title</dc:title>"))
    found = translated(raw, "odf", loud).raw
    for name, text in [("content", "IN A CELL"), ("styles", "ON EACH PAGE"), ("meta", "MY TITLE")]:
        assert text in member(found, f"{name}.xml")


_PIECES = st.sampled_from(
    ["one", " two. ", "\n  ", bold("bold"), revised("rev"), bold(f"a {revised('b')} c"), NOTE, FRAME, "<text:s/>",
     "<text:tab/>", "<text:a>link</text:a>", bold("<text:a>in</text:a> out"), f"<text:a>{bold('x')} y</text:a>",
     "<text:span/>", "<!-- c -->", "<text:bookmark-start text:name='b'/>", "<text:bookmark-end text:name='b'/>",
     "<text:soft-page-break/>", "<![CDATA[a < b]]>", "&amp;"]
)  # fmt: skip


@given(st.lists(st.lists(_PIECES, max_size=7), max_size=3))
def test_any_document_comes_back_and_loses_nothing(paragraphs):
    raw = odt("".join(f"<text:p>{''.join(pieces)}</text:p>" for pieces in paragraphs))
    assert translated(raw, "odf").raw == raw
    assert not [note for note in translated(raw, "odf", loud).notes if note.kind == "left"]


@pytest.mark.parametrize(
    ("raw", "fact"),
    [
        (zipped({"x.xml": "<x/>"}), "content.xml"),
        (odt("", **{"META-INF/manifest": content("<manifest:encryption-data/>")}), "without a password"),
        (odt("<text:p>"), "content.xml: line 2"),
    ],
)
def test_what_cannot_be_read_is_refused(raw, fact):
    with pytest.raises(DataError, match=fact):
        translated(raw, "odf")
