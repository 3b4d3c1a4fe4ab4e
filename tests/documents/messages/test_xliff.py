"""XLIFF: which units get a target, what it holds, and that all else stays."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_documents import loud, same, translated

from mtkit.documents.reading import Options, document_of
from mtkit.documents.skeleton import Filled
from mtkit.errors import DataError

_NEW = [  # source, and the target that it gets
    ("Hello &amp; welcome", "HELLO &amp; WELCOME"),
    ("<g id='1'>bold</g> and <x id=\"2\"/> more", "<g id='1'>BOLD</g> AND <x id=\"2\"/> MORE"),
    ("Press <bpt id='1'>&lt;b></bpt>this<ept id='1'>&lt;/b></ept> now",
     "PRESS <bpt id='1'>&lt;b></bpt>THIS<ept id='1'>&lt;/b></ept> NOW"),
    ("Press &lt;b&gt;this&lt;/b&gt; now", "PRESS &lt;b&gt;THIS&lt;/b&gt; NOW"),
    ("<![CDATA[Press <b>this</b> & that]]>", "<![CDATA[PRESS <b>THIS</b> & THAT]]>"),
    ("\n   around <ph id='1'>code text</ph>\n  ", "\n   AROUND <ph id='1'>code text</ph>\n  "),
    ("One.&#10;Two &amp;#xA; three.&#9;four &#13;&#10;five", "ONE.&#10;TWO &amp;#xA; THREE.&#9;FOUR &#13;&#10;FIVE"),
    ("One.&#10;Two.", "ONE.&#10;TWO."),
    ("the <mrk mtype='protected'>brand name</mrk> here", "THE <mrk mtype='protected'>brand name</mrk> HERE"),
    ("both &lt;i&gt;kinds&lt;/i&gt; <x id='1'/> here", "BOTH &lt;i&gt;KINDS&lt;/i&gt; <x id='1'/> HERE"),
]  # fmt: skip
_KEPT_12 = """<trans-unit id="d"><source>done</source><target>fini</target></trans-unit>
<trans-unit id="n" translate="no"><source>a name</source></trans-unit>
<group translate="no"><trans-unit id="m"><source>a name</source></trans-unit></group>
<trans-unit id="f" approved="yes"><source>final</source><target state="new"></target></trans-unit>
<trans-unit id="c"><source><x id="1"/> 12 <g id="2">%s</g></source></trans-unit>
<trans-unit id="s"><source>signed</source><target state="final">signé</target>
<alt-trans><source>other</source><target/></alt-trans></trans-unit>
"""


def _v12(units: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!-- <trans-unit> -->\n'
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n'
        '<file original="a" source-language="en" target-language="fr" datatype="plaintext"><body>\n'
        f"{_KEPT_12}{units}</body></file></xliff>\n"
    )


def _v2(segments: str) -> str:
    return (
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="fr">'
        f'<file id="f1"><unit id="u1">{segments}</unit>'
        '<unit id="u2" translate="no"><segment><source>a name</source></segment></unit></file></xliff>'
    )


def filled(text: str, translate=loud) -> str:
    found = translated(text.encode(), "xliff", translate)
    assert not [note for note in found.notes if note.kind == "left"]
    return found.raw.decode()


@pytest.mark.parametrize(("source", "target"), _NEW)
def test_a_unit_without_a_target_gets_one_behind_the_source(source, target):
    before = f'  <trans-unit id="1">\n    <source>{source}</source>\n    <note>x</note></trans-unit>\n'
    new = f'</source>\n    <target state="translated">{target}</target>\n'
    assert filled(_v12(before)) == _v12(before.replace("</source>\n", new))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<target/>", '<target state="translated">WORD</target>'),
        ("<target xml:lang='fr' />", "<target xml:lang='fr' state=\"translated\">WORD</target>"),
        ("<target> </target>", '<target state="translated">WORD</target>'),
        ("<target state='needs-translation'>word</target>", "<target state='translated'>WORD</target>"),
        ('<target state="new"><x id="1"/>word</target>', '<target state="translated">WORD</target>'),
        ("<target state='needs-l10n'>word</target>", "<target state='translated'>WORD</target>"),
        ("<target state='needs-adaptation'>mot</target>",) * 2,
    ],
)
def test_an_empty_or_new_target_is_filled(before, after):
    unit = '<trans-unit id="1"><source>word</source>{}<note>x</note></trans-unit>'
    assert filled(_v12(unit.format(before))) == _v12(unit.format(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<segment><source>a word</source></segment>",
         '<segment state="translated"><source>a word</source><target>A WORD</target></segment>'),
        ('<segment id="1" state="initial" subState="x:y">\r\n  <source>a <pc id="1">word</pc></source>\r\n</segment>',
         '<segment id="1" state="translated">\r\n  <source>a <pc id="1">word</pc></source>\r\n'
         '  <target>A <pc id="1">WORD</pc></target>\r\n</segment>'),
        ('<segment><source>a <sc id="1"/>word<ec startRef="1"/> <ph id="3"/> more</source><target/></segment>',
         '<segment state="translated"><source>a <sc id="1"/>word<ec startRef="1"/> <ph id="3"/> more</source>'
         '<target>A <sc id="1"/>WORD<ec startRef="1"/> <ph id="3"/> MORE</target></segment>'),
        ('<segment><source>a <sm id="1" translate="no"/>word<em startRef="1"/> more</source></segment>',
         '<segment state="translated"><source>a <sm id="1" translate="no"/>word<em startRef="1"/> more</source>'
         '<target>A <sm id="1" translate="no"/>word<em startRef="1"/> MORE</target></segment>'),
        ("<segment><source>done</source><target>fini</target></segment>",) * 2,
        ("<ignorable><source>word</source></ignorable>",) * 2,
    ],
)  # fmt: skip
def test_segments_of_xliff_2_have_the_state(before, after):
    assert filled(_v2(before)) == _v2(after)


def test_a_unit_that_a_tool_has_segmented_gets_the_same_marks():
    marks = '<{0}><g id="1"><mrk mtype="seg" mid="1">{1}</mrk> <mrk mtype="seg" mid="2">{2}</mrk></g></{0}>'
    unit = f'<trans-unit id="1"><source><g id="1">One. Two.</g></source>{marks.format("seg-source", "One.", "Two.")}'
    target = marks.format("target", "ONE.", "TWO.").replace("<target>", '<target state="translated">')
    assert filled(_v12(f"{unit}</trans-unit>")) == _v12(f"{unit}{target}</trans-unit>")
    assert filled(_v12(f"{unit}<target/></trans-unit>")) == _v12(f"{unit}{target}</trans-unit>")
    partly = f"{unit}{marks.format('target', 'Un.', '')}</trans-unit>"
    assert filled(_v12(partly)) == _v12(
        partly.replace('mid="2"></mrk></g></target>', 'mid="2">TWO.</mrk></g></target>')
    )
    new = marks.format("target", "One.", "Two.").replace("<target>", '<target state="new">')
    assert filled(_v12(f"{unit}{new}</trans-unit>")) == _v12(f"{unit}{target}</trans-unit>")


def _doubtful(text: str) -> str:
    part = document_of(text.encode(), "xliff", Options()).parts[0]
    merged, left = part.merged({index: Filled("mot", True) for index in range(len(part.reading.all_segments))})
    assert not left
    return merged


def test_a_doubtful_translation_has_a_state_that_says_so():
    found = _doubtful(_v12("<trans-unit id='1'><source>word</source></trans-unit>"))
    assert '<target state="needs-review-translation">mot</target>' in found
    found = _doubtful(_v2("<segment><source>word</source></segment>"))
    assert (
        '<segment state="translated" subState="mtkit:needs-review"><source>word</source><target>mot</target>' in found
    )


def test_a_translation_that_loses_an_inline_element_is_left_out():
    text = _v12("<trans-unit id='1'><source>a <x id='1'/> word</source></trans-unit>")
    part = document_of(text.encode(), "xliff", Options()).parts[0]
    assert list(part.merged({0: Filled("mot")})[1]) == [0]
    assert list(part.merged({0: Filled("<x id='1'/> <b")})[1]) == [0]
    assert not part.merged({0: Filled("mot <x id='1'/>")})[1]


def test_a_message_with_branches_is_left_out_and_reported():
    text = _v12("<trans-unit id='1'><source>{N, plural, =0 {none} other {some}} here</source></trans-unit>")
    found = translated(text.encode(), "xliff", loud)
    assert found.raw.decode() == text
    assert [(note.kind, note.place) for note in found.notes] == [("left", "line 12")]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1"])
def test_a_file_keeps_its_encoding(encoding):
    unit = "<trans-unit id='1'><source>déjà</source></trans-unit>"
    text = _v12(unit).replace("UTF-8", encoding.removesuffix("-sig"))
    found = translated(text.encode(encoding), "xliff", loud).raw.decode(encoding)
    assert found == text.replace("déjà</source>", 'déjà</source><target state="translated">DÉJÀ</target>')


_PIECES = ["word", "two words. And more.", "<g id='1'>", "</g>", "<x id='2'/>", "<bpt id='3'>&lt;b></bpt>", "%s", "12",
           "<ept id='3'>&lt;/b></ept>", "<ph id='4'>code<sub>sub</sub></ph>", "&amp;", "&lt;b&gt;", "&lt;/b&gt;", " ",
           "<![CDATA[<b>x</b> & y]]>", "<mrk mtype='seg' mid='1'>", "</mrk>", "<mrk translate='no'>", "\n", "&#233;",
           "<!-- c -->", "<?p i?>", "<it id='5' pos='open'>x</it>", "<bx id='6'/>", "<ex id='6'/>", "&amp;nbsp;",
           "<sm id='7' translate='no'/>", "<em startRef='7'/>", "&amp;Key"]  # fmt: skip
_NEW_TARGET = re.compile(
    r"<source>((?:(?!</source>).)*)</source><target[^>/]*>((?:(?!</target>).)*)</target>", re.DOTALL
)
_TARGET = re.compile(r"<target[^>/]*>.*?</target>", re.DOTALL)
_SOURCES = st.lists(st.sampled_from(_PIECES), max_size=10).map("".join)


@given(st.lists(_SOURCES, min_size=1, max_size=3), st.booleans())
def test_any_source_translated_into_itself_is_its_target(sources, is_v2):
    outer = ("<segment>", "</segment>") if is_v2 else ("<trans-unit id='1'>", "</trans-unit>")
    text = "".join(f"{outer[0]}<source>{source}</source>{outer[1]}" for source in sources)
    text = _v2(text) if is_v2 else _v12(text)
    try:
        ElementTree.fromstring(text)
    except ElementTree.ParseError:
        with pytest.raises(DataError, match=r"line \d+"):
            translated(text.encode(), "xliff")
        return
    found = translated(text.encode(), "xliff", same).raw.decode()
    for source, target in _NEW_TARGET.findall(found):
        assert source in (target, "done", "signed", "final")
    states = r' (?:state="translated"|subState="mtkit:needs-review")'  # the latter: with a text inside a code
    assert re.sub(states, "", _TARGET.sub("", found)) == re.sub(states, "", _TARGET.sub("", text))
    again = translated(found.encode(), "xliff", loud).raw.decode()
    assert again == found
    ElementTree.fromstring(translated(text.encode(), "xliff", loud).raw)


@pytest.mark.parametrize(
    "source", ["Hello<ph id='1'>a <sub>foot note</sub></ph> there", "<x id='1'/><ph><sub>note</sub></ph>"]
)
def test_text_inside_a_code_is_listed_and_its_unit_is_to_be_reviewed(source):
    text = _v12(f"<trans-unit id='1'><source>{source}</source></trans-unit>")
    found = translated(text.encode(), "xliff", loud)
    assert [(note.kind, note.place, note.src) for note in found.notes] == [
        ("left", "line 12", source.partition("<sub>")[2].partition("</sub>")[0])
    ]
    assert "<sub>" in found.notes[0].reason
    target = re.sub("Hello|there", lambda word: word[0].upper(), source)
    added = f'<target state="needs-review-translation">{target}</target>' if "Hello" in source else ""
    assert found.raw.decode() == text.replace(f"{source}</source>", f"{source}</source>{added}")


@given(st.integers(0, 1500), st.sampled_from(["", "<", "&", "</source>", "\0", "\x0b", '"', "<target>", "]]>"]))
def test_a_damaged_file_is_refused_with_its_line(at, piece):
    text = _v12("<trans-unit id='1'><source>a <x id='1'/> word</source></trans-unit>")
    for damaged in (text[:at] + piece + text[at:], text[:at] + piece):
        try:
            translated(damaged.encode(), "xliff", loud)
        except DataError as error:
            assert re.search(r"line \d+|NUL|encoding", str(error))


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", "line 1.*too early"),
        ("<html>\n</html>", "line 1.*<html>.*--format"),
        (_v12("<trans-unit>"), "line 12.*mismatched"),
        ('<!DOCTYPE a [<!ENTITY b "cc">]>\n<xliff/>', "line 1.*DOCTYPE.*remove them"),
        (_v12("<trans-unit id='1'><source>" + "<g id='1'>" * 300 + "</g>" * 300 + "</source></trans-unit>"),
         "more than 200"),
    ],
)  # fmt: skip
def test_what_is_no_xliff_is_refused(text, facts):
    with pytest.raises(DataError) as error:
        translated(text.encode(), "xliff")
    assert re.search(facts, str(error.value), re.DOTALL)


def test_a_file_without_a_target_language_is_remarked_upon():
    text = _v2("<segment><source>word</source></segment>")
    assert not document_of(text.encode(), "xliff", Options(tgt_lang="fr")).remarks
    [remark] = document_of(text.replace(' trgLang="fr"', "").encode(), "xliff", Options(tgt_lang="fr")).remarks
    assert 'trgLang="fr"' in remark
