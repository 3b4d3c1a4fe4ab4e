"""Comparisons: the winner is known by construction, the figures are sacreBLEU's."""

import json

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from mtkit.errors import DataError
from mtkit.evaluation.comparison.comparison import Pair, SortedTestSet, compare
from mtkit.evaluation.comparison.features import find_features
from mtkit.evaluation.comparison.systems import System
from mtkit.evaluation.comparison.text import (
    as_structure,
    breakdown,
    breakdown_structure,
    headline,
    n_tested,
    report,
    verdict,
)
from mtkit.evaluation.metrics.settings import MetricSettings
from mtkit.evaluation.metrics.significance import Chance, PairedDifference

ANIMALS = ["cat", "dog", "horse", "bird"]
SOURCES = [f"The {ANIMALS[n % 4]} sleeps{'?' if n % 2 else '.'}" for n in range(40)]
REFERENCES = [f"{ANIMALS[n % 4]} number {n} is asleep here" for n in range(40)]
BASELINE = [line if n % 3 else line.replace("asleep", "up") for n, line in enumerate(REFERENCES)]
OTHER = [line if n % 10 != 1 else "nothing at all" for n, line in enumerate(REFERENCES)]
WINS = [n for n in range(40) if n % 3 == 0 and n % 10 != 1]
SURE, CHANCE = "significant", "not significant"
FEW = Chance(60, 200)
LOSSES = [n for n in range(40) if n % 10 == 1]


@pytest.fixture(scope="module")
def test_set() -> SortedTestSet:
    return SortedTestSet(SOURCES, [REFERENCES], find_features(SOURCES, [REFERENCES], src_lang="en"))


@pytest.fixture(scope="module")
def found(test_set):
    systems = [System("old", BASELINE), System("new", OTHER), System("same", BASELINE)]
    return compare(systems, test_set, chance=FEW)


def test_sentences_are_won_and_lost_by_their_own_chrf(found):
    new, same = found.pairs
    chrf = [
        [CHRF().sentence_score(text, [ref]).score for text, ref in zip(texts, REFERENCES, strict=True)]
        for texts in (BASELINE, OTHER)
    ]
    gains = [b - a for a, b in zip(*chrf, strict=True)]
    assert (new.wins, new.losses, new.ties) == (len(WINS), len(LOSSES), 40 - len(WINS) - len(LOSSES))
    assert new.n_identical == new.ties
    assert new.gains == pytest.approx(gains)
    assert new.largest_gains(3) == sorted(WINS, key=lambda n: -gains[n])[:3]
    assert new.largest_losses(100) == sorted(LOSSES, key=lambda n: gains[n])
    assert (same.wins, same.ties, same.losses, same.n_identical) == (0, 40, 0, 40)
    assert same.largest_gains(5) == same.largest_losses(5) == []


def test_every_figure_is_sacrebleus_in_all_buckets_and_in_total(found):
    for judged, texts in zip(found.systems, (BASELINE, OTHER, BASELINE), strict=True):
        assert judged.score.scores["BLEU"] == BLEU().corpus_score(texts, [REFERENCES]).score
    questions = next(feature for feature in found.features if feature.name == "questions")
    for bucket, numbers in zip(questions.buckets, (range(1, 40, 2), range(0, 40, 2)), strict=True):
        texts, refs = [OTHER[n] for n in numbers], [REFERENCES[n] for n in numbers]
        assert bucket.scores[1].scores["chrF2"] == CHRF().corpus_score(texts, [refs]).score
        assert bucket.n == 20
    for feature in found.features:
        assert sum(bucket.n for bucket in feature.buckets) == 40
    assert found.everything.scores == [judged.score for judged in found.systems]


def test_the_report_names_the_winner_and_shows_what_it_won_by(found):
    lines = list(report(found))
    assert lines[: len(list(headline(found)))] == list(headline(found))
    text = "\n".join(lines)
    scores = [BLEU().corpus_score(texts, [REFERENCES]).score for texts in (BASELINE, OTHER)]
    assert f"BLEU: new is better than old by {scores[1] - scores[0]:.2f}: " in text
    assert "BLEU: same and old score the same" in text
    assert f"new better on {found.pairs[0].wins}, worse on {found.pairs[0].losses}" in text
    gain = found.pairs[0].largest_gains(1)[0]
    assert f"line {gain + 1}: {found.pairs[0].gains[gain]:+.1f} chrF2" in text
    assert "is [-up-] here" in text and "is {+asleep+} here" in text
    assert "where same gains most" not in text
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (
            PairedDifference(1.5, 0.2, 2.8, 0.98, 0.002, 0.01),
            f"new is better than old by 1.50: {SURE} (p = 0.010, better in 98.0%",
        ),
        (
            PairedDifference(-1.5, -2.8, -0.2, 0.02, 0.002, 0.01),
            f"old is better than new by 1.50: {SURE} (p = 0.010, better in 98",
        ),
        (
            PairedDifference(0.5, -1.2, 2.3, 0.7, 0.04, 0.2),
            f"new is better than old by 0.50: {CHANCE} (p = 0.200, better in 70.0%",
        ),
        (
            PairedDifference(0.5, 0.01, 2.3, 0.97, 0.0498, 0.0498),
            f"new is better than old by 0.50: {SURE} (p = 0.0498, better",
        ),
        (
            PairedDifference(9.5, 7, 12, 1, 0.0001, 0.0002),
            f"new is better than old by 9.50: {SURE} (p < 0.001, better",
        ),
        (PairedDifference(0.5), "new is better than old by 0.50; fewer than 30 sentences"),
        (PairedDifference(0.0, -1, 1, 0.5, 1, 1), "new and old score the same"),
    ],
)
def test_a_verdict_says_which_system_is_better_and_whether_significantly(difference, words):
    pair = Pair("old", "new", {"BLEU": difference}, wins=0, ties=1, losses=0, n_identical=1, gains=[0.0])
    assert verdict(pair, "BLEU").startswith(f"BLEU: {words}")


def test_a_star_is_for_tested_buckets_only(found):
    questions = next(feature for feature in found.features if feature.name == "questions")
    assert all(found.p is None for bucket in questions.buckets for by in bucket.differences for found in by.values())
    large = sum(bucket.n >= 30 for f in found.features if len(f.buckets) > 1 for bucket in f.buckets)
    assert n_tested(found) == large * 2 * 2


def test_the_structure_is_json_and_holds_every_sentence(found):
    structure = json.loads(json.dumps(as_structure(found), allow_nan=False))
    assert [system["name"] for system in structure["systems"]] == ["old", "new", "same"]
    assert structure["pairs"][0]["wins"] == found.pairs[0].wins
    assert "gains" not in structure["pairs"][0]
    sentence = structure["sentences"][3]
    assert (sentence["line"], sentence["src"], sentence["refs"]) == (4, SOURCES[3], [REFERENCES[3]])
    assert sentence["buckets"]["questions"] == "question"
    assert [system["text"] for system in sentence["systems"]] == [BASELINE[3], OTHER[3], BASELINE[3]]
    assert structure["signatures"]["BLEU"].startswith("nrefs:1|")


def test_systems_of_another_length_are_refused(test_set):
    with pytest.raises(DataError, match="b: 39 translations of 40 source lines"):
        compare([System("a", BASELINE), System("b", OTHER[1:])], test_set)


def test_an_empty_test_set_is_refused():
    with pytest.raises(DataError, match="0 lines"):
        compare([System("a", []), System("b", [])], SortedTestSet([], [[]], []))


def test_a_single_system_has_its_scores_by_kind_and_nothing_to_test(test_set):
    found = compare([System("old", BASELINE)], test_set)
    assert found.pairs == []
    lines = list(breakdown(found))
    question = next(line for line in lines if line.startswith("  question"))
    texts, refs = BASELINE[1::2], [REFERENCES[1::2]]
    scores = BLEU().corpus_score(texts, refs).score, CHRF().corpus_score(texts, refs).score
    assert question.split() == ["question", "20", *(f"{score:.2f}" for score in scores)]
    assert not any("tested" in line for line in lines)
    assert lines[0].split() == ["length", "ratio", "1.000"]
    [system] = breakdown_structure(found)["systems"]
    assert (system["name"], system["length_ratio"]) == ("old", 1)


def test_settings_reach_the_score_of_every_kind(test_set):
    loud = [line.upper() for line in REFERENCES]
    found = compare([System("loud", loud)], test_set, settings=MetricSettings(lowercase=True))
    assert all(bucket.scores[0].scores["chrF2"] == 100 for feature in found.features for bucket in feature.buckets)
