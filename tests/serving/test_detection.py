"""Detection: the served languages, and "unsure" for all else."""

import pytest
from tiny_models import tiny_config, tiny_tokenizer

from mtkit.data.sides import Side
from mtkit.serving.detection import UNDETERMINED, Detection, Detector, Source, choose_source
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
    ],
)
def test_another_language_or_a_doubtful_text_is_unsure(detector, text):
    assert detector.detect(text).language is None


@pytest.mark.parametrize(
    "text", ["", "  ", "12 %", "3.14 + 2", "😀 😀", "https://www.example.fr/le-monde", "<b></b>", "OK", "N/A", "USB"]
)
def test_what_has_no_words_has_no_language(detector, text):
    found = detector.detect(text)
    assert (found.language, found.confidence, found.candidates, found.has_language) == (None, 0.0, (), False)
    assert choose_source(found, ["en"], "fr") == Source(None, UNDETERMINED, 0.0)


@pytest.mark.parametrize("text", ["proton beam", "Tom", "Sign in", "Banana", "v2.3.1"])
def test_the_only_source_of_the_target_is_taken_for_an_unclear_text(text):
    found = Detector(["en", "de"]).detect(text)
    chosen = choose_source(found, ["en"], "de")
    assert found.language is None
    assert (chosen.language, chosen.reported) == ("en", "en") and chosen.confidence < 0.5


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("Le chat dort sous la table.", "fr"),
        ("De trein naar Berlijn vertrekt vandaag helaas later.", "nl"),
        ("今日は天気がいい", "ja"),
        ("Кошка спит под столом.", "ru"),
    ],
)
def test_a_text_clearly_in_another_language_is_not_translated_from_the_only_source(text, reported):
    chosen = choose_source(Detector(["en", "de"]).detect(text), ["en"], "de")
    assert (chosen.language, chosen.reported) == (None, reported) and chosen.confidence > 0.5


def test_a_text_in_the_target_language_is_its_own_translation():
    found = Detector(["en", "de"]).detect("Der Hund schläft heute unter dem Tisch.")
    assert choose_source(found, ["en"], "de").language == "de"


def test_an_unclear_text_is_in_the_likeliest_source():
    found = Detector(["en", "fr", "es", "de"]).detect("haz de protones")  # Spanish
    assert found.language is None
    chosen = choose_source(found, ["en", "fr", "es"], "de")
    assert chosen.language == "es" and chosen.confidence < 0.5


def test_a_served_language_without_a_way_to_the_target_is_left():
    found = Detector(["en", "fr", "de"]).detect("Il fait beau et le chat dort.")
    assert choose_source(found, ["en"], "de") == Source(None, "fr", found.confidence)


def test_a_source_that_the_detector_does_not_know_is_possible_for_any_text():
    found = Detector(["xx", "de"]).detect("Le chat dort sous la table.")
    assert choose_source(found, ["xx"], "de") == Source("xx", "xx", 0.0)


def test_a_word_of_both_languages_is_translated():
    table = Detection("fr", 0.51, [("fr", 0.51), ("en", 0.45)])
    assert choose_source(table, ["en"], "fr") == Source("en", "en", 0.45)
    french = Detection("fr", 0.51, [("fr", 0.51), ("en", 0.05)])
    assert choose_source(french, ["en"], "fr") == Source("fr", "fr", 0.51)


def test_relatives_of_the_source_do_not_count_as_another_language():
    danish = Detector(["nb", "en"]).detect("Jeg ved ikke hvad det er, men han kommer i morgen.")
    assert choose_source(danish, ["nb"], "en").language == "nb"


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
