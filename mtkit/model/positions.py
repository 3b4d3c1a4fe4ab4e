"""How the model is told the order of tokens: sinusoidal, learned or rotary positions."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

PositionKind = Literal["sinusoidal", "marian", "learned", "rotary"]


def sinusoid_table(n_positions: int, d_model: int, *, marian: bool = False) -> Tensor:
    """The fixed encodings of positions 0 to n_positions - 1: float32 (n_positions, d_model).

    sin(position / 10000^(2i / d_model)) in the first half of the dimensions, the cosines of the same angles in the
    second (Vaswani et al. 2017, section 3.5; there sines and cosines alternate, which is the same up to the order of
    dimensions). With marian, 10000^(2i / (d_model - 2)) instead, as tensor2tensor and Marian compute them: their
    slowest sinusoid turns by exactly 1/10000 a position.
    """
    n_rates = d_model // 2
    steps = max(1, n_rates - 1) if marian else n_rates
    rates = torch.exp(torch.arange(n_rates, dtype=torch.float64) * (-math.log(10000.0) / steps))
    angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


class SinusoidalPositions(nn.Module):
    """Adds fixed sinusoids to embeddings; the table is computed once and grows if a longer sentence comes."""

    table: Tensor

    def __init__(self, d_model: int, *, marian: bool = False) -> None:
        super().__init__()
        self.marian = marian
        self.register_buffer("table", sinusoid_table(256, d_model, marian=marian), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """x: (..., L, D), its first column being position start; returns the sum, the same shape."""
        end = start + x.size(-2)
        if end > self.table.size(0):
            table = sinusoid_table(2 * end, self.table.size(1), marian=self.marian)
            self.table = table.to(self.table.device)
        return x + self.table[start:end]


class LearnedPositions(nn.Module):
    """Adds a learnt vector per position; there are max_positions of them."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """x: (..., L, D), its first column being position start; raises ValueError beyond max_positions."""
        end = start + x.size(-2)
        if end > self.table.size(0):
            raise ValueError(f"position {end} is beyond max_positions={self.table.size(0)}")
        return x + self.table[start:end]


class NoPositions(nn.Module):
    """Leaves embeddings as they are: the attention turns its queries and keys instead (rotary)."""

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Returns x."""
        return x


class RotaryPositions(nn.Module):
    """Turns queries and keys by an angle that grows with their position (RoPE; Su et al. 2021).

    Their products then depend on the distance of two positions only. Dimension i turns together with i + d_head / 2.
    """

    table: Tensor

    def __init__(self, d_head: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoid_table(256, d_head), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """x: (..., L, d_head), its first row being position start; returns the turned x."""
        end = start + x.size(-2)
        if end > self.table.size(0):
            self.table = sinusoid_table(2 * end, self.table.size(1)).to(self.table.device)
        sin, cos = self.table[start:end].to(x.dtype).chunk(2, dim=-1)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def added_positions(kind: PositionKind, d_model: int, max_positions: int) -> nn.Module:
    """What is added to the embeddings: a module called with (x, start)."""
    if kind in ("sinusoidal", "marian"):
        return SinusoidalPositions(d_model, marian=kind == "marian")
    return LearnedPositions(d_model, max_positions) if kind == "learned" else NoPositions()
