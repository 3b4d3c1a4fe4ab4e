"""Messages between the service and its workers: JSON, preceded by its length in four bytes."""

import asyncio
import json
import os
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

_LENGTH = struct.Struct(">I")
_NICE = 10
_MOST_BYTES = 4_000_000_000  # of addresses, of a process that reads files of callers


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


def answer_about_files(answer: Callable[[Any], Any]) -> None:
    """Do the same in a process that reads files of callers: one that gives way to others and has limited memory."""
    import resource  # here, because Windows lacks it and the service imports this module

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service ends it
    os.nice(_NICE)
    with suppress(ValueError, OSError):  # the limit that it was started with may be lower
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    answer_messages(answer)
