"""A classifier's scores against numbers worked out by hand, and against counting every pair."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.evaluation.metrics import classification as metrics

# Three labels; by row the right label. Right: 4 of 6.
PROBS = np.array([[0.8, 0.1, 0.1], [0.4, 0.5, 0.1], [0.1, 0.9, 0.0], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.7, 0.2, 0.1]])
LABELS = np.array([0, 0, 1, 1, 2, 2])


def test_confusion_accuracy_and_f1_are_those_counted_by_hand():
    counts = metrics.confusion(PROBS, LABELS)
    assert counts.tolist() == [[1, 1, 0], [0, 2, 0], [1, 0, 1]]
    assert float(metrics.accuracy(counts)) == pytest.approx(4 / 6)
    assert metrics.f1_by_label(counts).tolist() == pytest.approx([1 / 2, 4 / 5, 2 / 3])
    assert float(metrics.macro_f1(counts)) == pytest.approx((1 / 2 + 4 / 5 + 2 / 3) / 3)


def test_a_label_has_precision_recall_and_its_numbers():
    first, second, third = metrics.scores_by_label(PROBS, LABELS)
    assert [one.f1.value for one in (first, second, third)] == pytest.approx([1 / 2, 4 / 5, 2 / 3])
    assert [(one.n, one.n_found) for one in (first, second, third)] == [(2, 2), (2, 3), (2, 1)]
    assert (second.precision.value, second.recall.value) == pytest.approx((2 / 3, 1.0))
    assert (third.precision.value, third.recall.value) == pytest.approx((1.0, 1 / 2))
    assert first.auc.value == pytest.approx(7 / 8)  # of 8 pairs one is wrong: 0.4 below 0.7


def test_wilsons_interval_is_that_of_the_textbooks():
    """Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    expected = {
        (81, 263): (0.2553, 0.3662),
        (15, 148): (0.0624, 0.1605),
        (0, 20): (0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }
    for (n_right, n), (low, high) in expected.items():
        share = metrics.wilson(n_right, n)
        assert (share.low, share.high) == pytest.approx((low, high), abs=5e-5)
    assert math.isnan(metrics.wilson(0, 0).value)


scored = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]), st.booleans()), min_size=2, max_size=30)


@given(scored)
def test_auc_is_the_share_of_ordered_pairs_and_the_area_below_the_curve(examples):
    scores, positive = np.array([score for score, _ in examples]), np.array([is_it for _, is_it in examples])
    pairs = [(a > b) + (a == b) / 2 for a in scores[positive] for b in scores[~positive]]
    xs, ys = metrics.roc_curve(scores, positive)
    if not pairs:
        assert math.isnan(metrics.auc(scores, positive))
        assert len(xs) == len(ys) == 0
        return
    assert metrics.auc(scores, positive) == pytest.approx(np.mean(pairs))
    assert (xs[0], ys[0], xs[-1], ys[-1]) == (0, 0, 1, 1)
    assert float(np.trapezoid(ys, xs)) == pytest.approx(np.mean(pairs))


def test_the_interval_of_auc_has_the_width_of_its_standard_error():
    """For normal scores a distance d apart; the standard error by DeLong et al. 1988, computed from all pairs."""
    chance = np.random.default_rng(3)
    above, below = chance.normal(1, 1, 200), chance.normal(0, 1, 300)
    wins = (above[:, None] > below[None, :]).astype(float)
    error = math.sqrt(wins.mean(1).var(ddof=1) / 200 + wins.mean(0).var(ddof=1) / 300)
    share = metrics.auc_with_interval(np.concatenate([above, below]), np.arange(500) < 200)
    assert share.value == pytest.approx(wins.mean())
    assert (share.high - share.low) / (2 * 1.96) == pytest.approx(error, rel=0.1)
    assert share.low < share.value < share.high


def test_a_label_that_never_occurs_has_no_scores():
    probs = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]])
    never = metrics.scores_by_label(probs, np.array([0, 1]))[2]
    assert (never.n, never.n_found) == (0, 0)
    assert all(math.isnan(one.value) for one in (never.precision, never.recall, never.f1, never.auc))


def test_calibration_counts_each_range_of_probabilities():
    bins = metrics.calibration(PROBS, LABELS)
    assert [(one.low, one.n, one.right.value) for one in bins] == [
        (0.5, 1, 0.0),
        (0.6, 2, 1.0),
        (0.7, 1, 0.0),
        (0.8, 1, 1.0),
        (0.9, 1, 1.0),
    ]
    assert bins[1].confidence == pytest.approx(0.6)
    gaps = 0.5 + 2 * 0.4 + 0.7 + 0.2 + 0.1  # by 15 bins no two of other probabilities share one
    assert metrics.calibration_error(PROBS, LABELS) == pytest.approx(gaps / 6)


def test_the_interval_of_f1_holds_it_in_nineteen_of_twenty_tests(monkeypatch):
    """Of tests of 200 examples with known shares; F1 of label 1 is 2 * 0.3 / (2 * 0.3 + 0.1 + 0.1) = 0.75."""
    monkeypatch.setattr(metrics, "auc_with_interval", lambda *_: None)  # it takes long and says nothing about F1
    chance = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        cells = chance.multinomial(200, [0.5, 0.1, 0.1, 0.3])
        labels, found = (np.repeat(side, cells) for side in ([0, 0, 1, 1], [0, 1, 0, 1]))
        f1 = metrics.scores_by_label(np.eye(2)[found], labels)[1].f1
        held += f1.low <= 0.75 <= f1.high
    assert 0.92 <= held / 400 <= 0.98


def test_all_right_still_has_an_interval():
    f1 = metrics.scores_by_label(np.eye(2), np.array([0, 1]))[0].f1
    assert (f1.value, f1.high) == (1, 1)
    assert f1.low < 0.5
    accuracy, _ = metrics.scores_with_intervals(np.diag([10, 10]))
    assert accuracy.score == 1
    assert accuracy.low == pytest.approx(20 / (20 + 1.96**2), abs=1e-4)
