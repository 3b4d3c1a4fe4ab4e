"""Find near repeats among any number of pairs in bounded memory, by the shards of a job.

As in `repeats`, a shard writes the keys of its pairs (`near_duplicates.sketch`), sorted, and each shard of the next
stage reads one part of their range from all files. The sketches stay on disk and are read where two pairs have a key in
common.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mtkit.corpora.cleaning.near_duplicates import (
    MOST_PAIRS,
    N_KEYS,
    SKETCH_WIDTH,
    Indices,
    SketchArray,
    first_of_each,
    repeats,
    sketch,
)
from mtkit.jobs.job import Job, Stage
from mtkit.jobs.shards import range_of_keys, shard_folder

_PARTITION_KEYS = 1 << 22  # about 80 bytes each while they are compared
_KEYS, _ROWS, _SKETCHES, _PLACES = "near.keys.npy", "near.rows.npy", "near.sketches.npy", "near.places.npy"
_FOUND = "near.npy"
_ROW_BITS = 32  # of a pair's number in its shard, below the shard's number


_Made = TypeVar("_Made", Indices, SketchArray)


class NearRepeat(NamedTuple):
    """An earlier pair that is nearly the same."""

    first_shard: int
    first_line: int


def write_sketches(
    folder: Path, pairs: Sequence[tuple[str, str]], indices: Sequence[int], lines: Sequence[int]
) -> None:
    """Write what the comparison needs of a shard's pairs to its folder.

    indices: of the pairs in the shard's window. lines: of the pairs, as `NearRepeat` is to name them.
    """
    windows = [sketch(pairs[start : start + MOST_PAIRS]) for start in range(0, max(1, len(pairs)), MOST_PAIRS)]
    keys = np.concatenate([window.keys for window in windows]).ravel()
    order = np.argsort(keys, kind="stable")
    np.save(folder / _KEYS, keys[order])
    np.save(folder / _ROWS, (order // N_KEYS).astype(np.uint32))
    np.save(folder / _SKETCHES, np.concatenate([window.sketches for window in windows]))
    np.save(folder / _PLACES, np.stack([np.asarray(indices, np.int64), np.asarray(lines, np.int64)]))


@dataclass(frozen=True)
class NearRepeats:
    """The pairs that nearly repeat earlier ones; picklable."""

    sketches_stage: Path
    stage: Path
    n_partitions: int

    def of_shard(self, shard: int) -> dict[int, NearRepeat]:
        """Return the pairs of a shard that nearly repeat earlier ones, of any shard, by index."""
        parts = [_slice(shard_folder(self.stage, i) / _FOUND, shard) for i in range(self.n_partitions)]
        later, earlier = first_of_each(*np.concatenate([np.zeros((2, 0), np.int64), *parts], axis=1))
        own = np.load(shard_folder(self.sketches_stage, shard) / _PLACES)[0, later & _ROW_MASK]
        lines = _gather(self.sketches_stage, earlier, np.empty(len(earlier), np.int64), _lines)
        found = zip(own.tolist(), (earlier >> _ROW_BITS).tolist(), lines.tolist(), strict=True)
        return {index: NearRepeat(first_shard, line) for index, first_shard, line in found}


_ROW_MASK = (1 << _ROW_BITS) - 1


def find_near_repeats(job: Job, sketches_stage: str, n_shards: int, n_pairs: int) -> NearRepeats:
    """Compare the sketches that the shards of a stage have written; a stage of its own, called near-repeats.

    n_pairs: how many there are about, which decides into how many parts the work is cut.
    """
    n_partitions = max(1, -(-n_pairs * N_KEYS // _PARTITION_KEYS))
    job.run(Stage("near-repeats", _Find(job.folder / sketches_stage, n_shards, n_partitions), n_partitions))
    return NearRepeats(job.folder / sketches_stage, job.folder / "near-repeats", n_partitions)


@dataclass(frozen=True)
class _Find:
    """Finds the near repeats among the pairs with keys in one part of the range."""

    sketches_stage: Path
    n_shards: int
    n_partitions: int

    def __call__(self, partition: int, folder: Path) -> dict[str, int]:
        begin, end = range_of_keys(partition, self.n_partitions)
        keys, indices = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for shard in range(self.n_shards):
            own = shard_folder(self.sketches_stage, shard)
            all_keys = np.load(own / _KEYS, mmap_mode="r")
            left = np.searchsorted(all_keys, np.uint64(begin), "left")
            right = np.searchsorted(all_keys, np.uint64(end - 1), "right")
            keys.append(np.array(all_keys[left:right]))
            rows = np.load(own / _ROWS, mmap_mode="r")[left:right].astype(np.int64)
            indices.append(rows | np.int64(shard << _ROW_BITS))
        found = repeats(np.concatenate(keys), np.concatenate(indices), self._sketches)
        np.save(folder / _FOUND, np.stack(found))
        return {"keys": sum(map(len, keys))}

    def _sketches(self, indices: Indices) -> SketchArray:
        made = np.empty((len(indices), SKETCH_WIDTH), np.uint16)
        return _gather(self.sketches_stage, indices, made, lambda own: np.load(own / _SKETCHES, mmap_mode="r"))


def _gather(stage: Path, indices: Indices, made: _Made, load: Callable[[Path], Any]) -> _Made:
    """Fill made with the entries of the pairs with these indices; load: reads those of a shard's folder."""
    shards = indices >> _ROW_BITS
    order = np.argsort(shards, kind="stable")
    starts = np.flatnonzero(np.diff(shards[order], prepend=-1))
    for own in np.split(order, starts[1:]) if len(starts) else []:
        made[own] = load(shard_folder(stage, int(shards[own[0]])))[indices[own] & _ROW_MASK]
    return made


def _lines(folder: Path) -> npt.NDArray[np.int64]:
    return np.asarray(np.load(folder / _PLACES, mmap_mode="r")[1])


def _slice(path: Path, shard: int) -> Indices:
    """Read the columns of a shard's pairs: their indices, which are sorted, and those of earlier pairs."""
    columns = np.load(path, mmap_mode="r")
    bounds = [np.searchsorted(columns[0], np.int64(number << _ROW_BITS)) for number in (shard, shard + 1)]
    return np.array(columns[:, bounds[0] : bounds[1]])
