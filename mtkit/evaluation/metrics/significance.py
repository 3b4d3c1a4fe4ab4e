"""Score several systems on one test set, and test whether they differ significantly."""

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

FEW = 20  # sentences: with fewer, tests say little
Samples = NDArray[np.floating[Any]]
LEVEL = 0.05  # a smaller p is called significant


@dataclass(frozen=True)
class Chance:
    """Numbers of random draws for intervals and tests; the defaults are sacreBLEU's."""

    n_bootstrap: int = N_BOOTSTRAP  # test sets drawn from the test set
    n_randomization: int = 10_000  # trials that swap translations of two systems
    seed: int = SEED


@dataclass(frozen=True)
class Difference:
    """A system's difference from the baseline by one metric."""

    difference: float  # the system's score - the baseline's
    p_bootstrap: float  # paired bootstrap (Koehn 2004)
    p_randomization: float  # paired approximate randomization (Riezler and Maxwell 2005)

    @property
    def significant(self) -> tuple[bool, bool]:
        """Return the verdicts of bootstrap and randomization; equal scores never differ, even with a small p."""
        differs = self.difference != 0
        return differs and self.p_bootstrap < LEVEL, differs and self.p_randomization < LEVEL


@dataclass(frozen=True)
class SystemScores:
    """One system's scores and its differences from the baseline."""

    name: str
    length_ratio: float  # words over words of the reference, as BLEU's brevity penalty counts them
    n_different: int  # sentences whose translation differs from the baseline's
    scores: list[MetricScore]
    differences: list[Difference]  # one per score; empty for the baseline


@dataclass(frozen=True)
class SeedScore:
    """One metric over systems that differ only in their seed."""

    name: str
    mean: float
    deviation: float  # standard deviation with n - 1 in its denominator
    low: float  # lowest score of a system
    high: float


@dataclass(frozen=True)
class SeedScores:
    """A group of systems that differ only in their seed."""

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
    """Return every system's scores and its differences from the baseline, by default the first system.

    systems: name to translations, line by line like each list of references. jobs: processes that share a large job.
    Intervals and p_bootstrap are those of sacreBLEU's PairedTest "bs", p_randomization that of "ar".
    Raises ValueError if the numbers of lines differ or are 0.
    """
    for hypotheses in systems.values():
        check_counts(hypotheses, *references)
    check_samples(chance.n_bootstrap)
    needed: list[MetricName] = [*metrics] if "BLEU" in metrics else [*metrics, "BLEU"]  # BLEU counts lengths
    extracted = extract(list(systems.values()), references, needed, settings, jobs=jobs)
    ratios = [known.length_ratio for by_metric in extracted for known in by_metric if known.name == "BLEU"]
    counted = [by_metric[: len(metrics)] for by_metric in extracted]
    drawn = iter(bootstrap([known for by_metric in counted for known in by_metric], chance.n_bootstrap, chance.seed))
    samples = [[next(drawn) for _ in metrics] for _ in systems]
    names = list(systems)
    base = 0 if baseline is None else names.index(baseline)
    others = [index for index in range(len(names)) if index != base]
    swapped = randomize(counted[base], [counted[index] for index in others], chance.n_randomization, chance.seed)
    trials = dict(zip(others, swapped, strict=True))
    draws = {"bs": chance.n_bootstrap, "seed": chance.seed, **({"ar": chance.n_randomization} if others else {})}
    compared = []
    for index, name in enumerate(names):
        scores = [signed_score(*known, draws) for known in zip(counted[index], samples[index], strict=True)]
        differences = []
        if index != base:
            columns = zip(counted[index], counted[base], samples[index], samples[base], trials[index], strict=True)
            differences = [_difference(*column) for column in columns]
        n_different = sum(ours != theirs for ours, theirs in zip(systems[name], systems[names[base]], strict=True))
        compared.append(SystemScores(name, ratios[index], n_different, scores, differences))
    return compared


def _difference(
    system: Statistics, baseline: Statistics, ours: Samples, theirs: Samples, trials: Samples
) -> Difference:
    """Test a difference. ours, theirs: scores of the same bootstrap samples; trials: differences made by chance."""
    difference = system.score - baseline.score
    return Difference(difference, bootstrap_p(ours - theirs, difference), _share_beyond(trials, abs(difference)))


def bootstrap_p(gains: Samples, difference: float) -> float:
    """Return the p of a difference by sacreBLEU's paired bootstrap; gains: the difference in each sample.

    The sizes of the gains, shifted to a mean of zero, model chance (Koehn 2004; Riezler and Maxwell 2005).
    """
    sizes = np.abs(gains)
    return _share_beyond(sizes - sizes.mean(), abs(difference))


def _share_beyond(samples: Samples, difference: float) -> float:
    """Return the p of a difference: the share of chance samples above it, the difference counted as one of them."""
    return (int((samples > difference).sum()) + 1) / (len(samples) + 1)


def over_seeds(groups: Mapping[str, Sequence[str]], systems: Sequence[SystemScores]) -> list[SeedScores]:
    """Return mean and deviation of each metric over each group's systems, two or more."""
    by_name = {system.name: system.scores for system in systems}
    by_group = []
    for group, names in groups.items():
        scores = []
        for by_system in zip(*(by_name[name] for name in names), strict=True):
            values = [score.score for score in by_system]
            figures = statistics.fmean(values), statistics.stdev(values), min(values), max(values)
            scores.append(SeedScore(by_system[0].name, *figures))
        by_group.append(SeedScores(group, list(names), scores))
    return by_group


def best(scores: Sequence[MetricScore]) -> float:
    """Return the best of several systems' scores by one metric: the lowest TER, the highest of the others."""
    values = [score.score for score in scores]
    return min(values) if scores[0].name == "TER" else max(values)


def warn_of_few(systems: Sequence[SystemScores]) -> None:
    """Log which systems differ from the baseline in too few sentences for a test."""
    for system in systems:
        if 0 < system.n_different < FEW:
            log.warning(
                f"{system.name}: only {system.n_different} translations differ from the baseline's; p says little"
            )
