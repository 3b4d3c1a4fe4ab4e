"""Handle Ctrl-C, SIGTERM and SIGHUP: the run finishes its update, saves and exits; a second Ctrl-C exits at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from mtkit.console import log


class StopRequest:
    """A flag that records whether the user has asked the run to stop."""

    def __init__(self) -> None:
        self.received = False
        self._may_break_off = False

    @contextmanager
    def breaking_off(self) -> Iterator[None]:
        """Let a request interrupt this block by KeyboardInterrupt; the block must not change any state of the run."""
        self._may_break_off = True
        try:
            if self.received:
                raise KeyboardInterrupt
            yield
        finally:
            self._may_break_off = False

    def receive(self, signal_number: int, _frame: FrameType | None) -> None:
        """Record the first signal; raise KeyboardInterrupt for the second one, or within `breaking_off`."""
        again, self.received = self.received, True
        if not again:
            name = "Ctrl-C" if signal_number == signal.SIGINT else signal.Signals(signal_number).name
            with suppress(OSError):  # after SIGHUP the terminal may be gone
                log.warning(f"{name}: saving a checkpoint before exiting; press Ctrl-C (again) to exit without saving")
        if again or self._may_break_off:
            raise KeyboardInterrupt


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Treat SIGINT, SIGTERM and SIGHUP as a request to stop during the block; works only in the main thread.

    Ignored signals stay ignored: the user started the run with nohup, or with & in a script.
    """
    request = StopRequest()
    previous: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
        wanted = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
        previous = {number: signal.signal(number, request.receive) for number in wanted}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
