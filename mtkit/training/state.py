"""What a run must remember between two updates, besides weights and optimizer; to JSON and back."""

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from mtkit.data.feed import Position
from mtkit.training.budget import Timing
from mtkit.training.divergence import LossWatch, Recovery
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
    position: Position = field(default_factory=Position)  # in the training data
    seconds: float = 0.0  # of training and validation, all starts added up
    validated_step: int = 0
    bad_validations: int = 0  # since the best one
    best: list[Scored] = field(default_factory=list)  # best first, at most train.average_best; 1 with average_last
    last: list[Scored] = field(default_factory=list)  # validated last, newest at the end; with train.average_last
    interval: Interval = field(default_factory=Interval)
    grad_scaler: dict[str, float] = field(default_factory=dict)  # of fp16; else empty
    batch_limit: int | None = None  # batches of more tokens go through memory in parts: one has not fitted
    loss_watch: LossWatch = field(default_factory=LossWatch)
    recovery: Recovery | None = None  # once the run has diverged and gone back
    timing: Timing = field(default_factory=Timing)  # of what train.budget has to fit
    train_fingerprint: str = ""
    dev_fingerprint: str = ""

    def progress(self) -> Progress:
        """As the schedule and the limits want it."""
        return Progress(self.step, self.position.epochs, self.seconds / 60, self.bad_validations, self.timing)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts, lists and dictionaries."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """What `to_dict` gave; raises TypeError if a key is missing or unknown."""
        best, last = ([Scored(**entry) for entry in values[key]] for key in ("best", "last"))
        watch, recovery = LossWatch(**values["loss_watch"]), values["recovery"] and Recovery(**values["recovery"])
        interval = Interval(**values["interval"])
        parts = {"best": best, "last": last, "interval": interval, "loss_watch": watch, "recovery": recovery}
        parts["timing"] = Timing(**values["timing"])
        parts["position"] = Position(**values["position"])
        return cls(**{**values, **parts})
