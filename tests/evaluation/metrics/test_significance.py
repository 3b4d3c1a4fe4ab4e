"""Several systems against sacreBLEU's own paired tests, and against what can be counted by hand."""

import itertools
import random
from operator import ge, gt

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from mtkit.evaluation.metrics import statistics
from mtkit.evaluation.metrics.scores import DEFAULTS, MetricScore
from mtkit.evaluation.metrics.significance import (
    Chance,
    PairedDifference,
    SystemScores,
    best,
    compare,
    corrected,
    holm,
    over_seeds,
    paired_differences,
)
from mtkit.evaluation.metrics.statistics import Statistics, extract

WORDS = ["le", "chat", "dort", "sous", "la", "table", "rouge", ",", "l'orange", "Où", "est-il", "?", "été", "30.5"]
N_COMPARED = 30  # sentences for which sacreBLEU computes all figures, too, which takes most of the time


def worsened(lines: list[str], share: float, seed: int) -> list[str]:
    """The lines, with some of their words replaced."""
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) if rng.random() < share else word for word in line.split()) for line in lines]


@pytest.fixture(scope="module")
def references() -> list[list[str]]:
    rng = random.Random(0)
    first = [" ".join(rng.choices(WORDS, k=rng.randint(1, 12))) + "." for _ in range(61)]
    return [first, worsened(first, 0.3, 1), [line.partition(" ")[2] for line in first]]


@pytest.fixture(scope="module")
def systems(references) -> dict[str, list[str]]:
    """Good, as good, a little better than the first, poor, and one that leaves sentences out."""
    good = worsened(references[0], 0.3, 2)
    poor = worsened(references[0], 0.6, 4)
    gaps = [line if number % 7 else "" for number, line in enumerate(good)]
    return {"good": good, "like": worsened(references[0], 0.3, 3), "poor": poor, "gaps": gaps}


def paired_tests(systems, references, test_type: str, n_samples: int, n_confidence: int = -1, metrics=None):
    """What sacreBLEU says: signatures, and results by metric, one a system."""
    metrics = metrics or {"BLEU": BLEU(), "chrF": CHRF(), "chrF++": CHRF(word_order=2), "TER": TER()}
    return PairedTest(list(systems.items()), metrics, references, test_type, n_samples, n_confidence)()


@pytest.mark.parametrize(
    ("n_references", "seed", "n_bootstrap", "n_trials"), [(1, 12345, 60, 150), (2, 7, 50, 211), (3, 1, 40, 90)]
)
def test_every_figure_is_that_of_sacrebleus_paired_tests(
    systems, references, monkeypatch, n_references, seed, n_bootstrap, n_trials
):
    monkeypatch.setenv("SACREBLEU_SEED", str(seed))
    references = [lines[:N_COMPARED] for lines in references[:n_references]]
    systems = {name: lines[:N_COMPARED] for name, lines in systems.items()}
    found = compare(systems, references, chance=Chance(n_bootstrap, n_trials, seed))
    _, by_bootstrap = paired_tests(systems, references, "bs", n_bootstrap)
    signatures, by_randomization = paired_tests(systems, references, "ar", n_trials, n_bootstrap)
    assert [system.name for system in found] == by_bootstrap.pop("System")
    assert [score.name for score in found[0].scores] == list(by_bootstrap)
    for number, system in enumerate(found):
        for i, score in enumerate(system.scores):
            theirs, trials = by_bootstrap[score.name][number], by_randomization[score.name][number]
            assert (score.score, score.mean) == (theirs.score, theirs.mean)
            assert (score.high - score.low) / 2 == pytest.approx(theirs.ci, rel=1e-5)  # theirs is single precision
            assert score.signature == str(signatures[score.name])
            if number == 0:
                assert system.differences == []
            else:
                difference = system.differences[i]
                assert difference.difference == score.score - found[0].scores[i].score
                assert difference.sacrebleu_p_bootstrap == theirs.p_value
                if score.name != "TER" or n_references < 3:  # thirds are rounded: ties depend on the processor
                    assert difference.sacrebleu_p_randomization == trials.p_value
    assert len({difference.sacrebleu_p_bootstrap for system in found for difference in system.differences}) > 3


def test_the_defaults_are_those_of_sacrebleu(systems, references, monkeypatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    two = {name: systems[name] for name in ("good", "like")}
    [_, like] = compare(two, references[:1], metrics=["TER"])
    [difference] = like.differences
    _, by_bootstrap = paired_tests(two, references[:1], "bs", 0, metrics={"TER": TER()})
    signatures, by_randomization = paired_tests(two, references[:1], "ar", 0, 0, metrics={"TER": TER()})
    assert difference.sacrebleu_p_bootstrap == by_bootstrap["TER"][1].p_value
    assert difference.sacrebleu_p_randomization == by_randomization["TER"][1].p_value
    assert like.scores[0].signature == str(signatures["TER"])


def test_any_system_can_be_the_baseline(systems, references):
    last_first = {"poor": systems["poor"], **systems}
    chance = Chance(50, 50)
    expected = {system.name: system for system in compare(last_first, references[:1], chance=chance)}
    found = compare(systems, references[:1], "poor", chance=chance)
    assert [system.name for system in found] == list(systems)
    assert {system.name: system for system in found} == expected


def test_p_approaches_the_share_of_all_swaps_with_a_larger_difference():
    # by TER: sentence i has edits[i] errors in one system and 0 in the other, or the other way round
    edits = [3, 1, -2, 4, 1, 2, -1, 3]
    reference = ["a b c d e f"] * len(edits)
    wrong = ["a b c d e f", "a b c d e x", "a b c d x x", "a b c x x x", "a b x x x x"]
    ours, theirs = [wrong[max(n, 0)] for n in edits], [wrong[max(-n, 0)] for n in edits]
    sums = [
        sum(sign * n for sign, n in zip(signs, edits, strict=True)) for signs in itertools.product((1, -1), repeat=8)
    ]
    share, with_ties = (sum(is_beyond(abs(s), abs(sum(edits))) for s in sums) / len(sums) for is_beyond in (gt, ge))
    assert 0.02 < share < with_ties - 0.02 < 0.2
    [_, system] = compare({"a": ours, "b": theirs}, [reference], metrics=["TER"], chance=Chance(2, 4000))
    assert system.differences[0].difference == pytest.approx(-100 * sum(edits) / 48)
    assert system.differences[0].p == pytest.approx(with_ties, abs=4 * (with_ties / 4000) ** 0.5)
    assert system.differences[0].sacrebleu_p_randomization == pytest.approx(share, abs=4 * (share / 4000) ** 0.5)


def test_three_sentences_that_differ_are_too_few_for_a_small_p():
    # Of the eight ways to swap three sentences, two are as one-sided as the real one. sacreBLEU counts no ties.
    reference = [f"a b c d {i}" for i in range(40)]
    texts = {"good": reference, "bad": ["x y z"] * 3 + reference[3:]}
    [_, bad] = compare(texts, [reference], metrics=["BLEU"], chance=Chance(2, 4000))
    [difference] = bad.differences
    assert difference.p == pytest.approx(2 / 8, abs=0.03)
    assert not difference.is_sure
    assert difference.sacrebleu_p_randomization == pytest.approx(1 / 4001)


def test_p_of_given_scores_is_that_of_all_sign_changes():
    rng = np.random.default_rng(3)
    ours, theirs = rng.normal(0.80, 0.1, 12).round(4), rng.normal(0.87, 0.1, 12).round(4)
    means = [np.mean(np.array(signs) * (theirs - ours)) for signs in itertools.product((1, -1), repeat=12)]
    exact = float(np.mean(np.abs(means) >= abs(np.mean(theirs - ours)) - 1e-12))  # Fisher's test of paired differences
    assert 0.02 < exact < 0.3
    lines = [f"line {i}" for i in range(12)]
    given = {"COMET": [ours.tolist(), theirs.tolist()]}
    first, second = compare({"a": lines, "b": lines}, [lines], metrics=[], given=given, chance=Chance(200, 8000))
    assert [score.name for score in first.scores] == ["COMET"]
    assert (first.scores[0].score, second.scores[0].score) == pytest.approx((ours.mean(), theirs.mean()), rel=1e-12)
    [difference] = second.differences
    assert difference.difference == pytest.approx(theirs.mean() - ours.mean(), rel=1e-9)
    assert difference.p == pytest.approx(exact, abs=4 * (exact / 8000) ** 0.5)
    drawn = np.random.default_rng(12345)
    samples = np.sort([ours[drawn.choice(12, size=12)].mean() for _ in range(200)])
    assert (first.scores[0].low, first.scores[0].high) == pytest.approx((samples[5], samples[-6]), rel=1e-9)


def test_equal_systems_differ_significantly_in_a_twentieth_of_the_cases(references):
    reference, n_cases = references[0][:40], 600
    rng = random.Random(5)
    ours, theirs = worsened(reference, 0.3, 6), worsened(reference, 0.6, 7)
    [rows, other] = [by_metric[0] for by_metric in extract([ours, theirs], [reference], ["BLEU"], DEFAULTS)]
    n_small = 0
    for seed in range(n_cases):
        swapped = [pair[:: rng.choice((1, -1))] for pair in zip(rows.rows, other.rows, strict=True)]
        null = [[Statistics("BLEU", rows.metric, list(side))] for side in zip(*swapped, strict=True)]
        [[difference]] = paired_differences(null, Chance(2, 199, seed))
        n_small += difference.p is not None and difference.p <= 0.05
    expected, deviation = 0.05 * n_cases, (0.05 * 0.95 * n_cases) ** 0.5  # sacreBLEU's bootstrap: 0.11 * n_cases
    assert abs(n_small - expected) < 3.5 * deviation


@pytest.mark.parametrize(
    ("ps", "expected"),
    [
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # 3 x, the one before, 2 x, 4 x
        ([0.2], [0.2]),
        ([0.5, 0.6, 0.7], [1, 1, 1]),
        ([0.01, 0.01], [0.02, 0.02]),
        ([], []),
    ],
)
def test_holms_correction_worked_out_by_hand(ps, expected):
    assert holm(ps) == pytest.approx(expected)


def test_several_systems_are_corrected_and_what_was_not_tested_is_not_counted():
    tests = [PairedDifference(1, p=0.02, p_holm=0.02), PairedDifference(1), PairedDifference(1, p=0.03, p_holm=0.03)]
    found = corrected(tests)
    assert [one.p for one in found] == [0.02, None, 0.03]
    assert [one.p_holm for one in found] == [0.04, None, 0.04]
    assert [one.is_sure for one in found] == [True, False, True]


def test_each_metric_is_corrected_for_the_number_of_systems(systems, references):
    found = compare(systems, references[:1], metrics=["BLEU", "TER"], chance=Chance(20, 200))
    for index in range(2):
        column = [system.differences[index] for system in found if system.differences]
        ps = [one.p for one in column if one.p is not None]
        assert [one.p_holm for one in column] == holm(ps) != ps


def test_equal_scores_are_never_called_different(systems, references):
    [_, same] = compare({"one": systems["good"], "two": systems["good"]}, references[:1], chance=Chance(40, 40))
    for difference in same.differences:
        assert difference.sacrebleu_p_bootstrap == pytest.approx(1 / 41)  # a small p that says no such thing
        assert difference.p == difference.p_holm == 1
        assert not difference.is_sure


def test_a_clear_difference_is_significant_and_a_slight_one_is_not(systems, references):
    like, poor = compare(systems, references[:1], metrics=["BLEU"], chance=Chance(200, 200))[1:3]
    assert poor.differences[0].is_sure
    assert not like.differences[0].is_sure


def test_lengths_and_unlike_sentences_are_counted():
    reference = ["a b c d", "e f g h"]
    found = compare({"one": reference, "two": ["a b", "e f g h"]}, [reference], metrics=["TER"], chance=Chance(2, 2))
    assert [system.length_ratio for system in found] == [1, 6 / 8]
    assert [system.n_different for system in found] == [0, 1]


def test_processes_change_nothing(systems, references, monkeypatch):
    alone = compare(systems, references[:2], chance=Chance(20, 20))
    monkeypatch.setattr(statistics, "_MIN_FOR_PROCESSES", 0)
    assert compare(systems, references[:2], chance=Chance(20, 20), jobs=2) == alone


def test_mean_and_deviation_over_seeds():
    def system(name: str, *values: float) -> SystemScores:
        return SystemScores(name, 1.0, 0, [MetricScore(f"m{i}", v, "", 0, 0, 0) for i, v in enumerate(values)], [])

    systems = [system("a", 10, 1), system("other", 50, 50), system("b", 12, 1), system("c", 17, 4)]
    [group] = over_seeds({"seeds": ["a", "b", "c"]}, systems)
    assert (group.name, group.systems) == ("seeds", ["a", "b", "c"])
    first, second = group.scores
    assert (first.name, first.low, first.high) == ("m0", 10, 17)
    assert (first.mean, first.deviation) == pytest.approx((13, 13**0.5))  # (9 + 1 + 16) / 2
    assert (second.mean, second.deviation) == pytest.approx((2, 3**0.5))  # (1 + 1 + 4) / 2


def test_the_best_ter_is_the_lowest():
    scores = {name: [MetricScore(name, value, "", 0, 0, 0) for value in (30, 20, 40)] for name in ("BLEU", "TER")}
    assert best(scores["BLEU"]) == 40
    assert best(scores["TER"]) == 20


def test_unequal_systems_are_refused():
    with pytest.raises(ValueError, match="cannot compare 1 hypotheses with 2 references"):
        compare({"a": ["x", "y"], "b": ["x"]}, [["x", "y"]])
    with pytest.raises(ValueError, match="cannot compare 2 hypotheses with 1 references"):
        compare({"a": ["x", "y"]}, [["x", "y"], ["x"]])
