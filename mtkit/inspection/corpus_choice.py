"""Corpora to look through: which pairs of them, how many, with a progress bar."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mtkit.config.schema import CorpusFiles
from mtkit.console import log, progress_bar
from mtkit.data.corpus import Pair, count_pairs, read_pairs, windows
from mtkit.errors import UsageError

_WINDOW_PAIRS = 512


@dataclass
class Skipped:
    """Pairs that could not be looked at, by the reason."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)  # file:line

    def add(self, problem: str, pair: Pair) -> None:
        """Count the pair."""
        self.counts[problem] = self.counts.get(problem, 0) + 1
        self.first.setdefault(problem, f"{pair.file}:{pair.line}")

    def report(self) -> None:
        """A warning for each reason."""
        for problem, n in self.counts.items():
            log.warning(f"{n:,} pairs left out: {problem} (first: {self.first[problem]})")


def windows_of(
    corpora: Sequence[CorpusFiles], description: str, sample: int | None = None
) -> Iterator[tuple[CorpusFiles, list[Pair]]]:
    """The corpora's pairs with a progress bar, so many at a time; sample: only so many of all, at equal distances.

    Raises UsageError for a sample of what can be read only once, such as a pipe.
    """
    total = _total(corpora)
    if sample is not None and total is None:
        raise UsageError(
            f"--sample {sample}: the pairs have to be counted first, which a pipe does not allow; use files"
        )
    wanted = total if total is None or sample is None else min(sample, total)
    numbers = itertools.count()
    with progress_bar(wanted, description, "pair") as bar:
        for corpus in corpora:
            pairs = (pair for pair in read_pairs([corpus]) if _is_chosen(next(numbers), total, wanted))
            for window in windows(pairs, _WINDOW_PAIRS):
                yield corpus, window
                bar.update(len(window))


def _total(corpora: Sequence[CorpusFiles]) -> int | None:
    """How many pairs there are; None if counting them would use them up."""
    paths = [path for corpus in corpora for path in (corpus.src, corpus.tgt, corpus.tsv) if path is not None]
    return None if any(path.exists() and not path.is_file() for path in paths) else count_pairs(corpora)


def _is_chosen(number: int, total: int | None, wanted: int | None) -> bool:
    """Whether the pair with this number, from 0, is one of `wanted` at equal distances; None: all are."""
    if total is None or wanted is None:
        return True
    return (number + 1) * wanted // total > number * wanted // total
