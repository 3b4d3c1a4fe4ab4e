"""Detection: the served languages, and "unsure" for all else."""

import pytest
from tiny_models import tiny_config, tiny_tokenizer

from mtkit.data.sides import Side
from mtkit.serving.detection import Detector
from mtkit.tokens.tokenizer import Tokenizer

pytest.importorskip("py3langid")


@pytest.fixture(scope="module")
def detector():
    return Detector(["en", "fr"])


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The cat sleeps under the table.", "en"),
        ("Le chat dort sous la table.", "fr"),
        ("LE CHAT DORT SOUS LA TABLE.", "fr"),
        ("Où est-ce que tu as mis mes clés ?", "fr"),
        ("Ou est-ce que tu as mis mes cles ?", "fr"),
    ],
)
def test_served_languages_are_told_apart(detector, text, language):
    found = detector.detect(text)
    assert found.language == language
    assert found.candidates[0] == (language, found.confidence)
    assert 0.5 <= found.confidence <= 1


@pytest.mark.parametrize(
    "text",
    [
        "Der Hund schläft heute unter dem Tisch.",
        "De trein naar Berlijn vertrekt vandaag helaas later.",
        "El gato duerme debajo de la mesa de la cocina.",
        "Кошка спит под столом.",
        "今日は天気がいい",
        "Xylophon",
        "Tom",
        "OK",
    ],
)
def test_another_language_or_a_doubtful_text_is_unsure(detector, text):
    assert detector.detect(text).language is None


@pytest.mark.parametrize("text", ["", "  ", "12 %", "3.14 + 2", "😀 😀", "https://www.example.fr/le-monde", "<b></b>"])
def test_what_has_no_words_has_no_language(detector, text):
    found = detector.detect(text)
    assert (found.language, found.confidence, found.candidates) == (None, 0.0, ())


def test_tags_are_no_words_of_english(detector):
    text = '<div class="the main content"><span title="with the words">Le chat dort sous la table.</span></div>'
    assert detector.detect(text).language == "fr"


def test_words_of_the_training_text_decide_a_single_word(tmp_path):
    tokenizer = Tokenizer.load(tiny_tokenizer(tmp_path, tiny_config({})))  # of English sentences
    log_probs = tokenizer.piece_log_probs()
    assert log_probs is not None
    word = "table"  # of French, too
    without = Detector(["en", "fr"]).detect(word)
    assert without.language is None
    found = Detector(["en", "fr"], {"en": Side(tokenizer, log_probs)}).detect(word)
    assert dict(found.candidates)["en"] > dict(without.candidates)["en"]
    assert found.candidates[0][0] == "en"


def test_codes_with_a_region_are_answered_as_they_are_served():
    assert Detector(["en-us", "pt-br"]).detect("O gato dorme debaixo da mesa da cozinha.").language == "pt-br"


def test_a_language_that_nobody_knows_is_never_the_answer():
    found = Detector(["xx", "en"]).detect("The cat sleeps under the table.")
    assert found.language == "en"
    assert [code for code, _ in found.candidates] == ["en"]


def test_long_text_is_judged_by_its_beginning(detector):
    assert detector.detect("Le chat dort sous la table. " * 10_000).language == "fr"
