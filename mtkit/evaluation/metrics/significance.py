"""Several systems' translations of one test set in; their scores out, and how sure it is that they differ."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.console import log
from mtkit.evaluation.metrics.scores import (
    DEFAULTS,
    N_BOOTSTRAP,
    SEED,
    MetricScore,
    check_counts,
    check_samples,
    signed_score,
)
from mtkit.evaluation.metrics.settings import METRICS, MetricName, MetricSettings
from mtkit.evaluation.metrics.statistics import Statistics, bootstrap, extract, randomize

FEW = 20  # sentences, below which tests say little
Samples = NDArray[np.floating[Any]]
LEVEL = 0.05  # a smaller p is called significant


@dataclass(frozen=True)
class Chance:
    """How much is drawn, for intervals and tests; the defaults are sacreBLEU's."""

    n_bootstrap: int = N_BOOTSTRAP  # test sets drawn from the test set
    n_randomization: int = 10_000  # trials in which the translations of two systems change places
    seed: int = SEED


@dataclass(frozen=True)
class Difference:
    """What sets a system apart from the baseline by one metric."""

    difference: float  # the system's score - the baseline's
    p_bootstrap: float  # paired bootstrap (Koehn 2004)
    p_randomization: float  # paired approximate randomization (Riezler and Maxwell 2005)

    @property
    def significant(self) -> tuple[bool, bool]:
        """By bootstrap, and by randomization. Equal scores are not, though sacreBLEU gives them a small p."""
        return self._is_small(self.p_bootstrap), self._is_small(self.p_randomization)

    def _is_small(self, p: float) -> bool:
        return self.difference != 0 and p < LEVEL


@dataclass(frozen=True)
class SystemScores:
    """One of the systems."""

    name: str
    length_ratio: float  # words over words of the reference, as BLEU's brevity penalty counts them
    n_different: int  # sentences that it does not translate as the baseline does
    scores: list[MetricScore]
    differences: list[Difference]  # one a score; none if this is the baseline


@dataclass(frozen=True)
class SeedScore:
    """One metric over systems that differ by their seed."""

    name: str
    mean: float
    deviation: float  # the standard deviation, n - 1 in its denominator
    low: float  # the lowest of the systems' scores
    high: float


@dataclass(frozen=True)
class SeedScores:
    """Systems that differ by their seed."""

    name: str
    systems: list[str]
    scores: list[SeedScore]


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    baseline: str | None = None,
    *,
    metrics: Sequence[MetricName] = METRICS,
    settings: MetricSettings = DEFAULTS,
    chance: Chance = Chance(),
    jobs: int = 1,
) -> list[SystemScores]:
    """Every system's scores, and its differences from the baseline, which is the first if none is named.

    systems: name to translations, line by line beside each list of references. jobs: processes, if there is much to do.
    Intervals and p_bootstrap are those of sacreBLEU's PairedTest "bs", p_randomization that of "ar".
    Raises ValueError if counts of lines differ or are 0.
    """
    for hypotheses in systems.values():
        check_counts(hypotheses, *references)
    check_samples(chance.n_bootstrap)
    wanted: list[MetricName] = [*metrics] if "BLEU" in metrics else [*metrics, "BLEU"]  # which counts lengths
    counted = extract(list(systems.values()), references, wanted, settings, jobs=jobs)
    ratios = [known.length_ratio for by_metric in counted for known in by_metric if known.name == "BLEU"]
    found = [by_metric[: len(metrics)] for by_metric in counted]
    drawn = iter(bootstrap([known for by_metric in found for known in by_metric], chance.n_bootstrap, chance.seed))
    samples = [[next(drawn) for _ in metrics] for _ in systems]
    names = list(systems)
    first = 0 if baseline is None else names.index(baseline)
    others = [number for number in range(len(names)) if number != first]
    apart = randomize(found[first], [found[number] for number in others], chance.n_randomization, chance.seed)
    trials = dict(zip(others, apart, strict=True))
    numbers = {"bs": chance.n_bootstrap, "seed": chance.seed, **({"ar": chance.n_randomization} if others else {})}
    compared = []
    for number, name in enumerate(names):
        scores = [signed_score(*known, numbers) for known in zip(found[number], samples[number], strict=True)]
        differences = []
        if number != first:
            columns = zip(found[number], found[first], samples[number], samples[first], trials[number], strict=True)
            differences = [_difference(*column) for column in columns]
        n_different = sum(ours != theirs for ours, theirs in zip(systems[name], systems[names[first]], strict=True))
        compared.append(SystemScores(name, ratios[number], n_different, scores, differences))
    return compared


def _difference(
    system: Statistics, baseline: Statistics, ours: Samples, theirs: Samples, trials: Samples
) -> Difference:
    """ours, theirs: scores of the same bootstrap samples; trials: how far apart chance puts the two."""
    difference = system.score - baseline.score
    return Difference(difference, bootstrap_p(ours - theirs, difference), _share_beyond(trials, abs(difference)))


def bootstrap_p(gains: Samples, difference: float) -> float:
    """The p of a difference by sacreBLEU's paired bootstrap; gains: what sets the two apart in each sample.

    The sizes of the gains, shifted to a mean of zero, show what chance does (Koehn 2004; Riezler and Maxwell 2005).
    """
    sizes = np.abs(gains)
    return _share_beyond(sizes - sizes.mean(), abs(difference))


def _share_beyond(samples: Samples, difference: float) -> float:
    """The p of a difference: which share of samples made by chance surpasses it; the difference itself is one more."""
    return (int((samples > difference).sum()) + 1) / (len(samples) + 1)


def over_seeds(groups: Mapping[str, Sequence[str]], systems: Sequence[SystemScores]) -> list[SeedScores]:
    """Mean and deviation of each metric over each group's systems, of which there are two or more."""
    by_name = {system.name: system.scores for system in systems}
    found = []
    for group, names in groups.items():
        scores = []
        for by_system in zip(*(by_name[name] for name in names), strict=True):
            values = [score.score for score in by_system]
            figures = statistics.fmean(values), statistics.stdev(values), min(values), max(values)
            scores.append(SeedScore(by_system[0].name, *figures))
        found.append(SeedScores(group, list(names), scores))
    return found


def best(scores: Sequence[MetricScore]) -> float:
    """The best of several systems' scores by one metric: TER counts errors, the others matches."""
    values = [score.score for score in scores]
    return min(values) if scores[0].name == "TER" else max(values)


def warn_of_few(systems: Sequence[SystemScores]) -> None:
    """Log whose differences lie in so few sentences that they cannot show what holds for others."""
    for system in systems:
        if 0 < system.n_different < FEW:
            n = system.n_different
            log.warning(f"{system.name}: only {n} translations differ from the baseline's; p says little")
