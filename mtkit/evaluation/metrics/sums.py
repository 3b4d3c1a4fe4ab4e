"""Score many sums of counts at once: sacreBLEU's formulas on arrays, for thousands of random trials.

Each function takes sums (trials, columns) of the rows of a `Statistics` and returns the corpus scores (trials,).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sums = NDArray[np.float64]
_ORDERS = 4  # of BLEU's n-grams
_BETA = 2.0  # of chrF: recall weighs this many times as much as precision
_LOG_ZERO = -9999999999.0  # sacreBLEU's


def bleu(sums: Sums) -> Sums:
    """Return BLEU with exponential smoothing; columns: words, words of the reference, 4 matches, 4 totals."""
    n_words, n_ref_words = sums[:, 0], sums[:, 1]
    matches, totals = sums[:, 2 : 2 + _ORDERS], sums[:, 2 + _ORDERS :]
    # An order without a match counts as half a match, the next one as a quarter; the first without n-grams ends this.
    counted = np.logical_and.accumulate(totals > 0, axis=1)
    unmatched = counted & (matches == 0)
    smoothed = 1.0 / 2.0 ** np.cumsum(unmatched, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(counted, 100.0 * np.where(unmatched, smoothed, matches) / totals, 0.0)
        logs = np.where(precisions > 0, np.log(precisions), _LOG_ZERO)
        penalty = np.where(n_words < n_ref_words, np.exp(1 - n_ref_words / n_words), 1.0)
    return np.where(matches.any(axis=1), penalty * np.exp(logs.sum(axis=1) / _ORDERS), 0.0)


def chrf(sums: Sums) -> Sums:
    """Return chrF2 or chrF2++; columns: n-grams of the translations, of the references, and in both, by order."""
    n_ours, n_theirs, n_common = (sums[:, first::3] for first in range(3))
    both = (n_ours > 0) & (n_theirs > 0)
    orders = np.maximum(both.sum(axis=1), 1)
    precision = np.where(both, n_common / np.where(both, n_ours, 1), 0.0).sum(axis=1) / orders
    recall = np.where(both, n_common / np.where(both, n_theirs, 1), 0.0).sum(axis=1) / orders
    weighted = _BETA**2 * precision + recall
    scores: Sums = 100 * (1 + _BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1.0)
    return scores


def ter(sums: Sums) -> Sums:
    """Return TER; columns: edits, words of the reference."""
    n_edits, n_words = sums[:, 0], sums[:, 1]
    without_words = np.where(n_edits > 0, 1.0, 0.0)
    return 100 * np.where(n_words > 0, n_edits / np.where(n_words > 0, n_words, 1), without_words)


def mean(sums: Sums) -> Sums:
    """Return the mean of given scores; columns: sum of the scores, number of sentences."""
    return sums[:, 0] / sums[:, 1]


_FORMULAS: dict[str, Callable[[Sums], Sums]] = {"BLEU": bleu, "chrF2": chrf, "chrF2++": chrf, "TER": ter}


def scores_of_sums(name: str, sums: Sums) -> Sums:
    """Return the scores (trials,) by the metric of this name; a name that is not sacreBLEU's has given scores."""
    return _FORMULAS.get(name, mean)(sums)


class MeanOfGiven:
    """The mean of scores given for each sentence, in the form of a sacreBLEU metric."""

    def __init__(self) -> None:
        self._draws: dict[str, Any] = {}

    def get_signature(self) -> "MeanOfGiven":
        """Return the record of how the score was computed; str() gives it as text."""
        return MeanOfGiven()

    def update(self, key: str, value: object) -> None:
        """Add to the record."""
        self._draws[key] = value

    def __str__(self) -> str:
        order = ("bs", "ar", "seed")  # as in sacreBLEU's signatures
        return "|".join(["mean of given scores", *(f"{key}:{self._draws[key]}" for key in order if key in self._draws)])

    def _compute_score_from_stats(self, sums: Any) -> "_Score":
        return _Score(float(sums[0] / sums[1]))

    def _aggregate_and_compute(self, rows: list[list[float]]) -> "_Score":
        return _Score(float(np.mean([value for value, _ in rows])))


class _Score:
    def __init__(self, score: float) -> None:
        self.score = score
