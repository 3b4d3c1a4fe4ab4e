"""Score and compare parts of a test set with BLEU, chrF and given scores.

All are functions of counts summed over sentences. A part's score comes from the sum over its sentences, so the counts
of parts that make up the test set add up exactly to those of the whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mtkit.evaluation.metrics.scores import DEFAULTS, check_counts
from mtkit.evaluation.metrics.settings import MetricName, MetricSettings
from mtkit.evaluation.metrics.significance import DEFAULT_CHANCE, Chance, PairedDifference, paired_differences
from mtkit.evaluation.metrics.statistics import Statistics, extract

PART_METRICS: tuple[MetricName, ...] = ("BLEU", "chrF2")
FEWEST = 30  # sentences: smaller parts are not resampled, because their samples say little


@dataclass(frozen=True)
class PartScore:
    """One system's scores on some sentences."""

    n: int
    scores: dict[str, float]  # by metric; BLEU and chrF from 0 to 100


class CountedSentences:
    """sacreBLEU's counts for every sentence of one system."""

    def __init__(
        self,
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        settings: MetricSettings = DEFAULTS,
        given: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        """Count the sentences; references: one or more whole sets, references[k][i] for hypotheses[i].

        given: external scores by name, one per sentence.
        Raises ValueError if the numbers of sentences differ or are 0.
        """
        check_counts(hypotheses, *references)
        [by_metric] = extract([hypotheses], references, PART_METRICS, settings)
        self.statistics: dict[str, Statistics] = dict(zip(PART_METRICS, by_metric, strict=True))
        self.statistics |= {name: Statistics.from_given(name, scores) for name, scores in (given or {}).items()}

    def __len__(self) -> int:
        return len(self.statistics["BLEU"].rows)

    @property
    def signatures(self) -> dict[str, str]:
        """Return sacreBLEU's signature of each metric."""
        return {name: str(known.metric.get_signature()) for name, known in self.statistics.items()}

    def part(self, indices: Sequence[int] | None = None) -> dict[str, Statistics]:
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
    chance: Chance = DEFAULT_CHANCE,
) -> list[Mapping[str, PairedDifference]]:
    """Return each system's differences from the baseline on these sentences, by default on all, from the same draws.

    p_holm is corrected for the number of systems. Raises ValueError if the systems have different numbers of sentences.
    """
    if not systems:
        return []
    sizes = [len(counted) for counted in (baseline, *systems)]
    if len(set(sizes)) > 1:
        raise ValueError(f"cannot compare systems of {', '.join(map(str, sizes))} sentences")
    parts = [counted.part(indices) for counted in (baseline, *systems)]
    if len(parts[0]["BLEU"].rows) < FEWEST:
        scores = [{name: known.score for name, known in part.items()} for part in parts]
        return [{name: PairedDifference(score[name] - scores[0][name]) for name in score} for score in scores[1:]]
    tested = paired_differences([list(part.values()) for part in parts], chance)
    return [dict(zip(parts[0], by_metric, strict=True)) for by_metric in tested]
