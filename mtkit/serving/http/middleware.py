"""The checks before all routes: host, origin, size and speed of a request; and the headers of every response."""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mtkit.config.serving import ServeConfig
from mtkit.console import log_fault
from mtkit.serving.dialects.errors import refusal_answer, route_path
from mtkit.serving.refusals import Fault, Forbidden, Refusal, TooLarge, TooSlow, WrongHost

_SLASHES = re.compile("/{2,}")
_SAFE_METHODS = "GET", "HEAD", "OPTIONS"
_SLOWEST = 10_000  # bytes a second that a body must come with, once the deadline of a request has passed
_DISCARD_S = 10.0  # how long we read on what we have refused, so that the client reads why
_BYTES_A_CHAR = 12  # of JSON that escapes all characters, those beyond U+FFFF as two
_FORM_BYTES = 1_000_000  # a request's other fields, and terms of its terminology


class Door:
    """Refuses bad requests before they reach a route, and turns unexpected errors into responses."""

    def __init__(self, app: ASGIApp, cfg: ServeConfig, file_paths: Sequence[str]) -> None:
        """file_paths: prefixes of the paths that accept documents."""
        self._app, self._cfg = app, cfg
        self._file_paths = tuple(file_paths)
        self._is_known = lru_cache(maxsize=256)(_known_hosts(cfg))
        most_chars = 10 * cfg.limits.max_chars
        self._most_bytes = _FORM_BYTES + _BYTES_A_CHAR * most_chars
        self._most_bytes_of_a_file = _FORM_BYTES + round(cfg.limits.max_file_mb * 1e6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        routed = as_routed(scope)
        headers = Headers(scope=scope)
        path = route_path(routed)
        is_file = path.startswith(self._file_paths)
        body = _Body(
            receive, self._most_bytes_of_a_file if is_file else self._most_bytes, self._cfg.limits.deadline_s, headers
        )
        is_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal is_started
            if message["type"] == "http.response.start":
                is_started = True
                await body.discard()
                _complete(MutableHeaders(raw=message["headers"]), body.is_cut)
            await send(message)

        try:
            if refusal := self._refusal(scope, headers) or body.refusal():
                await refusal_answer(path, refusal)(scope, body.receive, send_with_headers)
            else:
                await self._app(routed, body.receive, send_with_headers)
        except Exception as error:
            log_fault(f"request {scope.get('request_id')} failed", error, with_text=self._cfg.log_text)
            if is_started:
                raise RuntimeError("the response was cut off by an error") from None  # the server closes the connection
            fault = Fault("the service failed; its log says why")
            await refusal_answer(path, fault)(scope, body.receive, send_with_headers)
        finally:
            scope["route"] = routed.get("route")  # for the metrics

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_known(host):
            return WrongHost(
                f"{_name_in(host)[:100]} is not a host name of this service; its operator can add it to the "
                f"setting `hosts`"
            )
        if scope["method"] not in _SAFE_METHODS and origin and not self._may_call(origin, host, headers):
            return Forbidden(
                "pages of this origin may not call the service; its operator can add the origin to the setting `cors`"
            )
        return None

    def _may_call(self, origin: str, host: str, headers: Headers) -> bool:
        """Return whether an origin may call the service: itself, a listed one, or no web page but an extension."""
        if headers.get("sec-fetch-site") == "same-origin" or {origin, "*"}.intersection(self._cfg.cors):
            return True
        try:
            scheme, netloc, *_ = urlsplit(origin)
        except ValueError:
            return False
        return netloc == host if scheme in ("http", "https") else origin != "null"


def as_routed(scope: Scope) -> Scope:
    """Return the scope of a request as routes know it.

    HEAD is answered like GET; the server leaves the body out. Clients that join an address with a final slash and a
    path send "//translate".
    """
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    return {**scope, "method": method, "path": _SLASHES.sub("/", scope["path"])}


class _Body:
    """A request's body as it arrives, within limits."""

    def __init__(self, receive: Receive, most_bytes: int, seconds: float, headers: Headers) -> None:
        self._receive, self._most_bytes, self._seconds, self._headers = receive, most_bytes, seconds, headers
        self._until = time.monotonic() + seconds  # the clock of asyncio
        self._n_bytes = 0
        self._is_read = False
        self._is_late = False
        self.is_cut = False

    def refusal(self) -> Refusal | None:
        """Return the refusal if the length that the client declares is over the limit."""
        length = self._headers.get("content-length", "")
        return self._too_large() if length.isdecimal() and int(length[:20]) > self._most_bytes else None

    async def receive(self) -> Message:
        """Return the next part. Raises TooLarge or TooSlow."""
        if self._is_read:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until + self._n_bytes / _SLOWEST):
                message = await self._receive()
        except TimeoutError:
            self.is_cut = self._is_late = True
            raise TooSlow(f"the request did not arrive in full within {self._seconds:g} s") from None
        self._n_bytes += len(message.get("body", b""))
        self._is_read = not message.get("more_body", False)
        if self._n_bytes > self._most_bytes:
            raise self._too_large()
        return message

    def _too_large(self) -> TooLarge:
        self.is_cut = True
        return TooLarge(f"the request is longer than {self._most_bytes:,} bytes")

    async def discard(self) -> None:
        """Read the rest of a refused body for a while, because clients read no response before they have sent all.

        A client that waits for our consent (Expect: 100-continue) sends nothing; a slow one probably also not.
        """
        if not self.is_cut or self._is_late or "expect" in self._headers:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_S):
                while not self._is_read:
                    self._is_read = not (await self._receive()).get("more_body", False)


def _complete(headers: MutableHeaders, is_cut: bool) -> None:
    """Add the headers of every response. is_cut: part of the request is unread, so the connection must close."""
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "no-referrer"
    if is_cut:
        headers["Connection"] = "close"


def _known_hosts(cfg: ServeConfig) -> Callable[[str], bool]:
    """Return a function that checks whether a Host header names this service.

    A page of the web can let its own name mean 127.0.0.1, and then read what a service there answers; the name is in
    the Host header. Addresses are safe, as they cannot be made to mean another machine.
    """
    names = {name.lower() for name in cfg.hosts}
    if "*" in names or (not names and not cfg.is_local):
        return lambda host: True
    names |= {"", "localhost", cfg.host.lower()}  # "": old clients send none; browsers always do

    def is_known(host: str) -> bool:
        name = _name_in(host)
        if name in names or name.endswith(".localhost"):
            return True
        with suppress(ValueError):
            ip_address(name.strip("[]"))
            return True
        return False

    return is_known


def _name_in(host: str) -> str:
    """Return a Host header without its port, in lower case."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower().rstrip(".")
