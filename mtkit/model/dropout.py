"""Dropout of elements and of whole tokens."""

import torch
from torch import Tensor, nn

from mtkit.model import ops


class Dropout(nn.Module):
    """Zero each element with probability p and scale the others by 1 / (1 - p), in training."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    @property
    def rate(self) -> float:
        """The current probability: p in training, else 0."""
        return self.p if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Return x, of any shape, with elements dropped."""
        return ops.dropout(x, self.rate)

    def extra_repr(self) -> str:
        """Return what print(model) shows."""
        return f"p={self.p}"


class WordDropout(Dropout):
    """Zero whole tokens with probability p and scale the others by 1 / (1 - p), in training.

    <start> and <end> can be dropped like any other token. With little training text this helps clearly, on both sides
    (Sennrich and Zhang 2019, section 4).
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return x (..., D), a vector a token, with tokens dropped."""
        return x * ops.dropout(torch.ones_like(x[..., :1]), self.rate) if self.rate else x
