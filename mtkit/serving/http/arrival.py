"""Read what a proxy tells about each request, give it an id, count it, and write it to the access log."""

import logging
import re
import secrets
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from mtkit.config.serving import PREFIX, ServeConfig
from mtkit.console import log
from mtkit.serving.http.metrics import Metrics

_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)  # that a proxy may choose; it is written to the log
_PREFIX = re.compile(PREFIX)


class Arrival:
    """The outermost middleware. Only listed proxies may set which client, prefix and id a request has."""

    def __init__(self, app: ASGIApp, cfg: ServeConfig, metrics: Metrics) -> None:
        self._app, self._cfg, self._metrics = app, cfg, metrics
        self._behind: Any = None
        if cfg.proxies:
            self._behind = ProxyHeadersMiddleware(self._count, cfg.proxies)  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        id, prefix = "", self._cfg.prefix
        if self._behind is not None and (scope.get("client") or ("",))[0] in self._behind.trusted_hosts:
            headers = Headers(scope=scope)
            id = headers.get("x-request-id", "")
            forwarded = headers.get("x-forwarded-prefix", "").rstrip("/")
            if _PREFIX.fullmatch(forwarded):  # which the proxy has removed from the path
                prefix, scope["path"] = forwarded, forwarded + scope["path"]
        scope["request_id"] = id if id and _ID.fullmatch(id) else secrets.token_hex(8)
        if prefix and not _add_prefix(scope, prefix):
            await RedirectResponse(f"{prefix}/")(scope, receive, send)
            return
        await (self._behind or self._count)(scope, receive, send)

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, then count it and log it."""
        status, start = 500, time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", scope["request_id"].encode())]
            await send(message)

        with self._metrics.in_flight():
            try:
                await self._app(scope, receive, send_with_id)
            finally:
                seconds = time.perf_counter() - start
                route = self._metrics.note(scope, status, seconds)
                if self._cfg.access_log or status == 500:
                    client = (scope.get("client") or ("-",))[0]
                    level = logging.ERROR if status == 500 else logging.INFO
                    log.log(level, f"{client} {route} {status} {1000 * seconds:.1f} ms {scope['request_id']}")


def _add_prefix(scope: MutableMapping[str, Any], prefix: str) -> bool:
    """Tell the application its prefix, as ASGI does it; return False for the prefix without a slash behind it.

    Links of the page are relative, so its address must end in a slash. A request that comes without the prefix, for
    example from a check of health on this machine, is served, too.
    """
    path = scope["path"]
    if path == prefix:
        return False
    scope["root_path"] = prefix
    scope["path"] = path if path.startswith(f"{prefix}/") else prefix + path
    return True
