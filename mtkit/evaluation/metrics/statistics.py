"""Extract the counts that sacreBLEU sums over sentences, and score resampled test sets from them.

A row holds a metric's counts for one sentence, such as BLEU's lengths and n-gram matches; the corpus score is a
function of the sum of all rows. sacreBLEU's functions for both are private, but its own significance tests use them.
Draws, and the order and precision of each sum, are sacreBLEU's: scores, intervals and its p agree to the last digit.
Scores from elsewhere, one a sentence, have rows of their own, the score and 1; the corpus score is their mean.
"""

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.console import progress_bar
from mtkit.cores import spawn_context
from mtkit.evaluation.metrics.settings import METRICS, MetricName, MetricSettings
from mtkit.evaluation.metrics.sums import MeanOfGiven, scores_of_sums

Rows = list[list[float]]  # one per sentence

_PORTION = 50  # sentences scored at a time: the n-grams of all references would fill the memory
_MIN_FOR_PROCESSES = 2_000  # sentences of all systems: for fewer, starting processes takes longer than scoring
_TRIALS = 256  # summed at a time; a multiple of 32, the bits in one draw of the generator
_BAR_DELAY_S = 1.5


@dataclass(frozen=True)
class Statistics:
    """One metric's counts for one system's translations."""

    name: str  # a MetricName, or what given scores are called
    metric: Any  # sacreBLEU's, or MeanOfGiven
    rows: Rows

    @classmethod
    def from_given(cls, name: str, scores: Sequence[float]) -> "Statistics":
        """Take one score per sentence, such as COMET's or a person's."""
        return cls(name, MeanOfGiven(), [[score, 1.0] for score in scores])

    @property
    def precision(self) -> type[np.floating[Any]]:
        """Return the type in which bootstrap samples are summed: sacreBLEU's for its own metrics."""
        return np.float32 if self.name in METRICS else np.float64

    @cached_property
    def score(self) -> float:
        """Return the score of the whole test set."""
        return float(self.metric._aggregate_and_compute(self.rows).score)

    @property
    def length_ratio(self) -> float:
        """Return the words of the translations over those of the references, as BLEU counts them; BLEU only."""
        return float(self.metric._aggregate_and_compute(self.rows).ratio)


def extract(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[MetricName],
    settings: MetricSettings,
    *,
    jobs: int = 1,
) -> list[list[Statistics]]:
    """Return the statistics of each system by each metric.

    systems: translations of the same sentences; references: one or more lists, line by line.
    jobs: processes that share a large job. TER takes milliseconds per sentence.
    """
    n = len(references[0])
    loaded = [settings.load(name) for name in metrics]
    for metric in loaded:
        metric.num_refs = len(references)  # for the signature
    collected: list[list[Rows]] = [[[] for _ in metrics] for _ in systems]
    starts = range(0, n, _PORTION)
    portions = (
        [[text[start : start + _PORTION] for text in texts] for texts in (systems, references)] for start in starts
    )
    work = partial(_portion_rows, tuple(metrics), settings)
    with (
        progress_bar(n * len(systems), "scoring", "sentence", delay=_BAR_DELAY_S) as bar,
        _mapper(min(jobs, len(starts)) if n * len(systems) >= _MIN_FOR_PROCESSES else 1) as map_all,
    ):
        for portion in map_all(work, portions):
            for system, by_metric in zip(collected, portion, strict=True):
                for rows, new in zip(system, by_metric, strict=True):
                    rows.extend(new)
            bar.update(sum(len(by_metric[0]) for by_metric in portion))
    return [[Statistics(*parts) for parts in zip(metrics, loaded, system, strict=True)] for system in collected]


def _portion_rows(
    metrics: tuple[MetricName, ...], settings: MetricSettings, portion: tuple[Sequence[Sequence[str]], ...]
) -> list[list[Rows]]:
    """Return the rows of some sentences, for each system by each metric."""
    systems, references = portion
    collected: list[list[Rows]] = [[] for _ in systems]
    for metric in (_loaded(name, settings) for name in metrics):
        prepared = metric._cache_references(references)  # once for all systems
        for rows, texts in zip(collected, systems, strict=True):
            pairs = zip(map(metric._preprocess_segment, texts), prepared, strict=True)
            rows.append([metric._compute_segment_statistics(text, reference) for text, reference in pairs])
    return collected


@cache
def _loaded(name: MetricName, settings: MetricSettings) -> Any:
    """Return the metric; a process loads it once."""
    return settings.load(name)


@contextmanager
def _mapper(jobs: int) -> Iterator[Any]:
    """Yield `map`, or a function like it that spreads the work over processes and keeps the order."""
    if jobs == 1:
        yield map
        return
    context = spawn_context()
    ignore_interrupt = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=ignore_interrupt)
    try:
        yield executor.map
    finally:
        executor.shutdown(cancel_futures=True)


def bootstrap(all_statistics: Sequence[Statistics], n_samples: int, seed: int) -> list[NDArray[np.floating[Any]]]:
    """Return the scores (n_samples,) of each on test sets of the same size drawn with replacement (Koehn 2004).

    Each sample scores all of them on the same sentences.
    """
    size = len(all_statistics[0].rows)
    rng = np.random.default_rng(seed)
    scores: list[list[float]] = [[] for _ in all_statistics]
    by_precision = [_SideBySide(all_statistics, scores, precision) for precision in (np.float32, np.float64)]
    with progress_bar(n_samples, "bootstrap", "sample", delay=_BAR_DELAY_S) as bar:
        for _ in range(n_samples):  # one at a time: all samples of a large test set would fill the memory
            chosen = rng.choice(size, size=size, replace=True)
            for side_by_side in by_precision:
                side_by_side.score(chosen)
            bar.update()
    return [np.array(samples) for samples in scores]


class _SideBySide:
    """The rows of all statistics of one precision, in one array: one selection serves all."""

    def __init__(
        self, statistics: Sequence[Statistics], scores: list[list[float]], precision: type[np.floating[Any]]
    ) -> None:
        here = [(one, samples) for one, samples in zip(statistics, scores, strict=True) if one.precision is precision]
        self.metrics = [one.metric for one, _ in here]
        self.scores = [samples for _, samples in here]  # a score is added to each
        arrays = [np.array(one.rows, dtype=precision) for one, _ in here]
        ends = np.cumsum([0, *(array.shape[1] for array in arrays)]).tolist()
        self.columns = list(map(slice, ends, ends[1:]))
        self.rows = np.concatenate(arrays, axis=1) if arrays else None

    def score(self, chosen: NDArray[np.int64]) -> None:
        """Add the scores of the chosen sentences."""
        if self.rows is not None:
            sums = self.rows[chosen].sum(0)
            for metric, columns, samples in zip(self.metrics, self.columns, self.scores, strict=True):
                samples.append(metric._compute_score_from_stats(sums[columns]).score)


def randomize(
    baseline: Sequence[Statistics], systems: Sequence[Sequence[Statistics]], n_trials: int, seed: int
) -> list[list[NDArray[np.float64]]]:
    """Return the absolute score differences of each system and the baseline by each metric in random trials.

    Each trial swaps or keeps every sentence's two translations at random (approximate randomization; Riezler and
    Maxwell 2005). The first of the n_trials + 1 swaps nothing: it is the real difference. With three or more references
    TER adds fractions, so a tie may be broken unlike in sacreBLEU.
    """
    if not systems:
        return []
    rng = np.random.default_rng(seed)
    ours = [np.array(statistics.rows, dtype=np.float64) for statistics in baseline]
    theirs = [[np.array(statistics.rows, dtype=np.float64) for statistics in system] for system in systems]
    differences = [[np.empty(n_trials + 1) for _ in baseline] for _ in systems]

    def score(first: int, swapped: NDArray[np.bool_]) -> None:
        # Both sums are computed, as in sacreBLEU, though the second follows from the first: where they are not
        # whole numbers (TER's mean length of three references), rounding decides the frequent ties.
        swap, keep = swapped.astype(np.float64), (~swapped).astype(np.float64)
        for i, (statistics, mine) in enumerate(zip(baseline, ours, strict=True)):
            swapped_in, kept = swap @ mine, keep @ mine
            for system, of_system in zip(theirs, differences, strict=True):
                sums = swapped_in + keep @ system[i], kept + swap @ system[i]
                one, other = (scores_of_sums(statistics.name, part) for part in sums)
                of_system[i][first : first + len(swapped)] = np.abs(one - other)

    score(0, np.zeros((1, len(ours[0])), dtype=bool))
    with progress_bar(n_trials, "randomization", "trial", delay=_BAR_DELAY_S) as bar:
        for start in range(0, n_trials, _TRIALS):
            swapped = rng.integers(2, size=(min(_TRIALS, n_trials - start), len(ours[0])), dtype=bool)
            score(start + 1, swapped)
            bar.update(len(swapped))
    return differences
