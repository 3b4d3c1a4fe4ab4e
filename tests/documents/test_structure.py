"""Whatever a model writes, other parsers see the same document before and after."""

import csv
import io
import json
import re
import tomllib
import zipfile
from collections import Counter

import polib
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree
from lxml import html as lxml_html
from markdown_it import MarkdownIt
from tiny_archives import OFFICE, W, X, types, zipped
from tiny_documents import translated


def _html(raw):
    return Counter(str(node.tag) for node in lxml_html.document_fromstring(raw).iter())


def _xml(raw):
    return Counter((node.tag, *sorted(node.attrib.items())) for node in etree.fromstring(raw).iter("*"))


def _markdown(raw):
    tokens = MarkdownIt("commonmark").enable("table").parse(raw.decode())
    inline = [child.type for token in tokens for child in token.children or () if not child.type.startswith("text")]
    return [token.type for token in tokens], Counter(inline) - Counter(softbreak=inline.count("softbreak"))


def _po(raw):
    return [(entry.msgid, entry.msgid_plural, entry.occurrences) for entry in polib.pofile(raw.decode())]


def _xliff(raw):
    return [(node.tag, node.text) for node in etree.fromstring(raw).iter("{*}source", "{*}note", "{*}trans-unit")]


def _shape(value):
    """Return JSON, YAML or TOML values with the texts left out."""
    if isinstance(value, dict):
        return {key: _shape(one) for key, one in value.items()}
    return [_shape(one) for one in value] if isinstance(value, list) else str if isinstance(value, str) else value


def _srt(raw):
    return [block.splitlines()[:2] for block in re.split(r"\n\n+", raw.decode().strip())]


def _members(raw, ignored=()):
    """Return the elements of each member of an archive, without those that a translation may add or remove."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name.endswith("xml") or "." not in name}
    found = {}
    for name, content in members.items():
        nodes = etree.fromstring(content).iter("*") if content.startswith(b"<") else ()
        found[name] = Counter(
            (node.tag, *node.attrib.values()) for node in nodes if etree.QName(node).localname not in ignored
        )
    return found


def _docx(raw):
    return _members(raw, ("r", "rPr", "b", "t"))


_WORDS = (
    "<w:p><w:r><w:t>one </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>two</w:t></w:r></w:p><w:p><w:r><w:br/></w:r></w:p>"
)
_DOCX = zipped(
    {
        "[Content_Types].xml": types({"word/document.xml": f"{OFFICE}.wordprocessingml.document.main+xml"}),
        "word/document.xml": f'<w:document xmlns:w="{W}"><w:body>{_WORDS}</w:body></w:document>',
    }
)
_SHEET = f"{OFFICE}.spreadsheetml"
_XLSX = zipped(
    {
        "[Content_Types].xml": types(
            {"xl/workbook.xml": f"{_SHEET}.sheet.main+xml", "xl/s.xml": f"{_SHEET}.sharedStrings+xml"}
        ),
        "xl/workbook.xml": f'<workbook xmlns="{X}"/>',
        "xl/s.xml": f'<sst xmlns="{X}"><si><t>one two</t></si><si><t>A-12</t></si></sst>',
    }
)

DOCUMENTS = {
    "docx": (_DOCX, _docx),
    "xlsx": (_XLSX, _docx),
    "html": (b"<title>a</title><p title='b c'>one <b>two</b> three<br>four</p><ul><li>five<li>six</ul>", _html),
    "xhtml": (
        b'<html xmlns="http://www.w3.org/1999/xhtml"><p id="x">one <b>two</b> <i/>three</p><p>four</p></html>',
        _xml,
    ),
    "markdown": (b"# one\n\ntwo *three* [four](x) `y`\n\n- five\n- six\n\n| a | b |\n|-|-|\n| c | d |\n", _markdown),
    "po": (b'msgid ""\nmsgstr ""\n"Language: fr\\n"\n\n#: a.c:1\nmsgid "one two"\nmsgstr ""\n', _po),
    "xliff": (
        b'<xliff version="1.2"><file source-language="en" target-language="fr" original="a" datatype="x"><body>'
        b'<trans-unit id="1"><source>one <g id="1">two</g></source><note>n</note></trans-unit></body></file></xliff>',
        _xliff,
    ),
    "json": (
        b'{"a": "One two", "b": ["Three four", 5, null], "c": {"d": "Six."}}',
        lambda raw: _shape(json.loads(raw)),
    ),
    "yaml": (
        b"a: One two\nb:\n  - 'Three four'\n  - \"Five\"\nc: |\n  Six seven\nd: 8\n",
        lambda raw: _shape(yaml.safe_load(raw)),
    ),
    "toml": (b"a = \"One two\"\n[b]\nc = 'Three four'\nd = 5\n", lambda raw: _shape(tomllib.loads(raw.decode()))),
    "csv": (
        b'id,text,n\n1,the two cats sleep,2\n2,"a dog, and it runs",3\n',
        lambda raw: [(len(row), row[0], row[2]) for row in csv.reader(io.StringIO(raw.decode()))],
    ),
    "properties": (
        b"# c\na = One two\nb.c = Three four\n",
        lambda raw: re.findall(r"(?m)^(#.*|[\w.]+ = )", raw.decode()),
    ),
    "subtitles": (
        b"1\n00:00:01,000 --> 00:00:02,000\n<i>One</i> two.\n\n2\n00:00:03,000 --> 00:00:04,000\nThree.\n",
        _srt,
    ),
}
_HOSTILE = (
    "</p> <script> <!-- --> <b> & &lt; ]]> <![CDATA[ \" ' \\ ` * _ | # - 1. : { } %s % = , ; [x](y) é > --- \"\"\" ''' "
    + "\\n \\u $x @x !x {{x}} 00:00:01,000 mot x"
).split()


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
@given(words=st.lists(st.sampled_from(_HOSTILE), min_size=1, max_size=6), space=st.sampled_from(["", " "]))
@example(words=["<![CDATA[", "]]>"], space="")  # in Markdown, a declaration and not a tag
@settings(max_examples=30)
def test_other_parsers_see_the_same_structure(name, words, space):
    raw, outline = DOCUMENTS[name]
    found = translated(raw, "html" if name == "xhtml" else name, lambda _: space.join(words), tgt_lang="fr")
    assert outline(found.raw) == outline(raw)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_the_documents_have_text(name):
    raw, _ = DOCUMENTS[name]
    found = translated(raw, "html" if name == "xhtml" else name, str.upper, tgt_lang="fr")
    assert found.n_sentences
    assert found.notes == ()
    assert found.raw != raw
