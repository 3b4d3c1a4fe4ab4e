"""Draw an evenly spaced sample of a stream of unknown length, and give the interval of a share measured on it."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from mtkit.evaluation.metrics.classification import wilson_interval

_T = TypeVar("_T")


class EvenSample(Generic[_T]):
    """Every n-th item of a stream; n doubles, and every other item is dropped, when there are more than `most`."""

    def __init__(self, most: int) -> None:
        self.every = 1
        self.items: list[_T] = []
        self._most = most

    def wants(self, index: int) -> bool:
        """Return whether the stream's item with this index, from 0, belongs to the sample; ask for each in order."""
        if index % self.every:
            return False
        if len(self.items) == self._most:
            self.items = self.items[::2]
            self.every *= 2
        return index % self.every == 0


class Share(NamedTuple):
    """A share of a corpus, with its 95 % interval; without one if all of it was judged."""

    n: int
    of: int
    low: float | None = None
    high: float | None = None

    @property
    def value(self) -> float:
        """Return the share itself."""
        return self.n / max(1, self.of)


def sampled_share(counts: Sequence[int], sizes: Sequence[int]) -> Share:
    """Return the share of hits in a sample of blocks of neighbours; counts: the hits in each block.

    Neighbours resemble each other, so the interval is Wilson's for as many independent draws as would vary as much as
    the blocks do (Kish's effective sample size), at most the sample's own size.
    """
    n, of = sum(counts), sum(sizes)
    p = n / max(1, of)
    between = sum((count - p * size) ** 2 for count, size in zip(counts, sizes, strict=True))
    blocks = len(sizes)
    variance = between * blocks / max(1, blocks - 1) / max(1, of) ** 2
    effective = min(float(of), p * (1 - p) / variance) if variance else float(of)
    return Share(n, of, *wilson_interval(p, effective))
