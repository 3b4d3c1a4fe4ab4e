"""A job over files: stages of shards in a work folder, which any number of processes share; the same result always.

The work folder, by default OUTPUT.mtkit-job, holds job.json, which says what the result depends on (the identity), and
under the first digits of the identity's checksum a folder for each stage, with a folder for each finished shard. A
killed job resumes from these: shards are checked against their checksums, and made again if they differ.
"""

import glob
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mtkit.config.differences import differences
from mtkit.console import log, progress_bar
from mtkit.cores import usable_cores
from mtkit.errors import MtkitError, UsageError
from mtkit.files import TEMPORARY, atomic_file, open_locked, parse_json, sha256_file
from mtkit.jobs.executors import Executor
from mtkit.jobs.interrupts import termination_as_interrupt
from mtkit.jobs.shards import Done, MakeShard, ShardTask, finished_shards, read_done, shard_folder
from mtkit.version import __version__

_FORMAT = 1
_WORK = ".mtkit-job"
_JOB_FILE = "job.json"
_COPY_CHUNK = 1 << 20  # bytes
_LONGEST_POLL_S = 2.0
_RESTART_S = 60.0  # within which the shares of a failed job are started again

Counts = Mapping[str, int]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Share:
    """Which shards of each stage this process makes: those whose number modulo `n` is `index`."""

    index: int = 0
    n: int = 1

    @classmethod
    def parse(cls, text: str) -> "Share":
        """Read "i/n", i from 0, such as 0/2. Raises UsageError."""
        index, slash, n = text.partition("/")
        if not (slash and index.isdecimal() and n.isdecimal() and index.isascii() and n.isascii()):
            raise UsageError(f"--shard {text}: not i/n, such as 0/4 for the first of four shares")
        if int(index) >= int(n):
            raise UsageError(f"--shard {text}: of {n} shares, the first is 0/{n} and the last {int(n) - 1}/{n}")
        return cls(int(index), int(n))

    def __str__(self) -> str:
        return f"{self.index}/{self.n}"


@dataclass(frozen=True)
class Stage:
    """One step of a job: shards that depend only on earlier stages, so all can be made at the same time."""

    name: str  # of its folder, and in messages
    task: ShardTask
    n_shards: int
    sizes: Sequence[int] | None = None  # how many units, such as pairs, each shard has; for the progress bar
    unit: str = "shard"
    place: Callable[[int], str] | None = None  # says what a shard covers, such as "a.en, lines 1 to 50000"

    def describe(self, index: int) -> str:
        """Return the name of a shard in messages."""
        where = f" ({self.place(index)})" if self.place is not None else ""
        return f"shard {index} of stage {self.name}{where}"


def run_job(
    output: Path,
    make: Callable[["Job"], Result],
    *,
    inputs: Sequence[Path],
    settings: Mapping[str, Any],
    executor: Executor,
    share: Share = Share(),
    work: Path | None = None,
    restart: bool = False,
    restart_hint: str = "start over with --restart",
) -> Result | None:
    """Return what make returns; None if the process of share 0 has finished the job and this is another one.

    make: runs the stages one after the other (`Job.run`) and then calls `Job.finish`; every process of the job runs it.
    inputs, settings (JSON): all that the output depends on; mtkit's version is added. work: the work folder. restart:
    discard an interrupted job. restart_hint: how a user does that, for error messages.

    Raises MtkitError if an interrupted job in the work folder differs (the message says in what), or if another process
    works on it. After any exception, including KeyboardInterrupt (also from SIGTERM), finished shards are kept.
    """
    output = output.resolve()
    work = output.with_name(output.name + _WORK) if work is None else work.resolve()
    if share.n > 1 and output.exists() and not work.exists():
        if share.index:
            log.warning(f"{output}: exists, and no job for it is under way; to make it again, remove it first")
            return None
        raise UsageError(f"{output}: exists; a job in shares does not replace it, so remove it or choose another name")
    with termination_as_interrupt(), executor:
        if share.index:
            _wait_for_start(work, output, share)
        else:
            if restart:
                _discard(work)
            _start(work, inputs, settings)
        digest = _check_identity(work, inputs, settings, restart_hint)
        with open_locked(_path_of_share(work, digest, share.index, "lock")) as lock:
            if lock is None:
                same = f"--shard {share}" if share.n > 1 else "this job"
                raise MtkitError(f"{work}: another mtkit process is working on {same}; wait until it ends")
            if not share.index:
                _remove_leftovers(output)
            job = Job(work, digest, executor, share)
            try:
                job.begin()
                return make(job)
            except _Ended:
                _remove_own_lock(work, job.path_of("lock"))
                if output.exists():
                    log.info(f"--shard {share}: done; --shard 0/{share.n} has written {output}")
                    return None
                raise MtkitError(f"{work}: removed before {output} was written; start all shares again") from None
            except BaseException as error:
                if share.n > 1 and isinstance(error, MtkitError) and not isinstance(error, _OtherFailed):
                    with suppress(OSError):
                        job.path_of("failed").write_text(str(error), encoding="utf-8")
                if any(job.folder.glob("*/[0-9]*")):
                    log.warning(f"{work}: keeps what is done; run the same command again to continue")
                elif share.n == 1:
                    _remove_folder(work)
                raise


class _Ended(Exception):
    """The work folder is gone: the process of share 0 has written the output."""


class _OtherFailed(MtkitError):
    """The process of another share met an error."""


class Job:
    """A job under way; made by `run_job`."""

    def __init__(self, work: Path, identity_digest: str, executor: Executor, share: Share) -> None:
        self.work = work
        self.folder = work / identity_digest  # so that a process of another identity never writes into it
        self.executor = executor
        self.share = share

    def path_of(self, kind: str, index: int | None = None) -> Path:
        """Return the path of a small file that a share has, by default this one."""
        return _path_of_share(self.work, self.folder.name, self.share.index if index is None else index, kind)

    def begin(self) -> None:
        """Note when this share began, and that it has not failed."""
        with self._unless_ended():
            os.utime(self.path_of("lock"))
            self.path_of("failed").unlink(missing_ok=True)

    def run(self, stage: Stage) -> list[Counts]:
        """Make the shards of a stage that are still missing; return the counts of all its shards, in order.

        Of a job in shares this process makes its own, and waits until the others have made theirs.
        """
        stage_folder = self.folder / stage.name
        with self._unless_ended():
            stage_folder.mkdir(exist_ok=True)
        own = range(self.share.index, stage.n_shards, self.share.n)
        sizes = stage.sizes if stage.sizes is not None else [1] * stage.n_shards
        n_before = len(finished_shards(stage_folder).intersection(own))
        if n_before:
            log.info(f"{stage.name}: {n_before:,} of {len(own):,} shards are already made")
        with progress_bar(sum(sizes[index] for index in own), stage.name, stage.unit, smoothing=0.1) as bar:
            make = MakeShard(stage.task, stage_folder)
            for index in self.executor.run(make, own, stage.describe):
                bar.update(sizes[index])
        self._wait_for_others(stage, stage_folder)
        with self._unless_ended():
            return [_done_of(shard_folder(stage_folder, index)).counts for index in range(stage.n_shards)]

    def shard(self, stage: str, index: int) -> Path:
        """Return the folder of a finished shard."""
        return shard_folder(self.folder / stage, index)

    def intact(self, stage: str, index: int, name: str) -> Path:
        """Return the path of a file of a finished shard. Raises MtkitError if it differs from its checksum."""
        folder = self.shard(stage, index)
        if sha256_file(folder / name) != _done_of(folder).files.get(name):
            raise _damaged(folder)
        return folder / name

    def finish(self, write: Callable[[], None]) -> None:
        """Let one process, that of share 0, write the outputs and remove the work folder; only there this returns.

        It holds the lock of its share, so no two write at the same time. write is called again if it was interrupted.
        """
        if self.share.index:
            self._wait(lambda: f"--shard 0/{self.share.n}, which writes the output", lambda: False)
        write()
        _remove_folder(self.work)

    def concatenate(self, stage: str, shards: Iterable[int], name: str, output: Path, *, header: bytes = b"") -> None:
        """Write the file of this name of these shards of a stage, one after the other, to the output, atomically.

        Files named .gz, .xz or .zst can be joined like that, too. header: bytes to begin with.
        Raises MtkitError if a file differs from its checksum.
        """
        _remove_leftovers(output.resolve())
        with atomic_file(output.resolve()) as temporary, temporary.open("wb") as out:
            out.write(header)
            for index in shards:
                folder = self.shard(stage, index)
                checksum = hashlib.sha256()
                with (folder / name).open("rb") as file:
                    while data := file.read(_COPY_CHUNK):
                        checksum.update(data)
                        out.write(data)
                if checksum.hexdigest() != _done_of(folder).files.get(name):
                    raise _damaged(folder)

    def _wait_for_others(self, stage: Stage, stage_folder: Path) -> None:
        missing = set(range(stage.n_shards))

        def all_made() -> bool:
            missing.difference_update(finished_shards(stage_folder))
            return not missing

        def waited_for() -> str:
            shares = sorted({index % self.share.n for index in missing})
            names = ", ".join(f"{index}/{self.share.n}" for index in shares[:5]) + (", ..." if len(shares) > 5 else "")
            return f"{len(missing):,} of {stage.n_shards:,} shards of stage {stage.name}, from --shard {names}"

        self._wait(waited_for, all_made)

    def _wait(self, waited_for: Callable[[], str], is_over: Callable[[], bool]) -> None:
        """Wait until is_over(). Raises _Ended if the job has ended meanwhile."""
        pause, said, began = 0.05, False, time.monotonic()
        while True:
            with self._unless_ended():
                if is_over():
                    return
                self._check_others(time.monotonic() - began)
            if not self.folder.is_dir():
                raise _Ended
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_POLL_S)
            if not said and pause == _LONGEST_POLL_S:
                log.info(f"waiting for {waited_for()}; if one has died, start it again")
                said = True

    def _check_others(self, waited_s: float) -> None:
        """Raise MtkitError if another share has failed; without that, this one would wait for it.

        If it failed before this one began, it may be started again at any moment: wait for that a while.
        """
        began = self.path_of("lock").stat().st_mtime_ns
        for index in range(self.share.n):
            note = self.path_of("failed", index)
            with suppress(FileNotFoundError):  # it did not fail, or is started again just now
                if note.stat().st_mtime_ns > began or waited_s > _RESTART_S:
                    raise _OtherFailed(f"--shard {index}/{self.share.n} failed: {note.read_text('utf-8')}")

    @contextmanager
    def _unless_ended(self) -> Iterator[None]:
        """Raise _Ended, instead of the error of the block, if the work folder is gone."""
        try:
            yield
        except OSError as error:
            if self.folder.is_dir():
                raise
            raise _Ended from error


def _done_of(folder: Path) -> Done:
    """Return what a finished shard holds. Raises MtkitError if its done file is damaged."""
    try:
        return read_done(folder)
    except ValueError:
        raise _damaged(folder) from None


def _damaged(folder: Path) -> MtkitError:
    """Return the error for a damaged shard, and remove it, so that the share that made it makes it again."""
    _remove_folder(folder)
    return MtkitError(f"{folder}: damaged; run the same command, of every share, again, which makes it again")


def _path_of_share(work: Path, digest: str, index: int, kind: str) -> Path:
    return work / f"{digest}.{index}.{kind}"


def _start(work: Path, inputs: Sequence[Path], settings: Mapping[str, Any]) -> None:
    """Make the work folder, unless a job is there."""
    if (work / _JOB_FILE).is_file():
        return
    if work.exists():
        raise MtkitError(f"{work}: exists, but is not the work folder of a job; remove it, or choose another output")
    stamps = dict(zip(_keys(inputs), map(_stamp, inputs), strict=True))  # first: a file may change meanwhile
    identity = _identity(settings, inputs, {}, {})
    content = {"mtkit_job": _FORMAT, "identity": identity, "stamps": stamps}
    temporary = work.with_name(f".{work.name}.{uuid.uuid4().hex}{TEMPORARY}")
    (temporary / _digest(identity)).mkdir(parents=True)
    (temporary / _JOB_FILE).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    try:
        temporary.rename(work)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not (work / _JOB_FILE).is_file():  # else another process was faster
            raise


def _wait_for_start(work: Path, output: Path, share: Share) -> None:
    pause = 0.05
    while not (work / _JOB_FILE).is_file():
        time.sleep(pause)
        pause *= 2
        if _LONGEST_POLL_S <= pause < 2 * _LONGEST_POLL_S:
            log.info(f"waiting for --shard 0/{share.n}, which starts the job for {output}")
        pause = min(pause, 2 * _LONGEST_POLL_S)


def _check_identity(work: Path, inputs: Sequence[Path], settings: Mapping[str, Any], restart_hint: str) -> str:
    """Return the identity's digest. Raises MtkitError if the job in the work folder has another identity."""
    try:
        content = parse_json((work / _JOB_FILE).read_bytes())
        if content["mtkit_job"] != _FORMAT:
            raise ValueError
        identity, stamps = dict(content["identity"]), dict(content["stamps"])
        now = _identity(settings, inputs, dict(identity["inputs"]), stamps)
    except (ValueError, KeyError, TypeError):
        raise MtkitError(f"{work / _JOB_FILE}: cannot be read; {restart_hint}") from None
    if changes := [f"{name} was {_short(old)}, now {_short(new)}" for name, old, new in differences(identity, now)]:
        raise MtkitError(
            f"{work}: holds an interrupted job that differs: {'; '.join(changes)}; continue it as it was begun, or "
            f"{restart_hint}"
        )
    return _digest(identity)


def _identity(
    settings: Mapping[str, Any], inputs: Sequence[Path], checksums: Mapping[str, str], stamps: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the result depends on. checksums: of the inputs when they had these stamps; else they are read."""
    missing = object()

    def checksum(key: str, path: Path) -> str:
        return checksums[key] if stamps.get(key, missing) == _stamp(path) else sha256_file(path)

    with ThreadPoolExecutor(usable_cores()) as pool:  # hashing releases the GIL
        keys = _keys(inputs)
        identity = {
            "version": __version__,
            "settings": settings,
            "inputs": dict(zip(keys, pool.map(checksum, keys, inputs), strict=True)),
        }
    return dict(json.loads(json.dumps(identity)))  # as it will be read from the file


def _keys(inputs: Sequence[Path]) -> list[str]:
    """Return the inputs' names in the identity; the folder may have another name on another machine."""
    return [f"{number} {path.name}" for number, path in enumerate(inputs, start=1)]


def _stamp(path: Path) -> list[int]:
    """Return what changes when a file is written."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _digest(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _short(value: object) -> str:
    """Return a value for a message; of a checksum the beginning."""
    text = "missing" if value is None else str(value)
    return f"{text[:12]}..." if len(text) == 64 else text


def _discard(work: Path) -> None:
    """Remove the work folder of an interrupted job. Raises MtkitError if a process of this machine works in it."""
    for path in work.glob("*.lock"):
        with open_locked(path) as lock:
            if lock is None:
                raise MtkitError(f"{work}: another mtkit process is working on this job; end it before --restart")
    _remove_folder(work)


def _remove_folder(folder: Path) -> None:
    """Remove a work folder, or a shard; others see it vanish at once."""
    aside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}{TEMPORARY}")
    with suppress(FileNotFoundError):
        folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def _remove_own_lock(work: Path, lock: Path) -> None:
    """Remove what locking made again of the work folder of a job that had just ended; others may be doing the same."""
    if not (work / _JOB_FILE).exists():
        with suppress(OSError):
            lock.unlink()
            work.rmdir()


def _remove_leftovers(output: Path) -> None:
    """Remove what killed processes left half-written beside the output."""
    for entry in output.parent.glob(f".{glob.escape(output.name)}.*{TEMPORARY}"):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)
