"""Capitals, their absence and final marks: how lines are read, and what their translations get."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from copying import LETTERS, copying

from mtkit.bundle import SHARE_OF_SMALL, read_bundle
from mtkit.search.hypothesis import Hypothesis
from mtkit.text.capitals import Capitals
from mtkit.tokens.word_record import WordRecord
from mtkit.translation.terminology import Terminology


@pytest.mark.parametrize(
    ("src", "prefix", "hypotheses", "expected"),
    [
        ("a cat", "", ["a dog.", "a dog!", "a cow."], ["a dog", "a dog!", "a cow"]),
        ("a cat", "a dog.", ["a dog."], ["a dog."]),
        ("a cat", "a dog", ["a dog."], ["a dog"]),
        ("it is hot", "It", ["It is hot."], ["It is hot"]),
        ("it is hot", "", ["It is hot."], ["it is hot"]),
    ],
)
def test_what_the_source_does_not_have_is_left_out_of_neither_a_prefix_nor_two_candidates_that_become_alike(
    bundle, src, prefix, hypotheses, expected
):
    translator = copying(by_sentence=True, beam_size=4)
    reading = translator.reader.training_text
    reading.capitals = Capitals(nats, "en", "fr", nats)
    reading._files = replace(read_bundle(bundle), manifest={"sha256": {}, "training": {SHARE_OF_SMALL: 0.0}})
    search = translator.piece_search
    search._hypotheses = lambda *_: [[Hypothesis(LETTERS.encode(text), 0.0, 0.0, True) for text in hypotheses]]  # type: ignore[method-assign]
    [[piece]] = translator.pieces([src])
    [candidates] = search.candidates([replace(piece, prefix=tuple(LETTERS.encode(prefix)))], n_best=3)
    assert [candidate.text for candidate in candidates] == expected


def test_the_mark_of_a_term_is_not_left_out(monkeypatch):
    translator = copying(by_sentence=True, beam_size=1)
    terms = SimpleNamespace(with_marks=[("Dog", "!")], constraints_for=lambda *_: None)
    search = replace(translator.piece_search, terminology=cast(Terminology, terms))
    made = [[Hypothesis(LETTERS.encode(text), 0.0, 0.0, True)] for text in ("Dog!.", "A cow!")]
    monkeypatch.setattr(search, "_hypotheses", lambda *_: made)
    [[cat], [cow]] = translator.pieces(["a cat", "a cow"])
    assert [row[0].text for row in search.candidates([cat, cow])] == ["Dog!", "A cow"]


def nats(words: str) -> float:
    return sum(5.0 if letter.isupper() else 1.0 for letter in words)


def test_text_in_capitals_is_read_as_sentences_and_its_translation_becomes_capitals():
    translator = copying(by_sentence=True)
    translator.reader.training_text.capitals = Capitals(nats, "en", "fr")
    lines = ["IT IS HOT.  I SEE A CAT", "It is HOT.", "IT\nIS HOT."]
    read = [segment.text for of_line in translator.segments(lines) for segment in of_line]
    assert read == ["It is hot.", "I see a cat", "It is HOT.", "It is hot."]
    assert translator.translate(lines) == ["IT IS HOT.  I SEE A CAT", "It is HOT.", "IT IS HOT."]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("THE TRAIN LEAVES AT 5 P.M. AND ARRIVES AT 6 P.M.", ["The train leaves at 5 p.m. and arrives at 6 p.m."]),
        ("WE BOUGHT APPLES, PEARS, ETC. AND WENT HOME.", ["We bought apples, pears, etc. and went home."]),
        ("MR. AND MR. SMITH ARE HERE. THE DOG. THE CAT.", ["Mr. And Mr. Smith are here.", "The dog.", "The cat."]),
    ],
)
def test_text_in_capitals_is_not_cut_behind_an_abbreviation(line, read):
    translator = copying(by_sentence=True)
    translator.reader.training_text.capitals = Capitals(lambda words: nats(words) - 9 * words.count("Mr"), "en", "fr")
    assert [segment.text for segment in translator.segments([line])[0]] == read


@pytest.mark.parametrize(("share", "is_read"), [(0.0, "It is hot"), (0.5, "it is hot"), (None, "it is hot")])
def test_text_without_capitals_is_read_as_a_sentence_unless_the_training_text_has_such_lines(bundle, share, is_read):
    training = {} if share is None else {SHARE_OF_SMALL: share}
    translator = copying(by_sentence=True)
    reading = translator.reader.training_text
    reading.capitals = Capitals(nats, "en", "fr", nats)
    reading._files = replace(read_bundle(bundle), manifest={"sha256": {}, "training": training})
    [[segment]] = translator.segments(["it is hot"])
    assert segment.text == is_read
    assert translator.translate(["it is hot"]) == ["it is hot"]
    assert translator.translate(["it is hot."]) == [f"{is_read}."]
    assert translator.reader.with_terms().pieces(["it is hot"], 99)[0][0].replaced.text == "it is hot"


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (
            "hello. where is tom? he is here. i do not know.",
            ["Hello.", "Where is tom?", "He is here.", "I do not know."],
        ),
        ("where is tom? i do not know", ["Where is tom?", "I do not know."]),
        ("he is here. where is tom", ["He is here.", "Where is tom?"]),
        ("he arrives at six p.m. and leaves", ["He arrives at six p.m. and leaves."]),
        ("well. he is here! yes", ["Well.", "He is here!", "Yes"]),
    ],
)
def test_each_sentence_in_small_letters_is_read_alone_and_with_its_own_final_mark(bundle, line, read):
    translator = copying(by_sentence=True)
    reading = translator.reader.training_text
    reading.capitals = Capitals(nats, "en", "fr", nats)
    reading._files = replace(read_bundle(bundle), manifest={"sha256": {}, "training": {SHARE_OF_SMALL: 0.0}})
    reading.words = WordRecord(Counter(), {"he": ".", "i": ".", "where": "?"})
    assert [LETTERS.decode(piece.ids[0]) for piece in translator.pieces([line])[0]] == read


@pytest.mark.parametrize(
    ("text", "read", "translation"),
    [
        ("it is hot and it is hot", ["It is hot", "and it", "is hot"], "it is hot and it is hot"),
        ("it is hot. it is hot", ["It is hot.", "It is hot"], "It is hot. it is hot"),
        ("it is hot and it is hot.", ["It is", "hot and", "it is hot."], "It is hot and it is hot."),
        ("It is hot, and it is hot.", ["It is hot,", "and it", "is hot."], "It is hot, and it is hot."),
    ],
)
def test_a_part_of_a_sentence_without_capitals_gets_none_at_its_start(bundle, text, read, translation):
    translator = copying(max_src_tokens=10)
    reader = translator.reader
    reader.training_text.capitals = Capitals(nats, "en", "fr", nats)
    manifest = {"sha256": {}, "training": {SHARE_OF_SMALL: 0.0}}
    reader.training_text._files = replace(read_bundle(bundle), manifest=manifest)
    [parts] = reader.pieces([text], limit=10)
    assert [part.replaced.text for part in parts] == read
    assert translator.translate([text]) == [translation]


def test_a_title_is_read_as_a_sentence_unless_terms_are_to_match_it_as_it_is_written():
    reader = copying().reader
    reader.training_text.capitals = Capitals(nats, "en", "fr")
    read = [
        [piece.replaced.text for piece in one.pieces(["I See A Cat"], 99)[0]] for one in (reader, reader.with_terms())
    ]
    assert read == [["I see a cat"], ["I See A Cat"]]
