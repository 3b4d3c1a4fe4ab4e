"""Serve until a signal ends it: SIGTERM and Ctrl-C finish what has been accepted, SIGHUP looks for new models."""

import asyncio
import signal
from contextlib import suppress

import uvicorn

from mtkit.config.serving import ServeConfig
from mtkit.console import log
from mtkit.errors import MtkitError
from mtkit.serving.app import create_app
from mtkit.serving.backend import Backend

_BACKLOG = 2048  # connections that the system keeps for us


def serve(cfg: ServeConfig) -> None:
    """Serve until a signal ends it. Raises MtkitError if the service cannot start."""
    asyncio.run(_serve(cfg))


async def _serve(cfg: ServeConfig) -> None:
    backend = Backend.from_config(cfg)
    settings = uvicorn.Config(
        create_app(backend),
        host=cfg.host,
        port=cfg.port,
        log_level="warning",
        access_log=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=int(cfg.limits.deadline_s) + 1,
        server_header=False,
    )
    server = _Server(settings)
    with suppress(NotImplementedError, AttributeError):  # not on Windows
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, lambda: loop.create_task(backend.service.reload()))
    await server.serve()
    if not server.started:
        raise MtkitError(f"the service did not start; is the port {cfg.port} of {cfg.host} free?")


class _Server(uvicorn.Server):
    """A server that says where it listens."""

    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        if self.started:
            [*_, port] = [socket.getsockname()[1] for server in self.servers for socket in server.sockets]
            log.info(f"serving at http://{self.config.host}:{port}")
