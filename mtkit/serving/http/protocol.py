"""HTTP as uvicorn reads it, with bounds on what comes before a request reaches the application."""

import asyncio
import json
from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

_MOST_BYTES = 65_536  # of a request's head, and of all between two parts of its body
_HEAD_S = 10.0  # that a head may take to arrive


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose request does not begin in time, or has headers without an end.

    uvicorn alone waits indefinitely for the rest of the headers, and keeps all of them.
    """

    _n_bytes_since_progress = 0
    _waits_for_head = True
    _timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a first request."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read some bytes of requests."""
        if self._waits_for_head:
            self._expect_head()
        self._n_bytes_since_progress += len(data)
        super().data_received(data)
        if self._n_bytes_since_progress > _MOST_BYTES and not self.transport.is_closing():
            self._refuse(431, f"the request's headers are longer than {_MOST_BYTES:,} bytes")

    def on_message_begin(self) -> None:
        """See the first byte of a request, maybe right behind another one."""
        self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._n_bytes_since_progress = 0
        self._waits_for_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._n_bytes_since_progress = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request; the next one may follow."""
        self._n_bytes_since_progress = 0
        self._waits_for_head = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, as JSON."""
        self._refuse(400, msg)

    def _expect_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_HEAD_S, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        if self._is_answering():  # the request before
            self._expect_head()
        else:
            self._refuse(408, f"no request came within {_HEAD_S:g} s")

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, message: str) -> None:
        """Answer and close, unless an answer is under way: then close."""
        if self.transport.is_closing():
            return
        if not self._is_answering():
            body = json.dumps({"error": message}).encode()
            headers: dict[str, Any] = {
                "content-type": "application/json",
                "content-length": len(body),
                "connection": "close",
            }
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            self.transport.write(STATUS_LINE[status] + lines.encode() + b"\r\n" + body)
        self.transport.close()
