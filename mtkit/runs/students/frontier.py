"""Keep the measured quality, size and speed of a student and its teacher in RUN/frontier.json, and read them.

The students of a teacher, in folders next to each other, are compared on the pages of all of them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mtkit.bundle import MANIFEST
from mtkit.files import parse_json, write_text

FRONTIER = "frontier.json"


@dataclass(frozen=True)
class Figures:
    """The quality, size and speed of a model."""

    bleu: float  # on dev
    megabytes: float  # of the file with its weights
    sentences_per_s: float  # on one core, in seconds of CPU time
    words_per_s: float  # of the source, on one core


@dataclass(frozen=True)
class Measured:
    """The figures of a student and its teacher, measured one after the other on the same sentences of dev."""

    teacher_sha256: str  # of the teacher's weights
    n_sentences: int
    teacher: Figures
    student: Figures


def keep(run_dir: Path, measured: Measured) -> None:
    """Write RUN/frontier.json, for the current weights in RUN/model."""
    values = {"model": _weights(run_dir), **asdict(measured)}
    write_text(run_dir / FRONTIER, json.dumps(values, indent=1) + "\n")


def read(run_dir: Path) -> Measured | None:
    """Return what `keep` wrote; None if there is nothing, or if it belongs to older weights of the student."""
    try:
        values: Mapping[str, Any] = parse_json((run_dir / FRONTIER).read_text(encoding="utf-8"))
        teacher, student = (Figures(**values[name]) for name in ("teacher", "student"))
        measured = Measured(values["teacher_sha256"], values["n_sentences"], teacher, student)
        return measured if values["model"] == _weights(run_dir) else None
    except (OSError, ValueError, KeyError, TypeError):  # not a file of ours, or of a student that is being made
        return None


def other_students(run_dir: Path, measured: Measured) -> dict[str, Figures]:
    """Return the students of the same teacher in the folders next to a student's run, by the names of their folders.

    Their speeds are multiplied by how much faster the teacher was when it was measured with this student, because a
    machine is not equally busy at all times.
    """
    others = {}
    for folder in sorted(path.parent for path in run_dir.absolute().parent.glob(f"*/{FRONTIER}")):
        other = read(folder) if folder != run_dir.absolute() else None
        if other is not None and other.teacher_sha256 == measured.teacher_sha256:
            speed = measured.teacher.words_per_s / other.teacher.words_per_s
            figures = other.student
            others[folder.name] = replace(
                figures, sentences_per_s=figures.sentences_per_s * speed, words_per_s=figures.words_per_s * speed
            )
    return others


def _weights(run_dir: Path) -> str:
    manifest: Mapping[str, Any] = parse_json((run_dir / "model" / MANIFEST).read_text(encoding="utf-8"))
    return str(manifest["sha256"]["model.safetensors"])
