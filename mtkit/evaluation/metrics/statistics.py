"""Text in, the counts that sacreBLEU adds up over sentences out; and the scores of test sets drawn from them.

A row is what a metric knows about one sentence, such as BLEU's lengths and n-gram counts; the corpus score is a
function of the sum of all rows. sacreBLEU's functions for both are not public, but its own tests are made of them. The
draws, and the order and precision of each sum, are sacreBLEU's too: the figures agree to the last digit.
"""

import multiprocessing
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
from mtkit.evaluation.metrics.settings import MetricName, MetricSettings

Rows = list[list[float]]  # one a sentence

_PORTION = 50  # sentences that are scored at a time: the n-grams of all references would fill the memory
_WORTH_PROCESSES = 2_000  # sentences of all systems: below, starting processes takes longer than scoring
_TRIALS = 256  # that are summed at a time; a multiple of 32, the bits that one number of the generator gives
_PATIENCE_S = 1.5  # a bar appears if work takes longer


@dataclass(frozen=True)
class Statistics:
    """What one metric knows about one system's translations."""

    name: MetricName
    metric: Any  # sacreBLEU's
    rows: Rows

    @cached_property
    def score(self) -> float:
        """Of the whole test set."""
        return float(self.metric._aggregate_and_compute(self.rows).score)

    @property
    def length_ratio(self) -> float:
        """Words of the translations over words of the references, as BLEU counts them: only where name is BLEU."""
        return float(self.metric._aggregate_and_compute(self.rows).ratio)


def extract(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[MetricName],
    settings: MetricSettings,
    *,
    jobs: int = 1,
) -> list[list[Statistics]]:
    """Statistics of each system by each metric.

    systems: translations of the same sentences; references: one list or more, line by line beside them.
    jobs: processes that share the work if there is much of it. TER takes milliseconds a sentence.
    """
    n = len(references[0])
    loaded = [settings.load(name) for name in metrics]
    for metric in loaded:
        metric.num_refs = len(references)  # for the signature
    found: list[list[Rows]] = [[[] for _ in metrics] for _ in systems]
    starts = range(0, n, _PORTION)
    portions = (
        [[text[start : start + _PORTION] for text in texts] for texts in (systems, references)] for start in starts
    )
    work = partial(_portion_rows, tuple(metrics), settings)
    with (
        progress_bar(n * len(systems), "scoring", "sentence", delay=_PATIENCE_S) as bar,
        _mapper(min(jobs, len(starts)) if n * len(systems) >= _WORTH_PROCESSES else 1) as map_all,
    ):
        for portion in map_all(work, portions):
            for system, by_metric in zip(found, portion, strict=True):
                for rows, new in zip(system, by_metric, strict=True):
                    rows.extend(new)
            bar.update(sum(len(by_metric[0]) for by_metric in portion))
    return [[Statistics(*known) for known in zip(metrics, loaded, system, strict=True)] for system in found]


def _portion_rows(
    metrics: tuple[MetricName, ...], settings: MetricSettings, portion: tuple[Sequence[Sequence[str]], ...]
) -> list[list[Rows]]:
    """The rows of some sentences, for each system by each metric."""
    systems, references = portion
    found: list[list[Rows]] = [[] for _ in systems]
    for metric in (_loaded(name, settings) for name in metrics):
        prepared = metric._cache_references(references)  # once for all systems
        for rows, texts in zip(found, systems, strict=True):
            pairs = zip(map(metric._preprocess_segment, texts), prepared, strict=True)
            rows.append([metric._compute_segment_statistics(text, reference) for text, reference in pairs])
    return found


@cache
def _loaded(name: MetricName, settings: MetricSettings) -> Any:
    """The metric that this process extracts with."""
    return settings.load(name)


@contextmanager
def _mapper(jobs: int) -> Iterator[Any]:
    """`map`, or one that spreads its work over processes and gives the results in order."""
    if jobs == 1:
        yield map
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads, which it does not survive
    ignore_interrupt = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)  # this process tells the others to end
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=ignore_interrupt)
    try:
        yield executor.map
    finally:
        executor.shutdown(cancel_futures=True)


def bootstrap(found: Sequence[Statistics], n_samples: int, seed: int) -> list[NDArray[np.floating[Any]]]:
    """The scores (n_samples,) of each in test sets of the same size drawn with replacement (Koehn 2004).

    All are scored on the same sentences in each sample.
    """
    size = len(found[0].rows)
    rng = np.random.default_rng(seed)
    arrays = [np.array(statistics.rows, dtype=np.float32) for statistics in found]
    ends = np.cumsum([array.shape[1] for array in arrays])
    side_by_side = np.concatenate(arrays, axis=1)  # to be picked from at once
    scores: list[list[float]] = [[] for _ in found]
    with progress_bar(n_samples, "bootstrap", "sample", delay=_PATIENCE_S) as bar:
        for _ in range(n_samples):  # one at a time: all samples of a large test set at once would fill the memory
            sums = side_by_side[rng.choice(size, size=size, replace=True)].sum(0)
            for statistics, part, samples in zip(found, np.split(sums, ends[:-1]), scores, strict=True):
                samples.append(statistics.metric._compute_score_from_stats(part).score)
            bar.update()
    return [np.array(samples) for samples in scores]


def randomize(
    baseline: Sequence[Statistics], systems: Sequence[Sequence[Statistics]], n_trials: int, seed: int
) -> list[list[NDArray[np.float64]]]:
    """How far apart (n_trials,) each system and the baseline are, by each metric, if chance says whose each line is.

    In each trial every sentence's two translations change places or not (approximate randomization; Riezler and Maxwell
    2005). With three references or more TER adds fractions: a tie can then fall otherwise than in sacreBLEU.
    """
    if not systems:
        return []
    rng = np.random.default_rng(seed)
    ours = [np.array(statistics.rows, dtype=np.float64) for statistics in baseline]
    theirs = [[np.array(statistics.rows, dtype=np.float64) for statistics in system] for system in systems]
    apart: list[list[list[float]]] = [[[] for _ in baseline] for _ in systems]
    with progress_bar(n_trials, "randomization", "trial", delay=_PATIENCE_S) as bar:
        for start in range(0, n_trials, _TRIALS):
            swapped = rng.integers(2, size=(min(_TRIALS, n_trials - start), len(ours[0])), dtype=bool)
            # sacreBLEU's sums, though the second follows from the first: where they are no whole numbers (TER's mean
            # length of three references), the very rounding decides ties, which are frequent
            swap, keep = swapped.astype(np.float64), (~swapped).astype(np.float64)
            for i, (statistics, mine) in enumerate(zip(baseline, ours, strict=True)):
                swapped_in, kept = swap @ mine, keep @ mine
                for system, differences in zip(theirs, apart, strict=True):
                    first, second = swapped_in + keep @ system[i], kept + swap @ system[i]
                    differences[i] += _score_differences(statistics.metric, first, second)
            bar.update(len(swapped))
    return [[np.array(differences) for differences in by_metric] for by_metric in apart]


def _score_differences(metric: Any, first: NDArray[np.float64], second: NDArray[np.float64]) -> list[float]:
    """Of sums of rows (trials, columns), trial by trial; without sign."""
    score = metric._compute_score_from_stats
    return [abs(score(a).score - score(b).score) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
