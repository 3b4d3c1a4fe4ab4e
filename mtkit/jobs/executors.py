"""Run a function for many shards: in this process, or in several processes of this machine."""

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Protocol

from mtkit.console import log, set_up_logging
from mtkit.errors import MtkitError
from mtkit.jobs.processes import ProcessEnded, WorkerProcess, end_all
from mtkit.jobs.shards import MakeShard

MAX_DEATHS = 3  # of the processes that make one shard
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "RAYON")}


class Executor(Protocol):
    """Makes shards. Use it in a with block, which ends the processes that the executor has started."""

    makes_here: bool  # whether it makes all shards in this process, so that tasks need not be picklable

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def run(self, make: MakeShard, indices: Sequence[int], describe: Callable[[int], str]) -> Iterator[int]:
        """Make these shards in any order, each at least once; yield the number of each as soon as it is done.

        Raises what `make` raises; MtkitError, with describe(index), if a shard ends its process MAX_DEATHS times.
        """
        ...

    def threads(self, n_cores: int) -> int:
        """Return how many threads each process should have. n_cores: what all processes of this machine may use."""
        ...


class InProcess:
    """Makes one shard after the other in this process."""

    makes_here = True

    def __enter__(self) -> "InProcess":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, make: MakeShard, indices: Sequence[int], describe: Callable[[int], str]) -> Iterator[int]:
        """See `Executor`."""
        for index in indices:
            make(index)
            yield index

    def threads(self, n_cores: int) -> int:
        """See `Executor`."""
        return n_cores


def on_this_machine(n_workers: int) -> Executor:
    """Return an executor with this many workers: for one, this process; for more, processes of this machine."""
    return InProcess() if n_workers == 1 else Processes(n_workers)


@dataclass
class _Worker:
    process: WorkerProcess
    make: MakeShard | None = None  # that it has
    index: int | None = None  # of the shard that it makes; None: it is idle


class Processes:
    """Makes shards in processes of this machine, each with one thread; a process that dies is replaced."""

    makes_here = False

    def __init__(self, n_workers: int) -> None:
        if n_workers < 1:
            raise ValueError(f"n_workers={n_workers} is not at least 1")
        self.n_workers = n_workers
        self._workers: list[_Worker] = []

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        workers, self._workers = self._workers, []
        end_all(
            [worker.process for worker in workers if worker.index is None],
            [worker.process for worker in workers if worker.index is not None],
        )

    def run(self, make: MakeShard, indices: Sequence[int], describe: Callable[[int], str]) -> Iterator[int]:
        """See `Executor`."""
        to_do, n_deaths = list(reversed(indices)), dict.fromkeys(indices, 0)
        while to_do or any(worker.index is not None for worker in self._workers):
            while to_do and (idle := self._idle_worker()) is not None:
                self._give(idle, make, to_do.pop())
            busy = {worker.process.connection: worker for worker in self._workers if worker.index is not None}
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]  # wait returns what it was given
                index = worker.index
                assert index is not None
                try:
                    error = worker.process.receive()
                except ProcessEnded as ended:
                    n_deaths[index] += 1
                    self._lose(worker, describe(index), n_deaths[index], ended)
                    to_do.append(index)
                    continue
                worker.index = None
                if error is not None:
                    raise error
                yield index

    def threads(self, n_cores: int) -> int:
        """See `Executor`."""
        return max(1, n_cores // self.n_workers)

    def _idle_worker(self) -> _Worker | None:
        for worker in self._workers:
            if worker.index is None:
                return worker
        if len(self._workers) == self.n_workers:
            return None
        self._workers.append(_Worker(WorkerProcess(_work)))
        return self._workers[-1]

    def _give(self, worker: _Worker, make: MakeShard, index: int) -> None:
        worker.index = index
        with suppress(ProcessEnded):  # `wait` reports it next
            worker.process.send((None if worker.make is make else make, index))
        worker.make = make

    def _lose(self, worker: _Worker, shard: str, n_deaths: int, ended: ProcessEnded) -> None:
        """Forget a dead worker. Raises MtkitError if MAX_DEATHS workers have died while they made this shard."""
        self._workers.remove(worker)
        end_all([worker.process])
        hint = "; memory may have run out: use fewer --workers" if ended.may_lack_memory else ""
        if n_deaths == MAX_DEATHS:
            raise MtkitError(f"{shard}: the process that worked on it ended {n_deaths} times ({ended}){hint}")
        log.warning(f"{shard}: the process that worked on it ended ({ended}); trying again")


def _work(connection: Connection) -> None:
    """Make the shards that the parent asks for; end with it, even in the middle of a shard."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    os.environ.update(ONE_THREAD)  # before the task's modules are imported
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    set_up_logging(quiet=True)
    make: MakeShard | None = None
    try:
        while True:
            new, index = connection.recv()
            make = new or make
            assert make is not None
            connection.send(_error_of(make, index))
    except (EOFError, OSError):
        return


def _error_of(make: MakeShard, index: int) -> Exception | None:
    """Make a shard; return the error if there is one."""
    try:
        make(index)
    except MtkitError as error:
        return error
    except OSError as error:  # a full disk, for example: the command line explains it
        return OSError(error.errno, error.strerror, error.filename) if error.errno else RuntimeError(str(error))
    except Exception as error:
        failure = RuntimeError(f"worker process {os.getpid()}: {type(error).__name__}: {error}")
        failure.add_note(traceback.format_exc())
        return failure
    return None


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
