"""A document is parsed once, and each of its segments is cut into sentences once, from reading to writing."""

from collections import Counter

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


@pytest.fixture
def cuts(monkeypatch):
    """Count how often each line of text is cut into sentences."""
    counted = Counter[str]()

    def counting(text):
        counted[text] += 1
        return sentence_spans(text)

    monkeypatch.setattr("mtkit.documents.inline.sentence_spans", counting)
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
