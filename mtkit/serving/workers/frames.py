"""Messages between the service and its workers: JSON, preceded by its length in four bytes."""

import asyncio
import json
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

_LENGTH = struct.Struct(">I")


def pack(message: Any) -> bytes:
    """Return a message as bytes."""
    content = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return _LENGTH.pack(len(content)) + content


def read_blocking(stream: BinaryIO) -> Any:
    """Read the next message. Raises EOFError at the end of the stream."""
    return json.loads(_exactly(stream, *_LENGTH.unpack(_exactly(stream, _LENGTH.size))))


def _exactly(stream: BinaryIO, n_bytes: int) -> bytes:
    content = stream.read(n_bytes)
    if len(content) < n_bytes:
        raise EOFError
    return content


async def read(stream: asyncio.StreamReader) -> Any:
    """Read the next message. Raises asyncio.IncompleteReadError at the end of the stream."""
    [n_bytes] = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
    return json.loads(await stream.readexactly(n_bytes))


def answer_messages(answer: Callable[[Any], Any]) -> None:
    """Read messages from standard input until it ends, and write the replies to standard output."""
    messages, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not spoil the answers
    with suppress(EOFError, BrokenPipeError):
        while True:
            answers.write(pack(answer(read_blocking(messages))))
            answers.flush()
