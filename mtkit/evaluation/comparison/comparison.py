"""Compare systems on one test set: scores, significance of differences, kinds of sentences, diagnostics."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mtkit.alignment.checks import Checks
from mtkit.console import counted, progress_bar
from mtkit.errors import DataError
from mtkit.evaluation.comparison.features import Feature
from mtkit.evaluation.comparison.systems import System, UnknownPieces
from mtkit.evaluation.metrics.buckets import FEWEST, CountedSentences, PartScore, compare_parts
from mtkit.evaluation.metrics.scores import DEFAULTS
from mtkit.evaluation.metrics.settings import MetricSettings
from mtkit.evaluation.metrics.significance import DEFAULT_CHANCE, LEVEL, Chance, PairedDifference, corrected
from mtkit.quality.faults import FOUND_KINDS, Fault, FaultKind
from mtkit.text.words import words_of
from mtkit.translation.confidence import Reliability, reliability

_SAME = 1e-9  # sentence scores this close are equal
_RESOLUTION = 5  # a p that is corrected for all buckets can be this many times below the level

Differences = Mapping[str, PairedDifference]


@dataclass(frozen=True)
class Diagnostics:
    """Faults that cost a system points: loops, copies, untranslated words, wrong confidence."""

    length_ratio: float  # words over words of the reference
    faults: dict[FaultKind, int]  # number of sentences with this fault
    untranslated: float  # share of words copied from the source that no reference has
    unknown_src: UnknownPieces | None
    unknown_tgt: UnknownPieces | None
    calibration: Reliability | None  # of the confidence; None if the system has none
    good_chrf: float | None


def diagnose(
    system: System,
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    counted: CountedSentences,
    faults: Sequence[tuple[Fault, ...]],
) -> Diagnostics:
    """Return a system's diagnostics. references: one or more whole sets; faults: of each sentence, by `faults_of`."""
    kinds = Counter(kind for of_sentence in faults for kind in {fault.kind for fault in of_sentence})
    return Diagnostics(
        length_ratio=counted.length_ratio(),
        faults={kind: kinds[kind] for kind in FOUND_KINDS},
        untranslated=untranslated_share(system.texts, sources, references),
        unknown_src=system.unknown_src,
        unknown_tgt=system.unknown_tgt,
        calibration=_calibration(system, counted),
        good_chrf=system.good_chrf,
    )


def faults_of(system: System, sources: Sequence[str], checks: Checks) -> list[tuple[Fault, ...]]:
    """Return the faults of each translation."""
    finished = system.finished or [True] * len(sources)
    return [
        checks.faults(source, text, finished=ended)
        for source, text, ended in zip(sources, system.texts, finished, strict=True)
    ]


def untranslated_share(texts: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return the share of the translations' words that are lower-case, in the source and in no reference."""
    n_words, n_copied = 0, 0
    for text, source, *given in zip(texts, sources, *references, strict=True):
        words = words_of(text)
        n_words += len(words)
        suspicious = set(words_of(source)) - {word for reference in given for word in words_of(reference)}
        n_copied += sum(word in suspicious and word.islower() for word in words)
    return n_copied / n_words if n_words else 0.0


def _calibration(system: System, counted: CountedSentences) -> Reliability | None:
    """Return how well the confidences fit the sentence scores, over the sentences that have one."""
    if system.confidences is None or system.good_chrf is None:
        return None
    pairs = [
        (confidence, chrf >= system.good_chrf)
        for confidence, chrf in zip(system.confidences, counted.sentence_chrf(), strict=True)
        if confidence is not None
    ]
    if not pairs:
        return None
    return reliability(np.array([confidence for confidence, _ in pairs]), np.array([good for _, good in pairs]))


@dataclass(frozen=True)
class SortedTestSet:
    """Sources, references (one or more whole sets), and the features that sort the sentences into kinds."""

    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    features: Sequence[Feature]
    checks: Checks = field(default_factory=Checks)  # one for all systems, so that the counts can be compared


@dataclass(frozen=True)
class Judged:
    """A system with its scores."""

    system: System
    score: PartScore
    diagnostics: Diagnostics
    sentence_chrf: list[float]
    faults: list[tuple[Fault, ...]]  # of each sentence

    @property
    def name(self) -> str:
        """Return the system's name."""
        return self.system.name


@dataclass(frozen=True)
class Bucket:
    """Sentences of one kind: each system's score, and the differences of all but the first from the first."""

    name: str
    n: int
    scores: list[PartScore]
    differences: list[Differences]


@dataclass(frozen=True)
class FeatureComparison:
    """The buckets of one feature; the counts behind their scores add up to those of the test set."""

    name: str
    how: str
    buckets: list[Bucket]


@dataclass(frozen=True)
class Pair:
    """A system and the baseline; sentences are compared by their chrF2."""

    baseline: str
    system: str
    differences: Differences
    wins: int  # sentences on which the system is better
    ties: int
    losses: int
    n_identical: int  # equal translations
    gains: list[float]  # of each sentence: chrF2 of the system - chrF2 of the baseline

    def largest_gains(self, n: int) -> list[int]:
        """Return the indices of at most n sentences on which the system is better, largest gain first."""
        return sorted(_positive(self.gains), key=lambda index: -self.gains[index])[:n]

    def largest_losses(self, n: int) -> list[int]:
        """Return the indices of at most n sentences on which the system is worse, largest loss first."""
        return sorted(_positive([-gain for gain in self.gains]), key=lambda index: self.gains[index])[:n]


@dataclass(frozen=True)
class Comparison:
    """The whole comparison; systems[0] is the baseline. A single system has no pairs."""

    test_set: SortedTestSet
    systems: list[Judged]
    pairs: list[Pair]
    features: list[FeatureComparison]
    signatures: dict[str, str]
    chance: Chance  # of the tests in buckets, which may need more trials than asked for

    @property
    def metrics(self) -> list[str]:
        """Return the metrics' names: BLEU, chrF2, then those of given scores."""
        return list(self.systems[0].score.scores)

    @property
    def names(self) -> list[str]:
        """Return the systems' names."""
        return [judged.name for judged in self.systems]

    def surely_worse(self) -> list[tuple[Pair, str]]:
        """Return the pairs and metrics in which a system is significantly worse than the baseline, on all sentences."""
        return [
            (pair, metric)
            for pair in self.pairs
            for metric, paired in pair.differences.items()
            if paired.is_sure and paired.difference < 0
        ]

    def sides(self, pair: Pair) -> tuple[Judged, Judged]:
        """Return the pair's baseline and its system."""
        by_name = dict(zip(self.names, self.systems, strict=True))
        return by_name[pair.baseline], by_name[pair.system]

    @property
    def everything(self) -> Bucket:
        """Return the whole test set as one bucket."""
        scores = [judged.score for judged in self.systems]
        return Bucket("all", len(self.test_set.sources), scores, [pair.differences for pair in self.pairs])


def compare(
    systems: Sequence[System],
    test_set: SortedTestSet,
    *,
    settings: MetricSettings = DEFAULTS,
    chance: Chance = DEFAULT_CHANCE,
) -> Comparison:
    """Break down every system's score, and compare it with the first one, with a progress bar.

    Raises DataError if the numbers of translations and sources differ or are 0.
    """
    _check(systems, test_set)
    judged: list[Judged] = []
    counted: list[CountedSentences] = []
    features = []
    with progress_bar(len(systems) + len(test_set.features), "comparing", "part") as bar:
        for system in systems:
            counts = CountedSentences(system.texts, test_set.references, settings, system.given)
            faults = faults_of(system, test_set.sources, test_set.checks)
            diagnostics = diagnose(system, test_set.sources, test_set.references, counts, faults)
            judged.append(Judged(system, counts.score(), diagnostics, counts.sentence_chrf(), faults))
            counted.append(counts)
            bar.update()
        chance = replace(chance, n_randomization=_n_trials(chance, test_set, counted))
        of_all = compare_parts(counted[0], counted[1:], chance=chance)
        for feature in test_set.features:
            features.append(_feature(feature, counted, of_all, chance))
            bar.update()
    pairs = [_pair(judged[0], other, by_metric) for other, by_metric in zip(judged[1:], of_all, strict=True)]
    return Comparison(test_set, judged, pairs, _corrected(features), counted[0].signatures, chance)


def _n_trials(chance: Chance, test_set: SortedTestSet, counted: Sequence[CountedSentences]) -> int:
    """Return the trials of each test: enough for the smallest possible p to remain small after the correction."""
    several = [feature for feature in test_set.features if len(feature.buckets) > 1]
    tested = sum(len(feature.indices(name)) >= FEWEST for feature in several for name in feature.buckets)
    n_tests = tested * (len(counted) - 1) * len(counted[0].statistics)
    return max(chance.n_randomization, math.ceil(_RESOLUTION * n_tests / LEVEL))


def _feature(
    feature: Feature, counted: Sequence[CountedSentences], of_all: list[Differences], chance: Chance
) -> FeatureComparison:
    """Compare the systems in each bucket. of_all: the differences on all sentences, which a single bucket has, too."""
    buckets = []
    for name in feature.buckets:
        indices = feature.indices(name)
        scores = [counts.score(indices) for counts in counted]
        is_all = len(feature.buckets) == 1
        differences = of_all if is_all else compare_parts(counted[0], counted[1:], indices, chance=chance)
        buckets.append(Bucket(name, len(indices), scores, differences))
    return FeatureComparison(feature.name, feature.how, buckets)


def _corrected(features: Sequence[FeatureComparison]) -> list[FeatureComparison]:
    """Correct every p for all tests in buckets: however many there are, equal systems rarely get a single star."""
    several = [bucket for feature in features if len(feature.buckets) > 1 for bucket in feature.buckets]
    all_tests = iter(corrected(test for bucket in several for by in bucket.differences for test in by.values()))
    return [
        feature
        if len(feature.buckets) == 1
        else replace(
            feature,
            buckets=[
                replace(bucket, differences=[{name: next(all_tests) for name in by} for by in bucket.differences])
                for bucket in feature.buckets
            ],
        )
        for feature in features
    ]


def _check(systems: Sequence[System], test_set: SortedTestSet) -> None:
    n = len(test_set.sources)
    if not n:
        raise DataError("the source text has 0 lines: nothing to compare")
    for given in test_set.references:
        if len(given) != n:
            raise DataError(f"{len(given):,} references for {n:,} source lines; each source line needs one reference")
    for system in systems:
        if len(system.texts) != n:
            raise DataError(f"{system.name}: {counted(len(system.texts), 'translation')} of {n:,} source lines")


def _pair(baseline: Judged, other: Judged, differences: Differences) -> Pair:
    gains = [b - a for a, b in zip(baseline.sentence_chrf, other.sentence_chrf, strict=True)]
    texts = zip(baseline.system.texts, other.system.texts, strict=True)
    wins, losses = len(_positive(gains)), len(_positive([-gain for gain in gains]))
    return Pair(
        baseline=baseline.name,
        system=other.name,
        differences=differences,
        wins=wins,
        ties=len(gains) - wins - losses,
        losses=losses,
        n_identical=sum(a == b for a, b in texts),
        gains=gains,
    )


def _positive(gains: Sequence[float]) -> list[int]:
    return [index for index, gain in enumerate(gains) if gain > _SAME]
