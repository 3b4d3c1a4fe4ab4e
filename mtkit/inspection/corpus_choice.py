"""Read all pairs of corpora, or an evenly spaced sample, with a progress bar."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mtkit.config.data import CorpusFiles
from mtkit.console import counted, log, progress_bar
from mtkit.data.corpus import count_pairs, read_pairs
from mtkit.errors import UsageError
from mtkit.pair_files.lines import windows
from mtkit.pair_files.pairs import Pair

SAMPLE = 20_000  # pairs: enough to see what kind of noise a corpus has, in a minute or two
_WINDOW_PAIRS = 512


@dataclass
class Skipped:
    """The numbers of unusable pairs, by reason."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)  # places

    def add(self, problem: str, pair: Pair) -> None:
        """Count the pair."""
        self.counts[problem] = self.counts.get(problem, 0) + 1
        self.first.setdefault(problem, pair.place)

    def report(self) -> None:
        """Log a warning for each reason."""
        for problem, n in self.counts.items():
            log.warning(f"{counted(n, 'pair')} left out: {problem} (first: {self.first[problem]})")


def default_sample(corpora: Sequence[CorpusFiles]) -> int | None:
    """Return the default number of pairs to use; None, all of them, for input that can be read only once."""
    return SAMPLE if _can_be_counted(corpora) else None


def windows_of(
    corpora: Sequence[CorpusFiles], description: str, sample: int | None = None
) -> Iterator[tuple[CorpusFiles, list[Pair]]]:
    """Yield the corpora's pairs in windows; with a sample, only that many pairs, evenly spaced.

    Raises UsageError for a sample of input that can be read only once, such as a pipe.
    """
    total = _total(corpora)
    if sample is not None and total is None:
        raise UsageError(
            f"--sample {sample}: mtkit cannot sample a pipe, because it cannot count its pairs first; give files"
        )
    wanted = total if total is None or sample is None else min(sample, total)
    if total is not None and wanted is not None and wanted < total:
        log.info(f"{wanted:,} of {counted(total, 'pair')}, evenly spaced; --all takes every one")
    indices = itertools.count()
    with progress_bar(wanted, description, "pair") as bar:
        for corpus in corpora:
            pairs = (pair for pair in read_pairs([corpus]) if _is_chosen(next(indices), total, wanted))
            for window in windows(pairs, _WINDOW_PAIRS):
                yield corpus, window
                bar.update(len(window))


def _total(corpora: Sequence[CorpusFiles]) -> int | None:
    """Return the number of pairs; None if counting would consume the input."""
    return count_pairs(corpora) if _can_be_counted(corpora) else None


def _can_be_counted(corpora: Sequence[CorpusFiles]) -> bool:
    paths = [path for corpus in corpora for path in corpus.paths]
    return all(path.is_file() or not path.exists() for path in paths)


def _is_chosen(index: int, total: int | None, wanted: int | None) -> bool:
    """Return whether the pair at this index is one of `wanted` evenly spaced ones; None: every pair is."""
    if total is None or wanted is None:
        return True
    return (index + 1) * wanted // total > index * wanted // total
