"""Accept all pending connections, however busy the event loop is."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress

_MOST_AT_ONCE = 1024  # so that a flood of connections leaves time for requests


class Acceptor:
    """Accepts the pending connections of a server's sockets, in addition to the server.

    uvloop accepts one connection in each round of its loop. Under overload a round takes half a second, so that new
    clients would wait until the kernel drops them and they try again, up to half a minute later. Loops of asyncio
    accept all that wait, and need none of this.
    """

    def __init__(self, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        """make_protocol: makes the protocol that reads a connection."""
        self._make_protocol = make_protocol
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[object]] = set()

    def start(self, server: asyncio.Server) -> None:
        """Start to accept the connections of a server."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.BaseEventLoop):
            return
        for served in server.sockets:
            # a descriptor of our own: uvloop lets no one else watch its one
            listening = socket.socket(fileno=os.dup(served.fileno()))
            self._sockets.append(listening)
            loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_MOST_AT_ONCE):
            try:
                connection, _address = listening.accept()
            except OSError:  # no client waits; or descriptors have run out, and uvloop turns clients away
                return
            task = loop.create_task(loop.connect_accepted_socket(self._make_protocol, connection))
            self._tasks.add(task)
            task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        with suppress(asyncio.CancelledError, OSError):  # the client has left already
            task.result()

    def close(self) -> None:
        """Stop accepting."""
        for listening in self._sockets:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        self._sockets.clear()
