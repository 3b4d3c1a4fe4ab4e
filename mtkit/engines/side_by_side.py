"""Process several batches at the same time, each in its own thread."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from functools import cache
from typing import TypeVar

import torch

_T = TypeVar("_T")


def in_one_thread(work: Callable[[list[int]], _T]) -> Callable[[list[int]], _T]:
    """Wrap work so that torch uses one thread for it."""

    def working(batch: list[int]) -> _T:
        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return work(batch)
        finally:
            torch.set_num_threads(n_threads)

    return working


def in_threads(work: Callable[[list[int]], _T], batches: list[list[int]], n_at_once: int) -> Iterator[_T]:
    """Yield work(batch) of each batch as it is done, of n_at_once batches at a time; the last are begun first."""
    n_threads = torch.get_num_threads()

    def in_its_thread(batch: list[int]) -> _T:
        torch.set_num_threads(n_threads // n_at_once)  # for this thread, and those that start meanwhile
        return work(batch)

    tasks = [_pool(n_threads).submit(in_its_thread, batch) for batch in reversed(batches)]  # the longest first
    try:
        for task in as_completed(tasks):
            yield task.result()
    finally:
        for task in tasks:
            task.cancel()
        wait(tasks)
        torch.set_num_threads(n_threads)


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="mtkit-decoder")
