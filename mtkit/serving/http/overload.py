"""Refuse requests before reading them while the queue is full, so that a refusal costs next to nothing."""

from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mtkit.serving.dialects.errors import refusal_answer, route_path
from mtkit.serving.refusals import Busy
from mtkit.serving.workers.batcher import Batcher
from mtkit.serving.workers.queue import Admission, admission


class RefuseWhenFull:
    """Middleware that responds with 503 while the queue is full.

    The queue itself would refuse too, but only after parsing the request and splitting its text. Under overload
    that wasted work takes processor time from the requests that are served.
    """

    def __init__(self, app: ASGIApp, batcher: Batcher, paths: Collection[str]) -> None:
        """paths: those that translate immediately."""
        self._app = app
        self._batcher = batcher
        self._paths = paths
        self._on_the_way: set[Admission] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with 503, or pass the request to the application."""
        if scope["type"] != "http" or scope["method"] != "POST" or (path := route_path(scope)) not in self._paths:
            await self._app(scope, receive, send)
            return
        try:
            self._batcher.check_room(len(self._on_the_way) + 1)
        except Busy as busy:
            await refusal_answer(path, busy)(scope, receive, send)
            return
        request = Admission(self._on_the_way)

        async def receive_and_note() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                request.approach()  # not before: clients that send slowly must not keep others out
            return message

        before = admission.set(request)
        try:
            await self._app(scope, receive_and_note, send)
        finally:
            admission.reset(before)
            request.end()
