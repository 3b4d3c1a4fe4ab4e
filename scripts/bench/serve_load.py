"""HTTP load over raw sockets: clients that wait for each other, or arrivals at a fixed rate.

It is cheap, since it shares the machine with what it measures: a request is made once, as bytes, and a connection is
kept alive and has one request at a time.
"""

import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import quantiles
from typing import cast

_PATIENCE_S = 120.0  # longer than every deadline: a request without an answer by then has none
_MOST_CONNECTIONS = 2000  # more than a server's queue and its workers hold together


@dataclass(frozen=True)
class Reply:
    """What came back for a request."""

    index: int  # of the request
    status: int  # of HTTP; 0: the connection was closed, refused or silent
    body: bytes
    seconds: float  # since it was sent
    waited_s: float = 0.0  # before it was sent, for a free connection


@dataclass
class Load:
    """The replies to all requests of a load."""

    seconds: float = 0.0
    client_cpu_s: float = 0.0
    replies: list[Reply] = field(default_factory=list)

    @property
    def by_status(self) -> dict[int, int]:
        """How many replies had each status."""
        statuses = [reply.status for reply in self.replies]
        return {status: statuses.count(status) for status in sorted(set(statuses))}

    def rate(self) -> float:
        """Return how many requests a second succeeded."""
        return self.by_status.get(200, 0) / self.seconds

    def percentile_ms(self, percent: int, status: int | None = 200) -> float:
        """Return how long replies of this status took, None for all; not a number if there are none."""
        seconds = [reply.seconds for reply in self.replies if status in (None, reply.status)]
        if len(seconds) < 2:
            return 1000 * seconds[0] if seconds else float("nan")
        return 1000 * quantiles(seconds, n=100, method="inclusive")[percent - 1]

    @property
    def longest_wait_s(self) -> float:
        """How long a request waited for a free connection."""
        return max((reply.waited_s for reply in self.replies), default=0.0)


def post(path: str, values: object) -> bytes:
    """Return a request with JSON."""
    body = json.dumps(values, ensure_ascii=False).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def translate(text: str, **more: object) -> bytes:
    """Return a request of LibreTranslate's dialect, from English to French."""
    return post("/translate", {"q": text, "source": "en", "target": "fr", **more})


class Connection(asyncio.Protocol):
    """A connection that is kept alive, with one request at a time."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._expected = -1  # bytes of the reply that is on its way, -1 while its head is not there
        self._body_at = 0
        self._reply: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, port: int) -> "Connection":
        """Connect to this machine. Raises OSError."""
        _, connection = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; return status and body. Raises OSError if the connection ends before them."""
        assert self._transport is not None
        if self.is_closed:
            raise ConnectionResetError
        self._received.clear()
        self._expected = -1
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._reply

    @property
    def is_closed(self) -> bool:
        """Whether either side has closed it."""
        return self._transport is None or self._transport.is_closing()

    @property
    def has_reply(self) -> bool:
        """Whether anything has come back."""
        return bool(self._received)

    def send(self, data: bytes) -> None:
        """Send bytes, and expect no reply."""
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        """Leave."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Collect the reply."""
        self._received += data
        if self._expected < 0:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._received[:end]).lower()
            _, _, length = head.partition(b"content-length:")
            self._body_at = end + 4
            self._expected = self._body_at + int(length.partition(b"\r\n")[0] or 0)
        if len(self._received) >= self._expected and self._reply is not None and not self._reply.done():
            status = int(self._received[9:12])
            self._reply.set_result((status, bytes(self._received[self._body_at : self._expected])))

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the request that waits."""
        self._transport = None
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(ConnectionResetError())


class Clients:
    """Keeps connections to one server, and sends requests through them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[Connection] = []

    async def ask(self, index: int, request: bytes) -> Reply:
        """Return the reply to a request."""
        start = time.monotonic()
        status, body = 0, b""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                connection = await self._connection()
                status, body = await connection.ask(request)
                self._free.append(connection)
        except (OSError, TimeoutError) as error:
            body = repr(error).encode()
        return Reply(index, status, body, time.monotonic() - start)

    async def _connection(self) -> Connection:
        while self._free:
            if not (connection := self._free.pop()).is_closed:
                return connection
        return await Connection.open(self._port)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._free:
            connection.close()


async def closed_loop(
    port: int, requests: Sequence[bytes], n_clients: int, *, until: Callable[[], bool] = lambda: False
) -> Load:
    """Send all requests, by clients that each wait for a reply before they ask again. until: stop when it is true."""
    clients, load, queue = Clients(port), Load(), iter(enumerate(requests))

    async def client() -> None:
        for index, request in queue:
            load.replies.append(await clients.ask(index, request))
            if until():
                return

    start, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(client() for _ in range(n_clients)))
    load.seconds, load.client_cpu_s = time.monotonic() - start, time.process_time() - cpu
    clients.close()
    return load


async def open_loop(port: int, requests: Sequence[bytes], per_second: float, seconds: float, seed: int = 1) -> Load:
    """Send requests at random moments, `per_second` on average, whether or not others have been answered.

    As a proxy would, we open a bounded number of connections; a request for which none is free waits for one.
    """
    clients, load, rng = Clients(port), Load(), random.Random(seed)
    running: set[asyncio.Task[None]] = set()
    free = asyncio.Semaphore(_MOST_CONNECTIONS)

    async def one(index: int, due: float) -> None:
        async with free:
            waited_s = time.monotonic() - due
            reply = await clients.ask(index, requests[index % len(requests)])
            load.replies.append(replace(reply, waited_s=waited_s))

    start, cpu, index = time.monotonic(), time.process_time(), 0
    due = start
    while due < start + seconds:
        while due <= time.monotonic():
            task = asyncio.ensure_future(one(index, due))
            running.add(task)
            task.add_done_callback(running.discard)
            index += 1
            due += rng.expovariate(per_second)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    await asyncio.gather(*running)
    load.seconds, load.client_cpu_s = time.monotonic() - start, time.process_time() - cpu
    clients.close()
    return load
