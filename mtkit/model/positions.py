"""The kinds of positions that tell the model the order of tokens, added to embeddings or part of attention."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.config.model import PositionKind

SinusoidKind = Literal["sinusoidal", "marian", "fairseq"]
FAIRSEQ_FIRST = 2  # the position of the first token: fairseq counts from the number of its padding token, 1, plus one


def sinusoid_table(n_positions: int, d_model: int, *, marian: bool = False) -> Tensor:
    """Return the fixed encodings of positions 0 to n_positions - 1: float32 (n_positions, d_model).

    The first half of the dimensions holds sin(position / 10000^(2i / d_model)), the second the cosines of the same
    angles (Vaswani et al. 2017, section 3.5; sines and cosines alternate there, but only the order differs).
    With marian, the rates are 10000^(2i / (d_model - 2)), as in tensor2tensor and Marian: the slowest sinusoid turns by
    exactly 1/10000 a position.
    """
    n_rates = d_model // 2
    steps = max(1, n_rates - 1) if marian else n_rates
    rates = torch.exp(torch.arange(n_rates, dtype=torch.float64) * (-math.log(10000.0) / steps))
    angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


def rows_from(table: Tensor, start: int | Tensor, x: Tensor) -> Tensor:
    """Return the rows of a table for x (..., L, _), whose first position is start.

    A start that only the GPU knows is a tensor (1,). L is then 1, and the table is long enough already.
    """
    return table[start] if isinstance(start, Tensor) else table[start : start + x.size(-2)]


class GrowingTable(nn.Module):
    """A module with a table of sinusoids, a row for each position, that grows when a longer sentence arrives."""

    table: Tensor

    def table_of(self, n_positions: int, width: int) -> Tensor:
        """Return the rows of the first n_positions: float32 (n_positions, width)."""
        return sinusoid_table(n_positions, width)

    def grown(self, n_positions: int) -> Tensor:
        """Return the table after it has grown to at least n_positions rows."""
        table = self.table
        if n_positions > table.size(0):  # other threads may grow it, too
            self.table = table = self.table_of(2 * n_positions, table.size(1)).to(table.device)
        return table

    def rows(self, start: int | Tensor, x: Tensor) -> Tensor:
        """Return what `rows_from` does, of a table that is long enough."""
        return rows_from(self.table if isinstance(start, Tensor) else self.grown(start + x.size(-2)), start, x)


class SinusoidalPositions(GrowingTable):
    """Fixed sinusoids, added to embeddings."""

    def __init__(self, d_model: int, kind: SinusoidKind = "sinusoidal") -> None:
        super().__init__()
        self.kind = kind
        self.register_buffer("table", self.table_of(256, d_model), persistent=False)

    def table_of(self, n_positions: int, d_model: int) -> Tensor:
        """Return the encodings of the first n_positions tokens: float32 (n_positions, d_model)."""
        first = FAIRSEQ_FIRST if self.kind == "fairseq" else 0
        return sinusoid_table(first + n_positions, d_model, marian=self.kind != "sinusoidal")[first:]

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:
        """Add the positions from start on to x (..., L, D); see `rows_from` for a tensor."""
        return x + self.rows(start, x)


class LearnedPositions(nn.Module):
    """A learned vector for each of max_positions positions, added to embeddings."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:
        """Add the positions from start on to x (..., L, D). Raises ValueError beyond max_positions."""
        if not isinstance(start, Tensor) and start + x.size(-2) > self.table.size(0):
            raise ValueError(f"position {start + x.size(-2)} is beyond max_positions={self.table.size(0)}")
        return x + rows_from(self.table, start, x)


class NoPositions(nn.Module):
    """No positions in the embeddings: rotary, relative and alibi ones are part of self-attention."""

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:
        """Return x."""
        return x


class RotaryPositions(GrowingTable):
    """Rotation of queries and keys by an angle that grows with their position (RoPE; Su et al. 2021).

    Their products then depend only on the distance of two positions. Dimensions i and i + d_head / 2 rotate together.
    """

    def __init__(self, d_head: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoid_table(256, d_head), persistent=False)

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:
        """Rotate x (..., L, d_head), whose first row is at position start; see `rows_from` for a tensor."""
        sin, cos = self.rows(start, x).to(x.dtype).chunk(2, dim=-1)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class RelativePositions(nn.Module):
    """A learned vector for keys and one for values at each distance (Shaw et al. 2018, equations 3 and 4).

    All heads of a layer share them. Distances beyond max_distance have the vectors of max_distance.
    """

    def __init__(self, d_head: int, max_distance: int, *, causal: bool) -> None:
        """causal: no query looks at later positions, whose distances are above 0 and have no vectors then."""
        super().__init__()
        self.max_distance = max_distance
        n_distances = max_distance + 1 if causal else 2 * max_distance + 1
        self.keys = nn.Parameter(torch.empty(n_distances, d_head))  # row 0: max_distance before the query
        self.values = nn.Parameter(torch.empty(n_distances, d_head))

    def forward(self, distances: Tensor) -> Tensor:
        """Return the vectors for keys, then those for values: (2, N, d_head).

        distances: int (N,), the key's position minus the query's.
        """
        rows = (distances + self.max_distance).clamp(0, len(self.keys) - 1)
        return torch.stack([F.embedding(rows, self.keys), F.embedding(rows, self.values)])

    def reset_parameters(self) -> None:
        """Draw Glorot-uniform vectors."""
        nn.init.xavier_uniform_(self.keys)
        nn.init.xavier_uniform_(self.values)


class LinearBiases(nn.Module):
    """ALiBi: each head's scores fall with the distance, at a fixed rate of its own (Press et al. 2022, section 3).

    The paper has only a decoder, whose queries look back. In the encoder the scores fall equally in both directions
    (-slope |i - j|), which is the authors' first recommendation; the model can see the direction from where `<end>` is.
    """

    slopes: Tensor

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(alibi_slopes(n_heads)), persistent=False)

    def forward(self, distances: Tensor) -> Tensor:
        """Return what is added to the scores, (1, H, Q, L). distances: int (Q, L), of keys from queries."""
        return (distances.abs() * -self.slopes[:, None, None])[None]


def alibi_slopes(n_heads: int) -> list[float]:
    """Return each head's slope: 2^(-8 / H), its square, and so on to 2^-8 (Press et al. 2022, section 3).

    If the number of heads is not a power of two, take the slopes of the next smaller power and then every other slope
    of the next larger one, as in the authors' code.
    """
    power = 2 ** (n_heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * i / power) for i in range(1, power + 1)]
    return slopes + [2.0 ** (-8 * i / (2 * power)) for i in range(1, 2 * (n_heads - power), 2)]


def distances_between(n_positions: int, device: torch.device | None = None) -> Tensor:
    """Return the distances of all keys from all queries of a sequence: int (L, L), above 0 for later keys."""
    positions = torch.arange(n_positions, device=device)
    return positions - positions[:, None]


def linear_biases(kind: PositionKind, n_heads: int) -> LinearBiases | None:
    """Make the biases of a network's self-attention, if it has any."""
    return LinearBiases(n_heads) if kind == "alibi" else None


def added_positions(kind: PositionKind, d_model: int, max_positions: int) -> nn.Module:
    """Make the module that adds positions to embeddings; it is called with (x, start)."""
    if kind in ("sinusoidal", "marian", "fairseq"):
        return SinusoidalPositions(d_model, kind)
    return LearnedPositions(d_model, max_positions) if kind == "learned" else NoPositions()
