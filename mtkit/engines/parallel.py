"""An engine that spreads its segments over processes, each with its own engine. Nothing here needs torch."""

import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from mtkit.bundle import read_bundle
from mtkit.config.decoding import DecodeConfig
from mtkit.console import log
from mtkit.errors import MtkitError
from mtkit.jobs.processes import ProcessEnded, WorkerProcess, end_all
from mtkit.search.hypothesis import Engine, Hypothesis, Segment


@dataclass
class _Worker:
    """One process and its current task."""

    process: WorkerProcess
    indices: Sequence[int] | None = None  # of the segments it decodes; None: it is idle
    task: int = 0

    def receive(self) -> Any:
        """Return the worker's answer. Raises the error that it met, or ProcessEnded."""
        kind, content = self.process.receive()
        if kind == "error":
            raise content
        return content


@contextmanager
def _end_explained() -> Iterator[None]:
    """Convert the end of a process in the block to an MtkitError."""
    try:
        yield
    except ProcessEnded as ended:
        hint = "; memory may have run out: lower decode.workers or decode.batch_sentences"
        raise MtkitError(
            f"a worker process ended before its work was done ({ended}){hint if ended.may_lack_memory else ''}"
        ) from None


class ParallelEngine:
    """An `Engine` over several processes, each with the same model; they end with `close`, or with the parent.

    Processes with one thread each are faster than one process with as many threads, because no thread waits for others.
    """

    def __init__(self, make_engine: Callable[[], Engine], n_workers: int) -> None:
        """Start the processes and wait until each has called make_engine, which must be picklable.

        Raises the error that make_engine raises.
        """
        if n_workers < 1:
            raise ValueError(f"n_workers={n_workers} is not at least 1")
        self._task = 0
        self._workers: list[_Worker] = []
        try:
            with _end_explained():
                for _ in range(n_workers):
                    self._workers.append(_Worker(WorkerProcess(_work, make_engine)))
                about, *_ = [worker.receive() for worker in self._workers]
        except BaseException:
            end_all([], [worker.process for worker in self._workers])  # some may not have begun to listen
            raise
        self.name: str = about.name
        self.max_positions: int | None = about.max_positions
        self.arithmetic: str = about.arithmetic
        for level, message in about.messages:  # of the first worker: the others log the same
            log.log(level, message)

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """See `Engine`. A worker gets segments of like length; the longest go first, so that all workers end together.

        An error, Ctrl-C included, ends the processes.
        """
        if not self._workers:
            raise MtkitError("the worker processes are closed; make a new engine")
        self._task += 1
        by_length = sorted(range(len(segments)), key=lambda index: len(segments[index].ids), reverse=True)
        size = max(1, min(cfg.batch_sentences, -(-len(segments) // len(self._workers))))
        windows = iter([by_length[first : first + size] for first in range(0, len(by_length), size)])
        try:
            with _end_explained():
                for worker in self._workers:
                    if worker.indices is None:
                        self._give(worker, next(windows, None), segments, cfg, n_best)
                while busy := [worker for worker in self._workers if worker.indices is not None]:
                    for worker in self._ready(busy):
                        answer, indices, task = worker.receive(), worker.indices or (), worker.task
                        self._give(worker, next(windows, None), segments, cfg, n_best)
                        if task == self._task:  # else it answers an earlier call that was left unfinished
                            yield from ((indices[place], hypotheses) for place, hypotheses in answer)
        except GeneratorExit:  # the caller wants no more: later calls drop the answers still under way
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes."""
        workers, self._workers = self._workers, []
        end_all(
            [worker.process for worker in workers if worker.indices is None],
            [worker.process for worker in workers if worker.indices is not None],
        )

    def __enter__(self) -> "ParallelEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _give(
        self,
        worker: _Worker,
        indices: Sequence[int] | None,
        segments: Sequence[Segment],
        cfg: DecodeConfig,
        n_best: int,
    ) -> None:
        worker.indices, worker.task = indices, self._task
        if indices is not None:
            worker.process.send(([segments[index] for index in indices], cfg, n_best))

    @staticmethod
    def _ready(busy: Sequence[_Worker]) -> list[_Worker]:
        """Wait for answers; return the workers that have one or have ended, at least one."""
        ready = wait([worker.process.connection for worker in busy])
        return [worker for worker in busy if worker.process.connection in ready]


@dataclass(frozen=True)
class NativeInWorker:
    """Make the native engine of bundle folders, an ensemble if several; for `ParallelEngine`."""

    folders: tuple[Path, ...]
    decode: DecodeConfig  # for its precision and shortlist
    threads: int = 1

    def __call__(self) -> Engine:
        """Return the engine."""
        from mtkit.engines.native import native_engine  # these load torch, which the parent does without
        from mtkit.runtime import keep_freed_memory

        keep_freed_memory()
        members = [read_bundle(folder, self.decode.languages) for folder in self.folders]
        return native_engine(members, self.decode, "cpu", self.threads)


@dataclass(frozen=True)
class _About:
    """A worker's engine, with its log messages from the start."""

    name: str
    max_positions: int | None
    arithmetic: str
    messages: list[tuple[int, str]]  # level, message


def _work(make_engine: Callable[[], Engine], connection: Connection) -> None:
    """Make an engine, then answer until the parent is gone. The parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    messages: list[tuple[int, str]] = []

    def collect(record: logging.LogRecord) -> bool:
        messages.append((record.levelno, record.getMessage()))
        return False  # not printed here: the parent owns the terminal and its progress bar

    log.addFilter(collect)
    try:
        engine = make_engine()
        connection.send(("ready", _About(engine.name, engine.max_positions, engine.arithmetic, messages)))
        while True:
            segments, cfg, n_best = connection.recv()
            connection.send(("hypotheses", list(engine.decode(segments, cfg, n_best))))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except MtkitError as error:
        connection.send(("error", error))
    except Exception as error:
        connection.send(("error", RuntimeError(f"worker process {os.getpid()}: {type(error).__name__}: {error}")))
