"""The state of a run besides its weights and its optimizer, to and from JSON; the figures of its updates."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from mtkit.data.batching import BATCH_ORDER
from mtkit.data.feed import Position
from mtkit.errors import ConfigError
from mtkit.training.update.budget import Timing
from mtkit.training.update.divergence import DivergenceDetector, Recovery
from mtkit.training.update.schedule import Progress


@dataclass(frozen=True)
class UpdateStats:
    """Figures of one update."""

    loss_sum: float  # nats, label smoothing included
    nll_sum: float  # nats, without smoothing
    grad_norm: float  # before clipping; not finite if fp16 overflowed and the update was skipped
    n_tgt_tokens: int  # predicted tokens
    n_tokens: int  # both sides, without padding
    n_slots: int  # both sides, with padding


@dataclass
class Interval:
    """Sums over the updates since the last line of the metrics log."""

    n_updates: int = 0
    loss_sum: float = 0.0  # nats, label smoothing included
    nll_sum: float = 0.0  # nats, without smoothing, like the loss on dev
    grad_norm_sum: float = 0.0
    n_tgt_tokens: int = 0  # predicted tokens
    n_tokens: int = 0  # both sides, without padding
    n_slots: int = 0  # both sides, with padding
    n_left_out: int = 0  # updates skipped because the gradient overflowed in fp16
    seconds: float = 0.0  # in updates, without validation

    def add(self, stats: UpdateStats, seconds: float) -> None:
        """Add an update that took `seconds`."""
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
        """Return the figures by name: nats per target token, target tokens per second, share of padding."""
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
    """A validated step and its score."""

    step: int
    value: float  # of train.metric
    loss: float  # on dev; decides between equal values, such as BLEU 0 at the start


@dataclass
class TrainState:
    """The progress of a run. Random numbers derive from (seed, step), the order of the data from (seed, epoch)."""

    step: int = 0  # updates made
    position: Position = field(default_factory=Position)  # in the training data
    batch_order: int = BATCH_ORDER  # how an epoch's pairs are grouped
    seconds: float = 0.0  # of training and validation, in all starts
    validated_step: int = 0
    bad_validations: int = 0  # since the best
    best: list[Scored] = field(default_factory=list)  # best first, at most train.average_best; 1 with average_last
    last: list[Scored] = field(default_factory=list)  # the last validated, newest at the end; with train.average_last
    interval: Interval = field(default_factory=Interval)
    grad_scaler: dict[str, float] = field(default_factory=dict)  # with fp16; else empty
    batch_limit: int | None = None  # split batches of more tokens, because one did not fit into memory
    loss_watch: DivergenceDetector = field(default_factory=DivergenceDetector)
    recovery: Recovery | None = None  # if the run has diverged and gone back
    timing: Timing = field(default_factory=Timing)  # of what must fit into train.budget
    train_fingerprint: str = ""
    dev_fingerprint: str = ""
    start: list[str] = field(default_factory=list)  # checksums of the model in train.init_from; older states lack them

    def progress(self) -> Progress:
        """Return what the schedule and the limits depend on."""
        return Progress(self.step, self.position.epochs, self.seconds / 60, self.bad_validations, self.timing)

    def check_text(self, run_dir: Path, train_fingerprint: str, dev_fingerprint: str) -> None:
        """Raise ConfigError if the run has learned from text with other fingerprints, or was validated on it."""
        then = {"data.train": self.train_fingerprint, "data.dev": self.dev_fingerprint}
        for key, now in zip(then, (train_fingerprint, dev_fingerprint), strict=True):
            if then[key] != now:
                raise ConfigError(
                    f"{run_dir}: the text of {key}, or a tokenizer, has changed since this run started; start a new "
                    "run (another run_dir), or restore it"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the state from the values of `to_dict`.

        Raises KeyError or TypeError if a key is missing or unknown, ValueError if a value has the wrong type.
        """
        _check_types(values)
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
        return cls(**{"batch_order": 1, **values, **parts})  # the first states did not name it


def _check_types(values: dict[str, Any]) -> None:
    """Raise ValueError, naming the key, for a value of the wrong type, or a whole number that is not a count."""
    try:
        TypeAdapter(TrainState).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    for key, value in _leaves(values):
        if isinstance(value, int) and not 0 <= value < 2**53:
            raise ValueError(f"{key}={value} is not a count")


def _leaves(values: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the single values in dicts and lists, each with its key."""
    if not isinstance(values, dict | list):
        yield key, values
        return
    for part, inner in values.items() if isinstance(values, dict) else enumerate(values):
        yield from _leaves(inner, f"{key}.{part}" if key else str(part))
