"""Score a classifier's probabilities against the right labels: accuracy, F1, AUC, calibration."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mtkit.evaluation.metrics.scores import N_BOOTSTRAP, SEED, MetricScore, interval

Probs = npt.NDArray[np.float64]  # (N, L): of each label, for each example
LabelIndices = npt.NDArray[np.int64]  # (N,): of the right labels, from 0
Confusion = npt.NDArray[np.int64]  # (..., L, L): examples by right label, then by predicted one

_N_BINS = 15  # of the calibration error, as in Guo et al. 2017


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
    """Return by how much the likeliest label's probability and its being right differ, on average over all examples.

    The expected calibration error with 15 bins of equal width (Guo et al. 2017, equation 3).
    """
    confidence = probs.max(axis=1)
    is_right = probs.argmax(axis=1) == labels
    bins = np.minimum((confidence * _N_BINS).astype(np.int64), _N_BINS - 1)
    gaps = np.bincount(bins, weights=is_right - confidence, minlength=_N_BINS)  # each bin's count times its gap
    return float(np.abs(gaps).sum() / len(labels))


def scores_with_intervals(counts: Confusion) -> list[MetricScore]:
    """Return accuracy and macro F1, 0 to 1, with 95 % bootstrap intervals.

    A bootstrap sample of the examples is a draw of as many from the confusion counts' shares.
    """
    n_labels, n = len(counts), int(counts.sum())
    draws = np.random.default_rng(SEED).multinomial(n, counts.ravel() / n, size=N_BOOTSTRAP)
    samples = draws.reshape(N_BOOTSTRAP, n_labels, n_labels)
    metrics: dict[str, Callable[[Confusion], npt.NDArray[np.float64]]] = {"accuracy": accuracy, "F1": macro_f1}
    scores = []
    for name, metric in metrics.items():
        values = metric(samples)
        low, high = interval(values)
        signature = f"{name}|n:{n}|labels:{n_labels}|bs:{N_BOOTSTRAP}|seed:{SEED}"
        scores.append(MetricScore(name, float(metric(counts)), signature, low, high, float(values.mean())))
    return scores
