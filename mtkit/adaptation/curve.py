"""Choose among means of the base's and the tuned weights: from their scores on dev to the share of the tuned ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mtkit.evaluation.metrics.scores import N_BOOTSTRAP, SEED
from mtkit.evaluation.metrics.settings import MetricSettings
from mtkit.evaluation.metrics.statistics import bootstrap, extract

_SURE = 0.75  # of the resampled dev texts, in which a mean must not lose more than it may
_ENOUGH = 0.9  # of the largest gain on dev


@dataclass(frozen=True)
class Point:
    """A mean of base and tuned weights, and its BLEU on dev."""

    share: float  # of the tuned weights: 0 is the base, 1 the tuned model
    domain: float
    general: float | None  # None: there is no general text
    is_chosen: bool = False
    loss: float | None = None  # of the general score, which 75 % of the resampled dev texts do not exceed


def likely_losses(systems: Sequence[Sequence[str]], references: Sequence[str], settings: MetricSettings) -> list[float]:
    """Return for each system the BLEU that it loses against the first one, or less, in 75 % of resampled texts.

    The loss itself, on a few hundred sentences, is partly luck. All systems are scored on the same samples.
    """
    [*samples] = bootstrap([one for [one] in extract(systems, [references], ["BLEU"], settings)], N_BOOTSTRAP, SEED)
    return [float(np.quantile(samples[0] - of_system, _SURE)) for of_system in samples]


def chosen_share(points: Sequence[Point], most_lost: float) -> Point:
    """Return the point with the best domain score among those that lose at most this much of the general score.

    points: from the base (share 0) on. If only the base loses so little, the point that loses least for a gain is
    chosen, because the caller wants the domain; the base is chosen only if nothing gains. Without general scores, the
    smallest share with 90 % of the largest gain is chosen, because it keeps most of the base.
    """
    base = points[0]
    gaining = [point for point in points[1:] if point.domain > base.domain]
    if not gaining:
        return base
    if base.general is None:
        enough = base.domain + _ENOUGH * (max(point.domain for point in gaining) - base.domain)
        return min((point for point in gaining if point.domain >= enough), key=lambda point: point.share)

    if cheap := [point for point in gaining if _loss(point, base) <= most_lost]:
        return max(cheap, key=lambda point: (point.domain, -point.share))
    return min(gaining, key=lambda point: _loss(point, base))


def share_to_try(points: Sequence[Point], most_lost: float) -> float | None:
    """Return the share halfway from the chosen one to the next that might be better; None if there is none.

    That is the next larger share if the chosen one loses little of the general score, otherwise the next smaller one.
    points, most_lost: as for `chosen_share`.
    """
    chosen, shares = chosen_share(points, most_lost), [point.share for point in points]
    is_cheap = chosen.general is not None and _loss(chosen, points[0]) <= most_lost
    neighbour = shares.index(chosen.share) + (1 if is_cheap else -1)
    if chosen is points[0] or neighbour == len(shares):
        return None
    return (chosen.share + shares[neighbour]) / 2


def _loss(point: Point, base: Point) -> float:
    if point.loss is not None:
        return point.loss
    return 0.0 if point.general is None or base.general is None else base.general - point.general
