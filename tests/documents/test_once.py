"""What happens once to a document from reading to writing: each of its segments is cut into sentences."""

from collections import Counter

import pytest
from tiny_archives import OFFICE, W, types, zipped
from tiny_documents import loud, translated

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
