"""Refuse requests at the door while the queue is full: before they are read, so that refusing costs next to nothing."""

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from mtkit.serving.dialects.errors import refusal_answer
from mtkit.serving.refusals import Busy
from mtkit.serving.workers.batcher import Batcher


class RefuseWhenFull:
    """Middleware: answers 503 while the queue is full.

    The queue itself would answer the same, after the request was parsed and its text cut into sentences. Under overload
    that work for nothing takes processor time from the requests that are served.
    """

    def __init__(self, app: ASGIApp, batcher: Batcher, paths: Collection[str]) -> None:
        """paths: those that translate at once."""
        self._app = app
        self._batcher = batcher
        self._paths = paths
        self._n_inside = 0  # requests that we let in, and that are not answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 503, or let the application answer."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in self._paths:
            await self._app(scope, receive, send)
            return
        try:
            n_on_the_way = max(0, self._n_inside - self._batcher.n_open)  # let in, but not in the queue yet
            self._batcher.check_room(n_on_the_way + 1)
        except Busy as busy:
            await refusal_answer(scope["path"], busy)(scope, receive, send)
            return
        self._n_inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._n_inside -= 1
