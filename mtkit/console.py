"""What a person watches while a command works: log lines and progress bars, all on stderr."""

import logging
import sys
from typing import Any, TextIO

from tqdm import tqdm

log = logging.getLogger("mtkit")  # info: what happened; warning: what the user should know; --quiet leaves warnings


class _AroundProgressBars(logging.Handler):
    """Writes each record as a plain line to stderr, above any progress bar that is being drawn."""

    def emit(self, record: logging.LogRecord) -> None:
        prefix = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        tqdm.write(prefix + record.getMessage(), file=sys.stderr)


def set_up_logging(quiet: bool) -> None:
    """Show mtkit's log lines on stderr; with quiet, warnings only and no progress bars."""
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    log.propagate = False
    log.handlers = [_AroundProgressBars()]


_LINE_UP = "\x1b[A"


class _Lines:
    """A stream for a bar that is not drawn over and over, but stands in a file: a line each time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Leave out what only moves the cursor or covers the old bar."""
        if line := text.replace(_LINE_UP, "").strip():
            self._stream.write(f"{line}\n")

    def flush(self) -> None:
        """As a stream's."""
        self._stream.flush()


def progress_bar(total: int | None, description: str, unit: str, initial: int = 0, **options: Any) -> "tqdm[Any]":
    """A tqdm bar on stderr with an ETA; silent unless log lines are shown.

    Where stderr is no terminal it is a line every half minute, and none for what takes less.
    """
    on_terminal = sys.stderr.isatty()
    in_a_file = {"mininterval": 30.0, "maxinterval": 30.0, "delay": 1.0}
    how = {"mininterval": 0.2, "dynamic_ncols": True} if on_terminal else in_a_file
    return tqdm(
        total=total,
        desc=description,
        unit=unit,
        initial=initial,
        file=sys.stderr if on_terminal else _Lines(sys.stderr),
        disable=not log.isEnabledFor(logging.INFO) or not log.handlers,
        **{**how, **options},
    )


def redraw(bar: "tqdm[Any]") -> None:
    """Show at once what has been changed of a bar, where it is drawn over and over."""
    if sys.stderr.isatty():
        bar.refresh()
