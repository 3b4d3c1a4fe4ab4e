"""Run the server: SIGTERM and Ctrl-C finish the accepted requests and stop, SIGHUP reloads the models."""

import asyncio
import errno
import gc
import logging
import math
import signal
import socket
import sys
from contextlib import suppress

import uvicorn

from mtkit.config.serving import ServeConfig
from mtkit.console import log, set_up_logging
from mtkit.errors import MtkitError
from mtkit.serving.backend import Backend
from mtkit.serving.http.accepting import Acceptor
from mtkit.serving.http.app import create_app
from mtkit.serving.http.protocol import BoundedProtocol

_BACKLOG = 2048  # connections that the system keeps for us
_STOP_S = 2  # for the answers of requests whose deadline passes during the shutdown
_MOST_YOUNG = 10_000  # objects before Python looks for cycles among them
_KEEP_ALIVE_S = 75  # of an idle connection; longer than proxies keep theirs, so that none uses one that we are closing
_REMEDIES: dict[int | None, str] = {  # by the system's number of the error
    errno.EADDRINUSE: "choose a free port with --port, or stop the program that uses this one",
    errno.EACCES: "choose a port above 1023 with --port, because lower ones need special rights",
}


def serve(cfg: ServeConfig) -> None:
    """Run the server until a signal stops it. Raises MtkitError if the service cannot start."""
    _check_address(cfg.host, cfg.port)  # before the models are loaded, which takes long
    set_up_logging(quiet=not log.isEnabledFor(logging.INFO), with_times=True)
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it warns of each byte of a wrong form
    backend = Backend.from_config(cfg)
    settings = uvicorn.Config(
        create_app(backend),
        host=cfg.host,
        port=cfg.port,
        log_level="error",  # errors of clients would fill the log
        access_log=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=math.ceil(cfg.limits.deadline_s) + _STOP_S,
        server_header=False,
        http=BoundedProtocol,
        ws="none",
        proxy_headers=False,  # the application reads them
    )
    server = _Server(settings, backend)
    with asyncio.Runner(loop_factory=settings.get_loop_factory()) as runner:  # that of uvloop, if it is installed
        try:
            runner.run(_serve(backend, server))
        except KeyboardInterrupt:
            if not server.started:  # else it has ended as it should, and uvicorn has raised the signal again
                raise


async def _serve(backend: Backend, server: "_Server") -> None:
    with suppress(NotImplementedError, AttributeError):  # not on Windows
        reloading: set[asyncio.Task[None]] = set()  # the loop alone would let go of them

        def reload() -> None:
            reloading.add(task := asyncio.get_running_loop().create_task(backend.service.reload()))
            task.add_done_callback(reloading.discard)

        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    await backend.service.start()  # here, as uvicorn would answer a failure by a traceback
    try:
        await server.serve()
    except SystemExit:  # by uvicorn, which could not listen, or by a signal
        if server.started:
            raise
    if not server.started:  # uvicorn has ended what `create_app` started
        raise MtkitError(
            f"cannot listen at {backend.cfg.host}, port {backend.cfg.port}: the server did not start; choose another "
            "address with --host, or another port with --port"
        )


def _check_address(host: str, port: int) -> None:
    """Raise MtkitError if the server could not listen there."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError as error:  # a name such as "a..b"
        raise _unusable(host, port, OSError(errno.EINVAL, "this is not a host name")) from error
    except OSError as error:
        raise _unusable(host, port, error) from error
    errors = []
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as probe:
                if sys.platform != "win32":  # where it would let two programs listen
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
        except OSError as error:
            errors.append(error)
    # a host may have one address that works and one, such as that of IPv6, that does not
    if worst := [e for e in errors if e.errno in _REMEDIES or len(errors) == len(addresses)]:
        raise _unusable(host, port, worst[0]) from worst[0]


def _unusable(host: str, port: int, error: OSError) -> MtkitError:
    remedy = _REMEDIES.get(error.errno, "choose an address of this machine with --host")
    return MtkitError(f"cannot listen at {host}, port {port}: {error.strerror}; {remedy}")


def url_of(host: str, port: int) -> str:
    """Return the URL of a server, with an IPv6 address in brackets (RFC 3986, section 3.2.2)."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """A server that logs its address and accepts new clients even under load."""

    def __init__(self, settings: uvicorn.Config, backend: Backend) -> None:
        super().__init__(settings)
        self._backend = backend
        self._acceptor = Acceptor(self._protocol)

    def _protocol(self) -> asyncio.Protocol:
        """Return the protocol that reads a connection, as uvicorn makes it."""
        return BoundedProtocol(self.config, self.server_state, self.lifespan.state)

    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        if self.started:
            for server in self.servers:
                self._acceptor.start(server)
            gc.freeze()  # what is here stays: looking at it again and again takes 7 % of a request's time
            gc.set_threshold(_MOST_YOUNG)  # and looking at those of open requests every 700 objects takes 6 %
            [*_, port] = [listening.getsockname()[1] for server in self.servers for listening in server.sockets]
            log.info(f"serving at {url_of(self.config.host, port)}")

    async def shutdown(self, sockets: object = None) -> None:
        self._acceptor.close()
        ending = asyncio.get_running_loop().create_task(self._refuse_late())
        await super().shutdown()
        ending.cancel()

    async def _refuse_late(self) -> None:
        """Refuse the requests that are not answered after a deadline, because the server does not wait much longer.

        They wait for a document or stream a long text. They get status 503 as JSON, or an event that says so.
        """
        await asyncio.sleep(self._backend.cfg.limits.deadline_s)
        self._backend.service.refuse_all()
        await self._backend.documents.close()
