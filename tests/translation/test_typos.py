"""Words with a typo and missing marks: how lines are read, and how the user learns of it."""

import json
import logging
from collections import Counter
from unittest.mock import Mock

from copying import LETTERS, copying

from mtkit.cli.translating.rendering import Rendering
from mtkit.text.capitals import Capitals
from mtkit.tokens.spelling import Spelling
from mtkit.tokens.word_record import WordRecord
from mtkit.translation.terminology import TermReport

SPELLING = Spelling(dict.fromkeys(("i", "see", "the", "house"), 99), "en")


def test_words_with_a_typo_are_read_as_those_of_the_training_text_and_reported(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("mtkit"), "propagate", True)
    caplog.set_level(logging.INFO, logger="mtkit")
    translator = copying()
    translator.reader.training_text.spelling = SPELLING
    [translation, clean] = translator.stream(["i see teh hoouse", "i see the house"])
    assert (translation.src, translation.text) == ("i see teh hoouse", "i see the house")
    assert translation.respelt == (("teh", "the"), ("hoouse", "house")) and clean.respelt == ()
    [message] = {record.getMessage() for record in caplog.records}  # several handlers may see one
    assert all(part in message for part in ("2 unknown words", "teh as the", "hoouse as house", "decode.as_typed"))
    [record, _] = map(json.loads, Rendering(translator, as_json=True).lines([translation, clean], 1))
    assert record["read_as"] == {"teh": "the", "hoouse": "house"}


def test_terms_are_counted_in_the_text_as_it_was_read():
    translator, counted_in = copying(), list[str]()
    translator.reader.training_text.spelling = SPELLING
    session = translator.session()
    terminology = Mock(occurrences=lambda src: counted_in.append(src) or {})
    session.terms = TermReport(terminology)
    session.translate(["i see tehs, teh hoouse.", "i see the house", "i see teh.py, teh hoouse"])
    assert counted_in == ["i see tehs, the house.", "i see the house", "i see teh.py, the house"]


def test_text_stays_as_it_is_typed_where_it_is_protected_a_term_or_the_settings_say_so():
    [typed, of_terms, protecting] = [copying(as_typed=True), copying(), copying()]
    for translator in (typed, of_terms, protecting):
        translator.reader.training_text.spelling = SPELLING
        translator.reader.training_text.capitals = Capitals(lambda words: sum(map(str.isupper, words)), "en", "fr")
    lines = ["i see teh house", "I SEE THE HOUSE"]
    assert [piece.replaced.text for of_line in typed.pieces(lines) for piece in of_line] == lines
    of_terms.reader = of_terms.reader.with_terms({"teh"})
    assert of_terms.translate(["i see teh huose"]) == ["i see teh house"]
    protecting.reader = protecting.reader.protecting(["teh h"])
    assert protecting.translate(["i see teh huose"]) == ["i see teh house"]


def test_a_part_of_a_sentence_that_is_too_long_does_not_begin_one():
    translator = copying(max_src_tokens=9)
    translator.reader.training_text.spelling = Spelling(dict.fromkeys(("see", "Two", "two"), 99), "en")
    assert translator.translate(["Twp see, Twp two"]) == ["Two see, Twp two"]


def test_a_sentence_without_a_mark_is_read_with_one_and_its_translation_has_none():
    translator = copying(max_src_tokens=30)
    translator.reader.training_text.words = WordRecord(Counter(), {"can": "?", "i": "."})
    lines = ["can you see it", "i see the house", "I see it.", "i see the house, can you see it"]
    read = [LETTERS.decode(list(piece.ids[0])) for of_line in translator.pieces(lines) for piece in of_line]
    assert read == ["can you see it?", "i see the house.", "I see it.", "i see the house,", "can you see it"]
    assert translator.translate(lines) == lines
    typed = copying(as_typed=True)
    typed.reader.training_text.words = translator.reader.training_text.words
    [[piece]] = typed.pieces(["i see the house"])
    assert LETTERS.decode(list(piece.ids[0])) == "i see the house"
