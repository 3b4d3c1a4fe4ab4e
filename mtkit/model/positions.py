"""Sinusoidal, learned and rotary positions, by which the model knows the order of tokens."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

PositionKind = Literal["sinusoidal", "marian", "learned", "rotary"]


def sinusoid_table(n_positions: int, d_model: int, *, marian: bool = False) -> Tensor:
    """Return the fixed encodings of positions 0 to n_positions - 1: float32 (n_positions, d_model).

    The first half of the dimensions holds sin(position / 10000^(2i / d_model)), the second the cosines of the same
    angles (Vaswani et al. 2017, section 3.5; sines and cosines alternate there, which is only another order).
    With marian, the rates are 10000^(2i / (d_model - 2)), as in tensor2tensor and Marian: the slowest sinusoid turns by
    exactly 1/10000 a position.
    """
    n_rates = d_model // 2
    steps = max(1, n_rates - 1) if marian else n_rates
    rates = torch.exp(torch.arange(n_rates, dtype=torch.float64) * (-math.log(10000.0) / steps))
    angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


class SinusoidalPositions(nn.Module):
    """Fixed sinusoids, added to embeddings; the table grows when a longer sentence comes."""

    table: Tensor

    def __init__(self, d_model: int, *, marian: bool = False) -> None:
        super().__init__()
        self.marian = marian
        self.register_buffer("table", sinusoid_table(256, d_model, marian=marian), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add the positions from start on to x (..., L, D)."""
        table, end = self.table, start + x.size(-2)
        if end > table.size(0):  # other threads may grow it, too
            self.table = table = sinusoid_table(2 * end, table.size(1), marian=self.marian).to(table.device)
        return x + table[start:end]


class LearnedPositions(nn.Module):
    """A learned vector for each of max_positions positions, added to embeddings."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add the positions from start on to x (..., L, D). Raises ValueError beyond max_positions."""
        end = start + x.size(-2)
        if end > self.table.size(0):
            raise ValueError(f"position {end} is beyond max_positions={self.table.size(0)}")
        return x + self.table[start:end]


class NoPositions(nn.Module):
    """No positions in the embeddings: with rotary ones, the attention rotates queries and keys instead."""

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Return x."""
        return x


class RotaryPositions(nn.Module):
    """Rotation of queries and keys by an angle that grows with their position (RoPE; Su et al. 2021).

    Their products then depend only on the distance of two positions. Dimensions i and i + d_head / 2 rotate together.
    """

    table: Tensor

    def __init__(self, d_head: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoid_table(256, d_head), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Rotate x (..., L, d_head), whose first row is at position start."""
        table, end = self.table, start + x.size(-2)
        if end > table.size(0):  # other threads may grow it, too
            self.table = table = sinusoid_table(2 * end, table.size(1)).to(table.device)
        sin, cos = table[start:end].to(x.dtype).chunk(2, dim=-1)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def added_positions(kind: PositionKind, d_model: int, max_positions: int) -> nn.Module:
    """Make the module that adds positions to embeddings; it is called with (x, start)."""
    if kind in ("sinusoidal", "marian"):
        return SinusoidalPositions(d_model, marian=kind == "marian")
    return LearnedPositions(d_model, max_positions) if kind == "learned" else NoPositions()
