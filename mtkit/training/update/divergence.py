"""Detect that a run diverges, and record its return to an earlier step with a lower learning rate.

Going back to an earlier checkpoint and lowering the rate kept the largest runs going (Zhang et al. 2022, "OPT", section
2.5). Here a run does so once; a second divergence stops it.
"""

import math
from dataclasses import dataclass

from mtkit.errors import TrainingError

LR_FACTOR = 0.5  # of the learning rate after going back
_N_HIGH = 20  # updates in a row; a single high loss may come from bad lines, and falls again
_MARGIN = 1.0  # nats per token
_MEAN_DECAY = 0.98  # a running mean over some 50 updates


class Divergence(TrainingError):
    """The loss is no longer finite, or is far above its earlier values."""

    def __init__(self, finding: str, remedy: str) -> None:
        super().__init__(f"{finding}\n{remedy}")
        self.finding = finding  # the message without its remedy


@dataclass
class Recovery:
    """A divergence after `failed_step` updates, or in the next one, from which the run went back to `step`."""

    step: int
    failed_step: int
    reason: str
    lr_factor: float = LR_FACTOR


@dataclass
class DivergenceDetector:
    """Distinguishes a loss that explodes from one that fluctuates.

    A loss is high if it is a nat above the lowest moving average so far, and closer to the loss of random guessing than
    to that average: the model has lost more than half of what it learned. At the start, the first loss or that of
    guessing, whichever is higher, serves as the average, so that noise and a slow warm-up do not count as a rise. If
    the first loss is clearly below guessing, the model was trained before, and may lose that too. Gradients do not
    count: they are clipped, and Adam's steps do not grow with them.
    """

    mean: float | None = None  # nats per target token, without smoothing; of the updates that were not high
    lowest: float = 0.0
    n_high: int = 0  # updates in a row, up to now

    def add(self, nll: float, n_classes: int) -> bool:
        """Add an update's loss (nats per token); return whether the run has diverged. n_classes: size of the output."""
        guessing = math.log(n_classes)
        if self.mean is None:
            is_trained = nll < guessing - _MARGIN
            self.mean = self.lowest = nll if is_trained else max(nll, guessing)
        if nll > max(self.lowest + _MARGIN, (self.lowest + guessing) / 2):
            self.n_high += 1
        else:
            self.n_high = 0
            self.mean = _MEAN_DECAY * self.mean + (1 - _MEAN_DECAY) * nll
            self.lowest = min(self.lowest, self.mean)
        return self.n_high >= _N_HIGH

    def divergence(self, step: int, nll: float, lr: float) -> Divergence:
        """Return the error to raise when `add` has returned True."""
        return Divergence(
            f"step {step}: the loss explodes: {nll:.2f} nats per token, high since step {step - self.n_high + 1}, "
            f"up from a moving average of {self.lowest:.2f}",
            f"start a new run with a lower train.lr (it is {lr:.3g} at this step) or a longer train.warmup_steps",
        )
