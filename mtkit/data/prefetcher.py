"""Compute the items of a generator in a thread, ahead of their use."""

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Self, TypeVar

_T = TypeVar("_T")


class Prefetcher(Generic[_T]):
    """An iterator over a generator's items that computes `depth` items ahead in a thread.

    If the generator raises an exception, the iterator raises it in place of the item. `close` ends the thread and the
    generator, after the item in progress.
    """

    def __init__(self, items: Generator[_T, None, None], depth: int) -> None:
        self._items = items
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mtkit-prefetcher")
        self._waiting: deque[Future[_T]] = deque(self._submit() for _ in range(depth))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _T:
        self._waiting.append(self._submit())
        return self._waiting.popleft().result()

    def close(self) -> None:
        """End the thread, then the generator."""
        self._worker.shutdown(cancel_futures=True)
        self._items.close()

    def _submit(self) -> "Future[_T]":
        return self._worker.submit(next, self._items)
