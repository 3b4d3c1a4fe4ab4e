"""The queue of sentences of many requests: bounded, and fair between requests."""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mtkit.config.serving import QueueConfig
from mtkit.serving.workers.work import Work


def now() -> float:
    """Return the time on the event loop's clock, in seconds."""
    return asyncio.get_running_loop().time()


@dataclass(eq=False)
class Item:
    """A piece of work and the destination of its result."""

    content: Any
    n_tokens: int
    result: asyncio.Future[Any]
    n_deaths: int = 0  # of workers that had it
    is_alone: bool = False  # in its batch, as it may be what is wrong with it


@dataclass(eq=False)
class Call:
    """The waiting items of one `run`."""

    work: Work
    arrived: float
    items: deque[Item] = field(default_factory=deque)


class Admission:
    """A request that is entering the queue. Once it has entered its first sentences, the queue accepts all others."""

    def __init__(self, on_the_way: set["Admission"]) -> None:
        """on_the_way: the requests whose texts are about to arrive."""
        self._on_the_way = on_the_way
        self.is_in = False  # whether sentences of it have been let in

    def approach(self) -> None:
        """Note that its texts have arrived."""
        if not self.is_in:
            self._on_the_way.add(self)

    def enter(self) -> None:
        """Admit the request."""
        self.is_in = True
        self._on_the_way.discard(self)

    def end(self) -> None:
        """Remove the request."""
        self._on_the_way.discard(self)


admission: ContextVar[Admission | None] = ContextVar("admission", default=None)  # of the request that is being answered


@contextmanager
def let_in() -> Iterator[None]:
    """Admit all requests made in the block, even if the queue is full."""
    request = Admission(set())
    request.enter()
    before = admission.set(request)
    try:
        yield
    finally:
        admission.reset(before)


class Queue:
    """Items that wait for a worker. Requests take turns, one item each, so that long ones do not delay short ones."""

    def __init__(self, cfg: QueueConfig) -> None:
        self._cfg = cfg
        self._waiting: OrderedDict[Call, None] = OrderedDict()  # in the order of their turns
        self.n_waiting = 0  # items
        self.n_open = 0  # calls that are not done

    def __bool__(self) -> bool:
        """Whether a call waits."""
        return bool(self._waiting)

    def has_room(self, n_items: int) -> bool:
        """Whether the queue has space for the items; an empty queue accepts any number."""
        return not self.n_waiting or self.n_waiting + n_items <= self._cfg.max_sentences

    @contextmanager
    def holding(self, call: Call) -> Iterator[None]:
        """Hold the items of a call until they are taken, or until the end of the block."""
        self.n_open += 1
        self._waiting[call] = None
        self.n_waiting += len(call.items)
        try:
            yield
        finally:
            self.n_open -= 1
            self.n_waiting -= len(call.items)
            call.items.clear()
            self._waiting.pop(call, None)

    def put_back(self, work: Work, items: Sequence[Item]) -> None:
        """Put items at the front of the queue."""
        for item in reversed(items):
            if item.result.done():  # abandoned
                continue
            call = Call(work, now(), deque([item]))
            self._waiting[call] = None
            self._waiting.move_to_end(call, last=False)
            self.n_waiting += 1

    @property
    def oldest(self) -> float:
        """The arrival time of the call that has waited longest."""
        return min(call.arrived for call in self._waiting)

    @property
    def fills_a_batch(self) -> bool:
        """Whether the waiting items have enough tokens for a batch."""
        n_tokens = 0
        for call in self._waiting:
            n_tokens += sum(item.n_tokens for item in call.items)
            if n_tokens >= self._cfg.batch_tokens:
                return True
        return False

    def take(self, n_idle: int, share: int) -> tuple[Work, list[Item]]:
        """Take the next batch of the kind of work whose turn it is, one item of each request in turn; it may be empty.

        The idle workers share the items, so that none gets everything while another has nothing to do.
        share: the most items.
        """
        work = next(iter(self._waiting)).work
        alike = [call for call in self._waiting if call.work == work]
        n_items = sum(len(call.items) for call in alike)
        most = min(math.ceil(n_items / n_idle), share)
        batch: list[Item] = []
        n_tokens = 0
        while alike and len(batch) < most and n_tokens < self._cfg.batch_tokens:
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
