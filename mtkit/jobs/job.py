"""A job over files: stages of shards in a work folder, made by one or several processes with the same result.

The work folder, by default OUTPUT.mtkit-job, holds a lock and job.json, which records what the result depends on (the
identity). Under the first digits of the identity's checksum, it has a folder for each stage, with a folder for each
finished shard. A killed job resumes from these: it checks shards against their checksums, and makes those again that
differ.
"""

import errno
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mtkit.console import counted, log, progress_bar
from mtkit.errors import MtkitError
from mtkit.files import TEMPORARY, atomic_file, open_locked, remove_leftovers_of, sha256_file, write_text
from mtkit.jobs.executors import Executor
from mtkit.jobs.identity import JOB_FILE, check_identity, job_file
from mtkit.jobs.interrupts import termination_as_interrupt
from mtkit.jobs.shards import Done, MakeShard, ShardTask, finished_shards, read_done, remove_folder, shard_folder

_WORK = ".mtkit-job"
_LOCK = "lock"
_COPY_CHUNK = 1 << 20  # bytes

Counts = Mapping[str, int]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Stage:
    """One step of a job: shards that depend only on earlier stages, so that processes can make all of them at the same
    time.
    """

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
    restart: bool = False,
    restart_hint: str = "start over with --restart",
) -> Result:
    """Return what make returns; it runs the stages one after the other (`Job.run`) and then calls `Job.finish`.

    inputs, settings (JSON): all that the output depends on, besides mtkit's version. restart: discard an interrupted
    job. restart_hint: how a user does that, for error messages.

    Raises MtkitError if an interrupted job in the work folder differs (the message says in what), or if another process
    works on it. After any exception, including KeyboardInterrupt (also from SIGTERM), finished shards are kept.
    """
    output = output.resolve()
    work = work_folder(output)
    with termination_as_interrupt(), executor, _disk_full_explained(work):
        if restart and (work / JOB_FILE).is_file():
            with _locked(work, "end that process before you use --restart"):
                remove_folder(work)
        _check_place(work)
        with _locked(work, "wait until that process ends"):
            remove_leftovers_of(output)
            remove_leftovers_of(work)
            _start(work, inputs, settings)
            job = Job(work, check_identity(work, inputs, settings, restart_hint), executor)
            with job.kept_on_failure():
                return make(job)


def work_folder(output: Path) -> Path:
    """Return where a job for this output works."""
    output = output.resolve()
    return output.with_name(output.name + _WORK)


class Job:
    """A running job, from `run_job`."""

    def __init__(self, work: Path, digest: str, executor: Executor) -> None:
        """digest: the checksum of the job's identity."""
        self.work = work
        self.folder = work / digest
        self.executor = executor
        self.folder.mkdir(exist_ok=True)

    @contextmanager
    def kept_on_failure(self) -> Iterator[None]:
        """Keep the finished work if the block raises."""
        try:
            yield
        except BaseException:
            if any(self.folder.glob("*/[0-9]*")):
                log.warning(f"{self.work}: mtkit keeps the finished work here; run the same command again to continue")
            else:
                remove_folder(self.work)
            raise

    def run(self, stage: Stage) -> list[Counts]:
        """Make the shards of a stage that are still missing; return the counts of all its shards, in order."""
        stage_folder = self.folder / stage.name
        stage_folder.mkdir(exist_ok=True)
        shards = range(stage.n_shards)
        sizes = stage.sizes if stage.sizes is not None else [1] * stage.n_shards
        made = finished_shards(stage_folder).intersection(shards)
        n_all, n_made = (sum(sizes[index] for index in indices) for indices in (shards, made))
        if made:
            log.info(f"{stage.name}: {n_made:,} of {counted(n_all, stage.unit)} done before")
        # smoothing=0: estimate the time left from the mean speed
        with progress_bar(n_all, stage.name, stage.unit, initial=n_made, smoothing=0) as bar:
            make = MakeShard(stage.task, stage_folder)
            for index in self.executor.run(make, shards, stage.describe):
                bar.update(0 if index in made else sizes[index])
        return [_done_of(shard_folder(stage_folder, index)).counts for index in shards]

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
        """Write the outputs and remove the work folder. If write is interrupted, the next start calls it again."""
        write()
        remove_folder(self.work)

    def concatenate(self, stage: str, shards: Iterable[int], name: str, output: Path, *, header: bytes = b"") -> None:
        """Write the file of this name of these shards of a stage, one after the other, to the output, atomically.

        This also works for files named .gz, .xz or .zst. header: bytes to begin with.
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


def _done_of(folder: Path) -> Done:
    """Return the content of a finished shard. Raises MtkitError if its done file is damaged."""
    try:
        return read_done(folder)
    except ValueError:
        raise _damaged(folder) from None


def _damaged(folder: Path) -> MtkitError:
    """Return the error for a damaged shard, and remove the shard, so that the next start makes it again."""
    remove_folder(folder)
    return MtkitError(f"{folder}: damaged; run the same command again to repair it")


@contextmanager
def _disk_full_explained(work: Path) -> Iterator[None]:
    """Turn the system's error for a full disk into one with the place and the remedy."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise MtkitError(
            f"{error.filename or work}: {error.strerror}; free some space, then run the same command again: {work} "
            "keeps the finished work"
        ) from error


def _check_place(work: Path) -> None:
    """Raise MtkitError if the path of the work folder belongs to something else."""
    if not work.exists() or (work / JOB_FILE).is_file():
        return
    if not work.is_dir() or any(path.name != _LOCK and TEMPORARY not in path.name for path in work.iterdir()):
        raise MtkitError(
            f"{work}: already exists, but is not the work folder of a job; remove it, or choose another output"
        )


@contextmanager
def _locked(work: Path, remedy: str) -> Iterator[None]:
    """Create the work folder if needed, and lock it. Raises MtkitError if another process works in it."""
    with open_locked(work / _LOCK) as lock:
        if lock is None:
            raise MtkitError(f"{work}: another mtkit process is working on this job; {remedy}")
        yield


def _start(work: Path, inputs: Sequence[Path], settings: Mapping[str, Any]) -> None:
    """Write the job file, unless the folder already has one."""
    if (work / JOB_FILE).is_file():
        return
    try:
        content = job_file(inputs, settings)
        write_text(work / JOB_FILE, json.dumps(content, ensure_ascii=False, indent=1))
    except BaseException:
        remove_folder(work)
        raise
