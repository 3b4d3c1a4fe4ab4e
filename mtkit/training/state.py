"""What a run must remember between two updates, besides weights and optimizer; to JSON and back."""

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from mtkit.training.schedule import Progress
from mtkit.training.stats import Interval


@dataclass
class Scored:
    """A validated step and how good it was."""

    step: int
    value: float  # of train.metric
    loss: float  # on dev: decides between equal values, such as BLEU 0 at the start


@dataclass
class TrainState:
    """Where a run stands. Random numbers are derived from (seed, step), the data's order from (seed, epoch)."""

    step: int = 0  # updates made
    epoch: int = 0  # complete passes over the training data
    updates_in_epoch: int = 0  # updates made in the running pass
    epoch_length: int = 0  # updates in the running pass; 0 before it is planned
    seconds: float = 0.0  # of training and validation, all starts added up
    validated_step: int = 0
    bad_validations: int = 0  # since the best one
    best: list[Scored] = field(default_factory=list)  # best first, at most train.average_best
    interval: Interval = field(default_factory=Interval)
    grad_scaler: dict[str, float] = field(default_factory=dict)  # of fp16; else empty
    train_fingerprint: str = ""
    dev_fingerprint: str = ""

    def progress(self) -> Progress:
        """As the schedule and the limits want it."""
        part = self.updates_in_epoch / self.epoch_length if self.epoch_length else 0.0
        return Progress(self.step, self.epoch + part, self.seconds / 60, self.bad_validations)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts, lists and dictionaries."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """What `to_dict` gave; raises TypeError if a key is missing or unknown."""
        best = [Scored(**entry) for entry in values["best"]]
        return cls(**{**values, "best": best, "interval": Interval(**values["interval"])})
