"""A run that diverges: how that is noticed, and the place from which it is tried once more with a lower rate.

To go back to an earlier checkpoint and lower the learning rate is what has kept the largest runs going (Zhang et al.
2022, "OPT", section 2.5). Here it happens once; what diverges twice needs a person.
"""

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from mtkit.distributed.sharding import own_part
from mtkit.errors import TrainingError

if TYPE_CHECKING:
    from mtkit.training.state import TrainState
    from mtkit.training.update import MovingAverage

LR_FACTOR = 0.5  # of the learning rate after going back
_N_HIGH = 20  # updates in a row; a single one may have met bad lines, and comes back by itself
_MARGIN = 1.0  # nats per token
_MEAN_DECAY = 0.98  # a running mean over some 50 updates


class Divergence(TrainingError):
    """The loss is not finite any more, or far above what it was."""

    def __init__(self, finding: str, remedy: str) -> None:
        super().__init__(f"{finding}\n{remedy}")
        self.finding = finding  # what happened, without what to do


@dataclass
class Recovery:
    """That a run went back: after `failed_step` updates or in the next one it diverged, and went on from `step`."""

    step: int
    failed_step: int
    reason: str
    lr_factor: float = LR_FACTOR


@dataclass
class LossWatch:
    """Tells a loss that explodes from one that wavers.

    A loss is high if it is a nat above the lowest running mean so far and nearer to guessing at random than to that
    mean: more than half of what was learnt is lost. At the start, before anything is learnt, the first loss or that of
    guessing takes the place of the mean, whichever is more: the noise and the slow fall of a warm-up are no rise. A
    first loss clearly below guessing is that of a model that was trained before, which can be lost as well.
    Gradients are not looked at: they are clipped, and Adam's steps do not grow with them.
    """

    mean: float | None = None  # nats per target token, without smoothing; of the updates that were not high
    lowest: float = 0.0
    n_high: int = 0  # updates in a row, up to now

    def add(self, nll: float, n_classes: int) -> bool:
        """Count an update's loss in nats per token; returns whether the run has diverged. n_classes: of the output."""
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
        """The error to raise when `add` has returned True."""
        return Divergence(
            f"step {step}: the loss explodes: {nll:.2f} nats per token, and high since step {step - self.n_high + 1}, "
            f"after a running mean of {self.lowest:.2f}",
            f"start a new run with a lower train.lr (it is {lr:.3g} at this step) or a longer train.warmup_steps",
        )


class Start:
    """The state and the weights before the first update, to go back to while there is no checkpoint."""

    def __init__(self, state: "TrainState", model: nn.Module, grad_scaler: "torch.amp.GradScaler") -> None:
        self.state = copy.deepcopy(state)
        self.state.grad_scaler = grad_scaler.state_dict()
        self._weights = [own_part(parameter).detach().to("cpu", copy=True) for parameter in model.parameters()]

    @torch.no_grad()
    def restore(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, average: "MovingAverage | None" = None
    ) -> None:
        """Give model, optimizer and running mean the values that they had; as `Checkpoint.restore`."""
        models = [model] if average is None else [model, average.model]
        for each in models:
            for parameter, weight in zip(each.parameters(), self._weights, strict=True):
                own_part(parameter).copy_(weight)
        optimizer.state.clear()
