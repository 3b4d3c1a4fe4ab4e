"""Log lines and progress bars, all on stderr; counts in words."""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from mtkit.errors import MtkitError

if TYPE_CHECKING:
    from tqdm import tqdm

log = logging.getLogger("mtkit")  # --quiet shows warnings only


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: "1 line", "2,000 lines", "2 batches"."""
    plural = f"{noun}es" if noun.endswith(("s", "ch")) else f"{noun}s"
    return f"{n:,} {noun if n == 1 else plural}"


def shortened(text: str, most: int) -> str:
    """Return the text, or its first characters and an ellipsis if it has more than `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


class _AroundProgressBars(logging.Handler):
    """A log handler that writes each record as a plain line to stderr, above any progress bar."""

    def __init__(self, with_times: bool) -> None:
        super().__init__()
        self._with_times = with_times

    def emit(self, record: logging.LogRecord) -> None:
        time = f"{datetime.fromtimestamp(record.created).astimezone():%Y-%m-%dT%H:%M:%S%z} " if self._with_times else ""
        prefix = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        line = time + prefix + record.getMessage()
        # Without tqdm there is no bar, and importing it takes 10 ms. Another thread may be importing it now.
        if bars := getattr(sys.modules.get("tqdm"), "tqdm", None):
            bars.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr)


def log_fault(what: str, error: Exception, *, with_text: bool = False) -> None:
    """Log the failure and its place in the code. with_text: include the text of the error, which may quote a user."""
    name = f"{type(error).__name__}: {error}" if with_text else type(error).__name__
    log.error(f"{what}: {name}\n{''.join(traceback.format_tb(error.__traceback__))}")


def set_up_logging(quiet: bool, *, with_times: bool = False) -> None:
    """Show mtkit's log lines on stderr; with quiet, only warnings and no progress bars.

    with_times: begin each line with its time, for programs that run for days.
    """
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    log.propagate = False
    log.handlers = [_AroundProgressBars(with_times)]


@contextmanager
def without_log() -> Iterator[None]:
    """Log nothing in the block, and show no progress bars: for trials of work that logs when it is done in earnest."""
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def shown_as(place: Path, scratch: Path) -> Iterator[None]:
    """Give the place of what the user knows, instead of its temporary copy, in the log lines and errors of the block.

    The readers of the copy know only its path, which no longer exists when the user reads the message.
    """

    def renamed(text: object) -> object:
        return text.replace(str(scratch), str(place)) if isinstance(text, str) else text

    def rename(record: logging.LogRecord) -> bool:
        record.msg, record.args = renamed(record.getMessage()), ()
        return True

    log.addFilter(rename)
    try:
        yield
    except MtkitError as error:
        error.args = tuple(map(renamed, error.args))
        raise
    finally:
        log.removeFilter(rename)


_CURSOR_UP = "\x1b[A"


class _Lines:
    """A stream that writes each state of a progress bar as a separate line, for a file instead of a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write the text as a line, without control characters that move the cursor or erase the old bar."""
        if line := text.replace(_CURSOR_UP, "").strip():
            self._stream.write(f"{line}\n")

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()


def progress_bar(total: int | None, description: str, unit: str, initial: int = 0, **options: Any) -> "tqdm[Any]":
    """Return a tqdm bar on stderr with an ETA; it shows nothing unless log lines of level INFO are shown.

    If stderr is not a terminal, it writes a line every 30 seconds, and nothing for work that takes less.
    """
    from tqdm import tqdm

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
