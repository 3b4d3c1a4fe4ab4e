"""Cancel the work for a client that has disconnected."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import Request

_T = TypeVar("_T")


class ClientLeft(Exception):
    """The client closed the connection before its answer was ready."""


async def unless_left(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Await the work and return its result; cancel it if the client leaves. The request's body must have been read.

    Raises ClientLeft.
    """
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeft
        return task.result()
    finally:
        for one in (task, leaving):
            one.cancel()
        with suppress(asyncio.CancelledError):
            await leaving


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def all_of(calls: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run the calls together and return their results; if one fails, cancel the others."""
    if len(calls) == 1:
        return [await calls[0]]
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
