"""Find exact repeats among any number of texts in bounded memory, by sorted hashes.

A shard writes 128-bit hashes of its texts, sorted, to a file (`write_keys`). Each shard of the next stage reads one
part of the range of hashes from all these files, and finds those that several files have (`find_repeats`).
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mtkit.jobs.job import Job, Stage
from mtkit.jobs.shards import range_of_keys, shard_folder

_PARTITION_KEYS = 1 << 21  # about 100 bytes each while they are compared
_FILE = "repeats.npy"

_Rows = npt.NDArray[np.uint64]


class Repeat(NamedTuple):
    """A text that came before."""

    n_earlier: int  # how many texts before it are the same
    first_shard: int  # where the first of them is
    first_line: int


def write_keys(folder: Path, name: str, texts: Iterable[str | None], lines: Sequence[int]) -> None:
    """Write the keys of a shard's texts to its folder; None leaves a text out.

    name: of this kind of key, such as pair, for `find_repeats`. lines: of each text, as `Repeat` is to name it.
    """
    hashes = [
        (hashlib.blake2b(text.encode(), digest_size=16).digest(), i) for i, text in enumerate(texts) if text is not None
    ]
    keys = np.frombuffer(b"".join(key for key, _ in hashes), "<u8").reshape(-1, 2)
    indices = np.fromiter((index for _, index in hashes), np.uint64, len(hashes))
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: among equal keys, the first index comes first
    high, low, indices = keys[order, 0], keys[order, 1], indices[order]
    starts = _starts(high, low)
    counts = np.diff(starts, append=len(order))
    first_indices = indices[starts]
    first_lines = np.asarray(lines, np.uint64)[first_indices.astype(np.int64)]
    np.save(_keys_path(folder, name), np.stack([high[starts], low[starts], first_indices, first_lines, _rows(counts)]))
    n_earlier = np.arange(len(order)) - np.repeat(starts, counts)
    again = n_earlier > 0
    np.save(
        _again_path(folder, name),
        np.stack([indices[again], np.repeat(first_indices, counts)[again], _rows(n_earlier[again])]),
    )


@dataclass(frozen=True)
class Repeats:
    """The texts that repeat earlier ones; picklable."""

    keys_stage: Path
    stage: Path
    name: str
    n_partitions: int

    def of_shard(self, shard: int) -> dict[int, Repeat]:
        """Return the texts of a shard that repeat earlier ones, of any shard, by index."""
        rows = [_slice(shard_folder(self.stage, i) / _FILE, shard, shard + 1) for i in range(self.n_partitions)]
        repeats = {
            index: Repeat(n_earlier, first_shard, first_line)
            for part in rows
            for _, index, n_earlier, first_shard, first_line in part.T.tolist()
        }
        folder = shard_folder(self.keys_stage, shard)
        again = np.load(_again_path(folder, self.name)).T.tolist()
        keys = np.load(_keys_path(folder, self.name), mmap_mode="r")
        first_lines = dict(zip(keys[2].tolist(), keys[3].tolist(), strict=True)) if again else {}
        for index, first_index, n_earlier in again:
            before = repeats.get(first_index) or Repeat(0, shard, first_lines[first_index])
            repeats[index] = before._replace(n_earlier=before.n_earlier + n_earlier)
        return repeats


def find_repeats(job: Job, keys_stage: str, n_shards: int, n_texts: int, name: str) -> Repeats:
    """Compare the keys that the shards of a stage have written; a stage of its own, called repeats-NAME.

    n_texts: how many there are about, which decides into how many parts the work is cut.
    """
    n_partitions = max(1, -(-n_texts // _PARTITION_KEYS))
    task = _FindRepeats(job.folder / keys_stage, name, n_shards, n_partitions)
    stage = Stage(f"repeats-{name}", task, n_partitions)
    job.run(stage)
    return Repeats(job.folder / keys_stage, job.folder / stage.name, name, n_partitions)


@dataclass(frozen=True)
class _FindRepeats:
    """Finds the keys in one part of the range that several shards have."""

    keys_stage: Path
    name: str
    n_shards: int
    n_partitions: int

    def __call__(self, partition: int, folder: Path) -> dict[str, int]:
        begin, end = range_of_keys(partition, self.n_partitions)
        keys, shards = self._read(begin, end)
        order = np.lexsort((keys[1], keys[0]))  # stable: among equal keys, the first shard comes first
        keys, shards = keys[:, order], shards[order]
        starts = _starts(keys[0], keys[1])
        n_keys = np.diff(starts, append=len(order))
        before = np.cumsum(keys[4]) - keys[4]
        n_earlier = before - np.repeat(before[starts], n_keys)
        first = np.repeat(starts, n_keys)
        again = np.flatnonzero(n_earlier)
        again = again[np.lexsort((keys[2][again], shards[again]))]
        first = first[again]
        rows = np.stack([shards[again], keys[2][again], n_earlier[again], shards[first], keys[3][first]])
        np.save(folder / _FILE, rows)
        return {"keys": len(order)}

    def _read(self, begin: int, end: int) -> tuple[_Rows, _Rows]:
        """Return the rows of all shards with keys in this range, and each row's shard."""
        paths = [_keys_path(shard_folder(self.keys_stage, shard), self.name) for shard in range(self.n_shards)]
        parts = [_slice(path, begin, end) for path in paths]
        shards = np.repeat(np.arange(self.n_shards, dtype=np.uint64), [part.shape[1] for part in parts])
        return np.concatenate(parts, axis=1) if parts else np.zeros((5, 0), np.uint64), shards


def _slice(path: Path, begin: int, end: int) -> _Rows:
    """Read the columns whose first row is at least begin and below end; it is sorted. Reads little else of the file."""
    columns = np.load(path, mmap_mode="r")
    last = np.uint64(end - 1)  # 2**64 itself does not fit
    left = np.searchsorted(columns[0], np.uint64(begin), "left")
    return np.array(columns[:, left : np.searchsorted(columns[0], last, "right")])


def _starts(high: _Rows, low: _Rows) -> npt.NDArray[np.int64]:
    """Return where each group of equal keys begins, among sorted ones."""
    is_new = np.ones(len(high), bool)
    is_new[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return np.flatnonzero(is_new)


def _rows(values: npt.NDArray[np.int64]) -> _Rows:
    return values.astype(np.uint64)


def _keys_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.keys.npy"


def _again_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.again.npy"
