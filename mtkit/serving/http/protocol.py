"""uvicorn's HTTP protocol with limits on time and headers before a request reaches the application."""

import asyncio
import json
from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

_MOST_BYTES = 65_536  # of a request's head, and of all between two parts of its body
_HEAD_S = 10.0  # that a head may take to arrive


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose request does not begin in time or whose headers do not end.

    uvicorn by itself waits indefinitely for the rest of the headers and keeps all of them in memory.
    """

    _n_bytes_since_progress = 0
    _waits_for_head = True
    _timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive bytes of requests."""
        if self._waits_for_head:
            self._expect_head()
        self._n_bytes_since_progress += len(data)
        super().data_received(data)
        if self._n_bytes_since_progress > _MOST_BYTES and not self.transport.is_closing():
            self._refuse(431, f"the request's headers are longer than {_MOST_BYTES:,} bytes")

    def on_message_begin(self) -> None:
        """Note the first byte of a request, which may follow right after another one."""
        self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._n_bytes_since_progress = 0
        self._waits_for_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Receive a part of the body."""
        self._n_bytes_since_progress = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request and wait for the next one."""
        self._n_bytes_since_progress = 0
        self._waits_for_head = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse anything that is not HTTP, with a JSON response."""
        self._refuse(400, msg)

    def _expect_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_HEAD_S, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        if self._is_answering():  # the request before
            self._expect_head()
        else:
            self._refuse(408, f"no request arrived within {_HEAD_S:g} s")

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, message: str) -> None:
        """Respond and close the connection; if a response has begun, only close."""
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
