"""One check of translations for all uses: rules first, then the lexicon where a translation is short."""

from types import SimpleNamespace
from typing import cast

import pytest

from mtkit.alignment.checks import Checks
from mtkit.alignment.coverage import Coverage
from mtkit.bundle import BundleFiles
from mtkit.quality.faults import Fault
from mtkit.tokens.tokenizer import Tokenizer

SRC, SHORT, LONG = "I love oranges and small dogs.", "J'aime les oranges.", "J'aime les oranges et les chiens."


class Letters:
    """Every character is a token."""

    def encode(self, text):
        return [ord(character) for character in text]


@pytest.fixture
def checks(monkeypatch):
    """Checks with a lexicon that never finds the small dogs; `asked` has what it was asked."""
    asked = []

    class Lexicon:
        def left_out(self, src_ids, tgt_ids, text, among):
            asked.append((src_ids, tgt_ids, among))
            return "small dogs"

    monkeypatch.setattr(Coverage, "from_bundle", lambda files, tokenizer: Lexicon())
    files = SimpleNamespace(manifest={"training": {"target_letters_per_source_letter": 1.18}})
    made = Checks("fr", cast(BundleFiles, files), cast(tuple[Tokenizer, Tokenizer], (Letters(), Letters())))
    return SimpleNamespace(faults=made.faults, asked=asked)


def test_a_short_translation_without_some_words_is_an_omission(checks):
    assert checks.faults(SRC, SHORT, ([1], [2])) == (Fault("omission", "small dogs"),)
    assert checks.asked == [([1], [2], "")]
    assert Checks("fr").faults(SRC, SHORT, ([1], [2])) == ()  # there is no bundle


def test_without_a_model_the_tokenizers_read_the_texts(checks):
    assert checks.faults(SRC, SHORT) == (Fault("omission", "small dogs"),)
    assert checks.asked == [([ord(c) for c in SRC], [ord(c) for c in SHORT], "")]
    assert checks.faults(SRC.upper(), SHORT.upper()) == ()  # a model may have read it in lower case


def test_the_lexicon_is_asked_only_where_it_decides(checks):
    assert checks.faults(SRC, LONG, ([1], [2])) == ()
    assert [fault.kind for fault in checks.faults(SRC, "", ([1], []))] == ["empty"]
    assert [fault.kind for fault in checks.faults(SRC, SHORT, finished=False)] == ["length"]
    assert checks.asked == []


def test_words_that_were_missing_count_in_a_translation_of_any_length(checks):
    before = (Fault("number", "25"), Fault("omission", "small dogs"))
    assert checks.faults(SRC, LONG, ([1], [2]), before=before) == (Fault("omission", "small dogs"),)
    assert checks.asked == [([1], [2], "small dogs")]
    assert checks.faults(SRC, LONG, ([1], [2]), before=[Fault("omission")]) == ()
