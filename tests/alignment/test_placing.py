"""Protected text taken out of a source and put into a translation."""

from typing import cast

import pytest

from mtkit.alignment.placing import Aligner, readable, without
from mtkit.search.hypothesis import Engine
from mtkit.tokens.tokenizer import Tokenizer


@pytest.mark.parametrize(
    ("text", "values", "read"),
    [
        ("I love oranges @x.", ["@x"], "I love oranges."),
        ("I love @x oranges.", ["@x"], "I love oranges."),
        ("@x I love it", ["@x"], "I love it"),
        ("1. I love it", ["1"], "I love it"),  # the full stop belongs to the number
        ("I love it. @x, @y.", ["@x", "@y"], "I love it."),
        ("The house (@x) is old", ["@x"], "The house is old"),
        ("the %ss", ["%s"], "the s"),
        ("@x, @y!", ["@x", "@y"], ""),
    ],
)
def test_the_model_reads_the_rest_of_a_text(text, values, read):
    spans = [(text.index(value), text.index(value) + len(value)) for value in values]
    inline = without(text, spans)
    assert readable(inline) == read
    assert inline.source == text


ENGINE, TOKENIZER = cast(Engine, object()), cast(Tokenizer, object())  # an engine that shows no attention


def put_back(text, values, translation):
    spans = [(text.index(value), text.index(value) + len(value)) for value in values]
    aligner = Aligner(ENGINE, (TOKENIZER, TOKENIZER), None)  # words at like places correspond
    return aligner.put_back([without(text, spans)], [translation])[0]


@pytest.mark.parametrize(
    ("text", "values", "translation", "expected"),
    [
        ("@x I love it", ["@x"], "Je l'aime", ("@x Je l'aime", 0)),
        ("1. I love it", ["1"], "Je l'aime", ("1. Je l'aime", 0)),
        ("I love it @x.", ["@x"], "Je l'aime.", ("Je l'aime @x.", 0)),
        ("I love it @x?", ["@x"], "Est-ce ça ?", ("Est-ce ça @x?", 0)),
        ("I love it. @x, @y.", ["@x", "@y"], "Je l'aime.", ("Je l'aime. @x, @y.", 0)),
        ("@x I love it @y", ["@x", "@y"], "Je l'aime", ("@x Je l'aime @y", 0)),
        ("The dog runs:", [":"], "Le chien court", ("Le chien court:", 0)),
        ("one @x two", ["@x"], "un deux", ("un @x deux", 1)),
        ("one, @x two", ["@x"], "un deux trois", ("un deux @x trois", 1)),
        ("one%s two", ["%s"], "un deux", ("un%s deux", 1)),
        ("one @x two", ["@x"], "一二", ("一@x二", 1)),  # Chinese has no spaces
        ("(@x) one two", ["@x"], "un deux", ("(@x) un deux", 0)),
        ("@x", ["@x"], "", ("@x", 0)),
        ("one @x two", ["@x"], "", ("@x", 0)),
    ],
)
def test_kept_text_stands_where_it_stood_with_its_spaces(text, values, translation, expected):
    assert put_back(text, values, translation) == expected


def test_text_at_an_edge_needs_no_alignment(monkeypatch):
    def never(*_):
        raise AssertionError("loads a model")

    monkeypatch.setattr(Aligner, "_model", property(never))
    assert put_back("@x one two. @y", ["@x", "@y"], "un deux.") == ("@x un deux. @y", 0)
    with pytest.raises(AssertionError):
        put_back("one @x two", ["@x"], "un deux")
