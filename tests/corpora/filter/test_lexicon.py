"""A lexicon learned from good pairs."""

import random
from collections import Counter

import numpy as np
import pytest

from mtkit.corpora.filter.lexicon import N_FEATURES, Lexicon

FOUR = [("red dog", "rot Hund"), ("red dog", "rot Hund"), ("red cat", "rot Katze"), ("red cat", "rot Katze")]
SRC_MIN, TGT_MIN, SRC_ALONE = 1, 6, 3  # columns: the worst word of each side, share of words without a partner


def test_words_belong_together_as_far_as_they_occur_together():
    lexicon = Lexicon.learn(FOUR, ("en", "de"))
    right, wrong, half = lexicon.features([("red dog", "rot Hund"), ("dog", "Katze"), ("red dog", "rot Katze")])
    assert right[[SRC_MIN, TGT_MIN, SRC_ALONE]].tolist() == [1, 1, 0]
    assert wrong[[SRC_MIN, TGT_MIN, SRC_ALONE]].tolist() == [0, 0, 1]
    # dog and rot: 2 pairs of 2 and of 4, sqrt(2^2 / (2 x 4))
    assert half[[SRC_MIN, TGT_MIN]] == pytest.approx([0.5**0.5] * 2)


def test_of_too_many_pairs_the_first_ones_alone_count(monkeypatch):
    monkeypatch.setattr("mtkit.corpora.filter.lexicon._MOST_LINKS", 17)  # each pair has 4
    learned = Lexicon.learn([*FOUR, *[("red fox", "Fuchs rot")] * 50], ("en", "de")).arrays()
    assert {key: values.tolist() for key, values in learned.items()} == {
        key: values.tolist() for key, values in Lexicon.learn(FOUR, ("en", "de")).arrays().items()
    }


def test_the_entries_are_those_of_a_plain_count():
    chance = random.Random(1)
    src, tgt = Counter[str](), Counter[str]()
    both = Counter[tuple[str, str]]()

    def text() -> str:
        return " ".join(chance.choices("abcdefgh", k=chance.randint(1, 6)))

    pairs = [(text(), text()) for _ in range(300)]
    for one, other in pairs:
        src.update({*one.split()})
        tgt.update({*other.split()})
        both.update((s, t) for s in {*one.split()} for t in {*other.split()})
    lexicon = Lexicon.learn(pairs, ("en", "de"))
    found = {
        (lexicon.words[0][key // len(lexicon.counts[1]) - 1], lexicon.words[1][key % len(lexicon.counts[1]) - 1]): value
        for key, value in zip(lexicon.keys.tolist(), lexicon.strengths.tolist(), strict=True)
    }
    assert found == pytest.approx({(s, t): n / (src[s] * tgt[t]) ** 0.5 for (s, t), n in both.items() if n > 1})


def test_a_pair_does_not_depend_on_others_and_a_blank_one_is_zero():
    lexicon = Lexicon.learn(FOUR, ("en", "de"))
    pairs = [("red dog", "rot Katze"), ("", "rot"), ("Tom's red cat!", "Toms Katze 12"), ("x", "y")]
    together = lexicon.features(pairs)
    assert together.shape == (4, N_FEATURES)
    assert not together[1].any()
    for row, pair in zip(together, pairs, strict=True):
        assert lexicon.features([pair])[0].tolist() == row.tolist()
    assert lexicon.features([]).shape == (0, N_FEATURES)


def test_an_unknown_word_fits_itself_and_lost_numbers_and_negations_are_seen():
    lexicon = Lexicon.learn(FOUR, ("en", "de"))
    same, other = lexicon.features([("Zoe 17", "Zoe 17"), ("Zoe 17", "Eva 18")])
    assert (same[SRC_MIN], other[SRC_MIN]) == (1, 0)
    assert (same[-1], other[-1]) == (0, 1)
    assert lexicon.features([("three dogs", "3 Hunde")])[0, -1] == 0
    negated = lexicon.features([("not red", "nicht rot"), ("not red", "rot"), ("red", "nicht rot")])
    assert negated[:, -2].tolist() == [0, 1, 1]


def test_characters_are_words_where_there_are_no_spaces():
    pairs = [("red dog", "红狗"), ("red dog", "红狗"), ("red cat", "红猫"), ("red cat", "红猫")]
    found = Lexicon.learn(pairs, ("en", "zh")).features([("dog", "狗"), ("dog", "猫")])
    assert found[:, SRC_MIN].tolist() == [1, 0]


def test_arrays_make_the_same_lexicon():
    lexicon = Lexicon.learn(FOUR, ("en", "de"))
    again = Lexicon.from_arrays(lexicon.arrays(), ("en", "de"))
    pairs = [("red dog", "rot Katze"), ("cat", "Hund!")]
    assert np.array_equal(again.features(pairs), lexicon.features(pairs))
