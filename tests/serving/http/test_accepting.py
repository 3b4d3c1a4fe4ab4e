"""Accepting connections while the event loop is busy."""

import asyncio
import socket
from typing import cast

import uvloop

from mtkit.serving.http.accepting import Acceptor

_N_CLIENTS = 50


class _Greets(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        stream.write(b"hello")
        stream.close()


async def _rounds_until_all_are_greeted(*, accepts_all: bool) -> int:
    """Return how many rounds of a loop that has always something to do pass until all clients have been greeted."""
    loop = asyncio.get_running_loop()
    greeted = 0
    rounds = 0

    def make() -> _Greets:
        nonlocal greeted
        greeted += 1
        return _Greets()

    def spin() -> None:
        nonlocal rounds
        rounds += 1
        if greeted < _N_CLIENTS:
            loop.call_soon(spin)

    server = await loop.create_server(make, "127.0.0.1", 0, backlog=_N_CLIENTS)
    acceptor = Acceptor(make)
    if accepts_all:
        acceptor.start(server)
    [listening] = server.sockets
    clients = [socket.create_connection(listening.getsockname()) for _ in range(_N_CLIENTS)]
    spin()
    while greeted < _N_CLIENTS:
        await asyncio.sleep(0)
    for client in clients:
        client.setblocking(False)
        assert await loop.sock_recv(client, 5) == b"hello"
        client.close()
    acceptor.close()
    server.close()
    return rounds


def test_accepts_all_that_wait_in_a_few_rounds() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_rounds_until_all_are_greeted(accepts_all=True)) < 10


def test_uvloop_alone_takes_a_round_for_each() -> None:
    """If this fails, uvloop accepts all by itself, and `Acceptor` can go."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_rounds_until_all_are_greeted(accepts_all=False)) >= _N_CLIENTS


def test_leaves_the_loops_of_asyncio_alone() -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        assert runner.run(_rounds_until_all_are_greeted(accepts_all=True)) < 10


async def _is_refused_after_closing() -> bool:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Greets, "127.0.0.1", 0)
    acceptor = Acceptor(_Greets)
    acceptor.start(server)
    [listening] = server.sockets
    address = listening.getsockname()
    acceptor.close()
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0.05)
    try:
        socket.create_connection(address, 1).close()
    except ConnectionRefusedError:
        return True
    return False


def test_keeps_no_port_open_after_closing() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_is_refused_after_closing())
