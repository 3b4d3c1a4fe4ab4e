"""The corpus as a whole: counts, one translation each, disjoint splits, the same everywhere."""

import os
import re
import subprocess
import sys
from collections import Counter

import pytest
from sample_grammar import verbs
from sample_grammar.choices import Dice
from sample_grammar.corpus import Splits, sample_pairs, split
from sample_grammar.entries import Verb
from sample_grammar.frames.actions import liking
from sample_grammar.nouns import NOUNS
from sample_grammar.words import (
    ADJECTIVES,
    CITIES,
    COUNTRIES,
    MOODS,
    NAMES,
    NATIONALITIES,
    NUMBERS,
    PRONOUNS,
    TRAITS,
)

from mtkit.data.sample import DEMO_PAIRS

pytestmark = pytest.mark.slow  # test_make_sample.py fails first if a change of the grammar changes the corpus

Pairs = list[tuple[str, str]]


def words(text: str) -> list[str]:
    return re.findall(r"[\w-]+'?", text.lower())


def test_the_corpus_is_large_enough(pairs: Pairs) -> None:
    assert len(set(pairs)) == len(pairs) >= 20_000


def test_the_lexicon_has_three_hundred_entries() -> None:
    all_verbs = {
        item
        for value in vars(verbs).values()
        for item in (value if isinstance(value, tuple) else [value])
        if isinstance(item, Verb)
    }
    others = (ADJECTIVES, TRAITS, MOODS, NATIONALITIES, NAMES, PRONOUNS, NUMBERS, CITIES, COUNTRIES)
    assert len(NOUNS) + len(all_verbs) + sum(len(table) for table in others) >= 300


def test_an_english_sentence_has_one_translation() -> None:
    french_of: dict[str, str] = {}
    for seed in (1, 2, 3):
        for en, fr in sample_pairs(seed, n_pairs=15_000):
            assert french_of.setdefault(en, fr) == fr, en


def test_most_sentences_are_short(pairs: Pairs) -> None:
    lengths = [len(en.split()) for en, _ in pairs]
    assert max(lengths) <= 16
    assert sum(3 <= length <= 12 for length in lengths) > 0.99 * len(pairs)


def test_every_noun_is_met_often(splits: Splits) -> None:
    times = Counter(form for _, fr in splits.train for form in words(fr))
    rare = {
        noun.fr: count
        for noun in NOUNS
        if (count := sum(times[form] for form in {noun.fr.split()[0].split("'")[-1], _plural_head(noun.fr)})) < 25
    }
    assert rare == {}


def _plural_head(fr: str) -> str:
    head = fr.split()[0]
    if head.endswith("al"):
        return head[:-2] + "aux"
    return head + ("x" if head.endswith(("eau", "ou")) else "s")


def test_the_splits_have_the_sizes_that_were_asked_for(splits: Splits) -> None:
    assert (len(splits.train), len(splits.dev), len(splits.test)) == (24_000, 500, 500)


@pytest.mark.parametrize("side", [0, 1])
def test_no_sentence_of_either_side_is_in_two_splits(splits: Splits, side: int) -> None:
    train, dev, test = ({pair[side] for pair in part} for part in (splits.train, splits.dev, splits.test))
    assert not train & dev
    assert not train & test
    assert not dev & test


def test_the_demo_is_in_no_split_but_its_words_are_in_train(splits: Splits) -> None:
    assert ("I love oranges.", "J'aime les oranges.") in DEMO_PAIRS
    for side in (0, 1):
        sentences = {pair[side] for part in (splits.train, splits.dev, splits.test) for pair in part}
        known = {word for pair in splits.train for word in words(pair[side])}
        for pair in DEMO_PAIRS:
            assert pair[side] not in sentences
            assert set(words(pair[side])) <= known


@pytest.mark.parametrize("side", [0, 1])
def test_what_the_demo_translates_is_left_out_of_the_corpus(monkeypatch: pytest.MonkeyPatch, side: int) -> None:
    drawn = sample_pairs(seed=3, n_pairs=50)[20]
    shown = ("x", drawn[1]) if side else (drawn[0], "x")  # one side is enough
    monkeypatch.setattr("sample_grammar.corpus.DEMO_PAIRS", (shown,))
    assert drawn not in sample_pairs(seed=3, n_pairs=50)


def test_the_grammar_would_say_the_first_sentence_of_the_demo() -> None:
    dice = Dice(seed=1)
    said = dict(liking(dice) for _ in range(15_000))
    assert said["I love oranges."] == "J'aime les oranges."


@pytest.mark.parametrize("side", [0, 1])
def test_held_out_sentences_are_made_of_words_that_train_has_often(splits: Splits, side: int) -> None:
    times = Counter(word for pair in splits.train for word in set(words(pair[side])))
    assert min(times[word] for pair in splits.dev + splits.test for word in words(pair[side])) >= 20


def test_held_out_sentences_are_of_many_kinds(splits: Splits) -> None:
    for part in (splits.dev, splits.test):
        texts = " ".join(fr for _, fr in part)
        for kind in (" ?", "est-ce que", "n'", " pas ", " les ", " de la ", "plus ", "Où ", " va ", "J'ai"):
            assert kind in texts, kind


def test_splitting_refuses_too_few_pairs() -> None:
    with pytest.raises(ValueError, match="40 pairs are too few for two held-out sets of 500"):
        split([(f"Sentence {i}.", f"Phrase {i}.") for i in range(40)])


def test_the_seed_decides() -> None:
    assert sample_pairs(4, 300) == sample_pairs(4, 300)
    assert sample_pairs(4, 300) != sample_pairs(5, 300)


@pytest.mark.parametrize("hash_seed", ["1", pytest.param("2", marks=pytest.mark.slow)])  # here it is a third one
def test_the_corpus_is_the_same_in_every_process(pairs: Pairs, hash_seed: str) -> None:
    program = "from sample_grammar.corpus import sample_pairs, split; print(split(sample_pairs(1), 1).test[:50])"
    output = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONHASHSEED": hash_seed,
            "PYTHONIOENCODING": "utf-8",
        },
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    assert output.strip() == repr(split(pairs, 1).test[:50])


def test_dice_use_only_what_python_promises_to_keep() -> None:
    # The Mersenne Twister's first numbers for seed 1 are 0.1343..., 0.8474..., 0.7637...
    dice = Dice(1)
    assert [dice.one(range(10)) for _ in range(3)] == [1, 8, 7]


def test_dice_are_fair() -> None:
    dice = Dice(3)
    times = Counter(dice.one("abcd") for _ in range(8000))
    assert set(times) == set("abcd")
    assert all(1800 < count < 2200 for count in times.values())
    assert 1800 < sum(dice.chance(0.25) for _ in range(8000)) < 2200
    assert sorted(dice.shuffled(range(50))) == list(range(50)) != dice.shuffled(range(50))
