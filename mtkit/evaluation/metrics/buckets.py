"""Score and compare parts of a test set with BLEU and chrF.

Both metrics are functions of counts summed over sentences. A part's score comes from the sum over its sentences, so the
counts of parts that make up the test set add up exactly to those of the whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mtkit.evaluation.metrics.scores import DEFAULTS, N_BOOTSTRAP, SEED, check_counts, interval
from mtkit.evaluation.metrics.settings import MetricSettings
from mtkit.evaluation.metrics.significance import LEVEL, bootstrap_p
from mtkit.evaluation.metrics.statistics import Statistics, bootstrap, extract

PartMetric = Literal["BLEU", "chrF2"]
PART_METRICS: tuple[PartMetric, ...] = get_args(PartMetric)
FEWEST = 30  # sentences: smaller parts are not resampled, because their samples say little


@dataclass(frozen=True)
class PartScore:
    """One system's scores on some sentences."""

    n: int
    scores: dict[PartMetric, float]  # 0 to 100


@dataclass(frozen=True)
class PairedDifference:
    """A system's difference from a baseline in one metric; the difference alone if there are too few sentences."""

    difference: float  # system - baseline
    low: float | None = None  # 95 % of the resampled test sets lie from low to high
    high: float | None = None
    p: float | None = None  # probability of such a difference by chance
    better: float | None = None  # share of resampled test sets in which the system is better; ties count half

    @property
    def is_sure(self) -> bool:
        """Return whether the difference is significant. Equal scores never are, though their p may be small."""
        return self.difference != 0 and self.p is not None and self.p < LEVEL


class CountedSentences:
    """sacreBLEU's counts for every sentence of one system."""

    def __init__(
        self,
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        settings: MetricSettings = DEFAULTS,
    ) -> None:
        """Count the sentences; references: one or more whole sets, references[k][i] for hypotheses[i].

        Raises ValueError if the numbers of sentences differ or are 0.
        """
        check_counts(hypotheses, *references)
        [by_metric] = extract([hypotheses], references, PART_METRICS, settings)
        self.statistics: dict[PartMetric, Statistics] = dict(zip(PART_METRICS, by_metric, strict=True))

    def __len__(self) -> int:
        return len(self.statistics["BLEU"].rows)

    @property
    def signatures(self) -> dict[PartMetric, str]:
        """Return sacreBLEU's signature of each metric."""
        return {name: str(known.metric.get_signature()) for name, known in self.statistics.items()}

    def part(self, indices: Sequence[int] | None = None) -> dict[PartMetric, Statistics]:
        """Return the counts of these sentences, by default of all. Raises ValueError if there are none."""
        if indices is None:
            return self.statistics
        if not indices:
            raise ValueError("a part without sentences has no score")
        return {
            name: Statistics(known.name, known.metric, [known.rows[index] for index in indices])
            for name, known in self.statistics.items()
        }

    def score(self, indices: Sequence[int] | None = None) -> PartScore:
        """Return the scores of these sentences, by default of all."""
        part = self.part(indices)
        return PartScore(len(part["BLEU"].rows), {name: known.score for name, known in part.items()})

    def length_ratio(self) -> float:
        """Return the words of the translations over those of the references, as BLEU counts them."""
        return self.statistics["BLEU"].length_ratio

    def sentence_chrf(self) -> list[float]:
        """Return chrF2 of each sentence, 0 to 100."""
        known = self.statistics["chrF2"]
        return [float(known.metric._compute_score_from_stats(row).score) for row in known.rows]


def compare_parts(
    baseline: CountedSentences,
    systems: Sequence[CountedSentences],
    indices: Sequence[int] | None = None,
    *,
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = SEED,
) -> list[Mapping[PartMetric, PairedDifference]]:
    """Return each system's differences from the baseline on these sentences, by default on all, from the same draws.

    Raises ValueError if the systems have different numbers of sentences.
    """
    if not systems:
        return []
    sizes = [len(counted) for counted in (baseline, *systems)]
    if len(set(sizes)) > 1:
        raise ValueError(f"cannot compare systems of {', '.join(map(str, sizes))} sentences")
    parts = [counted.part(indices) for counted in (baseline, *systems)]
    scores = [{name: known.score for name, known in part.items()} for part in parts]
    if len(parts[0]["BLEU"].rows) < FEWEST:
        return [{name: PairedDifference(score[name] - scores[0][name]) for name in score} for score in scores[1:]]
    samples = iter(bootstrap([known for part in parts for known in part.values()], n_bootstrap, seed))
    drawn = [{name: next(samples) for name in part} for part in parts]
    return [
        {name: _paired_difference(scores[0][name], scores[i][name], drawn[0][name], drawn[i][name]) for name in part}
        for i, part in enumerate(parts[1:], start=1)
    ]


def _paired_difference(
    baseline: float,
    system: float,
    baseline_samples: NDArray[np.floating[Any]],
    system_samples: NDArray[np.floating[Any]],
) -> PairedDifference:
    """Test the difference of two scores with the scores of both systems in the same samples."""
    difference, gains = system - baseline, system_samples - baseline_samples
    better = float(((gains > 0) + 0.5 * (gains == 0)).mean())
    return PairedDifference(difference, *interval(gains), bootstrap_p(gains, difference), better)
