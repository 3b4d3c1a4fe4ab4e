"""Text in another language or script stays as it is, and the report lists it."""

import pytest

from mtkit.documents.filling import CHECK, LEFT, fill, sentences_to_translate
from mtkit.documents.reading import Options, document_of
from mtkit.documents.sentences import Translated
from mtkit.text.scripts import is_in_another_script


def translated(text, format, src_lang="en"):
    document = document_of(text.encode(), format, Options(src_lang=src_lang))
    return fill(document, {s.text: Translated(s.text.upper()) for s in sentences_to_translate(document)})


@pytest.mark.parametrize(
    ("page", "expected", "kept"),
    [
        ("<p>a cat</p><p lang=ja>a dog</p>", "<p>A CAT</p><p lang=ja>a dog</p>", ["a dog"]),
        ("<div lang='de'><p>a cat</p><p lang='en-GB'>a dog</p><p>a bird</p></div><p>it", None, ["a cat", "a bird"]),
        ("<html lang=de><body lang=de><p>a cat</p></body></html>", None, []),  # many pages are wrong about themselves
        ("<p><span xml:lang='fr'>a cat</span></p>", None, ["a cat"]),
        ("<p>猫が好きです。</p><p>a cat</p>", "<p>猫が好きです。</p><p>A CAT</p>", ["猫が好きです。"]),
        ("<p lang=eng>a cat</p>", "<p lang=eng>A CAT</p>", []),
    ],
)
def test_text_in_another_language_stays_and_is_listed(page, expected, kept):
    found = translated(page, "html")
    assert [note.src for note in found.notes if note.kind == LEFT] == kept
    assert all("another language" in note.reason for note in found.notes)
    if expected is not None:
        assert found.raw.decode() == expected


def test_a_sentence_in_another_script_stays_beside_others():
    found = translated("A cat sleeps. 猫が好きです。 A dog.\n", "text")
    assert found.raw.decode() == "A CAT SLEEPS. 猫が好きです。 A DOG.\n"
    assert [(note.kind, "another language" in note.reason) for note in found.notes] == [(CHECK, True)]


def test_without_a_source_language_all_text_is_translated():
    assert translated("<p lang=ja>a dog</p>", "html", None).raw == b"<p lang=ja>A DOG</p>"


@pytest.mark.parametrize(
    ("text", "lang", "is_other"),
    [
        ("猫が好きです", "en", True),
        ("The word 猫", "en", False),
        ("Ça va été", "fr", False),
        ("Windows 11", "ru", True),
        ("Windows в", "ru", False),
        ("iPhone 15 Pro Max 发布", "zh", False),
        ("Cómo", "zh", True),
        ("猫", "xx", False),
        ("12 %", "en", False),
        ("Добрый", "sr", False),
    ],
)
def test_a_text_is_in_another_script(text, lang, is_other):
    assert is_in_another_script(text, lang) is is_other
