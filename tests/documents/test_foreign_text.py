"""Text in another language or script stays as it is; the report lists it, and what looks wrong."""

import re

import numpy as np
import pytest

from mtkit.documents.filling import CHECK, LEFT, fill, sentences_to_translate
from mtkit.documents.reading import Options, document_of
from mtkit.documents.sentences import Alignment, Translated
from mtkit.quality.faults import FAULT_KINDS
from mtkit.text.scripts import is_in_another_script
from mtkit.text.words import word_spans


def translated(text, format, src_lang="en"):
    document = document_of(text.encode(), format, Options(src_lang=src_lang))
    return fill(document, {s.text: upper(s.text) for s in sentences_to_translate(document)})


def upper(text):
    """The translation into upper case, each word in the place of its source, and single spaces as by a model."""
    made = " ".join(text.upper().split())
    words = word_spans(text)
    return Translated(made, alignment=Alignment(words, word_spans(made), np.eye(len(words)).tolist()))


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


@pytest.mark.parametrize(
    ("format", "page", "expected", "phrases"),
    [
        ("html", '<p>He said <i lang="fr">bon appétit</i> to us.', '<p>HE SAID <i lang="fr">bon appétit</i> TO US.', 1),
        ("html", "<p><i lang=fr>Bon appétit</i>, he said.", "<p><i lang=fr>Bon appétit</i>, HE SAID.", 1),
        ("html", "<p>He said <i lang=fr>bon appétit</i>.", "<p>HE SAID <i lang=fr>bon appétit</i>.", 1),
        ("html", "<p> <i lang=fr>Bon appétit</i> he said", "<p> <i lang=fr>Bon appétit</i> HE SAID", 1),
        ("html", "<p>A <i lang=en-US>dog</i> eats.", "<p>A <i lang=en-US>DOG</i> EATS.", 0),
        ("html", "<p>A <i lang=fr>le <b lang=en>dog</b></i> eats.", None, 1),
        ("html", "<p>A cat<img lang=fr alt='un chat'> eats.", "<p>A CAT<img lang=fr alt='un chat'> EATS.", 0),
        ("markdown", "He said <i lang=fr>bon *appétit*</i> to us.\n", None, 1),
        ("markdown", "<p>He said <i lang=fr>bon appétit</i> to us.</p>\n", None, 1),
    ],
)
def test_a_phrase_in_another_language_stays_in_its_sentence_and_is_listed(format, page, expected, phrases):
    found = translated(page, format)
    assert found.raw.decode() == (expected or _upper_outside(page))
    listed = [note.reason for note in found.notes if note.kind == CHECK]
    assert len(listed) == phrases
    assert all("in another language" in reason and ("ppétit" in reason or "le dog" in reason) for reason in listed)


def test_a_space_divides_a_phrase_from_a_translation_that_begins_with_a_word():
    document = document_of(b"<p><i lang=fr>Bon appetit</i>, he said.</p>", "html", Options(src_lang="en"))
    assert [sentence.text for sentence in sentences_to_translate(document)] == [", he said."]
    found = fill(document, {", he said.": Translated("A-t-il dit.")})
    assert found.raw == b"<p><i lang=fr>Bon appetit</i> A-t-il dit.</p>"


def _upper_outside(page):
    """The page with its letters outside of tags and of the element <i> in upper case."""
    parts = re.split(r"(<i lang=.*</i>|<[^<>]*>)", page)
    return "".join(part if part.startswith("<") else part.upper() for part in parts)


@pytest.mark.parametrize("text", ["<b lang=fr>Un chat.</b>\n", "<div lang=fr>\n\n<p lang=fr>Un chat.</p>\n"])
def test_a_paragraph_of_markdown_in_another_language_stays(text):
    found = translated(text, "markdown")
    assert (found.raw.decode(), [note.kind for note in found.notes]) == (text, [LEFT])


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


def test_words_that_could_be_fields_of_a_template_are_named():
    page = b"<p>The [optional] part, the [optional] end, &lt;name> and :user; a [b c] at 10:30.</p>"
    [remark] = document_of(page, "html", Options()).remarks
    assert remark.endswith(": [optional], <name>, :user")
    assert document_of(b"<p>A cat at 10:30.</p>", "html", Options()).remarks == []
    assert document_of(b'{"a": "The [optional] part"}', "json", Options()).remarks == []


def test_text_that_is_left_says_so_and_why():
    document = document_of(b"<p>qqqq qqqq</p><p>A cat qqqq.</p>", "html", Options())
    left = {"qqqq qqqq": Translated("qqqq qqqq", ("left",)), "A cat qqqq.": Translated("Un chat qqqq.", ("left",))}
    whole, part = fill(document, left).notes
    assert (whole.kind, part.kind) == (LEFT, CHECK)
    for note in (whole, part):
        assert "10,000 characters" in note.reason
        assert "100 characters" in note.reason


@pytest.mark.parametrize("kind", [*FAULT_KINDS, "unfinished"])
def test_every_fault_of_a_sentence_has_a_note(kind):
    document = document_of(b"<p>A cat.</p>", "html", Options())
    [note] = fill(document, {"A cat.": Translated("Un chat.", (kind,))}).notes
    assert note.kind == (LEFT if kind == "empty" else CHECK)
    assert note.reason
