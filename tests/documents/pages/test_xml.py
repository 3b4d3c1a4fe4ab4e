"""Pieces of XML: which tags separate texts, which are parts of them, and that only the text changes."""

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_documents import loud, results_of

from mtkit.documents.filling import fill, sentences_to_translate
from mtkit.documents.pages.xml import XmlRules, read_xml
from mtkit.errors import DataError

# The documentation of DeepL's API, "Structured XML content".
DOCUMENT = """<document>
  <meta>
    <title>A document's title</title>
  </meta>
  <content>
    <par>This is the first sentence. Followed by a second one.</par>
    <par>This is the third sentence.</par>
  </content>
</document>"""


def texts(text, **names):
    """What is translated as a whole, without its tags."""
    guess = names.pop("guess", True)
    rules = XmlRules(guess=guess, **{field: frozenset(value.split()) for field, value in names.items()})
    return [segment.inline.text for part in read_xml(text, rules).parts for segment in part.reading.all_segments]


def spoken_loudly(text, rules):
    document = read_xml(text, rules)
    return fill(document, results_of(document, loud)).raw.decode()


def test_elements_with_text_in_others_without_separate_texts():
    assert texts(DOCUMENT) == [
        "A document's title",
        "This is the first sentence. Followed by a second one.",
        "This is the third sentence.",
    ]


@pytest.mark.parametrize(
    ("text", "rules", "expected"),
    [
        ("The firm said it had been <i>conducting</i> an internal <b>in</b>vestigation.", {}, 1),
        ("<p>The <i>red</i> cat.</p><p>Two dogs.</p>", {}, 2),
        ("<p>The <x><y>red</y></x> cat.</p>", {}, 1),
        ("The red cat.<par>Two dogs.</par>", {}, 1),
        ("The red cat.<par>Two dogs.</par>", {"separate": "par"}, 2),
        ("<par>The red</par> <par>cat.</par>", {}, 2),
        ("<par>The red</par> <par>cat.</par>", {"inline": "par"}, 1),
        ("<a>The</a> <b>red</b> <c>cat.</c>", {"guess": False}, 1),
        ("<a>The</a> <b>red</b> <c>cat.</c>", {"guess": False, "separate": "b"}, 3),
        ("<a>The</a> <b>red</b> <c>cat.</c>", {"kept": "b"}, 2),
        ("<!-- a comment --><?pi?><a/>", {}, 0),
        ("", {}, 0),
        ("  <a> </a> ", {}, 0),
    ],
)
def test_rules_say_which_tags_separate_texts(text, rules, expected):
    assert len(texts(text, **rules)) == expected


def test_texts_are_translated_and_all_else_stays():
    text = "<?xml version='1.0'?>\n<a b='c d'>one &amp; <k>two <l>three</l></k>\n  <m/>&#52; <![CDATA[five]]> six</a>"
    expected = "<?xml version='1.0'?>\n<a b='c d'>ONE &amp; <k>two <l>three</l></k> <m/>4 <![CDATA[five]]> SIX</a>"
    assert spoken_loudly(text, XmlRules(kept=frozenset("k"))) == expected
    assert spoken_loudly(DOCUMENT, XmlRules()).splitlines()[6] == "    <par>THIS IS THE THIRD SENTENCE.</par>"


def test_what_a_translation_brings_is_escaped():
    document = read_xml("<a>less</a>", XmlRules())
    [sentence] = sentences_to_translate(document)
    results = results_of(document, lambda text: "a < b & </a>")
    assert sentence.text == "less"
    assert fill(document, results).raw == b"<a>a &lt; b &amp; &lt;/a&gt;</a>"


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("one <b>two", "line 1"),
        ("one\n& two", "line 2, column 2"),
        ("a & b", "line 1, column 4"),
        ("</fragment><fragment>", "junk"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "DOCTYPE"),
        ("&nbsp;", "entity"),
        ("<a>" * 300 + "</a>" * 300, "inside each other"),
    ],
)
def test_what_is_no_xml_is_refused(text, fact):
    with pytest.raises(DataError, match=fact):
        read_xml(text, XmlRules())


_PIECES = ["<b>", "</b>", "<p c='d e'>", "</p>", "<br/>", "<!-- f -->", "word", "two words. And more.", "&amp;", " ",
           "\n", "é", "<k>", "</k>", "<![CDATA[g]]>"]  # fmt: skip


@settings(max_examples=200)
@given(
    text=st.lists(st.sampled_from(_PIECES), max_size=25).map("".join),
    name=st.sampled_from(["", "k", "p", "b"]),
    guess=st.booleans(),
)
def test_another_parser_finds_the_same_elements(text, name, guess):
    rules = XmlRules(separate=frozenset(name), kept=frozenset("k"), guess=guess)
    try:
        root = ElementTree.fromstring(f"<r>{text}</r>")
    except ElementTree.ParseError:
        with pytest.raises(DataError):
            read_xml(text, rules)
        return
    after = ElementTree.fromstring(f"<r>{spoken_loudly(text, rules)}</r>")
    assert sorted(element.tag for element in after.iter()) == sorted(element.tag for element in root.iter())
    letters, letters_after = (sorted("".join("".join(tree.itertext()).lower().split())) for tree in (root, after))
    assert letters_after == letters  # sorted, because codes may have moved
