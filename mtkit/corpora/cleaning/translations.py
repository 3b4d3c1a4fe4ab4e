"""Choose one translation of each source that has several, and drop the other pairs.

As in `repeats`, a shard writes hashes, sorted by source, and each shard of the next stage reads one part of their range
from all files. Hashes have 64 bits: among 20 million sources, two are confused with a probability of 1 in 100,000.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from mtkit.jobs.job import Job, Stage
from mtkit.jobs.shards import range_of_keys, shard_folder

_PARTITION_PAIRS = 1 << 21  # about 100 bytes each while they are compared
_SOURCES = "sources.npy"
_DROPPED = "dropped.npy"

_Rows = npt.NDArray[np.uint64]


def write_sources(folder: Path, src: Sequence[str], tgt: Sequence[str], indices: Sequence[int]) -> None:
    """Write the hashes of a shard's pairs to its folder. indices: of the pairs in their window."""
    rows = np.stack([_hashes(src), _hashes(tgt), np.asarray(indices, np.uint64)])
    np.save(folder / _SOURCES, rows[:, np.argsort(rows[0], kind="stable")])


@dataclass(frozen=True)
class Translations:
    """The pairs whose translations were not chosen; picklable."""

    stage: Path
    n_partitions: int

    def of_shard(self, shard: int) -> dict[int, str]:
        """Return the pairs of a shard to drop, by index: how often the chosen translation and this one occur."""
        parts = [_slice(shard_folder(self.stage, i) / _DROPPED, shard, shard) for i in range(self.n_partitions)]
        return {
            index: f"chosen {n_chosen} times, this {n_own} times"
            for part in parts
            for _, index, n_chosen, n_own in part.T.tolist()
        }


def find_translations(
    job: Job, sources_stage: str, n_shards: int, n_pairs: int, choose: Literal["first", "most_frequent"]
) -> Translations:
    """Choose a translation of each source; a stage of its own, called translations.

    Equally frequent translations: the first is chosen. n_pairs: how many there are about.
    """
    n_partitions = max(1, -(-n_pairs // _PARTITION_PAIRS))
    task = _Choose(job.folder / sources_stage, n_shards, n_partitions, choose == "most_frequent")
    job.run(Stage("translations", task, n_partitions))
    return Translations(job.folder / "translations", n_partitions)


@dataclass(frozen=True)
class _Choose:
    """Chooses the translations of the sources in one part of the range of hashes."""

    sources_stage: Path
    n_shards: int
    n_partitions: int
    by_frequency: bool

    def __call__(self, partition: int, folder: Path) -> dict[str, int]:
        begin, end = range_of_keys(partition, self.n_partitions)
        paths = [shard_folder(self.sources_stage, shard) / _SOURCES for shard in range(self.n_shards)]
        parts = [_slice(path, begin, end - 1) for path in paths]
        shards = np.repeat(np.arange(len(parts), dtype=np.uint64), [part.shape[1] for part in parts])
        src, tgt, indices = np.concatenate(parts, axis=1) if parts else np.zeros((3, 0), np.uint64)
        order = np.lexsort((indices, shards, tgt, src))  # the pairs of a translation in a row, in input order
        src, tgt, indices, shards = src[order], tgt[order], indices[order], shards[order]
        starts = np.flatnonzero(_changes(src) | _changes(tgt))  # of each translation
        counts = np.diff(starts, append=len(src))
        first = np.empty(len(src), np.int64)
        first[np.lexsort((indices, shards))] = np.arange(len(src))  # each pair's place in the input
        by_rank = (first[starts], -counts, src[starts]) if self.by_frequency else (first[starts], src[starts])
        ranked = np.lexsort(by_rank)
        groups = np.flatnonzero(_changes(src[starts][ranked]))  # of each source, its chosen translation
        chosen = np.repeat(ranked[groups], np.diff(groups, append=len(ranked)))
        best = np.empty(len(starts), np.int64)  # of each translation: the one that its source keeps
        best[ranked] = chosen
        own = np.repeat(np.arange(len(starts)), counts)
        out = np.flatnonzero(best[own] != own)
        out = out[np.lexsort((indices[out], shards[out]))]
        rows = [shards[out], indices[out], counts[best[own[out]]], counts[own[out]]]
        np.save(folder / _DROPPED, np.stack([row.astype(np.uint64) for row in rows]))
        return {"sources": len(groups)}


def _hashes(texts: Sequence[str]) -> _Rows:
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, "<u8")


def _changes(values: _Rows) -> npt.NDArray[np.bool_]:
    """Return where a value differs from the one before it; the first one does."""
    return np.concatenate([np.ones(min(1, len(values)), np.bool_), values[1:] != values[:-1]])


def _slice(path: Path, first: int, last: int) -> _Rows:
    """Read the columns whose first row is at least first and at most last; it is sorted."""
    columns = np.load(path, mmap_mode="r")
    left = np.searchsorted(columns[0], np.uint64(first), "left")
    return np.array(columns[:, left : np.searchsorted(columns[0], np.uint64(last), "right")])
