"""Translations and references in; BLEU, chrF and TER out, with signatures and 95 % intervals. All of it is sacreBLEU's.

Text is detokenised: sacreBLEU cuts it into words itself, which is what makes scores of different systems comparable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mtkit.evaluation.metrics.settings import METRICS, MetricName, MetricSettings
from mtkit.evaluation.metrics.statistics import Statistics, bootstrap, extract

N_BOOTSTRAP = 1000
SEED = 12345  # both are what `sacrebleu --confidence` takes, too
DEFAULTS = MetricSettings()


@dataclass(frozen=True)
class MetricScore:
    """One metric over a whole test set, 0 to 100 (TER may be more), and how far the choice of sentences moves it."""

    name: str  # BLEU, chrF2, chrF2++ or TER
    score: float
    signature: str  # how it was computed, for others to compare with
    low: float  # 95 % of the bootstrap samples score between low and high, ends included
    high: float
    mean: float  # over the bootstrap samples; sacreBLEU prints mean and (high - low) / 2


def evaluate(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    metrics: Sequence[MetricName] = METRICS,
    settings: MetricSettings = DEFAULTS,
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = SEED,
) -> list[MetricScore]:
    """The metrics' scores, in their order; hypotheses[i] is compared with each of the references' i.

    n_bootstrap: how many test sets of the same size are drawn from this one, with replacement (Koehn 2004); at least 2.
    Raises ValueError if there are no sentences, or not as many hypotheses as references.
    """
    check_counts(hypotheses, *references)
    check_samples(n_bootstrap)
    [found] = extract([hypotheses], references, metrics, settings)
    samples = bootstrap(found, n_bootstrap, seed)
    drawn = {"bs": n_bootstrap, "seed": seed}
    return [signed_score(statistics, scores, drawn) for statistics, scores in zip(found, samples, strict=True)]


def signed_score(statistics: Statistics, samples: NDArray[np.floating[Any]], drawn: dict[str, int]) -> MetricScore:
    """The score, its interval by bootstrap samples, and its signature with the numbers of what was drawn by chance."""
    signature = statistics.metric.get_signature()
    for key, value in drawn.items():
        signature.update(key, value)
    low, high = interval(samples)
    mean = float(np.sort(samples).mean())  # sacreBLEU's order, which the last digit depends on
    return MetricScore(statistics.name, statistics.score, str(signature), low, high, mean)


def interval(samples: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """Where 95 % of the samples lie, ends included."""
    ordered = np.sort(samples)
    n_outside = len(ordered) // 40  # 2.5 % on either side
    return float(ordered[n_outside]), float(ordered[-1 - n_outside])


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], settings: MetricSettings = DEFAULTS) -> float:
    """BLEU as in `evaluate`, without the interval: for validation, many times in a training."""
    check_counts(hypotheses, references)
    return float(settings.load("BLEU").corpus_score(hypotheses, [references]).score)


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """chrF2 as in `evaluate`, without the interval."""
    check_counts(hypotheses, references)
    return float(DEFAULTS.load("chrF2").corpus_score(hypotheses, [references]).score)


def sentence_scores(
    hypotheses: Sequence[str], reference: str, metric: Literal["bleu", "chrf"], settings: MetricSettings = DEFAULTS
) -> list[float]:
    """Each hypothesis against the one reference, 0 to 100: chrF2, or BLEU over the n-grams that a short one has."""
    scorer = settings.load("BLEU" if metric == "bleu" else "chrF2", sentence=True)
    return [float(scorer.sentence_score(hypothesis, [reference]).score) for hypothesis in hypotheses]


def check_counts(hypotheses: Sequence[str], *references: Sequence[str]) -> None:
    """Raise ValueError where lines have no counterpart, or there are none."""
    for lines in references:
        if len(hypotheses) != len(lines) or not lines:
            raise ValueError(f"cannot compare {len(hypotheses)} hypotheses with {len(lines)} references")


def check_samples(n_bootstrap: int) -> None:
    """Raise ValueError where there are too few samples for an interval."""
    if n_bootstrap < 2:
        raise ValueError(f"n_bootstrap={n_bootstrap}: an interval needs at least 2 samples")
