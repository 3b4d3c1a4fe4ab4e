"""Score translations with sacreBLEU: BLEU, chrF and TER with signatures and 95 % intervals.

Text must be detokenised: sacreBLEU tokenizes it, which makes scores of different systems comparable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mtkit.evaluation.metrics.settings import METRICS, MetricName, MetricSettings
from mtkit.evaluation.metrics.statistics import Statistics, bootstrap, extract

N_BOOTSTRAP = 1000
SEED = 12345  # both are the defaults of `sacrebleu --confidence`
DEFAULTS = MetricSettings()


@dataclass(frozen=True)
class MetricScore:
    """One metric's score of a whole test set, sacreBLEU's from 0 to 100 (TER may be higher), and its interval."""

    name: str  # BLEU, chrF2, chrF2++ or TER, or what given scores are called
    score: float
    signature: str  # sacreBLEU's record of how the score was computed
    low: float  # 95 % of the bootstrap samples score from low to high
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
    """Return the metrics' scores, in their order; hypotheses[i] is compared with item i of each reference list.

    n_bootstrap: number of test sets of the same size drawn with replacement (Koehn 2004); at least 2.
    Raises ValueError if there are no sentences, or not as many hypotheses as references.
    """
    check_counts(hypotheses, *references)
    check_samples(n_bootstrap)
    [by_metric] = extract([hypotheses], references, metrics, settings)
    samples = bootstrap(by_metric, n_bootstrap, seed)
    draws = {"bs": n_bootstrap, "seed": seed}
    return [signed_score(statistics, scores, draws) for statistics, scores in zip(by_metric, samples, strict=True)]


def signed_score(statistics: Statistics, samples: NDArray[np.floating[Any]], draws: dict[str, int]) -> MetricScore:
    """Return the score with its bootstrap interval; draws: numbers of random draws, for the signature."""
    signature = statistics.metric.get_signature()
    for key, value in draws.items():
        signature.update(key, value)
    low, high = interval(samples)
    mean = float(np.sort(samples).mean())  # sacreBLEU's order decides the last digit
    return MetricScore(statistics.name, statistics.score, str(signature), low, high, mean)


def fixed(metric: str, value: float, *, sign: Literal["", "+"] = "") -> str:
    """Format a score: two decimals, as sacreBLEU prints them, and four for an external score, such as COMET."""
    return f"{value:{sign}.{2 if metric in METRICS else 4}f}"


def interval(samples: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """Return the bounds that enclose 95 % of the samples, ends included."""
    ordered = np.sort(samples)
    n_outside = len(ordered) // 40  # 2.5 % on either side
    return float(ordered[n_outside]), float(ordered[-1 - n_outside])


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], settings: MetricSettings = DEFAULTS) -> float:
    """Return BLEU as in `evaluate`, without the interval: fast enough for every validation."""
    check_counts(hypotheses, references)
    return float(settings.load("BLEU").corpus_score(hypotheses, [references]).score)


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return chrF2 as in `evaluate`, without the interval."""
    check_counts(hypotheses, references)
    return float(DEFAULTS.load("chrF2").corpus_score(hypotheses, [references]).score)


def sentence_scores(
    hypotheses: Sequence[str], reference: str, metric: Literal["bleu", "chrf"], settings: MetricSettings = DEFAULTS
) -> list[float]:
    """Score each hypothesis against one reference, 0 to 100: chrF2, or BLEU over n-grams that fit into a sentence."""
    scorer = settings.load("BLEU" if metric == "bleu" else "chrF2", sentence=True)
    return [float(scorer.sentence_score(hypothesis, [reference]).score) for hypothesis in hypotheses]


def check_counts(hypotheses: Sequence[str], *references: Sequence[str]) -> None:
    """Raise ValueError if the numbers of lines differ or are 0."""
    for lines in references:
        if len(hypotheses) != len(lines) or not lines:
            raise ValueError(f"cannot compare {len(hypotheses)} hypotheses with {len(lines)} references")


def check_samples(n_bootstrap: int) -> None:
    """Raise ValueError for too few samples for an interval."""
    if n_bootstrap < 2:
        raise ValueError(f"n_bootstrap={n_bootstrap}: an interval needs at least 2 samples")
