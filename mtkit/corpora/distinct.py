"""Count the distinct texts of a stream in bounded memory."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

_MOST = 1 << 24  # hashes in memory, 128 MiB; up to so many distinct texts the count is exact
_ALL = (1 << 64) - 1

Hashes = npt.NDArray[np.uint64]


class DistinctCount:
    """A count of distinct texts; beyond _MOST, only texts with small hashes are kept, and represent the others."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._limit = _ALL
        self._parts: list[Hashes] = []
        self._n_kept = 0

    @property
    def is_exact(self) -> bool:
        """Return whether every text has been kept."""
        return self._limit == _ALL

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
        return self._n_kept if self.is_exact else round(self._n_kept * (_ALL / self._limit))

    def _compact(self) -> None:
        values = np.sort(np.concatenate([*self._parts, np.empty(0, np.uint64)]))
        self._parts = [values[np.append(True, values[1:] != values[:-1])[: len(values)]]]
        self._n_kept = len(self._parts[0])


def hashes_of(texts: Iterable[str]) -> Hashes:
    """Return 64-bit hashes of the texts."""
    return np.frombuffer(b"".join(blake2b(text.encode("utf-8"), digest_size=8).digest() for text in texts), np.uint64)
