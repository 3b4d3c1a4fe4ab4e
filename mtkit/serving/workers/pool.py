"""The worker processes: each handles one batch at a time and is replaced if it dies or hangs.

They are not those of `mtkit.jobs.processes`, for two reasons. The event loop waits for many of them at once, without a
thread for each. And their messages are JSON instead of pickles, because a process that reads a document of a stranger
must not be able to make the service run code.
"""

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine, Hashable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mtkit.console import log
from mtkit.jobs.processes import how_it_ended
from mtkit.serving.workers import frames

_STOP_S = 5.0  # how long a worker may take to end before we kill it
_END_S = 1.0  # how long the end of a process may come after that of its output
_FROZEN_AFTER = 7  # looks at a process at work that has used no processor time since the look before
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0  # before a worker is started again that died before it had answered


class WorkerDied(Exception):
    """A worker died or did not reply in time, before its batch was done."""


class Worker:
    """One worker process, which handles one batch at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.is_busy = False
        self.idle_since = 0.0  # on the event loop's clock
        self.busy_since = 0.0  # on the clock of `time.monotonic`
        self.has_answered = False
        self._cpu_ticks: int | None = None
        self._n_still = 0  # looks in a row that saw no progress
        self.done: set[Hashable] = set()  # the kinds of work that it has done, and loaded what they need

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def ask(self, message: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a message and return the reply. Raises WorkerDied if none arrives, after ending the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self.busy_since, self._n_still = time.monotonic(), 0
        try:
            async with asyncio.timeout(timeout_s):
                self._process.stdin.write(frames.pack(message))
                await self._process.stdin.drain()
                answer: dict[str, Any] = await frames.read(self._process.stdout)
        except TimeoutError:  # first, because it is an OSError, too
            raise WorkerDied(f"worker {self.pid} did not answer within {timeout_s:g} s") from None
        except (asyncio.IncompleteReadError, OSError, ValueError, RuntimeError):  # RuntimeError: uvloop's closed pipe
            raise WorkerDied(f"worker {self.pid} ended ({await self._ended_or_killed()})") from None
        self.has_answered = True
        return answer

    def kill_if_frozen(self) -> bool:
        """End the process, and return True, if it has used no processor time between this many calls in a row.

        It is for processes at work: one that is stopped, or waits for a lock that stays locked, uses none. Where the
        system does not tell the time (not Linux), only the deadline of a batch finds such a process.
        """
        ticks = _cpu_ticks(self.pid)
        self._n_still = self._n_still + 1 if ticks == self._cpu_ticks and ticks is not None else 0
        self._cpu_ticks = ticks
        if self._n_still < _FROZEN_AFTER:
            return False
        self._kill()
        return True

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.returncode is not None

    async def ended(self) -> str:
        """Wait until the process has ended, and return how it ended."""
        return how_it_ended(await self._process.wait())

    async def _ended_or_killed(self) -> str:
        try:
            async with asyncio.timeout(_END_S):
                return await self.ended()
        except TimeoutError:  # it lives, but says something strange, or has closed its output
            self._kill()
            return await self.ended()

    async def end(self, *, at_once: bool = False) -> None:
        """Stop the process; at_once: without waiting for its batch."""
        assert self._process.stdin is not None
        if at_once:
            self._kill()
        with suppress(OSError):
            self._process.stdin.close()  # it ends when it looks for the next message
        try:
            async with asyncio.timeout(_STOP_S):
                await self._process.wait()
        except TimeoutError:
            self._kill()
            await self._process.wait()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()


async def start_worker(module: str, settings: Mapping[str, Any]) -> Worker:
    """Start a process that runs a module of mtkit with the settings, as JSON, as its argument."""
    # PYTHONSAFEPATH: a file of the current folder that is named like a module must not run
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", module, json.dumps(settings)]
    # a session of its own: Ctrl-C in a terminal reaches the service alone, which lets its workers finish
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True, limit=2**26
    )
    return Worker(process)


def _cpu_ticks(pid: int) -> int | None:
    """Return the processor time that a process has used, in the system's units; None if the system does not tell."""
    try:
        values = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return int(values[11]) + int(values[12])  # utime and stime; proc(5) counts them from 1 and from pid: 14 and 15


class Pool:
    """A group of workers with the same settings."""

    def __init__(self, n_workers: int, settings: Mapping[str, Any], when_idle: Callable[[], None]) -> None:
        """settings: for each worker, as JSON. when_idle: called when a worker may be free."""
        self._n_workers = n_workers
        self._settings = settings
        self._when_idle = when_idle
        self._pause_s = _FIRST_PAUSE_S
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.workers: list[Worker] = []
        self.n_deaths = 0

    async def start(self) -> None:
        """Start the processes, which load models on demand."""
        self.workers = [await self._new() for _ in range(self._n_workers)]

    async def _new(self) -> Worker:
        worker = await start_worker("mtkit.serving.workers.worker", self._settings)
        self._start_task(self._watch(worker))
        return worker

    async def _watch(self, worker: Worker) -> None:
        """Replace a worker that dies while it is idle; the caller that waits for a busy worker notices its death."""
        how = await worker.ended()
        if worker in self.workers and not worker.is_busy and not self._is_closed:
            self._lose(worker, WorkerDied(f"worker {worker.pid} ended ({how})"))

    @property
    def idle(self) -> list[Worker]:
        """The idle workers."""
        return [worker for worker in self.workers if not worker.is_busy]

    async def ask(self, worker: Worker, message: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a message to a worker and return the reply; replace the worker if it dies. Raises WorkerDied."""
        worker.is_busy = True
        try:
            answer = await worker.ask(message, timeout_s)
        except WorkerDied as error:
            self._lose(worker, error)
            raise
        except BaseException:  # we are cancelled: its answer would be taken for that of the next question
            self._lose(worker, WorkerDied(f"worker {worker.pid} was stopped: no caller is waiting for its reply"))
            raise
        if worker.has_ended:  # since its answer; `_watch` took it for busy
            self._lose(worker, WorkerDied(f"worker {worker.pid} ended ({await worker.ended()})"))
            return answer
        worker.is_busy = False
        worker.idle_since = asyncio.get_running_loop().time()
        self._pause_s = _FIRST_PAUSE_S
        self._when_idle()
        return answer

    def _lose(self, worker: Worker, error: BaseException) -> None:
        """Stop giving work to a worker, and start to replace it."""
        self.workers.remove(worker)
        self._start_task(self._replace(worker, error))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _replace(self, worker: Worker, error: BaseException) -> None:
        await worker.end(at_once=True)
        if self._is_closed:
            return
        self.n_deaths += 1
        log.warning(f"{error}; starting another worker")
        if not worker.has_answered:  # it may die again and again: of a damaged installation, or too little memory
            await self._pause()
        while not self._is_closed:
            try:
                self.workers.append(await self._new())
            except OSError as problem:  # no memory, process or file descriptor is left
                log.error(f"could not start another worker: {problem}; trying again")
                await self._pause()
                continue
            self._when_idle()
            return

    async def _pause(self) -> None:
        """Wait before the next attempt, longer each time."""
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    async def close(self) -> None:
        """Stop the processes, and kill those that are still busy after some seconds."""
        self._is_closed = True
        await asyncio.gather(*(worker.end() for worker in self.workers))
        for task in self._tasks:  # one may wait before it starts a worker again
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.workers = []
