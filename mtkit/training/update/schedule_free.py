"""Schedule-Free AdamW: the mean of all weights so far replaces a falling learning rate."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from mtkit.model import ops


class ScheduleFreeAdamW(torch.optim.Optimizer):
    """AdamW without a schedule (Defazio et al. 2024, arXiv 2405.15682, algorithm 1).

    There are three sequences of weights. Adam's steps change z. Their mean x, in which each z counts by the square of
    the highest learning rate up to then, is the model to validate and to keep. The gradient is that of
    y = (1 - beta1) z + beta1 x, and only y is in the parameters. So beta1 takes the place of momentum. The weights are
    useful after every update, whichever the length of the run; the learning rate stays as it is after the warm-up.
    """

    def __init__(self, groups: Sequence[dict[str, Any]], lr: float, betas: tuple[float, float], eps: float) -> None:
        progress = {"step": 0, "highest_lr": 0.0, "sum_of_weights": 0.0}  # of the mean x, in each group
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0, **progress})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make an update from the gradients."""
        for group in self.param_groups:
            ys = [parameter for parameter in group["params"] if parameter.grad is not None]
            for y in ys:
                if y not in self.state:  # z = x = y at the start
                    self.state[y] = {"z": y.detach().clone(), "exp_avg_sq": torch.zeros_like(y)}
            if ys:
                self._step(group, ys)

    def _step(self, group: dict[str, Any], ys: list[Tensor]) -> None:
        zs, squares = ([self.state[y][name] for y in ys] for name in ("z", "exp_avg_sq"))
        gradients = [y.grad for y in ys if y.grad is not None]
        lr, (beta1, beta2) = group["lr"], group["betas"]
        group["step"] += 1
        group["highest_lr"] = max(group["highest_lr"], lr)
        weight = group["highest_lr"] ** 2
        group["sum_of_weights"] += weight
        share = weight / group["sum_of_weights"] if weight else 0.0  # of this z in the mean
        correction = 1 - beta2 ** group["step"]
        numbers = lr, beta1, beta2, correction, group["eps"], group["weight_decay"], share
        ops.schedule_free_step(ys, zs, squares, gradients, numbers)

    @contextmanager
    def mean_weights(self) -> Iterator[None]:
        """Put the mean x into the parameters for this block; afterwards they are as before, bit for bit."""
        changed = [(group, parameter) for group in self.param_groups for parameter in group["params"]]
        changed = [(group, parameter) for group, parameter in changed if parameter in self.state]
        kept = [parameter.detach().clone() for _, parameter in changed]
        with torch.no_grad():
            for group, y in changed:
                y.lerp_(self.state[y]["z"], 1 - 1 / group["betas"][0])
        try:
            yield
        finally:
            with torch.no_grad():
                for (_, parameter), values in zip(changed, kept, strict=True):
                    parameter.copy_(values)
