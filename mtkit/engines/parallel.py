"""An engine that spreads its segments over processes, each with an engine of its own. Nothing here needs torch."""

import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from mtkit.config.schema import DecodeConfig
from mtkit.console import log
from mtkit.errors import MtkitError
from mtkit.search.hypothesis import Engine, Hypothesis, Segment

_STOP_S = 5.0  # how long a worker may take to end before it is killed


@dataclass
class _Worker:
    """One process, and what it is at work on."""

    process: BaseProcess
    connection: Connection
    numbers: Sequence[int] | None = None  # the segments it has been given; None: it is idle
    task: int = 0

    def send(self, message: object) -> None:
        try:
            self.connection.send(message)
        except OSError:
            raise self.lost() from None

    def receive(self) -> Any:
        """What it answers; raises the error that it met, and MtkitError if it is no longer there."""
        try:
            kind, content = self.connection.recv()
        except (EOFError, OSError):
            raise self.lost() from None
        if kind == "error":
            raise content
        return content

    def lost(self) -> MtkitError:
        self.process.join(_STOP_S)
        code = self.process.exitcode
        how = "it does not answer" if code is None else f"exit code {code}"
        if code is not None and code < 0:
            how = f"it was killed by {signal.Signals(-code).name}"
        hint = "; memory may have run out: lower decode.workers or decode.batch_sentences" if code == -9 else ""
        return MtkitError(f"a worker process has ended before its work was done ({how}){hint}")


class ParallelEngine:
    """An `Engine` over several processes, all of which hold the same model; they end with `close`, or with the parent.

    One-thread processes translate more than one process with as many threads: nothing waits for anything.
    """

    def __init__(self, make_engine: Callable[[], Engine], n_workers: int) -> None:
        """Start the processes and wait until each has called make_engine, which is sent there: it must be picklable.

        Raises the error that make_engine raises.
        """
        if n_workers < 1:
            raise ValueError(f"n_workers={n_workers} is not at least 1")
        self._task = 0
        self._workers: list[_Worker] = []
        context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads, which it does not survive
        try:
            with _interrupt_held_back():  # while they start they know no better than to print tracebacks
                for _ in range(n_workers):
                    ours, theirs = context.Pipe()
                    process = context.Process(target=_work, args=(make_engine, theirs), daemon=True)
                    process.start()
                    theirs.close()
                    self._workers.append(_Worker(process, ours))
            about, *_ = [worker.receive() for worker in self._workers]
        except BaseException:
            for worker in self._workers:  # some may not have begun to listen
                worker.process.terminate()
            self.close()
            raise
        self.name: str = about.name
        self.max_positions: int | None = about.max_positions
        self.arithmetic: str = about.arithmetic
        for level, message in about.messages:  # once: the others say the same
            log.log(level, message)

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """See `Engine`. Segments of like length go to a worker together; the longest first, so that all end together.

        After an error, Ctrl-C included, the processes are gone.
        """
        if not self._workers:
            raise MtkitError("the worker processes have been closed")
        self._task += 1
        by_length = sorted(range(len(segments)), key=lambda number: len(segments[number].ids), reverse=True)
        size = max(1, min(cfg.batch_sentences, -(-len(segments) // len(self._workers))))
        windows = iter([by_length[first : first + size] for first in range(0, len(by_length), size)])
        try:
            for worker in self._workers:
                if worker.numbers is None:
                    self._give(worker, next(windows, None), segments, cfg, n_best)
            while busy := [worker for worker in self._workers if worker.numbers is not None]:
                for worker in self._ready(busy):
                    found, numbers, task = worker.receive(), worker.numbers or (), worker.task
                    self._give(worker, next(windows, None), segments, cfg, n_best)
                    if task == self._task:  # else the answer to an earlier call, which nobody waited for
                        yield from ((numbers[index], hypotheses) for index, hypotheses in found)
        except GeneratorExit:  # the caller wants no more: what is under way is dropped when it comes
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.connection.close()  # which an idle worker takes as its end
            if worker.numbers is not None:
                worker.process.terminate()
        for worker in workers:
            worker.process.join(_STOP_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()

    def __enter__(self) -> "ParallelEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _give(
        self,
        worker: _Worker,
        numbers: Sequence[int] | None,
        segments: Sequence[Segment],
        cfg: DecodeConfig,
        n_best: int,
    ) -> None:
        worker.numbers, worker.task = numbers, self._task
        if numbers is not None:
            worker.send(([segments[number] for number in numbers], cfg, n_best))

    @staticmethod
    def _ready(busy: Sequence[_Worker]) -> list[_Worker]:
        """Those with an answer, or dead, of which there is at least one: a dead one's connection ends."""
        ready = wait([worker.connection for worker in busy])
        return [worker for worker in busy if worker.connection in ready]


@dataclass(frozen=True)
class NativeInWorker:
    """Makes the native engine of bundle folders, several being an ensemble; for `ParallelEngine`."""

    folders: tuple[Path, ...]
    decode: DecodeConfig  # its precision and its shortlist count
    threads: int = 1

    def __call__(self) -> Engine:
        """The engine."""
        from mtkit.bundle import read_bundle
        from mtkit.engines.native import native_engine
        from mtkit.runtime import keep_freed_memory

        keep_freed_memory()
        return native_engine([read_bundle(folder) for folder in self.folders], self.decode, "cpu", self.threads)


@dataclass(frozen=True)
class _About:
    """What a worker tells about its engine, and what was logged while it was made: level and message."""

    name: str
    max_positions: int | None
    arithmetic: str
    messages: list[tuple[int, str]]


def _work(make_engine: Callable[[], Engine], connection: Connection) -> None:
    """A worker's life: an engine, then answers until the parent is gone. Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    messages: list[tuple[int, str]] = []

    def collect(record: logging.LogRecord) -> bool:
        messages.append((record.levelno, record.getMessage()))
        return False  # not shown here: the terminal, with its progress bar, is the parent's

    log.addFilter(collect)
    try:
        engine = make_engine()
        connection.send(("ready", _About(engine.name, engine.max_positions, engine.arithmetic, messages)))
        while True:
            segments, cfg, n_best = connection.recv()
            connection.send(("found", list(engine.decode(segments, cfg, n_best))))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except MtkitError as error:
        connection.send(("error", error))
    except Exception as error:
        connection.send(("error", RuntimeError(f"worker process {os.getpid()}: {type(error).__name__}: {error}")))


@contextmanager
def _interrupt_held_back() -> Iterator[None]:
    """Ctrl-C waits until the block is over; a process that is started within never gets it."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    resource_tracker.ensure_running()  # else the first process starts it, which lets interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
