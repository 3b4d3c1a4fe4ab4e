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


def progress_bar(total: int | None, description: str, unit: str, initial: int = 0, **options: Any) -> "tqdm[Any]":
    """A tqdm bar on stderr with an ETA; silent unless log lines are shown, rare lines where stderr is no terminal."""
    stream: TextIO = sys.stderr
    return tqdm(
        total=total,
        desc=description,
        unit=unit,
        initial=initial,
        file=stream,
        disable=not log.isEnabledFor(logging.INFO) or not log.handlers,
        mininterval=0.2 if stream.isatty() else 30.0,
        dynamic_ncols=True,
        **options,
    )
