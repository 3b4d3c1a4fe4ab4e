"""Estimate how far to trust a translation: a probability from the model's own log-probability, calibrated on dev.

The confidence estimates the probability that a translation is good, that is, reaches the calibration's threshold of
sentence chrF. It is a logistic function of the mean token log-probability (Platt 1999). More features (least likely
token, length, length ratio, entropy) and isotonic regression were measured and brought nothing. The logistic curve
needs no second pass through the model, and it is smooth: rounding errors of another batch hardly move it.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mtkit.config.decoding import DecodeConfig
from mtkit.console import counted, log
from mtkit.errors import BundleError, DataError
from mtkit.files import parse_json
from mtkit.translation.candidates import Candidate

CONFIDENCE_FILE = "confidence.json"
FORMAT_VERSION = 1
_N_BINS = 10
# Settings that change no score of a finished translation, except for rounding and on a few lines.
_IRRELEVANT = frozenset(
    {"batch_sentences", "batch_tokens", "engine", "workers", "on_suspect", "seed", "max_src_tokens"}
    | {"memory", "memory_threshold"}
    | {"max_len", "max_len_factor", "max_len_constant"}
)
_MAX_ITERATIONS = 100
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bin:
    """Held-out translations with a confidence of at least low and below high."""

    low: float
    high: float
    n: int
    confidence: float | None  # mean; None if n is 0
    good: float | None  # share of good ones


@dataclass(frozen=True)
class Reliability:
    """The agreement of confidences with the share of good translations, on sentences held out from the fit."""

    n: int
    good: float  # share of good ones
    calibration_error: float  # expected: |mean confidence - share of good ones|, mean over bins weighted by n
    by_chance: float  # the mean calibration error of perfect confidences on as many sentences
    brier: float  # mean squared difference of confidence and 1 (good) or 0
    auc: float | None  # share of pairs in which the good one has the higher confidence; None without both kinds
    bins: list[Bin]


@dataclass(frozen=True)
class Calibration:
    """A fitted curve: confidence = 1 / (1 + exp(-(slope x mean token log-probability + intercept)))."""

    slope: float  # above 0
    intercept: float
    threshold: float  # least sentence chrF2 of a good translation, 0 to 100
    n_fitted: int  # dev sentences that the curve was fitted on
    decode: dict[str, Any]  # the settings of the search that translated them; a list of tags if there were several
    held_out: Reliability

    def confidence(self, log_prob: float, n_tokens: int, *, finished: bool = True) -> float | None:
        """Return the confidence in a translation of n_tokens tokens, EOS counted, with this log-probability.

        None for an empty translation and for one that hit the length limit: the fit leaves such translations out.
        """
        if not finished or n_tokens < 2:
            return None
        return round(float(_logistic(np.array(self.slope * log_prob / n_tokens + self.intercept))), 4)

    def warn_of_other_search(self, decode: DecodeConfig) -> None:
        """Warn if the calibration was fitted with settings that give different scores."""
        fitted, now = DecodeConfig().model_dump(mode="json") | self.decode, decode.model_dump(mode="json")
        several_tags = fitted["tag"] if isinstance(fitted["tag"], list) else []
        changes = [
            f"decode.{key}={fitted[key]}, now {now[key]}"
            for key in now
            if key not in _IRRELEVANT and fitted[key] != now[key] and not (key == "tag" and now[key] in several_tags)
        ]
        if changes:
            log.warning(
                f"confidence was calibrated with {'; '.join(changes)}, so it may be wrong; run mtkit calibrate "
                f"with the "
                "same --set"
            )

    def dump(self, path: Path) -> None:
        """Write the calibration as JSON."""
        text = json.dumps({"format_version": FORMAT_VERSION, **asdict(self)}, indent=2, ensure_ascii=False)
        path.write_bytes(f"{text}\n".encode())

    @classmethod
    def load(cls, path: Path) -> "Calibration":
        """Read a calibration. Raises BundleError if the file does not have one that this version can read."""
        try:
            values = parse_json(path.read_text(encoding="utf-8"))
            version = values.pop("format_version")
            if version != FORMAT_VERSION:
                raise BundleError(
                    f"{path}: format {version}, but this mtkit reads format {FORMAT_VERSION}; run mtkit calibrate"
                )
            held_out = values.pop("held_out")
            bins = [Bin(**entry) for entry in held_out.pop("bins")]
            return cls(**values, held_out=Reliability(**held_out, bins=bins))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BundleError(f"{path}: not a calibration, or a damaged one ({error}); run mtkit calibrate") from None


def calibrate(
    mean_log_probs: Sequence[float], chrf: Sequence[float], *, threshold: float, decode: dict[str, Any]
) -> Calibration:
    """Fit a calibration on every other sentence, and measure its reliability on the rest.

    mean_log_probs: nats per token, EOS counted, of each translation; chrf: each one's sentence chrF2, 0 to 100.
    Raises DataError if there are too few sentences, only good or only bad ones, or if more likely is not better.
    """
    x, good = np.array(mean_log_probs, dtype=np.float64), np.array(chrf, dtype=np.float64) >= threshold
    n_good = int(good[::2].sum())
    if len(x) < 20 or n_good in (0, len(good[::2])):
        raise DataError(
            f"cannot calibrate on {counted(len(x), 'translation')}: {n_good} of the {len(good[::2])} to fit on reach a "
            f"chrF of {threshold:g}; use a larger dev set, or another --threshold"
        )
    slope, intercept = fit_logistic(x[::2], good[::2])
    if slope <= 0:
        raise DataError(
            f"cannot calibrate on {counted(len(x), 'translation')}: those that the model finds more likely are not "
            f"better (slope {slope:.3g}); train the model longer, or use a larger dev set"
        )
    held_out = reliability(_logistic(slope * x[1::2] + intercept), good[1::2])
    return Calibration(slope, intercept, threshold, len(x[::2]), decode, held_out)


def calibrate_translations(
    candidates: Sequence[Candidate],
    references: Sequence[str],
    *,
    threshold: float,
    decode: DecodeConfig,
    tags: Sequence[str | None] = (),
) -> Calibration:
    """Fit a calibration on translations and their references; skip those that get no confidence.

    decode: the settings of the search. tags: the translations' tags, if they have several. Raises DataError as
    `calibrate` does.
    """
    from sacrebleu.metrics.chrf import CHRF  # 0.1 s that only calibrating costs, not every translation

    metric = CHRF()
    x, chrf = [], []
    for candidate, reference in zip(candidates, references, strict=True):
        if candidate.finished and candidate.ids:
            x.append(candidate.log_prob / (len(candidate.ids) + 1))
            chrf.append(float(metric.sentence_score(candidate.text, [reference]).score))
    if left_out := len(references) - len(x):
        log.warning(
            f"{left_out:,} of {counted(len(references), 'translation')} left out: empty, or ended by the length limit"
        )
    settings = decode.model_dump(mode="json", exclude_defaults=True)
    if len(set(tags)) > 1:
        settings["tag"] = list(dict.fromkeys(tags))
    return calibrate(x, chrf, threshold=threshold, decode=settings)


def fit_logistic(x: Floats, good: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Return slope and intercept of the logistic curve of maximum likelihood, by Newton's method.

    The targets are (n1 + 1) / (n1 + 2) and 1 / (n0 + 2) instead of 1 and 0, for n1 good and n0 bad translations: so
    the slope stays finite if one x separates good from bad (Platt 1999, section 2.2).
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
        # Halve the step until the likelihood rises: a full step may overshoot where the curve is flat.
        while _loss(z, weights - step, targets) > _loss(z, weights, targets) + 1e-12 and np.abs(step).max() > 1e-12:
            step /= 2
        weights = weights - step
        if np.abs(step).max() < 1e-10:
            break
    slope = float(weights[0]) / scale
    return slope, float(weights[1]) - slope * centre


def reliability(confidence: Floats, good: npt.NDArray[np.bool_], n_bins: int = _N_BINS) -> Reliability:
    """Compare confidences with the share of good translations, in bins of equal width (Naeini et al. 2015)."""
    bin_indices = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    bins, error, by_chance = [], 0.0, 0.0
    for index in range(n_bins):
        here = bin_indices == index
        n, low, high = int(here.sum()), index / n_bins, (index + 1) / n_bins
        if not n:
            bins.append(Bin(low, high, 0, None, None))
            continue
        mean, share = float(confidence[here].mean()), float(good[here].mean())
        bins.append(Bin(low, high, n, mean, share))
        error += n / len(good) * abs(mean - share)
        # The error of a share of n draws is about normal, so its mean size is sqrt(2 / pi) standard deviations.
        variance = float((confidence[here] * (1 - confidence[here])).mean()) / n
        by_chance += n / len(good) * math.sqrt(2 / math.pi * variance)
    brier = float(np.mean((confidence - good) ** 2))
    return Reliability(len(good), float(good.mean()), error, by_chance, brier, _auc(confidence, good), bins)


def _auc(confidence: Floats, good: npt.NDArray[np.bool_]) -> float | None:
    """Return the share of (good, bad) pairs in which the good one has the higher confidence; ties count half."""
    high, low = confidence[good], np.sort(confidence[~good])
    if not len(high) or not len(low):
        return None
    below = np.searchsorted(low, high, side="left") + np.searchsorted(low, high, side="right")
    return float(below.mean() / (2 * len(low)))


def _loss(z: Floats, weights: Floats, targets: Floats) -> float:
    """Return the summed cross-entropy."""
    a = z @ weights
    return float((np.logaddexp(0, a) - targets * a).sum())


def _logistic(a: Floats) -> Floats:
    return np.exp(-np.logaddexp(0, -a))
