"""What a run must remember between two updates, besides weights and optimizer; to JSON and back."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from mtkit.data.feed import Position
from mtkit.training.budget import Timing
from mtkit.training.divergence import DivergenceDetector, Recovery
from mtkit.training.schedule import Progress


@dataclass(frozen=True)
class UpdateStats:
    """Figures of one update."""

    loss_sum: float  # nats, label smoothing included
    nll_sum: float  # nats, without smoothing
    grad_norm: float  # before clipping; not finite if fp16 overflowed and the update was left out
    n_tgt_tokens: int  # predicted tokens
    n_tokens: int  # both sides, padding left out
    n_slots: int  # both sides, padding counted


@dataclass
class Interval:
    """Sums over the updates since the last line of the metrics log."""

    n_updates: int = 0
    loss_sum: float = 0.0  # nats, label smoothing included
    nll_sum: float = 0.0  # nats, without smoothing: comparable with the loss on dev
    grad_norm_sum: float = 0.0
    n_tgt_tokens: int = 0  # predicted tokens
    n_tokens: int = 0  # both sides, padding left out
    n_slots: int = 0  # both sides, padding counted
    n_left_out: int = 0  # updates that fp16 left out because the gradient overflowed
    seconds: float = 0.0  # spent in updates; validation is not counted

    def add(self, stats: UpdateStats, seconds: float) -> None:
        """Count an update that took so many seconds."""
        self.n_updates += 1
        self.loss_sum += stats.loss_sum
        self.nll_sum += stats.nll_sum
        if math.isfinite(stats.grad_norm):
            self.grad_norm_sum += stats.grad_norm
        else:
            self.n_left_out += 1
        self.n_tgt_tokens += stats.n_tgt_tokens
        self.n_tokens += stats.n_tokens
        self.n_slots += stats.n_slots
        self.seconds += seconds

    def means(self) -> dict[str, float]:
        """Name to figure: nats per target token, target tokens per second, share of padding in the batches."""
        return {
            "loss": self.loss_sum / self.n_tgt_tokens,
            "nll": self.nll_sum / self.n_tgt_tokens,
            "grad_norm": self.grad_norm_sum / max(1, self.n_updates - self.n_left_out),
            "updates_left_out": self.n_left_out,
            "padding_share": 1 - self.n_tokens / self.n_slots,
            "tokens_per_s": self.n_tgt_tokens / self.seconds,
        }


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
    loss_watch: DivergenceDetector = field(default_factory=DivergenceDetector)
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
        parts = {
            "position": Position(**values["position"]),
            "best": best,
            "last": last,
            "interval": Interval(**values["interval"]),
            "loss_watch": DivergenceDetector(**values["loss_watch"]),
            "recovery": values["recovery"] and Recovery(**values["recovery"]),
            "timing": Timing(**values["timing"]),
        }
        return cls(**{**values, **parts})
