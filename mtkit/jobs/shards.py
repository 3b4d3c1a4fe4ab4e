"""Make a shard: a folder with the files from one call of a pure function, and a done file with their checksums.

A shard's folder appears complete under its final name or not at all, so several processes may make the same shard.
"""

import errno
import json
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from mtkit.files import TEMPORARY, full_disk_named, parse_json, sha256_file

_DONE_FILE = "done.json"

# Takes the number of a shard, from 0, and an empty folder; writes files there and returns what to count, such as
# {"pairs": 50000}. The files must depend on nothing but the number and what the function was made with. It must be
# picklable; each process unpickles it once a stage, so it may load a model at its first call and keep it.
ShardTask = Callable[[int, Path], Mapping[str, int]]


@dataclass(frozen=True)
class Done:
    """The content of a finished shard."""

    files: dict[str, str]  # sha256 by name
    counts: dict[str, int]


def range_of_keys(part: int, n_parts: int) -> tuple[int, int]:
    """Return the first key of one of n equal parts of all 64-bit keys, and the first after it."""
    return part * 2**64 // n_parts, (part + 1) * 2**64 // n_parts


def shard_folder(stage_folder: Path, index: int) -> Path:
    """Return the folder of a shard of the stage, which may not exist yet."""
    return stage_folder / f"{index:06d}"


def finished_shards(stage_folder: Path) -> set[int]:
    """Return the numbers of the finished shards; some may be damaged."""
    with os.scandir(stage_folder) as entries:
        return {int(entry.name) for entry in entries if entry.name.isdigit()}


def read_done(folder: Path) -> Done:
    """Return the content of a shard's done file. Raises ValueError if it is damaged."""
    values = parse_json((folder / _DONE_FILE).read_bytes())
    if not isinstance(values, dict) or {*values} != {"files", "counts"}:
        raise ValueError(f"{folder / _DONE_FILE}: not the done file of a shard")
    return Done(**values)


def verified(folder: Path) -> Done | None:
    """Return the content of a shard; None if it is missing, or a file differs from its checksum."""
    try:
        done = read_done(folder)
        intact = all(sha256_file(folder / name) == sha256 for name, sha256 in done.files.items())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return done if intact else None


def remove_folder(folder: Path) -> None:
    """Remove a shard or a work folder at once, by renaming it first."""
    aside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}{TEMPORARY}")
    with suppress(FileNotFoundError):
        folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


@dataclass(frozen=True)
class MakeShard:
    """Makes shards of one stage; picklable if the task is."""

    task: ShardTask
    stage_folder: Path

    def __call__(self, index: int) -> Done:
        """Make the shard, unless it is already there and undamaged."""
        folder = shard_folder(self.stage_folder, index)
        return verified(folder) or self._make(index, folder)

    def _make(self, index: int, folder: Path) -> Done:
        temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}{TEMPORARY}")
        temporary.mkdir()
        try:
            with full_disk_named(folder):
                counts = dict(self.task(index, temporary))
                done = Done({path.name: sha256_file(path) for path in sorted(temporary.iterdir())}, counts)
                (temporary / _DONE_FILE).write_text(json.dumps(asdict(done)), encoding="utf-8")
            return self._put(temporary, folder, done)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _put(self, temporary: Path, folder: Path, done: Done) -> Done:
        """Give the shard its final name, unless another process was faster; a damaged shard there is replaced."""
        while True:
            try:
                temporary.rename(folder)
                return done
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            if (other := verified(folder)) is not None:
                return other
            damaged = temporary.with_name(f"{temporary.name}.damaged{TEMPORARY}")
            with suppress(FileNotFoundError):  # another process was faster
                folder.rename(damaged)
            shutil.rmtree(damaged, ignore_errors=True)
