"""An iterator in, the same items out, made ahead of their use by a thread."""

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

_T = TypeVar("_T")


class Ahead(Generic[_T]):
    """The items of a generator, of which `depth` are made while the one before them is in use.

    What the generator raises is raised when that item's turn comes. Close it (it is a context manager) to end thread
    and generator; an item that is being made is waited for.
    """

    def __init__(self, items: Generator[_T, None, None], depth: int) -> None:
        self._items = items
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mtkit-ahead")
        self._waiting: deque[Future[_T]] = deque(self._ask() for _ in range(depth))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _T:
        self._waiting.append(self._ask())
        return self._waiting.popleft().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the thread, then the generator."""
        self._worker.shutdown(cancel_futures=True)
        self._items.close()

    def _ask(self) -> "Future[_T]":
        return self._worker.submit(next, self._items)
