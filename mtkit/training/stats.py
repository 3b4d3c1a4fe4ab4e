"""The figures of one update, and their sums over the updates between two lines of the metrics log."""

import math
from dataclasses import dataclass


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
