"""The work for workers: a task, with the model and the options that all items of a batch share."""

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from mtkit.bundle import BundleFiles
from mtkit.files import sha256_file
from mtkit.text.placeholders import PROSE

Task = Literal["translate", "words", "alternatives"]


@dataclass(frozen=True)
class ModelVersion:
    """A bundle, with its terminology and memory, as it was when the service verified it."""

    folder: Path
    fingerprint: str

    def as_json(self) -> list[str]:
        """Return the version for a message to a worker."""
        return [str(self.folder), self.fingerprint]

    @classmethod
    def from_json(cls, values: Sequence[str]) -> "ModelVersion":
        """Read such a message."""
        folder, fingerprint = values
        return cls(Path(folder), fingerprint)

    def __str__(self) -> str:
        return f"{self.folder} ({self.fingerprint[:12]})"


def fingerprint(files: BundleFiles) -> str:
    """Return the identity of this version of a bundle and of the files that its decode section names."""
    named = {key: sha256_file(path) for key, path in files.config.decode.files.items() if path and path.is_file()}
    return sha256(json.dumps({**files.manifest["sha256"], **named}, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Work:
    """The properties that all items of a batch share.

    An item of "translate" is [sentence, whether it has codes]; its result is `Translated` as JSON, and with a
    terminology also {"terms": [...]}. An item of "words" is [source, translation]; its result, the probability of each
    word of the translation. An item of "alternatives" is [source, translation, position from 1, how many].
    """

    task: Task
    model: ModelVersion
    n_best: int = 1
    patterns: tuple[str, ...] = PROSE  # of what is kept exactly
    terms: tuple[str, ...] = ()  # the lines of a terminology file
    memory: tuple[str, int] | None = None  # file of a translation memory, and the lowest score of a match in percent

    @property
    def kind(self) -> tuple[ModelVersion, Task, bool]:
        """The parts that a worker must have loaded for it; terms need a different engine than texts."""
        return self.model, self.task, bool(self.terms)

    def kinds(self, items: Sequence[Any]) -> set[Hashable]:
        """Return the same for these items; those with codes also need what aligns the words."""
        has_codes = self.task == "translate" and any(item[1:2] == [True] for item in items)
        return {self.kind, ("alignment", self.model)} if has_codes else {self.kind}

    def as_json(self) -> dict[str, Any]:
        """Return the work for a message to a worker.

        It leaves out the patterns of prose, because they would be a hundred times as long as a sentence.
        """
        values = {**vars(self), "model": self.model.as_json()}
        if self.patterns == PROSE:
            del values["patterns"]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Work":
        """Read such a message."""
        parts = {name: tuple(values[name]) for name in ("patterns", "terms", "memory") if values.get(name) is not None}
        return cls(values["task"], ModelVersion.from_json(values["model"]), values["n_best"], **parts)
