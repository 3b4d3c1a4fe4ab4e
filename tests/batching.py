"""A batcher over workers that are coroutines, for its tests."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from mtkit.config.serving import QueueConfig
from mtkit.serving.workers.batcher import Batcher
from mtkit.serving.workers.work import ModelVersion, Work

EN_FR, EN_DE = (Work("translate", ModelVersion(Path(name), "1")) for name in ("en-fr", "en-de"))
Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class _Jumps(selectors.DefaultSelector):
    """A selector that does not wait: the time jumps to when something happens."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everything waits, and nothing will ever happen"
        self.now += max(0.0, timeout)
        return super().select(0)


class _OwnClock(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still while there is something to do."""

    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.now


def simulated(scenario: Coroutine[Any, Any, Any]) -> Any:
    """What the scenario returns. Its time is simulated, so that it does not depend on how busy the machine is."""
    with asyncio.Runner(loop_factory=_OwnClock) as runner:
        return runner.run(scenario)


async def translated(message):
    """What a worker answers: each item with its model's name."""
    return {"results": [f"{message['work']['model'][0]}: {item}" for item in message["items"]]}


def translated_after(hold: asyncio.Event) -> Answer:
    """What a worker answers that waits for an event."""

    async def answer(message):
        await hold.wait()
        return await translated(message)

    return answer


class FakeWorker:
    """A worker that has nothing to do."""

    def __init__(self) -> None:
        self.is_busy = False
        self.idle_since = 0.0
        self.done: set[Any] = set()


class FakePool:
    """Workers that answer by a coroutine; a worker that dies is replaced at once."""

    def __init__(self, n_workers: int, answer: Answer, batcher: Batcher) -> None:
        self.workers: list[Any] = [FakeWorker() for _ in range(n_workers)]
        self._answer, self._batcher = answer, batcher
        self.batches: list[list[Any]] = []
        self.timeouts_s: list[float] = []

    @property
    def idle(self):
        return [worker for worker in self.workers if not worker.is_busy]

    async def ask(self, worker, message, timeout_s):
        self.batches.append(message["items"])
        self.timeouts_s.append(timeout_s)
        try:
            return await self._answer(message)
        finally:
            worker.is_busy = False
            worker.idle_since = asyncio.get_running_loop().time()
            self._batcher.wake()


def started(
    answer: Answer = translated, n_workers: int = 1, linger_ms: float = 10, **queue: Any
) -> tuple[Batcher, FakePool]:
    batcher = Batcher(QueueConfig(**queue), 10.0, linger_s=linger_ms / 1000)
    pool = FakePool(n_workers, answer, batcher)
    batcher.start(pool)  # type: ignore[arg-type]
    return batcher, pool


async def run(batcher: Batcher, items: Sequence[Any], work: Work = EN_FR) -> list[Any]:
    return await batcher.run(work, items, [len(str(item)) for item in items])
