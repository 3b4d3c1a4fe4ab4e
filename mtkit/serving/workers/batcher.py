"""Collect the sentences of many requests into batches for the workers, and drop work whose callers have left."""

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mtkit.config.serving import QueueConfig
from mtkit.console import log, log_fault
from mtkit.serving.refusals import BadRequest, BadText, Busy, EndsWorkers, Fault, Refusal, Unready
from mtkit.serving.workers.pool import Pool, Worker, WorkerDied
from mtkit.serving.workers.queue import Call, Item, Queue, admission, now
from mtkit.serving.workers.work import ModelVersion, Work

_MOST_DEATHS = 3  # of workers that had an item; the last of them had nothing else
_CHARS_A_TOKEN = 4
_LINE = re.compile(r"\bline (\d+)")  # of a terminology file: the first term is on line 2
_FAULT = "the service failed on this text; its log says why"
_LINGER_S = 0.01  # longest wait for a fuller batch, once a sentence waits and a worker is idle
_ABANDONED_S = 2.0  # about what a new worker takes to load a model: to wait longer for the old one would not pay
_MEMORY = 0.9  # weight of the past in averages


@dataclass
class Pace:
    """The amount of work that the workers have done, and their speed."""

    n_batches: int = 0
    n_items: int = 0
    s_per_item: float = 0.05  # averaged; of all workers together
    s_per_batch: float = 0.1  # averaged

    def note(self, n_items: int, seconds: float, n_workers: int) -> None:
        """Count a batch and the seconds that one of n_workers took for it."""
        self.s_per_item = _MEMORY * self.s_per_item + (1 - _MEMORY) * seconds / max(1, n_items) / max(1, n_workers)
        self.s_per_batch = _MEMORY * self.s_per_batch + (1 - _MEMORY) * seconds
        self.n_batches += 1
        self.n_items += n_items


class Batcher:
    """Puts the items of many requests into batches for the workers, and returns each result to its request."""

    def __init__(
        self,
        cfg: QueueConfig,
        batch_timeout_s: float,
        first_timeout_s: float | None = None,
        *,
        linger_s: float = _LINGER_S,
    ) -> None:
        """batch_timeout_s: seconds after which a worker counts as hung and is replaced.

        first_timeout_s: the same for the first batch of a kind, because a worker may have to load a model for it.
        linger_s: the longest time to wait for a fuller batch.
        """
        self.queue = Queue(cfg)
        self.pace = Pace()
        self.retired: list[ModelVersion] = []  # versions that workers should drop
        self._linger_s = linger_s
        self._batch_timeout_s = batch_timeout_s
        self._first_timeout_s = first_timeout_s or batch_timeout_s
        self._pool: Pool | None = None
        self._wake = asyncio.Event()
        self._dispatcher: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._working: dict[Worker, tuple[int, float]] = {}  # how many items they have, and since when

    def start(self, pool: Pool) -> None:
        """Start to give work to the pool."""
        self._pool = pool
        self._dispatcher = asyncio.get_running_loop().create_task(self._dispatch())

    def wake(self) -> None:
        """Match idle workers with waiting work; the pool calls this when a worker becomes free."""
        self._wake.set()

    async def run(self, work: Work, items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        """Process the items and return their results in order. sizes: characters of each.

        Cancelling a call removes its waiting items; items that wait again because their worker died are
        dropped at their turn. Raises Busy if the queue is full, unless other items of the same request have been let
        in; BadRequest if the items cannot be done.
        """
        if not items:
            return []
        request = admission.get()
        if request is None or not request.is_in:
            self.check_room(len(items))
        if request is not None:
            request.enter()
        loop = asyncio.get_running_loop()
        call = Call(work, now())
        for content, size in zip(items, sizes, strict=True):
            call.items.append(Item(content, 1 + size // _CHARS_A_TOKEN, loop.create_future()))
        futures = [item.result for item in call.items]
        with self.queue.holding(call):
            self.wake()
            try:
                return await asyncio.gather(*futures)
            finally:
                for future in futures:
                    future.cancel()

    def check_room(self, n_items: int) -> None:
        """Raise Busy if the items do not fit into the queue; an empty queue accepts any number."""
        if not self.queue.has_room(n_items):
            n_waiting = self.queue.n_waiting
            wait_s = n_waiting * self.pace.s_per_item
            raise Busy(f"{n_waiting} sentences are waiting; try again in {wait_s:.0f} s", retry_after_s=wait_s)

    async def _dispatch(self) -> None:
        """Give batches to idle workers as long as there are both."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self.queue and self._pool is not None and (idle := self._pool.idle):
                if (pause_s := self._pause_s()) > 0:
                    await self._pause(pause_s)
                    continue
                work, batch = self.queue.take(len(idle), self._share(len(idle)))
                if not batch:
                    continue
                worker = idle[0]
                worker.is_busy = True
                self._working[worker] = len(batch), now()
                task = asyncio.get_running_loop().create_task(self._do(worker, work, batch))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    def _pause_s(self) -> float:
        """Return how long to wait for a fuller batch: until a worker's share of the open requests is in the queue.

        A single client never waits; of many, those whose answers have just gone out are about to come back, so the
        time counts from when a worker became idle.
        """
        assert self._pool is not None
        share = self.queue.n_open // max(1, len(self._pool.workers))
        if self.queue.n_waiting >= share or self.queue.fills_a_batch:
            return 0.0
        idle_since = min(worker.idle_since for worker in self._pool.idle)
        return max(self.queue.oldest, idle_since) + self._linger_s - now()

    async def _pause(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    def _share(self, n_idle: int) -> int:
        """Return each worker's equal share of the items that wait or are in progress.

        Clients that send their next sentence when they have an answer would otherwise come back to one worker all
        together, and leave small batches to the others. Workers that have been at work for long do not count.
        """
        begun = now() - 2 * self.pace.s_per_batch
        recent = [n_items for n_items, since in self._working.values() if since > begun]
        return math.ceil((self.queue.n_waiting + sum(recent)) / (n_idle + len(recent)))

    async def _do(self, worker: Worker, work: Work, batch: list[Item]) -> None:
        """Run a batch in a worker and deliver the results; if the worker dies, put the batch back."""
        assert self._pool is not None
        message: dict[str, Any] = {"work": work.as_json(), "items": [item.content for item in batch]}
        kinds = work.kinds(message["items"])
        if self.retired:
            message["retired"] = [version.as_json() for version in self.retired]
        try:
            has_loaded = kinds <= worker.done
            timeout_s = self._batch_timeout_s if has_loaded else self._first_timeout_s
            # A worker that is loading gets longer: if short deadlines ended it each time, it would never be ready.
            abandoned_s = _ABANDONED_S if has_loaded else self._batch_timeout_s
            async with asyncio.timeout(None) as limit:
                left = asyncio.ensure_future(_limit_once_abandoned(batch, limit, abandoned_s))
                try:
                    answer = await self._pool.ask(worker, message, timeout_s)
                finally:
                    left.cancel()
        except TimeoutError:  # no caller waits for the results
            return
        except WorkerDied as error:
            self._put_back(work, batch, error)
            return
        except Exception as error:
            log_fault("a batch failed", error)
            _fail(batch, Fault(_FAULT))
            return
        finally:
            _, since = self._working.pop(worker)
        self.pace.note(len(batch), now() - since, len(self._pool.workers))
        if "error" not in answer:
            worker.done |= kinds
            for item, result in zip(batch, answer["results"], strict=True):
                if not item.result.done():
                    item.result.set_result(result)
            return
        if answer["error"] == "bundle":
            worker.done -= kinds  # it has unloaded the model, and cannot load it again
        if len(batch) > 1 and answer["error"] in ("data", "request"):  # one may be wrong: let each fail by itself
            for item in batch:
                item.is_alone = True
            self._wait_again(work, batch)
            return
        _fail(batch, _problem(answer, work))

    def _put_back(self, work: Work, batch: list[Item], error: WorkerDied) -> None:
        again = []
        for item in batch:
            item.n_deaths += 1
            item.is_alone |= item.n_deaths == _MOST_DEATHS - 1
            if item.n_deaths < _MOST_DEATHS:
                again.append(item)
            else:
                _fail([item], EndsWorkers(f"this text ended {item.n_deaths} workers: {error}"))
        self._wait_again(work, again)

    def _wait_again(self, work: Work, items: Sequence[Item]) -> None:
        self.queue.put_back(work, items)
        self.wake()

    async def drain(self) -> None:
        """Wait until no item waits or runs."""
        while self.queue or self._running:
            await asyncio.sleep(0.02)

    async def close(self) -> None:
        """Stop giving out work."""
        if self._dispatcher is not None:
            self._dispatcher.cancel()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


async def _limit_once_abandoned(batch: Sequence[Item], limit: asyncio.Timeout, abandoned_s: float) -> None:
    """Wait until all callers of a batch have left, then give its worker abandoned_s seconds to finish."""
    await asyncio.wait([item.result for item in batch])
    limit.reschedule(now() + abandoned_s)


def _fail(items: Sequence[Item], refusal: Refusal) -> None:
    for item in items:
        if not item.result.done():
            item.result.set_exception(refusal)


def _problem(answer: dict[str, Any], work: Work) -> Refusal:
    """Convert a worker's reply to the error that it reports."""
    if answer["error"] in ("data", "request"):
        if not work.terms:
            return BadText(answer["message"])
        return BadRequest(_LINE.sub(lambda line: f"terms[{int(line[1]) - 2}]", answer["message"]))
    if answer["error"] == "bundle":
        log.error(answer["message"])
        return Unready("the model's folder is damaged or being replaced; try again later", retry_after_s=1)
    log.error(f"a worker failed: {answer['message']}")
    return Fault(_FAULT)
