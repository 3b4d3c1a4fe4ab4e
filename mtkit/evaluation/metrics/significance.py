"""Score several systems on one test set, and test whether they differ significantly.

Approximate randomization tests a difference: if two systems are equal, their translations of a sentence are
interchangeable. That holds for any metric and any number of sentences. sacreBLEU's paired bootstrap calls twice as many
differences of equal systems significant as it should (scripts/bench/significance.py).
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    interval,
    signed_score,
)
from mtkit.evaluation.metrics.settings import METRICS, MetricName, MetricSettings
from mtkit.evaluation.metrics.statistics import Statistics, bootstrap, extract, randomize

FEW = 20  # sentences: with fewer, tests say little
Samples = NDArray[np.floating[Any]]
LEVEL = 0.05  # a smaller p is called significant
_TIE = 1e-10  # of the scores: differences this close are equal


@dataclass(frozen=True)
class Chance:
    """Numbers of random draws for intervals and tests; the defaults are sacreBLEU's."""

    n_bootstrap: int = N_BOOTSTRAP  # test sets drawn from the test set
    n_randomization: int = 10_000  # trials that swap translations of two systems
    seed: int = SEED


DEFAULT_CHANCE = Chance()


@dataclass(frozen=True)
class PairedDifference:
    """A system's difference from the baseline by one metric; the difference alone if there are too few sentences."""

    difference: float  # the system's score - the baseline's
    low: float | None = None  # 95 % of the resampled test sets lie from low to high
    high: float | None = None
    better: float | None = None  # share of resampled test sets in which the system scores higher; ties count half
    p: float | None = None  # share of random trials with a difference this large, by approximate randomization
    p_holm: float | None = None  # p, corrected for the other tests beside it
    sacrebleu_p_bootstrap: float | None = None  # of `sacrebleu --paired-bs`
    sacrebleu_p_randomization: float | None = None  # of `sacrebleu --paired-ar`, which does not count ties

    @property
    def is_sure(self) -> bool:
        """Return whether the difference is significant after the correction."""
        return self.p_holm is not None and self.p_holm < LEVEL


@dataclass(frozen=True)
class SystemScores:
    """One system's scores and its differences from the baseline."""

    name: str
    length_ratio: float  # words over words of the reference, as BLEU's brevity penalty counts them
    n_different: int  # sentences whose translation differs from the baseline's
    scores: list[MetricScore]
    differences: list[PairedDifference]  # one per score; empty for the baseline


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
    given: Mapping[str, Sequence[Sequence[float]]] | None = None,
    settings: MetricSettings = DEFAULTS,
    chance: Chance = DEFAULT_CHANCE,
    jobs: int = 1,
) -> list[SystemScores]:
    """Return every system's scores and its differences from the baseline, by default the first system.

    systems: name to translations, line by line like each list of references. jobs: processes that share a large job.
    given: name of a score to its values for each system, one per sentence, in the order of the systems. Intervals and
    sacrebleu_p are those of sacreBLEU's PairedTest. Each metric's tests are corrected for the number of systems. Raises
    ValueError if the numbers of lines differ or are 0.
    """
    for hypotheses in systems.values():
        check_counts(hypotheses, *references)
    check_samples(chance.n_bootstrap)
    needed: list[MetricName] = [*metrics] if "BLEU" in metrics else [*metrics, "BLEU"]  # BLEU counts lengths
    extracted = extract(list(systems.values()), references, needed, settings, jobs=jobs)
    ratios = [known.length_ratio for by_metric in extracted for known in by_metric if known.name == "BLEU"]
    counted = [
        by_metric[: len(metrics)] + [Statistics.from_given(name, values[i]) for name, values in (given or {}).items()]
        for i, by_metric in enumerate(extracted)
    ]
    names = list(systems)
    base = 0 if baseline is None else names.index(baseline)
    samples, differences = _tested(counted, base, chance)
    draws = {"bs": chance.n_bootstrap, "seed": chance.seed}
    if len(names) > 1:
        draws["ar"] = chance.n_randomization
    compared = []
    for index, name in enumerate(names):
        scores = [signed_score(*known, draws) for known in zip(counted[index], samples[index], strict=True)]
        n_different = sum(ours != theirs for ours, theirs in zip(systems[name], systems[names[base]], strict=True))
        compared.append(SystemScores(name, ratios[index], n_different, scores, differences[index]))
    return compared


def _tested(
    counted: Sequence[Sequence[Statistics]], base: int, chance: Chance
) -> tuple[list[list[Samples]], list[list[PairedDifference]]]:
    """Return each system's bootstrap samples by metric, and its corrected differences; the baseline has none."""
    drawn = iter(bootstrap([known for by_metric in counted for known in by_metric], chance.n_bootstrap, chance.seed))
    samples = [[next(drawn) for _ in by_metric] for by_metric in counted]
    others = [index for index in range(len(counted)) if index != base]
    trials = randomize(counted[base], [counted[index] for index in others], chance.n_randomization, chance.seed)
    differences: list[list[PairedDifference]] = [[] for _ in counted]
    for index, of_system in zip(others, trials, strict=True):
        columns = zip(counted[index], counted[base], samples[index], samples[base], of_system, strict=True)
        differences[index] = [_difference(*column) for column in columns]
    by_metric = [corrected(column) for column in zip(*(differences[index] for index in others), strict=True)]
    for index, row in zip(others, zip(*by_metric, strict=True), strict=True):
        differences[index] = list(row)
    return samples, differences


def paired_differences(systems: Sequence[Sequence[Statistics]], chance: Chance) -> list[list[PairedDifference]]:
    """Return the differences of each system but the first from the first, by metric, corrected for their number."""
    return _tested(systems, 0, chance)[1][1:]


def _difference(
    system: Statistics, baseline: Statistics, ours: Samples, theirs: Samples, trials: Samples
) -> PairedDifference:
    """Test a difference. ours, theirs: scores of the same bootstrap samples; trials: as `randomize` returns them."""
    difference, gains = system.score - baseline.score, ours - theirs
    p = _share(trials[1:] >= trials[0] - _TIE * (abs(system.score) + abs(baseline.score)))
    return PairedDifference(
        difference,
        *interval(gains),
        better=float(((gains > 0) + 0.5 * (gains == 0)).mean()),
        p=p,
        p_holm=p,
        sacrebleu_p_bootstrap=sacrebleu_p_bootstrap(gains, difference),
        sacrebleu_p_randomization=_share(trials[1:] > trials[0]),
    )


def sacrebleu_p_bootstrap(gains: Samples, difference: float) -> float:
    """Return the p of a difference by sacreBLEU's paired bootstrap; gains: the difference in each sample.

    The sizes of the gains, shifted to a mean of zero, model chance. Gains of both signs fold into one, so their spread
    is too small where chance is likely.
    """
    sizes = np.abs(gains)
    return _share(sizes - sizes.mean() > abs(difference))


def _share(beyond: NDArray[np.bool_]) -> float:
    """Return the share of chance samples that reach a difference, which counts as one of them."""
    return (int(beyond.sum()) + 1) / (len(beyond) + 1)


def holm(ps: Sequence[float]) -> list[float]:
    """Correct p-values for their number: the chance that any of true null hypotheses has one below 5 % is at most 5 %.

    The k-th smallest of n is multiplied by n - k + 1, and is not below any smaller one (Holm 1979).
    """
    order = np.argsort(ps, kind="stable")
    steps = np.array(ps, dtype=np.float64)[order] * np.arange(len(ps), 0, -1)
    result = np.empty(len(ps))
    result[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(p) for p in result]


def corrected(differences: Iterable[PairedDifference]) -> list[PairedDifference]:
    """Return the differences with p_holm corrected for all those that were tested."""
    differences = list(differences)
    ps = iter(holm([difference.p for difference in differences if difference.p is not None]))
    return [one if one.p is None else replace(one, p_holm=next(ps)) for one in differences]


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
                f"{system.name}: only {system.n_different} translations differ from the baseline's, so p is hardly "
                "meaningful"
            )
