"""Handle Ctrl-C, SIGTERM and SIGHUP: the run finishes its update, saves and exits; a second Ctrl-C exits at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from mtkit.console import log
from mtkit.jobs.interrupts import ENDING, handled


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
    with handled([signal.SIGINT, *ENDING], request.receive):
        yield request
