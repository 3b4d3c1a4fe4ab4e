"""Cutting lines into pieces: each text goes through the source tokenizer once on its way to the engine."""

from collections import Counter

import pytest
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.translation.translator import Translator

LINES = ["I love the oranges.", "The cat sleeps under the table.", "Do you see the house?", "It rains."]
SENTENCES = ["The old man walks with his dog.", "It rains, and the cat sleeps under the table.", "I love oranges."]


@pytest.fixture
def encoded(monkeypatch):
    """How often the source tokenizer encodes each text."""
    counts: Counter[str] = Counter()
    encode = Tokenizer.encode_replaced

    def count(self, texts):
        if self.path.name == "src.spm":
            counts.update(texts)
        return encode(self, texts)

    monkeypatch.setattr(Tokenizer, "encode_replaced", count)
    return counts


@pytest.mark.parametrize("to_file", [False, True])
def test_a_translated_line_is_encoded_once(encoded, shared_bundle, tmp_path, to_file):
    source = tmp_path / "lines.en"
    source.write_text("\n".join(LINES), encoding="utf-8")
    output = ["--output", str(tmp_path / "lines.fr")] if to_file else []
    command = ["translate", "--model", str(shared_bundle), "--input", str(source), "--on-suspect", "warn", *output]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert {line: encoded[line] for line in LINES} == dict.fromkeys(LINES, 1)


def test_no_part_of_a_line_that_is_cut_is_encoded_twice(encoded, shared_bundle):
    translator = Translator.load(shared_bundle, device="cpu", max_src_tokens=8, on_suspect="warn")
    encoded.clear()
    translator.translate([" ".join(SENTENCES)])
    assert {sentence: encoded[sentence] for sentence in SENTENCES} == dict.fromkeys(SENTENCES, 1)
    assert max(encoded.values()) == 1


def test_a_second_search_does_not_encode_its_line_again(encoded, shared_bundle, monkeypatch):
    translator = Translator.load(shared_bundle, device="cpu", on_suspect="retry")
    asked = []
    search = translator.engine.decode
    monkeypatch.setattr(
        translator.engine, "decode", lambda segments, *rest: asked.extend(segments) or search(segments, *rest)
    )
    translator.translate(LINES)
    assert len(asked) > len(LINES)
    assert {line: encoded[line] for line in LINES} == dict.fromkeys(LINES, 1)


def test_a_line_without_a_term_is_encoded_once(encoded, shared_bundle, tmp_path):
    terms = tmp_path / "terms.tsv"
    terms.write_text("source\ttarget\nriver\trivière\n", encoding="utf-8")
    translator = Translator.load(shared_bundle, device="cpu", terminology=terms, on_suspect="warn")
    translator.translate(LINES)
    assert {line: encoded[line] for line in LINES} == dict.fromkeys(LINES, 1)
