"""Judge a stream of unknown length in bounded memory: an even sample, the share of a finding, distinct texts."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mtkit.evaluation.metrics.classification import wilson_interval

_T = TypeVar("_T")
_MOST_HASHES = 1 << 24  # hashes in memory, 128 MiB; up to so many distinct texts the count is exact
_LAST_HASH = (1 << 64) - 1

Hashes = npt.NDArray[np.uint64]


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


class DistinctCount:
    """A count of distinct texts; of more than `most`, it keeps those with small hashes, which represent the others."""

    def __init__(self, most: int = _MOST_HASHES) -> None:
        self._most = most
        self._limit = _LAST_HASH
        self._parts: list[Hashes] = []
        self._n_kept = 0

    @property
    def is_exact(self) -> bool:
        """Return whether every text has been kept."""
        return self._limit == _LAST_HASH

    def add(self, hashes: Hashes) -> None:
        """Count the texts with these hashes."""
        self._parts.append(hashes if self.is_exact else hashes[hashes <= self._limit])
        self._n_kept += len(self._parts[-1])
        if self._n_kept > self._most:
            self._compact()
            while self._n_kept > self._most // 4 * 3:
                self._limit >>= 1
                kept = self._parts[0]
                self._parts = [kept[kept <= self._limit]]
                self._n_kept = len(self._parts[0])

    def count(self) -> int:
        """Return the number of distinct texts, exact or estimated."""
        self._compact()
        return self._n_kept if self.is_exact else round(self._n_kept * (_LAST_HASH / self._limit))

    def _compact(self) -> None:
        values = np.sort(np.concatenate([*self._parts, np.empty(0, np.uint64)]))
        self._parts = [values[np.append(True, values[1:] != values[:-1])[: len(values)]]]
        self._n_kept = len(self._parts[0])


def hashes_of(texts: Iterable[str]) -> Hashes:
    """Return 64-bit hashes of the texts."""
    return np.frombuffer(b"".join(blake2b(text.encode("utf-8"), digest_size=8).digest() for text in texts), np.uint64)
