"""A document is parsed once, and each of its segments is cut into sentences once, from reading to writing."""

from collections import Counter
from importlib import import_module

import pytest
from tiny_archives import OFFICE, W, types, zipped
from tiny_documents import loud, translated

from mtkit.markup.xml_parser import check
from mtkit.markup.xml_tokens import tokens
from mtkit.text.sentences import sentence_spans

PARAGRAPHS = ["One cat sleeps. Two dogs run.", "Three birds sing.", "Four fish swim. Five frogs jump. Six owls fly."]

STORY = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in PARAGRAPHS)
DOCX = zipped(
    {
        "[Content_Types].xml": types({"word/document.xml": f"{OFFICE}.wordprocessingml.document.main+xml"}),
        "word/document.xml": f'<w:document xmlns:w="{W}"><w:body>{STORY}</w:body></w:document>',
    }
)

XLIFF = b"""<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"
target-language="fr" datatype="plaintext" original="a"><body><trans-unit id="1"><source>a word</source>
</trans-unit></body></file></xliff>"""


@pytest.fixture
def cuts(monkeypatch):
    """Count how often each line of text is cut into sentences."""
    counted = Counter[str]()

    def counting(text):
        counted[text] += 1
        return sentence_spans(text)

    monkeypatch.setattr("mtkit.text.inline.sentence_spans", counting)
    return counted


@pytest.fixture
def parses(monkeypatch):
    """Count how often each text is checked by expat, and how often it is divided into tokens."""
    counted = {"check": Counter[str](), "tokens": Counter[str]()}
    for real in (check, tokens):

        def counting(text, real=real):
            counted[real.__name__][text] += 1
            return real(text)

        monkeypatch.setattr(f"mtkit.markup.xml_tree.{real.__name__}", counting)
    return counted


@pytest.mark.parametrize(
    ("format_name", "raw"),
    [
        ("text", "\n\n".join(PARAGRAPHS).encode()),
        ("html", "".join(f"<p>{text}</p>" for text in PARAGRAPHS).encode()),
        ("markdown", "\n\n".join(PARAGRAPHS).encode()),
        ("docx", DOCX),
    ],
)
def test_each_segment_is_cut_once(cuts, format_name, raw):
    assert translated(raw, format_name, loud).n_sentences == 6
    assert cuts == dict.fromkeys(PARAGRAPHS, 1)


def test_each_member_of_an_office_document_is_parsed_once_and_its_translation_once(parses):
    assert translated(DOCX, "docx", loud).n_segments == 3
    for of_texts in parses.values():
        stories = {text: n for text, n in of_texts.items() if "<w:document" in text}
        assert sorted("SLEEPS" in text for text in stories) == [False, True], "the source and its translation"
        assert set(stories.values()) == {1}


@pytest.mark.parametrize(
    ("format_name", "raw", "parser"),
    [
        ("html", b"<p>a word</p>", "pages.html._runs"),
        ("markdown", b"# A word\n", "pages.markdown.blocks_of"),
        ("po", b'msgid "a word"\nmsgstr ""\n', "messages.po.entries_of"),
        ("xliff", XLIFF, "messages.xliff._units"),
        ("json", b'{"a": "a word"}', "messages.json.scan"),
        ("subtitles", b"00:00:01,000 --> 00:00:03,000\na word\n", "subtitles.subtitles.cues_of"),
    ],
)
def test_a_document_is_parsed_once_and_its_translation_once(monkeypatch, format_name, raw, parser):
    module, _, name = f"mtkit.documents.{parser}".rpartition(".")
    real, counted = getattr(import_module(module), name), Counter[str]()

    def counting(text, *others, **options):
        counted[text] += 1
        return real(text, *others, **options)

    monkeypatch.setattr(f"{module}.{name}", counting)
    assert b"A WORD" in translated(raw, format_name, loud).raw
    assert list(counted.values()) == [1, 1]
