"""Run the clean-up of a process before a signal ends it, and protect its child processes from Ctrl-C."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

# By which a system ends a process
ENDING = signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt in the block, as Ctrl-C does; ignored signals stay ignored."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with handled(ENDING, interrupt):
        yield


@contextmanager
def handled(numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle these signals in the block, if it runs in the main thread; ignored signals stay ignored."""
    previous: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        wanted = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
        previous = {number: signal.signal(number, handler) for number in wanted}
    try:
        yield
    finally:
        for number, earlier in previous.items():
            signal.signal(number, earlier)


@contextmanager
def interrupt_held_back() -> Iterator[None]:
    """Hold Ctrl-C back until the block is over; processes that start in the block never receive it."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    from multiprocessing import resource_tracker  # here, because commands that start no process need not load it

    resource_tracker.ensure_running()  # else the first process starts it, and that lets interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
