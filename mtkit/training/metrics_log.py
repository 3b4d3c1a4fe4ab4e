"""metrics.jsonl: one line per interval of training and per validation; the same to TensorBoard if it is installed."""

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mtkit.console import log
from mtkit.files import atomic_file


class MetricsLog:
    """Appends lines to RUN/metrics.jsonl; first drops those that a run resumed at `step` will write again."""

    def __init__(self, run_dir: Path, step: int) -> None:
        self.path = run_dir / "metrics.jsonl"
        if self.path.exists():
            kept = [entry for entry in read_metrics(self.path) if entry["step"] <= step]
            with atomic_file(self.path) as temporary:
                temporary.write_text("".join(map(_line, kept)), encoding="utf-8")
        self._file = self.path.open("a", encoding="utf-8")  # closed by __exit__
        self._board = _tensorboard(run_dir / "tensorboard", step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()

    def write(self, kind: str, step: int, values: dict[str, float]) -> None:
        """Add a line; kind is "train" or "validation"."""
        self._file.write(_line({"kind": kind, "step": step, **values}))
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def sync(self) -> None:
        """Block until all lines are on disk."""
        os.fsync(self._file.fileno())


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl, in order.

    A last line that was cut off when a process died is left out; others that cannot be read too, with a warning.
    """
    entries, unreadable = [], []
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            entry = _read(line)
            if entry is not None:
                entries.append(entry)
            elif line.endswith("\n"):
                unreadable.append(number)
    if unreadable:
        log.warning(f"{path}: {len(unreadable)} lines cannot be read, the first is line {unreadable[0]}; left out")
    return entries


def _read(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    known = isinstance(entry, dict) and "kind" in entry and isinstance(entry.get("step"), int)
    return entry if known and line.endswith("\n") else None


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry) + "\n"


def _tensorboard(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)
