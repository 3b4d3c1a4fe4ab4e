"""Compare systems on one test set: scores, how sure the differences are, kinds of sentences, diagnostics."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mtkit.console import progress_bar
from mtkit.errors import DataError
from mtkit.evaluation.comparison.features import Feature
from mtkit.evaluation.comparison.systems import System, UnknownPieces
from mtkit.evaluation.metrics.buckets import CountedSentences, PairedDifference, PartMetric, PartScore, compare_parts
from mtkit.evaluation.metrics.scores import DEFAULTS, N_BOOTSTRAP, SEED
from mtkit.evaluation.metrics.settings import MetricSettings
from mtkit.quality.faults import FAULT_KINDS, Fault, FaultKind, find_faults, words_of
from mtkit.translation.confidence import Reliability, reliability

_SAME = 1e-9  # sentence scores this close are equal

Differences = Mapping[PartMetric, PairedDifference]


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
        faults={kind: kinds[kind] for kind in FAULT_KINDS},
        untranslated=untranslated_share(system.texts, sources, references),
        unknown_src=system.unknown_src,
        unknown_tgt=system.unknown_tgt,
        calibration=_calibration(system, counted),
        good_chrf=system.good_chrf,
    )


def faults_of(system: System, sources: Sequence[str], tgt_lang: str | None = None) -> list[tuple[Fault, ...]]:
    """Return the faults that `find_faults` finds in each translation."""
    finished = system.finished or [True] * len(sources)
    return [
        find_faults(source, text, finished=ended, tgt_lang=tgt_lang)
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
    tgt_lang: str | None = None


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
    signatures: dict[PartMetric, str]
    n_bootstrap: int
    seed: int

    @property
    def names(self) -> list[str]:
        """Return the systems' names."""
        return [judged.name for judged in self.systems]

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
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = SEED,
) -> Comparison:
    """Break down every system's score, and compare it with the first one, with a progress bar.

    Raises DataError if the numbers of translations and sources differ or are 0.
    """
    _check(systems, test_set)
    judged: list[Judged] = []
    counted: list[CountedSentences] = []
    features = []

    def differences(indices: list[int] | None = None) -> list[Differences]:
        return compare_parts(counted[0], counted[1:], indices, n_bootstrap=n_bootstrap, seed=seed)

    with progress_bar(len(systems) + len(test_set.features), "comparing", "part") as bar:
        for system in systems:
            counts = CountedSentences(system.texts, test_set.references, settings)
            faults = faults_of(system, test_set.sources, test_set.tgt_lang)
            diagnostics = diagnose(system, test_set.sources, test_set.references, counts, faults)
            judged.append(Judged(system, counts.score(), diagnostics, counts.sentence_chrf(), faults))
            counted.append(counts)
            bar.update()
        pairs = [_pair(judged[0], other, by_metric) for other, by_metric in zip(judged[1:], differences(), strict=True)]
        for feature in test_set.features:
            buckets = []
            for name in feature.buckets:
                indices = feature.indices(name)
                scores = [counts.score(indices) for counts in counted]
                buckets.append(Bucket(name, len(indices), scores, differences(indices)))
            features.append(FeatureComparison(feature.name, feature.how, buckets))
            bar.update()
    return Comparison(test_set, judged, pairs, features, counted[0].signatures, n_bootstrap, seed)


def _check(systems: Sequence[System], test_set: SortedTestSet) -> None:
    n = len(test_set.sources)
    if not n:
        raise DataError("the source text has 0 lines: nothing to compare")
    for given in test_set.references:
        if len(given) != n:
            raise DataError(f"{len(given):,} references for {n:,} source lines; each source line needs one reference")
    for system in systems:
        if len(system.texts) != n:
            raise DataError(f"{system.name}: {len(system.texts):,} translations of {n:,} source lines")


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
