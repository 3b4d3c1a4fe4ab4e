"""Write metrics.jsonl: one line per interval of training, and two per validation, its scores and a few translations.

The figures also go to TensorBoard, if it is installed.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mtkit.console import log, shortened
from mtkit.files import atomic_file, parse_json
from mtkit.training.update.divergence import Recovery
from mtkit.training.validation.validator import Sample

_RECOVERY = "recovery"  # the kind of line that records one
_SAMPLE_CHARACTERS = 400


class MetricsLog:
    """Appends lines to RUN/metrics.jsonl, after removing those that a run resumed at `step` will write again."""

    def __init__(
        self, run_dir: Path, step: int, recovery: Recovery | None = None, validated_step: int | None = None
    ) -> None:
        """validated_step: the step of the run's last validation; default: `step`."""
        self.path = run_dir / "metrics.jsonl"
        self._open(step, recovery, validated_step)

    def _open(self, step: int, recovery: Recovery | None, validated_step: int | None) -> None:
        validated_step = step if validated_step is None else validated_step
        if self.path.exists():
            entries = [
                entry
                for entry in read_metrics(self.path)
                if entry["step"] <= (step if entry["kind"] == "train" else validated_step)
            ]
            entries = _with_recovery(entries, recovery)
            with atomic_file(self.path) as temporary:
                temporary.write_text("".join(map(_line, entries)), encoding="utf-8")
        self._file = self.path.open("a", encoding="utf-8")  # closed by _close
        self._board = _tensorboard(self.path.with_name("tensorboard"), step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()

    def go_back(self, recovery: Recovery, validated_step: int) -> None:
        """Remove the lines after recovery.step, as if the run resumed there, and record why."""
        self._close()
        self._open(recovery.step, recovery, validated_step)

    def write(self, kind: str, step: int, values: dict[str, float]) -> None:
        """Add a line; kind is "train" or "validation"."""
        self._file.write(_line({"kind": kind, "step": step, **values}))
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def write_samples(self, step: int, samples: Sequence[Sample]) -> None:
        """Add a line of kind "samples" with the translations of a few dev sentences; shorten long texts."""
        texts = [
            {name: shortened(text, _SAMPLE_CHARACTERS) for name, text in asdict(sample).items()} for sample in samples
        ]
        self._file.write(_line({"kind": "samples", "step": step, "samples": texts}))
        self._file.flush()

    def sync(self) -> None:
        """Block until all lines are on disk."""
        os.fsync(self._file.fileno())


class NoMetricsLog(MetricsLog):
    """A metrics log that writes nothing, for processes other than 0."""

    def _open(self, step: int, recovery: Recovery | None, validated_step: int | None) -> None:
        pass

    def _close(self) -> None:
        pass

    def write(self, kind: str, step: int, values: dict[str, float]) -> None:
        """Write nothing."""

    def write_samples(self, step: int, samples: Sequence[Sample]) -> None:
        """Write nothing."""

    def sync(self) -> None:
        """Do nothing."""


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a metrics.jsonl, in order.

    Skips a last line that is incomplete because its process died, and other unreadable lines with a warning.
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
        log.warning(f"{path}: skipped {len(unreadable)} unreadable lines, the first of them line {unreadable[0]}")
    return entries


def scores_at_start(run_dir: Path) -> dict[str, Any] | None:
    """Return the scores on dev of the model in train.init_from; None if the run did not start from one."""
    entries = read_metrics(run_dir / "metrics.jsonl")
    return next((entry for entry in entries if entry["kind"] == "validation" and entry["step"] == 0), None)


def _with_recovery(entries: list[dict[str, Any]], recovery: Recovery | None) -> list[dict[str, Any]]:
    """Return the entries, with a line about the recovery after the entries of the step that the run went back to.

    The line always comes from the state, so nothing is lost if the process dies after it saves the state and before it
    writes the line.
    """
    entries = [entry for entry in entries if entry["kind"] != _RECOVERY]
    if recovery is None:
        return entries
    before = [entry for entry in entries if entry["step"] <= recovery.step]
    return [*before, {"kind": _RECOVERY, **asdict(recovery)}, *entries[len(before) :]]


def _read(line: str) -> dict[str, Any] | None:
    try:
        entry = parse_json(line)
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
