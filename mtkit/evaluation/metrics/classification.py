"""Score a classifier's probabilities against the right labels: accuracy, F1, AUC, calibration."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mtkit.evaluation.metrics.scores import N_BOOTSTRAP, SEED, MetricScore, interval

Probs = npt.NDArray[np.float64]  # (N, L): of each label, for each example
LabelIndices = npt.NDArray[np.int64]  # (N,): of the right labels, from 0
Confusion = npt.NDArray[np.int64]  # (..., L, L): examples by right label, then by predicted one

_N_BINS = 15  # of the calibration error, as in Guo et al. 2017
_N_SHOWN_BINS = 10  # of the calibration plot
_Z = 1.959963984540054  # of a normal distribution, 95 % are within so many standard deviations


@dataclass(frozen=True)
class Share:
    """A share, or another score from 0 to 1, with its 95 % interval; NaN where it is not defined."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class LabelScores:
    """The scores of one label."""

    n: int  # examples with this label
    n_found: int  # examples that get it
    precision: Share  # of those that get it, with Wilson's interval
    recall: Share  # of those that have it, likewise
    f1: Share  # likewise, of the share that F1 is a function of
    auc: Share  # by the probability of this label, against all others; with a bootstrap interval


@dataclass(frozen=True)
class CalibrationBin:
    """The examples whose label has a probability in a given range."""

    low: float
    high: float
    n: int
    confidence: float  # the mean of these probabilities
    right: Share  # how many are right, with Wilson's interval


def confusion(probs: Probs, labels: LabelIndices) -> Confusion:
    """Count the examples by right label, then by the likeliest one."""
    n_labels = probs.shape[1]
    cells = labels * n_labels + probs.argmax(axis=1)
    return np.bincount(cells, minlength=n_labels * n_labels).reshape(n_labels, n_labels)


def accuracy(counts: Confusion) -> npt.NDArray[np.float64]:
    """Return the share of examples whose likeliest label is the right one."""
    return np.asarray(np.trace(counts, axis1=-2, axis2=-1) / counts.sum(axis=(-2, -1)))


def f1_by_label(counts: Confusion) -> npt.NDArray[np.float64]:
    """Return each label's F1, the harmonic mean of precision and recall; NaN for one neither right nor predicted."""
    right = np.diagonal(counts, axis1=-2, axis2=-1)
    examples = counts.sum(axis=-1) + counts.sum(axis=-2)
    return np.asarray(2 * right / np.where(examples == 0, np.nan, examples))


def macro_f1(counts: Confusion) -> npt.NDArray[np.float64]:
    """Return the mean F1 of the labels that occur: each counts the same, however rare."""
    return np.asarray(np.nanmean(f1_by_label(counts), axis=-1))


def auc(scores: npt.NDArray[np.float64], is_positive: npt.NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve; NaN if all examples, or none, are positive.

    It is the chance that a positive example has a higher score than a negative one, ties counting half (Hanley and
    McNeil 1982).
    """
    n_positive = int(is_positive.sum())
    n_pairs = n_positive * (len(scores) - n_positive)
    if not n_pairs:
        return float("nan")
    _, where, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # of equal scores the mean
    rank_sum = float(ranks[where][is_positive].sum())
    return (rank_sum - n_positive * (n_positive + 1) / 2) / n_pairs


def calibration_error(probs: Probs, labels: LabelIndices) -> float:
    """Return the mean difference between the probability of the likeliest label and its accuracy.

    The expected calibration error with 15 bins of equal width (Guo et al. 2017, equation 3).
    """
    confidence = probs.max(axis=1)
    is_right = probs.argmax(axis=1) == labels
    bins = np.minimum((confidence * _N_BINS).astype(np.int64), _N_BINS - 1)
    gaps = np.bincount(bins, weights=is_right - confidence, minlength=_N_BINS)  # each bin's count times its gap
    return float(np.abs(gaps).sum() / len(labels))


def wilson(n_right: int, n: int) -> Share:
    """Return the share n_right / n with its 95 % interval (Wilson 1927), which is also accurate near 0 and 1."""
    if not n:
        return Share(math.nan, math.nan, math.nan)
    return Share(n_right / n, *wilson_interval(n_right / n, n))


def wilson_interval(share: float, n: float) -> tuple[float, float]:
    """Return the 95 % interval of a share seen in n independent draws (Wilson 1927); n need not be whole."""
    if n <= 0:
        return 0.0, 1.0
    z2 = _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def scores_with_intervals(counts: Confusion) -> list[MetricScore]:
    """Return accuracy and macro F1, 0 to 1, with 95 % intervals: Wilson's, and one by bootstrap."""
    n_labels, n = len(counts), int(counts.sum())
    right = wilson(int(np.trace(counts)), n)
    values = macro_f1(_bootstrap(counts))
    low, high = interval(values)
    about = f"n:{n}|labels:{n_labels}"
    return [
        MetricScore("accuracy", right.value, f"accuracy|{about}|interval:wilson", right.low, right.high, right.value),
        MetricScore(
            "F1",
            float(macro_f1(counts)),
            f"F1|{about}|bs:{N_BOOTSTRAP}|seed:{SEED}",
            low,
            high,
            float(values.mean()),
        ),
    ]


def scores_by_label(probs: Probs, labels: LabelIndices) -> list[LabelScores]:
    """Return the scores of each label, in order."""
    counts = confusion(probs, labels)
    scores = []
    for label, (n, n_found) in enumerate(zip(counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist(), strict=True)):
        n_right = int(counts[label, label])
        scores.append(
            LabelScores(
                n,
                n_found,
                wilson(n_right, n_found),
                wilson(n_right, n),
                _f1(n_right, n + n_found - n_right),
                auc_with_interval(probs[:, label], labels == label),
            )
        )
    return scores


def auc_with_interval(scores: npt.NDArray[np.float64], is_positive: npt.NDArray[np.bool_]) -> Share:
    """Return `auc` with a bootstrap interval: positives and negatives are drawn again, each as many as there are.

    Where all of these are above all of those, every sample is, too: that gives no interval (NaN).
    """
    value = auc(scores, is_positive)
    if math.isnan(value):
        return Share(value, value, value)
    distinct, where = np.unique(scores, return_inverse=True)
    draws = np.random.default_rng(SEED)
    sides = [np.bincount(where[side], minlength=len(distinct)) for side in (is_positive, ~is_positive)]
    values = np.empty(N_BOOTSTRAP)
    for sample in range(N_BOOTSTRAP):
        positive, negative = (draws.multinomial(side.sum(), side / side.sum()) for side in sides)
        below = np.cumsum(negative) - negative / 2  # equal scores count half
        values[sample] = positive @ below / (positive.sum() * negative.sum())
    low, high = interval(values)
    return Share(value, low, high) if low < high else Share(value, math.nan, math.nan)


def roc_curve(
    scores: npt.NDArray[np.float64], is_positive: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the shares of negative and of positive examples with at least each score, from the highest score down.

    They are the points of the ROC curve, (0, 0) first; empty if all examples, or none, are positive.
    """
    n_positive = int(is_positive.sum())
    if not 0 < n_positive < len(scores):
        return np.empty(0), np.empty(0)
    distinct, where = np.unique(-scores, return_inverse=True)
    sides = [np.bincount(where[side], minlength=len(distinct)).cumsum() for side in (~is_positive, is_positive)]
    negative, positive = (np.concatenate([[0.0], side / side[-1]]) for side in sides)
    return negative, positive


def calibration(probs: Probs, labels: LabelIndices) -> list[CalibrationBin]:
    """Return up to ten ranges of the likeliest label's probability that have examples, with the accuracy in each."""
    confidence = probs.max(axis=1)
    is_right = probs.argmax(axis=1) == labels
    bins = np.minimum((confidence * _N_SHOWN_BINS).astype(np.int64), _N_SHOWN_BINS - 1)
    filled = []
    for index in np.unique(bins).tolist():
        there = bins == index
        right = wilson(int(is_right[there].sum()), int(there.sum()))
        low, high = index / _N_SHOWN_BINS, (index + 1) / _N_SHOWN_BINS
        filled.append(CalibrationBin(low, high, int(there.sum()), float(confidence[there].mean()), right))
    return filled


def _bootstrap(counts: Confusion) -> Confusion:
    """Draw confusion counts (N_BOOTSTRAP, L, L): as many examples, with the shares of these counts."""
    n_labels, n = len(counts), int(counts.sum())
    draws = np.random.default_rng(SEED).multinomial(n, counts.ravel() / n, size=N_BOOTSTRAP)
    return draws.reshape(N_BOOTSTRAP, n_labels, n_labels)


def _f1(n_right: int, n_concerned: int) -> Share:
    """Return F1 = 2 s / (1 + s), where s is the share of right ones among the examples that have or get the label."""
    share = wilson(n_right, n_concerned)
    value, low, high = (2 * s / (1 + s) for s in (share.value, share.low, share.high))
    return Share(value, low, high)
