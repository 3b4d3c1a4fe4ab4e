"""Run blocking work in a thread, and wait for its end even if the request that needs it is cancelled."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def run_to_end(work: Callable[[], _T]) -> _T:
    """Run work in a thread and return its result.

    A cancelled caller waits until the work is done, because the thread cannot be stopped, and the caller may delete the
    files that it writes.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    finally:
        await asyncio.wait((task,))
