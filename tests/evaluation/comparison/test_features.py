"""Kinds of sentences, compared with a reader's answers."""

import pytest

from mtkit.evaluation.comparison.features import TrainingWords, find_features, is_question, names_in


def feature(name: str, sources: list[str], references: list[str] | None = None, **given):
    found = find_features(sources, [references or [""] * len(sources)], **given)
    return next(feature for feature in found if feature.name == name)


@pytest.mark.parametrize(
    ("n_words", "bucket"),
    [(0, "no words"), (1, "1–5 words"), (5, "1–5 words"), (6, "6–10 words"), (20, "11–20 words"), (41, "41+ words")],
)
def test_length_is_counted_in_words_without_punctuation(n_words, bucket):
    assert feature("source length", [", ".join(["word"] * n_words) + " !"]).bucket_of == (bucket,)


def test_characters_of_scripts_without_spaces_count_as_words():
    assert feature("source length", ["我爱吃橙子和苹果。"]).bucket_of == ("6–10 words",)


def test_every_sentence_is_in_exactly_one_bucket_of_every_feature():
    sources = ["", "Is it 5?", "No.", "Tom sees two cats in Boston."]
    for found in find_features(sources, [[""] * 4], src_lang="en", training=TrainingWords(sources)):
        indices = [index for bucket in found.buckets for index in found.indices(bucket)]
        assert sorted(indices) == [0, 1, 2, 3], found.name
        assert all(found.indices(bucket) for bucket in found.buckets)


@pytest.mark.parametrize(
    ("n_times", "bucket"),
    [(0, "never seen"), (1, "1–9 times"), (9, "1–9 times"), (10, "10–99 times"), (1000, "1,000+ times")],
)
def test_rarity_is_that_of_the_rarest_word_whatever_its_case(n_times, bucket):
    training = TrainingWords(["The Quince is 77."])
    for _ in range(2000):
        training.add("the is")
    for _ in range(n_times):
        training.add("a QUINCE, and other words")
    found = feature("rarest word", ["The Quince is 77."], training=training)
    assert found.bucket_of == (bucket,)  # 77 was never seen, but is no word
    assert f"{2000 + n_times:,} training lines" in found.how
    assert set(training.counts) <= {"the", "quince", "is"}  # nothing is kept of other words


@pytest.mark.parametrize(
    ("source", "lang", "bucket"),
    [
        ("I have 3 cats.", "en", "in digits"),
        ("I have three cats.", "en", "in words only"),
        ("I have one cat.", "en", "without numbers"),  # a pronoun as often as a number
        ("J'ai une maison.", "fr", "without numbers"),
        ("J'ai deux maisons.", "fr", "in words only"),
        ("I have three cats.", None, "without numbers"),
    ],
)
def test_numbers_are_recognised_in_digits_and_in_words(source, lang, bucket):
    assert feature("numbers", [source], src_lang=lang).bucket_of == (bucket,)


@pytest.mark.parametrize(
    ("source", "reference", "lang", "names"),
    [
        ("Yesterday Tom went to Paris.", "Hier, il partit.", "en", ["Tom", "Paris"]),
        ("Tom went away.", "Tom partit.", "en", ["Tom"]),  # at the start, but the reference has it, too
        ("There he is. Here I'm.", "Le voilà. Me voici.", "en", []),
        ('She said: "Go!" - Then she left.', "", "en", []),
        ("Tom's dog sleeps.", "Le chien de Tom dort.", "en", ["Tom's"]),
        ("Der Hund von Anna bellt.", "Anna's dog barks.", "de", ["Anna"]),  # a dog is no name
        ("WE SAW TOM.", "ON A VU TOM.", "en", []),
        ("汤姆走了。", "Tom left.", "zh", []),
    ],
)
def test_names_are_capitalised_words_within_a_sentence_or_in_the_reference_too(source, reference, lang, names):
    assert names_in(source, [reference], lang) == names


def test_a_script_without_capitals_has_no_feature_names():
    assert "names" not in [found.name for found in find_features(["我来。"], [["I come."]])]
    assert "names" in [found.name for found in find_features(["I come."], [["我来。"]])]


@pytest.mark.parametrize("text", ["Is it?", 'He asked: "Is it?"', "¿Qué?", "你好吗？", "«Où ?»"])
def test_questions_are_recognised(text):
    assert is_question(text)


def test_other_sentences_are_not_questions():
    assert not is_question("Is it? Yes.")
    assert not is_question("He said so;")
    assert is_question("Τι;", "el")
    assert is_question("What?!")


def test_features_that_need_missing_information_are_left_out():
    without = [found.name for found in find_features(["I do not."], [["Non."]])]
    assert without == ["source length", "numbers", "names", "questions"]
    assert feature("negation", ["I do not.", "I do."], src_lang="en").bucket_of == ("negated", "not negated")
    assert "negation" not in [found.name for found in find_features(["Nem."], [["No."]], src_lang="hu")]
