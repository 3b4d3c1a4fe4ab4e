"""How far to trust a translation: a number from 0 to 1 made from the model's own log-probability, calibrated on dev.

The confidence is the share of dev translations like this one that were good, good meaning a sentence chrF of at least
the calibration's threshold. It is a logistic curve over the mean log-probability of a token (Platt 1999). More features
(least likely token, length, length ratio, entropy) and a step curve (isotonic regression) were measured and brought
nothing. It needs no second pass through the model, and it is smooth: rounding errors of another batch cannot move it.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mtkit.config.schema import DecodeConfig
from mtkit.console import log
from mtkit.errors import BundleError, DataError

if TYPE_CHECKING:
    from mtkit.translation.translator import Candidate

CONFIDENCE_FILE = "confidence.json"
FORMAT_VERSION = 1
_N_BINS = 10
# Settings of the search that leave the scores of finished translations as they are, but for rounding and a few lines.
_MATTERS_NOT = frozenset(
    {"batch_sentences", "batch_tokens", "engine", "workers", "on_suspect", "seed", "max_src_tokens"}
    | {"max_len", "max_len_factor", "max_len_constant"}
)
_MAX_ITERATIONS = 100
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bin:
    """Held-out translations whose confidence lies from low to below high."""

    low: float
    high: float
    n: int
    confidence: float | None  # mean; None if n is 0
    good: float | None  # the share that was good


@dataclass(frozen=True)
class Reliability:
    """How well confidences fit what came of it, on sentences that they were not fitted on."""

    n: int
    good: float  # the share of all
    calibration_error: float  # expected: mean distance of confidence and share of good ones, over bins weighted by n
    by_chance: float  # the calibration error that perfect confidences would show with so few sentences, on average
    brier: float  # mean squared distance of confidence and 1 (good) or 0
    auc: float | None  # how often a good one has more confidence than a bad one; None if there is only one kind
    bins: list[Bin]


@dataclass(frozen=True)
class Confidence:
    """A calibration: confidence = 1 / (1 + exp(-(slope x mean token log-probability + intercept)))."""

    slope: float  # above 0
    intercept: float
    threshold: float  # sentence chrF2 that a good translation has, 0 to 100
    n_fitted: int  # dev sentences behind it
    decode: dict[str, Any]  # the search whose translations they were
    held_out: Reliability

    def of(self, log_prob: float, n_tokens: int, *, finished: bool = True) -> float | None:
        """The confidence in a translation of n_tokens tokens, EOS counted, with this log-probability.

        None for an empty translation and for one that the length limit ended: dev says nothing about such.
        """
        if not finished or n_tokens < 2:
            return None
        return round(float(_logistic(np.array(self.slope * log_prob / n_tokens + self.intercept))), 4)

    def warn_of_other_search(self, decode: DecodeConfig) -> None:
        """Say so if the translations that it was fitted on were searched with settings that give other scores."""
        then, now = DecodeConfig().model_dump(mode="json") | self.decode, decode.model_dump(mode="json")
        changes = [
            f"decode.{key}={then[key]}, now {now[key]}"
            for key in now
            if key not in _MATTERS_NOT and then[key] != now[key]
        ]
        if changes:
            log.warning(
                f"confidence was calibrated with {'; '.join(changes)}: it may mislead; run mtkit calibrate with the "
                "same --set"
            )

    def dump(self, path: Path) -> None:
        """Write it as JSON."""
        text = json.dumps({"format_version": FORMAT_VERSION, **asdict(self)}, indent=2, ensure_ascii=False)
        path.write_bytes(f"{text}\n".encode())

    @classmethod
    def load(cls, path: Path) -> "Confidence":
        """The calibration in the file. Raises BundleError if there is none that this mtkit can read."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            version = found.pop("format_version")
            if version != FORMAT_VERSION:
                raise BundleError(f"{path}: format {version}, but format {FORMAT_VERSION} is read; run mtkit calibrate")
            held_out = found.pop("held_out")
            bins = [Bin(**entry) for entry in held_out.pop("bins")]
            return cls(**found, held_out=Reliability(**held_out, bins=bins))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BundleError(f"{path}: not a calibration, or a damaged one ({error}); run mtkit calibrate") from None


def calibrate(
    mean_log_probs: Sequence[float], chrf: Sequence[float], *, threshold: float, decode: dict[str, Any]
) -> Confidence:
    """Fit on every other sentence, report on those between.

    mean_log_probs: nats per token, EOS counted, of each translation; chrf: each one's sentence chrF2, 0 to 100.
    Raises DataError if there are too few sentences, only good or only bad ones, or if likelier is not better.
    """
    x, good = np.array(mean_log_probs, dtype=np.float64), np.array(chrf, dtype=np.float64) >= threshold
    n_good = int(good[::2].sum())
    if len(x) < 20 or n_good in (0, len(good[::2])):
        raise DataError(
            f"{len(x)} translations, of the half to be fitted {n_good} with chrF of at least {threshold:g}: no "
            "calibration; take a larger dev set, or another --threshold"
        )
    slope, intercept = fit_logistic(x[::2], good[::2])
    if slope <= 0:
        raise DataError(
            f"{len(x)} translations: those that the model thinks likelier are not the better ones (slope {slope:.3g}), "
            "so it has no confidence to speak of; train it longer, or take a larger dev set"
        )
    held_out = reliability(_logistic(slope * x[1::2] + intercept), good[1::2])
    return Confidence(slope, intercept, threshold, len(x[::2]), decode, held_out)


def calibrate_translations(
    candidates: "Sequence[Candidate]", references: Sequence[str], *, threshold: float, decode: DecodeConfig
) -> Confidence:
    """The calibration from translations and their references; those that have no confidence are left out.

    decode: the settings of the search. Raises DataError as `calibrate` does.
    """
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    x, chrf = [], []
    for candidate, reference in zip(candidates, references, strict=True):
        if candidate.finished and candidate.ids:
            x.append(candidate.log_prob / (len(candidate.ids) + 1))
            chrf.append(float(metric.sentence_score(candidate.text, [reference]).score))
    if left_out := len(references) - len(x):
        log.warning(f"{left_out:,} of {len(references):,} translations left out: empty, or ended by the length limit")
    return calibrate(x, chrf, threshold=threshold, decode=decode.model_dump(mode="json", exclude_defaults=True))


def fit_logistic(x: Floats, good: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and intercept of the logistic curve that makes `good` likeliest, by Newton's method.

    The targets are (n1 + 1) / (n1 + 2) and 1 / (n0 + 2) instead of 1 and 0, n1 and n0 being the numbers of good and
    bad ones: the curve then stays finite where a single x tells them apart (Platt 1999, section 2.2).
    """
    n1 = int(good.sum())
    targets = np.where(good, (n1 + 1) / (n1 + 2), 1 / (len(good) - n1 + 2))
    centre, scale = float(x.mean()), float(x.std()) or 1.0
    z = np.stack([(x - centre) / scale, np.ones_like(x)], axis=1)
    weights = np.array([0.0, math.log((n1 + 1) / (len(good) - n1 + 1))])
    for _ in range(_MAX_ITERATIONS):
        p = _logistic(z @ weights)
        gradient = z.T @ (p - targets)
        hessian = z.T @ (z * (p * (1 - p))[:, None]) + 1e-9 * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        # Half as far until the likelihood rises: a full step may overshoot where the curve is flat.
        while _loss(z, weights - step, targets) > _loss(z, weights, targets) + 1e-12 and np.abs(step).max() > 1e-12:
            step /= 2
        weights = weights - step
        if np.abs(step).max() < 1e-10:
            break
    slope = float(weights[0]) / scale
    return slope, float(weights[1]) - slope * centre


def reliability(confidence: Floats, good: npt.NDArray[np.bool_], n_bins: int = _N_BINS) -> Reliability:
    """How far confidences are from what came of it, in bins of equal width (Naeini et al. 2015)."""
    numbers = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    bins, error, by_chance = [], 0.0, 0.0
    for number in range(n_bins):
        here = numbers == number
        n, low, high = int(here.sum()), number / n_bins, (number + 1) / n_bins
        if not n:
            bins.append(Bin(low, high, 0, None, None))
            continue
        mean, share = float(confidence[here].mean()), float(good[here].mean())
        bins.append(Bin(low, high, n, mean, share))
        error += n / len(good) * abs(mean - share)
        # The share of n draws is off by about a normal variable, whose mean distance is sqrt(2 / pi) deviations.
        variance = float((confidence[here] * (1 - confidence[here])).mean()) / n
        by_chance += n / len(good) * math.sqrt(2 / math.pi * variance)
    brier = float(np.mean((confidence - good) ** 2))
    return Reliability(len(good), float(good.mean()), error, by_chance, brier, _auc(confidence, good), bins)


def _auc(confidence: Floats, good: npt.NDArray[np.bool_]) -> float | None:
    """Share of (good, bad) pairs in which the good one has more confidence, equal ones counting half."""
    high, low = confidence[good], np.sort(confidence[~good])
    if not len(high) or not len(low):
        return None
    below = np.searchsorted(low, high, side="left") + np.searchsorted(low, high, side="right")
    return float(below.mean() / (2 * len(low)))


def _loss(z: Floats, weights: Floats, targets: Floats) -> float:
    """Cross-entropy."""
    a = z @ weights
    return float((np.logaddexp(0, a) - targets * a).sum())


def _logistic(a: Floats) -> Floats:
    return np.exp(-np.logaddexp(0, -a))
