"""Messages of programs: what of them is text, and how access keys move."""

import pytest

from mtkit.documents.messages.access_keys import with_key, without_key
from mtkit.documents.messages.message_text import message_of


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("  Hello\n", "Hello"),
        ("<b>Hello</b>", "Hello"),
        ("Go <b>on</b> %s", "Go on %s"),
        ("R&amp;D <i>here</i>", "R&D here"),
        ("AT&T", "AT&T"),
        ("a tab\there", "a tab here"),
        ("\x1b[1mbold\x1b[0m", "bold"),
        ("E&xit", "Exit"),
        ("a list\n* of items", "a list\n* of items"),
        ("This is a line of more than forty characters\n  that goes on.",
         "This is a line of more than forty characters that goes on."),
        ("This is a line of more than forty &quot;characters&quot;\nthat goes on.",
         'This is a line of more than forty "characters" that goes on.'),
        ("This is a line of more than forty characters&hellip;\nThe next.",
         "This is a line of more than forty characters…\nThe next."),
        ("One.&#10;Two. &#xA;&#13;three&#9;four", "One.\nTwo.\nthree four"),
        ("This is a line of more than forty characters.\nThe next.",
         "This is a line of more than forty characters.\nThe next."),
    ],
)  # fmt: skip
def test_the_text_of_a_message_is_what_a_person_reads(source, text):
    message = message_of(source)
    assert message is not None
    assert message.inline.text == text
    assert message.translation(message.inline.source) == source


@pytest.mark.parametrize("source", ["", " ", "%s: %d", "<b>%(name)s</b>", "https://example.org", "{0} {count:,.2f}",
                                    "%b %d, %Y", "--help", "1.2", "<br>"])  # fmt: skip
def test_a_message_without_words_is_not_translated(source):
    assert message_of(source) is None


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("&File", "Fichier", "&Fichier"),
        ("_Open…", "Ouvrir…", "_Ouvrir…"),
        ("E&xit", "Quitter", "&Quitter"),
        ("E_xit", "Texte", "Te_xte"),
        ("Save &As", "Enregistrer avec", "Enregistrer &avec"),
        ("&File:", "文件:", "文件(&F):"),
        ("文件(&F)", "File", "&File"),
        ("&Tom", "R&D", "R&D"),
    ],
)
def test_an_access_key_stands_at_the_same_letter_or_at_the_first(source, translation, expected):
    text, key = without_key(source)
    assert "&" not in text and "_" not in text
    assert with_key(translation, key) == expected


def test_an_access_key_stands_in_no_placeholder_and_no_tag():
    message = message_of("&Save %s")
    assert message is not None
    assert message.translation("%s <s>vous</s>") == "%s <s>vou&s</s>"


@pytest.mark.parametrize("source", ["AT&T", "R&D", "Q&A", "a_b", "file_name",
                                    "__init__", "a &amp; b", "this & that", "&&", "_",
                                    "http://a.org/?b&c", "$_x",
                                    "one two three four five six seven eight &nine"])  # fmt: skip
def test_what_is_no_access_key_stays(source):
    assert without_key(source) == (source, "")
