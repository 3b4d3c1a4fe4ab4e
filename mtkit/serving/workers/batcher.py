"""Sentences of many requests in, batches for the workers out: bounded, fair between requests, undone when abandoned."""

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mtkit.config.serving import QueueConfig
from mtkit.console import log, log_fault
from mtkit.serving.refusals import BadRequest, Busy, EndsWorkers, Fault, Refusal, Unready
from mtkit.serving.workers.pool import Pool, Worker, WorkerDied
from mtkit.serving.workers.work import ModelVersion, Work

_MOST_DEATHS = 3  # of workers that had an item; the last of them had nothing else
_CHARS_A_TOKEN = 4
_FAULT = "the service failed on this text; its log says why"
_LINGER_S = 0.01  # longest wait for a fuller batch, once a sentence waits and a worker is idle
_ABANDONED_S = 2.0  # about what a new worker takes to load a model: to wait longer for the old one would not pay
_MEMORY = 0.9  # weight of the past in averages


@dataclass(eq=False)
class _Item:
    """A piece of work, and where its result goes."""

    content: Any
    n_tokens: int
    result: asyncio.Future[Any]
    n_deaths: int = 0  # of workers that had it
    is_alone: bool = False  # in its batch, as it may be what is wrong with it


@dataclass(eq=False)
class _Call:
    """The items of one `run` that wait."""

    work: Work
    arrived: float
    items: deque[_Item] = field(default_factory=deque)


class Admission:
    """A request on its way into the queue. Once its first sentences are in, its others find room, too."""

    def __init__(self, on_the_way: set["Admission"]) -> None:
        """on_the_way: the requests whose texts are about to come."""
        self._on_the_way = on_the_way
        self.is_in = False  # whether sentences of it have been let in

    def approach(self) -> None:
        """Note that its texts have arrived."""
        if not self.is_in:
            self._on_the_way.add(self)

    def enter(self) -> None:
        """Let it in."""
        self.is_in = True
        self._on_the_way.discard(self)

    def end(self) -> None:
        """Forget it."""
        self._on_the_way.discard(self)


admission: ContextVar[Admission | None] = ContextVar("admission", default=None)  # of the request that is being answered


class Batcher:
    """Puts what many requests want into batches, and the results back in their places.

    Requests take turns, a sentence each, so that a long one does not hold up the short ones behind it.
    """

    def __init__(
        self,
        cfg: QueueConfig,
        batch_timeout_s: float,
        first_timeout_s: float | None = None,
        *,
        linger_s: float = _LINGER_S,
    ) -> None:
        """batch_timeout_s: after which a worker counts as hung, and is replaced.

        first_timeout_s: the same for the first batch of its kind, for which a worker may have to load a model.
        linger_s: the longest wait for a fuller batch.
        """
        self._cfg = cfg
        self._linger_s = linger_s
        self._batch_timeout_s = batch_timeout_s
        self._first_timeout_s = first_timeout_s or batch_timeout_s
        self._waiting: OrderedDict[_Call, None] = OrderedDict()  # in the order of their turns
        self._wake = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._dispatcher: asyncio.Task[None] | None = None
        self._pool: Pool | None = None
        self.n_open = 0  # calls of `run` that are not done
        self._s_per_item = 0.05  # averaged; of all workers together
        self.retired: list[ModelVersion] = []  # versions that workers should drop
        self.n_waiting = 0
        self._working: dict[Worker, tuple[int, float]] = {}  # how many items they have, and since when
        self._s_per_batch = 0.1  # averaged
        self.n_batches = 0
        self.n_items = 0

    def start(self, pool: Pool) -> None:
        """Begin to hand work to the pool."""
        self._pool = pool
        self._dispatcher = asyncio.get_running_loop().create_task(self._dispatch())

    def wake(self) -> None:
        """Look for a worker and for work; the pool calls it when a worker is free."""
        self._wake.set()

    async def run(
        self, work: Work, items: Sequence[Any], sizes: Sequence[int], *, also_if_full: bool = False
    ) -> list[Any]:
        """Return the results of items, in order. sizes: characters of each.

        A call that is cancelled takes its waiting items with it; those that wait again, as their worker has died, are
        dropped at their turn. Raises Busy if the queue is full, unless other items of the same request have been let
        in; BadRequest if the items cannot be done.
        """
        if not items:
            return []
        request = admission.get()
        if not also_if_full and (request is None or not request.is_in):
            self.check_room(len(items))
        if request is not None:
            request.enter()
        loop = asyncio.get_running_loop()
        call = _Call(work, time.monotonic())
        for content, size in zip(items, sizes, strict=True):
            call.items.append(_Item(content, 1 + size // _CHARS_A_TOKEN, loop.create_future()))
        futures = [item.result for item in call.items]
        with self._open(call):
            try:
                return await asyncio.gather(*futures)
            finally:
                for future in futures:
                    future.cancel()

    def check_room(self, n_items: int) -> None:
        """Raise Busy if so many items would not fit into the queue; an empty queue takes any number."""
        if self.n_waiting and self.n_waiting + n_items > self._cfg.max_sentences:
            wait_s = self.n_waiting * self._s_per_item
            raise Busy(f"{self.n_waiting} sentences are waiting: try again in {wait_s:.0f} s", retry_after_s=wait_s)

    @contextmanager
    def _open(self, call: _Call) -> Iterator[None]:
        self.n_open += 1
        self._waiting[call] = None
        self.n_waiting += len(call.items)
        self.wake()
        try:
            yield
        finally:
            self.n_open -= 1
            self.n_waiting -= len(call.items)
            call.items.clear()
            self._waiting.pop(call, None)

    async def _dispatch(self) -> None:
        """Hand batches to idle workers as long as there are both."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting and self._pool is not None and (idle := self._pool.idle):
                if (pause_s := self._pause_s()) > 0:
                    await self._pause(pause_s)
                    continue
                work, batch = self._take(len(idle))
                if not batch:
                    continue
                worker = idle[0]
                worker.is_busy = True
                self._working[worker] = len(batch), time.monotonic()
                task = asyncio.get_running_loop().create_task(self._do(worker, work, batch))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    def _pause_s(self) -> float:
        """Return how long to wait for a fuller batch: until a worker's share of the open requests waits.

        A single client never waits; of many, those whose answers have just gone out are about to come back, so the
        time counts from when a worker became idle.
        """
        assert self._pool is not None
        share = self.n_open // max(1, len(self._pool.workers))
        if self.n_waiting >= share or self._is_full():
            return 0.0
        oldest = min(call.arrived for call in self._waiting)
        idle_since = min(worker.idle_since for worker in self._pool.idle)
        return max(oldest, idle_since) + self._linger_s - time.monotonic()

    def _is_full(self) -> bool:
        n_tokens = 0
        for call in self._waiting:
            n_tokens += sum(item.n_tokens for item in call.items)
            if n_tokens >= self._cfg.batch_tokens:
                return True
        return False

    async def _pause(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    def _take(self, n_idle: int) -> tuple[Work, list[_Item]]:
        """Take the next batch: of the work whose turn it is, a sentence of each request in turn.

        The idle workers share what waits, so that none gets everything while another has nothing to do.
        """
        work = next(iter(self._waiting)).work
        alike = [call for call in self._waiting if call.work == work]
        n_items = sum(len(call.items) for call in alike)
        most = min(math.ceil(n_items / n_idle), self._share(n_idle))
        batch: list[_Item] = []
        n_tokens = 0
        while alike and len(batch) < most and (not batch or n_tokens < self._cfg.batch_tokens):
            call = alike.pop(0)
            if batch and call.items[0].is_alone:
                break
            item = call.items.popleft()
            self.n_waiting -= 1
            self._waiting.pop(call)
            if call.items:
                alike.append(call)
                self._waiting[call] = None
            if item.result.done():
                continue
            batch.append(item)
            n_tokens += item.n_tokens
            if item.is_alone:
                break
        return work, batch

    def _share(self, n_idle: int) -> int:
        """Return how many items are an equal part for each worker, of those that wait and those that are being done.

        Clients that send their next sentence when they have an answer would otherwise come back to one worker all
        together, and leave small batches to the others. Workers that have been at work for long do not count.
        """
        begun = time.monotonic() - 2 * self._s_per_batch
        recent = [n_items for n_items, since in self._working.values() if since > begun]
        return math.ceil((self.n_waiting + sum(recent)) / (n_idle + len(recent)))

    async def _do(self, worker: Worker, work: Work, batch: list[_Item]) -> None:
        """Have a worker do a batch, and hand out the results; if it dies, put the batch back."""
        assert self._pool is not None
        message: dict[str, Any] = {"work": work.as_json(), "items": [item.content for item in batch]}
        if self.retired:
            message["retired"] = [version.as_json() for version in self.retired]
        try:
            timeout_s = self._batch_timeout_s if work.kind in worker.done else self._first_timeout_s
            async with asyncio.timeout(None) as limit:
                left = asyncio.ensure_future(_limit_once_abandoned(batch, limit))
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
        seconds = time.monotonic() - since
        s_per_item = seconds / max(1, len(batch)) / max(1, len(self._pool.workers))
        self._s_per_item = _MEMORY * self._s_per_item + (1 - _MEMORY) * s_per_item
        self._s_per_batch = _MEMORY * self._s_per_batch + (1 - _MEMORY) * seconds
        self.n_batches += 1
        self.n_items += len(batch)
        if "error" not in answer:
            worker.done.add(work.kind)
            for item, result in zip(batch, answer["results"], strict=True):
                if not item.result.done():
                    item.result.set_result(result)
            return
        if len(batch) > 1 and answer["error"] in ("data", "request"):  # one may be wrong: let each fail by itself
            for item in batch:
                item.is_alone = True
            self._wait_again(work, batch)
            return
        _fail(batch, _problem(answer))

    def _put_back(self, work: Work, batch: list[_Item], error: WorkerDied) -> None:
        again = []
        for item in batch:
            item.n_deaths += 1
            item.is_alone |= item.n_deaths == _MOST_DEATHS - 1
            if item.n_deaths < _MOST_DEATHS:
                again.append(item)
            else:
                _fail([item], EndsWorkers(f"this text ended {item.n_deaths} workers: {error}"))
        self._wait_again(work, again)

    def _wait_again(self, work: Work, items: Sequence[_Item]) -> None:
        """Put items in front of all that wait."""
        for item in reversed(items):
            if item.result.done():  # abandoned
                continue
            call = _Call(work, time.monotonic(), deque([item]))
            self._waiting[call] = None
            self._waiting.move_to_end(call, last=False)
            self.n_waiting += 1
        self.wake()

    async def drain(self) -> None:
        """Wait until nothing waits and nothing runs."""
        while self._waiting or self._running:
            await asyncio.sleep(0.02)

    async def close(self) -> None:
        """Stop handing out work."""
        if self._dispatcher is not None:
            self._dispatcher.cancel()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


async def _limit_once_abandoned(batch: Sequence[_Item], limit: asyncio.Timeout) -> None:
    """Wait until all callers of a batch have left; then give its worker a last moment to finish."""
    await asyncio.wait([item.result for item in batch])
    limit.reschedule(asyncio.get_running_loop().time() + _ABANDONED_S)


def _fail(items: Sequence[_Item], refusal: Refusal) -> None:
    for item in items:
        if not item.result.done():
            item.result.set_exception(refusal)


def _problem(answer: dict[str, Any]) -> Refusal:
    """Return the error that a worker's answer stands for."""
    if answer["error"] in ("data", "request"):
        return BadRequest(answer["message"])
    if answer["error"] == "bundle":
        log.error(answer["message"])
        return Unready("the model's folder is damaged, or being replaced: try again later", retry_after_s=1)
    log.error(f"a worker failed: {answer['message']}")
    return Fault(_FAULT)
