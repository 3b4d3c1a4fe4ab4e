"""Start worker processes on this machine, exchange messages with them, and end them."""

import signal
from collections.abc import Callable, Sequence
from typing import Any

from mtkit.cores import spawn_context
from mtkit.jobs.interrupts import interrupt_held_back

_STOP_S = 5.0  # how long a process may take to end before we kill it


class ProcessEnded(Exception):
    """A worker process ended before it answered; the text has the exit code."""

    def __init__(self, code: int | None) -> None:
        """code: the exit code; None if the process runs but no longer answers."""
        super().__init__("it does not answer" if code is None else how_it_ended(code))
        self.may_lack_memory = code == -9  # what the system kills a process with when memory runs out


def how_it_ended(code: int) -> str:
    """Format an exit code for messages."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


class WorkerProcess:
    """One process at the other end of a connection; it receives no Ctrl-C while it starts, and ends with its parent."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        """Start a process that calls work(*arguments, connection), which should return when the connection closes."""
        context = spawn_context()
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(*arguments, theirs), daemon=True)
        with interrupt_held_back():  # a process that is still starting would print a traceback
            self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process.pid is not None
        return self._process.pid

    def send(self, message: object) -> None:
        """Send a message. Raises ProcessEnded."""
        try:
            self.connection.send(message)
        except OSError:
            raise self._ended() from None

    def receive(self) -> Any:
        """Wait for the next message of the process. Raises ProcessEnded."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            raise self._ended() from None

    def _ended(self) -> ProcessEnded:
        self._process.join(_STOP_S)
        return ProcessEnded(self._process.exitcode)

    def ask_to_end(self, *, at_once: bool = False) -> None:
        """Close the connection, so that the process ends when it is idle; at_once: end it immediately."""
        self.connection.close()
        if at_once:
            self._process.terminate()

    def wait_for_end(self) -> None:
        """Wait until the process has ended; kill it if it takes too long."""
        self._process.join(_STOP_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()


def end_all(idle: Sequence[WorkerProcess], busy: Sequence[WorkerProcess] = ()) -> None:
    """End processes at the same time; busy ones do not finish their work."""
    for process in (*idle, *busy):
        process.ask_to_end(at_once=process in busy)
    for process in (*idle, *busy):
        process.wait_for_end()
