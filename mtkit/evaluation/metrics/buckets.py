"""Parts of a test set scored apart: what sacreBLEU counts in each sentence in, BLEU and chrF of any selection out.

BLEU and chrF are made from counts that are summed over sentences. A part's score comes from the sum over its sentences,
so that the counts of parts that together are the test set add up to those behind its score, exactly.
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
FEWEST = 30  # sentences that are resampled at least: of fewer, the samples say more about themselves


@dataclass(frozen=True)
class PartScore:
    """One system on some sentences."""

    n: int
    scores: dict[PartMetric, float]  # 0 to 100


@dataclass(frozen=True)
class PairedDifference:
    """How much better than a baseline a system is in one metric, and how sure that is.

    All but the difference is None where there are fewer than `FEWEST` sentences.
    """

    difference: float  # system - baseline
    low: float | None = None  # 95 % of the resampled test sets lie from low to high, ends included
    high: float | None = None
    p: float | None = None  # how often chance alone makes a difference that large
    better: float | None = None  # the share of resampled test sets in which the system is better; equal ones count half

    @property
    def is_sure(self) -> bool:
        """Whether chance is an unlikely reason. Equal scores are not surely different, though their p may be small."""
        return self.difference != 0 and self.p is not None and self.p < LEVEL


class CountedSentences:
    """What sacreBLEU counts in every sentence of one system."""

    def __init__(
        self,
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        settings: MetricSettings = DEFAULTS,
    ) -> None:
        """references: one or several whole sets; references[k][i] belongs to hypotheses[i].

        Raises ValueError if there are no sentences, or sets of other lengths.
        """
        check_counts(hypotheses, *references)
        [found] = extract([hypotheses], references, PART_METRICS, settings)
        self.statistics: dict[PartMetric, Statistics] = dict(zip(PART_METRICS, found, strict=True))

    def __len__(self) -> int:
        return len(self.statistics["BLEU"].rows)

    @property
    def signatures(self) -> dict[PartMetric, str]:
        """How each metric was computed."""
        return {name: str(known.metric.get_signature()) for name, known in self.statistics.items()}

    def part(self, numbers: Sequence[int]) -> dict[PartMetric, Statistics]:
        """The counts of these sentences, from 0. Raises ValueError if there are none."""
        if not numbers:
            raise ValueError("a part without sentences has no score")
        return {name: _chosen(known, numbers) for name, known in self.statistics.items()}

    def score(self, numbers: Sequence[int] | None = None) -> PartScore:
        """Of these sentences, from 0; by default of all."""
        part = self.statistics if numbers is None else self.part(numbers)
        return PartScore(len(part["BLEU"].rows), {name: known.score for name, known in part.items()})

    def length_ratio(self) -> float:
        """Words of the translations over words of the references, as BLEU's brevity penalty counts them."""
        return self.statistics["BLEU"].length_ratio

    def sentence_chrf(self) -> list[float]:
        """chrF2 of each sentence, 0 to 100."""
        known = self.statistics["chrF2"]
        return [float(known.metric._compute_score_from_stats(row).score) for row in known.rows]


def compare_parts(
    baseline: CountedSentences,
    systems: Sequence[CountedSentences],
    numbers: Sequence[int] | None = None,
    *,
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = SEED,
) -> list[Mapping[PartMetric, PairedDifference]]:
    """How each system differs from the baseline on these sentences, by default on all, judged on the same draws.

    Raises ValueError if a system has another number of sentences.
    """
    if not systems:
        return []
    contestants = [baseline, *systems]
    sizes = [len(counted) for counted in contestants]
    if len(set(sizes)) > 1:
        raise ValueError(f"cannot compare systems of {', '.join(map(str, sizes))} sentences")
    parts = [counted.statistics if numbers is None else counted.part(numbers) for counted in contestants]
    scores = [{name: known.score for name, known in part.items()} for part in parts]
    if len(parts[0]["BLEU"].rows) < FEWEST:
        return [{name: PairedDifference(found[name] - scores[0][name]) for name in found} for found in scores[1:]]
    samples = iter(bootstrap([known for part in parts for known in part.values()], n_bootstrap, seed))
    drawn = [{name: next(samples) for name in part} for part in parts]
    return [
        {name: _paired_difference(scores[0][name], scores[i][name], drawn[0][name], drawn[i][name]) for name in part}
        for i, part in enumerate(parts[1:], start=1)
    ]


def _chosen(known: Statistics, numbers: Sequence[int]) -> Statistics:
    return Statistics(known.name, known.metric, [known.rows[number] for number in numbers])


def _paired_difference(
    baseline: float,
    system: float,
    baseline_samples: NDArray[np.floating[Any]],
    system_samples: NDArray[np.floating[Any]],
) -> PairedDifference:
    """The difference of two scores, judged by the scores of both systems in the same samples."""
    difference, gains = system - baseline, system_samples - baseline_samples
    better = float(((gains > 0) + 0.5 * (gains == 0)).mean())
    return PairedDifference(difference, *interval(gains), bootstrap_p(gains, difference), better)
