"""Words with a typo are read as words of the training text; names and words that may be right are not."""

from random import Random

import pytest

from mtkit.tokens import spelling as spelling_module
from mtkit.tokens.spelling import Respelt, Spelling, checksum, misspelt

FREQUENT = "i have read your message the Two two was received by receive house houses quiet quite form from"
OF_FRENCH = "très été Élève élève école Paris le mais maïs"


def spelling(words: str = FREQUENT, lang: str = "en", **counts: int) -> Spelling:
    return Spelling({**dict.fromkeys(words.split(), 100), **counts}, lang)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("i recieve your mesage", "i receive your message"),  # swapped, missing
        ("i have readd teh message", "i have read the message"),  # doubled, swapped
        ("i have resd the message.", "i have read the message."),  # the key next to a
        ("Twp houses", "Two houses"),  # at the start of a sentence
        ("the house. Twp houses", "the house. Two houses"),
        ("i have read, Twp, the message", None),  # inside of one, it may be a name
        ("Receve the message", None),  # the text never begins a sentence with it
        ("i have dogs", None),  # nothing is similar
        ("i read quit", None),  # quiet and quite are as frequent
        ("the read form", None),  # words of the text
        ("THE MESAGE", None),
        ("the mesage is brief", None),  # in a text with other unknown words, it may be one more
        ("see mesage.com, @mesage, mesage_id and mesage.txt", None),
        ("h the hte1 ha", None),  # short, and not a word
    ],
)
def test_a_word_is_read_as_the_only_similar_one_that_is_frequent(text, read):
    assert spelling(see=1).read(text).text == (read or text)


def test_what_was_read_as_another_word_is_reported_in_its_place():
    _, words = spelling().read("i recieve your mesage")
    assert words == (("recieve", "receive"), ("mesage", "message"))
    assert spelling().read("i receive your message") == Respelt("i receive your message")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("tres", "très"),
        ("le eleve", "le élève"),
        ("Eleve", "Élève"),
        ("ecole", "école"),
        ("paris", "paris"),  # known, in other case
    ],
)
def test_accents_that_were_left_out_are_read_wherever_they_belong(text, read):
    assert spelling(OF_FRENCH, "fr").read(text).text == read


@pytest.mark.parametrize(("n", "is_read"), [(9, False), (10, True)])
def test_only_frequent_words_are_read_for_others(n, is_read):
    assert bool(spelling("the", message=n).read("the mesage").words) == is_read


@pytest.mark.parametrize(("n", "is_read"), [(299, False), (300, True)])
def test_of_several_similar_words_the_clearly_more_frequent_one_is_read(n, is_read):
    assert bool(spelling("quite", quiet=n).read("quit").words) == is_read


def test_protected_parts_and_the_words_of_terms_stay():
    text = "the mesage"
    assert spelling().read(text).words
    assert not spelling().read(text, kept=["my mesage"]).words
    assert not spelling().read(text, known={"mesage"}).words


@pytest.mark.parametrize(("word", "lang"), [("government", "en"), ("Straßenbahn", "de"), ("сообщение", "ru")])
def test_each_typo_of_a_word_is_read_as_that_word(word, lang):
    reader = Spelling({word: 100, word.lower(): 100}, lang)
    for seed in range(200):
        assert reader.read(misspelt(word, Random(seed), lang)).text == word


def test_a_rare_word_of_the_training_text_stays():
    assert not Spelling({"message": 100}, "en", {checksum("Mesage")}).read("mesage").words


@pytest.mark.parametrize("text", ["la beaute\u0301", "mes\u00adage", "u\u0308bel"])
def test_letters_next_to_an_accent_or_a_soft_hyphen_of_their_own_are_no_words(text):
    read = Spelling(dict.fromkeys(("beauté", "sage", "age", "mess", "bell"), 100), "fr").read
    assert read("la beaute, bel").text == "la beauté, bell"
    assert read(text) == Respelt(text)


def test_a_word_far_longer_than_any_frequent_one_costs_no_search(monkeypatch):
    monkeypatch.setattr(spelling_module, "_once_mistyped", lambda *_: pytest.fail("a search"))
    assert not spelling().read("the " + "message" * 1_000).words


def test_scripts_that_are_not_typed_letter_by_letter_stay():
    assert spelling("两只猫", "zh").read("两只狗").text == "两只狗"
