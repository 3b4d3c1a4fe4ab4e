"""Translations and references in; BLEU, chrF and TER out, with signatures and 95 % intervals. All of it is sacreBLEU's.

Text is detokenised: sacreBLEU cuts it into words itself, which is what makes scores of different systems comparable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

N_BOOTSTRAP = 1000
SEED = 12345  # both are what `sacrebleu --confidence` takes, too


@dataclass(frozen=True)
class MetricScore:
    """One metric over a whole test set, 0 to 100 (TER may be more), and how far the choice of sentences moves it."""

    name: str  # BLEU, chrF2 or TER
    score: float
    signature: str  # how it was computed, for others to compare with
    low: float  # 95 % of the bootstrap samples score between low and high, ends included
    high: float
    mean: float  # over the bootstrap samples; sacreBLEU prints mean and (high - low) / 2


def evaluate(
    hypotheses: Sequence[str], references: Sequence[str], *, n_bootstrap: int = N_BOOTSTRAP, seed: int = SEED
) -> list[MetricScore]:
    """BLEU, chrF2 and TER, in this order; hypotheses[i] is compared with references[i].

    n_bootstrap: how many test sets of the same size are drawn from this one, with replacement (Koehn 2004); at least 2.
    Raises ValueError if there are no sentences, or not as many hypotheses as references.
    """
    _check_counts(hypotheses, references)
    if n_bootstrap < 2:
        raise ValueError(f"n_bootstrap={n_bootstrap}: an interval needs at least 2 samples")
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    return [_evaluate(metric, hypotheses, references, n_bootstrap, seed) for metric in (BLEU(), CHRF(), TER())]


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """BLEU as in `evaluate`, without the interval: for validation, many times in a training."""
    return float(_bleu(hypotheses, references).score)


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """chrF2 as in `evaluate`, without the interval."""
    _check_counts(hypotheses, references)
    from sacrebleu.metrics.chrf import CHRF

    return float(CHRF().corpus_score(hypotheses, [references]).score)


def sentence_scores(hypotheses: Sequence[str], reference: str, metric: Literal["bleu", "chrf"]) -> list[float]:
    """Each hypothesis against the one reference, 0 to 100: chrF2, or BLEU over the n-grams that a short one has."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer = BLEU(effective_order=True) if metric == "bleu" else CHRF()
    return [float(scorer.sentence_score(hypothesis, [reference]).score) for hypothesis in hypotheses]


def length_ratio(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Words of all hypotheses over words of all references, as BLEU's brevity penalty counts them."""
    return float(_bleu(hypotheses, references).ratio)


def _check_counts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"cannot compare {len(hypotheses)} hypotheses with {len(references)} references")


def _bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Any:
    _check_counts(hypotheses, references)
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(force=True).corpus_score(hypotheses, [references])  # force: no advice about tokenised text


def _evaluate(
    metric: Any, hypotheses: Sequence[str], references: Sequence[str], n_bootstrap: int, seed: int
) -> MetricScore:
    """One sacreBLEU metric. Its sentence statistics are not public, but its own bootstrap is made from them."""
    import numpy as np

    sentences = metric._extract_corpus_statistics(hypotheses, [references])
    score = metric._aggregate_and_compute(sentences)
    statistics = np.array(sentences, dtype=np.float32)  # sacreBLEU's type: the figures agree to the last digit
    rng = np.random.default_rng(seed)
    samples = []
    for _ in range(n_bootstrap):  # one at a time: all samples of a large test set at once would fill the memory
        chosen = rng.choice(len(statistics), size=len(statistics), replace=True)
        samples.append(float(metric._compute_score_from_stats(statistics[chosen].sum(0)).score))
    samples.sort()
    n_outside = n_bootstrap // 40  # 2.5 % on either side
    metric.n_bootstrap, metric.seed = n_bootstrap, seed  # for the signature
    return MetricScore(
        name=score.name,
        score=float(score.score),
        signature=str(metric.get_signature()),
        low=samples[n_outside],
        high=samples[-1 - n_outside],
        mean=sum(samples) / n_bootstrap,
    )
