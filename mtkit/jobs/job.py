"""A job over files: stages of shards in a work folder, which any number of processes share; the same result always.

The work folder, by default OUTPUT.mtkit-job, holds job.json, which says what the result depends on (the identity), and
under the first digits of the identity's checksum a folder for each stage, with a folder for each finished shard. A
killed job resumes from these: shards are checked against their checksums, and made again if they differ.
"""

import errno
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

from mtkit.console import counted, log, progress_bar
from mtkit.cores import usable_cores
from mtkit.errors import MtkitError, UsageError
from mtkit.files import TEMPORARY, atomic_file, open_locked, remove_leftovers_of, sha256_file
from mtkit.jobs.executors import Executor
from mtkit.jobs.identity import JOB_FILE, Identity, check_identity, new_identity
from mtkit.jobs.interrupts import termination_as_interrupt
from mtkit.jobs.shards import (
    Done,
    MakeShard,
    ShardTask,
    finished_shards,
    read_done,
    remove_folder,
    shard_folder,
    verified,
)

_WORK = ".mtkit-job"
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
    work = work_folder(output) if work is None else work.resolve()
    if share.n > 1 and output.exists() and not work.exists():
        _refuse_to_replace(output, share)
        return None
    with termination_as_interrupt(), executor, _disk_full_explained(work):
        if share.index:
            _wait_for_start(work, output, share)
        else:
            if restart:
                discard_job(output, work)
            _start(work, inputs, settings)
        identity = check_identity(work, inputs, settings, restart_hint)
        job = Job(work, identity, executor, share)
        with open_locked(job.path_of("lock")) as lock:
            if lock is None:
                same = f"--shard {share}" if share.n > 1 else "this job"
                raise MtkitError(f"{work}: another mtkit process is working on {same}; wait until it ends")
            if not share.index:
                remove_leftovers_of(output)
                remove_leftovers_of(work)
            with job.kept_on_failure():
                try:
                    job.begin()
                    return make(job)
                except _Ended:
                    job.check_output(output)
                    return None


def work_folder(output: Path) -> Path:
    """Return where a job for this output works."""
    output = output.resolve()
    return output.with_name(output.name + _WORK)


def discard_job(output: Path, work: Path | None = None) -> None:
    """Remove the work folder of an interrupted job. Raises MtkitError if a process of this machine works in it."""
    work = work_folder(output) if work is None else work
    for path in work.glob("*.lock"):
        with open_locked(path) as lock:
            if lock is None:
                raise MtkitError(f"{work}: another mtkit process is working on this job; end it before --restart")
    remove_folder(work)


class _Ended(Exception):
    """The work folder is gone: the process of share 0 has written the output."""


class _OtherFailed(MtkitError):
    """The process of another share met an error."""


class Job:
    """A job under way; made by `run_job`."""

    def __init__(self, work: Path, identity: Identity, executor: Executor, share: Share) -> None:
        self.work = work
        self.identity = identity
        self.folder = work / identity.digest  # so that a process of another identity never writes into it
        self.executor = executor
        self.share = share
        self._unverified: dict[str, set[int]] = {}  # by stage: shards that were there when this process began

    def path_of(self, kind: str, index: int | None = None) -> Path:
        """Return the path of a small file that a share has, by default this one."""
        return self.work / f"{self.identity.digest}.{self.share.index if index is None else index}.{kind}"

    def begin(self) -> None:
        """Note when this share began, that it has not failed, and which shards are from before."""
        with self._unless_ended():
            os.utime(self.path_of("lock"))
            self.path_of("failed").unlink(missing_ok=True)
            self._unverified = {stage.name: finished_shards(stage) for stage in self.folder.iterdir()}

    @contextmanager
    def kept_on_failure(self) -> Iterator[None]:
        """If the block raises, keep the work that is done, and let the other shares know of an error."""
        try:
            yield
        except BaseException as error:
            if self.share.n > 1 and isinstance(error, MtkitError) and not isinstance(error, _OtherFailed):
                with suppress(OSError):
                    self.path_of("failed").write_text(str(error), encoding="utf-8")
            if any(self.folder.glob("*/[0-9]*")):
                log.warning(f"{self.work}: keeps what is done; run the same command again to continue")
            elif self.share.n == 1:
                remove_folder(self.work)
            raise

    def check_output(self, output: Path) -> None:
        """Say that the process of share 0 has ended the job. Raises MtkitError if there is no output."""
        self._remove_own_lock()
        if not output.exists():
            raise MtkitError(f"{self.work}: removed before {output} was written; start all shares again")
        log.info(f"--shard {self.share}: done; --shard 0/{self.share.n} has written {output}")

    def run(self, stage: Stage) -> list[Counts]:
        """Make the shards of a stage that are still missing; return the counts of all its shards, in order.

        Of a job in shares this process makes its own, and waits until the others have made theirs.
        """
        stage_folder = self.folder / stage.name
        with self._unless_ended():
            stage_folder.mkdir(exist_ok=True)
        own = range(self.share.index, stage.n_shards, self.share.n)
        sizes = stage.sizes if stage.sizes is not None else [1] * stage.n_shards
        made = finished_shards(stage_folder).intersection(own)
        n_all, n_made = (sum(sizes[index] for index in indices) for indices in (own, made))
        if made:
            log.info(f"{stage.name}: {n_made:,} of {counted(n_all, stage.unit)} done before")
        # smoothing=0: estimate the time left from the mean speed
        with progress_bar(n_all, stage.name, stage.unit, initial=n_made, smoothing=0) as bar:
            make = MakeShard(stage.task, stage_folder)
            for index in self.executor.run(make, own, stage.describe):
                bar.update(0 if index in made else sizes[index])
        self._wait_for_others(stage, stage_folder)
        self._verify_others(stage, stage_folder)
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
        remove_folder(self.work)

    def concatenate(self, stage: str, shards: Iterable[int], name: str, output: Path, *, header: bytes = b"") -> None:
        """Write the file of this name of these shards of a stage, one after the other, to the output, atomically.

        Files named .gz, .xz or .zst can be joined like that, too. header: bytes to begin with.
        Raises MtkitError if a file differs from its checksum.
        """
        remove_leftovers_of(output.resolve())
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

    def _verify_others(self, stage: Stage, stage_folder: Path) -> None:
        """Verify the others' shards that were there when this process began; their makers may not have done it yet.

        Those that appeared later are new. Raises MtkitError if one is damaged.
        """
        old = self._unverified.pop(stage.name, set())
        others = [index for index in range(stage.n_shards) if index in old and index % self.share.n != self.share.index]
        folders = [shard_folder(stage_folder, index) for index in others]
        with self._unless_ended(), ThreadPoolExecutor(usable_cores()) as pool:  # hashing releases the GIL
            for folder, done in zip(folders, pool.map(verified, folders), strict=True):
                if done is None and self.folder.is_dir():
                    raise _damaged(folder)

    def _remove_own_lock(self) -> None:
        """Remove what locking made again of the work folder of a job that had just ended; others may do the same."""
        if not (self.work / JOB_FILE).exists():
            with suppress(OSError):
                self.path_of("lock").unlink()
                self.work.rmdir()

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
    remove_folder(folder)
    return MtkitError(f"{folder}: damaged; run the same command, of every share, again, which makes it again")


def _refuse_to_replace(output: Path, share: Share) -> None:
    """Say that the output of a job in shares is there already. Raises UsageError for share 0, which would write it."""
    if not share.index:
        raise UsageError(f"{output}: exists; a job in shares does not replace it, so remove it or choose another name")
    log.warning(f"{output}: exists, so this share has nothing to do; to make it again, remove it first")


@contextmanager
def _disk_full_explained(work: Path) -> Iterator[None]:
    """Turn the system's error for a full disk into one that says where and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise MtkitError(
            f"{error.filename or work}: {error.strerror}; free some space, then run the same command again: {work} "
            "keeps what is done"
        ) from error


def _start(work: Path, inputs: Sequence[Path], settings: Mapping[str, Any]) -> None:
    """Make the work folder, unless a job is there."""
    if (work / JOB_FILE).is_file():
        return
    if work.exists():
        raise MtkitError(f"{work}: exists, but is not the work folder of a job; remove it, or choose another output")
    digest, content = new_identity(inputs, settings)
    temporary = work.with_name(f".{work.name}.{uuid.uuid4().hex}{TEMPORARY}")
    try:
        (temporary / digest).mkdir(parents=True)
        (temporary / JOB_FILE).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
        temporary.rename(work)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not (work / JOB_FILE).is_file():  # else another process was faster
            raise


def _wait_for_start(work: Path, output: Path, share: Share) -> None:
    pause = 0.05
    while not (work / JOB_FILE).is_file():
        time.sleep(pause)
        pause *= 2
        if _LONGEST_POLL_S <= pause < 2 * _LONGEST_POLL_S:
            log.info(f"waiting for --shard 0/{share.n}, which starts the job for {output}")
        pause = min(pause, 2 * _LONGEST_POLL_S)
