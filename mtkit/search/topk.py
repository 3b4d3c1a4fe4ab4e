"""The k largest values of each row, ties broken by position."""

import math

import torch
from torch import Tensor

_STRANDS = 16  # in which a long row is searched for its largest values


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k largest of each row of values (B, N) with their positions, largest first; of equals the lower position.

    The third tensor (B,) tells by how much the last of them was ahead of the next one, inf if there is none.
    `topk` leaves open which of equals it takes, and lets that depend on the shape. So one more is asked for: if two
    neighbours are equal, that row is done again, and only that row.
    """
    best, positions = _fast_topk(values, min(k + 1, values.size(1)))
    tied = ((best[:, 1:] == best[:, :-1]) & best[:, 1:].isfinite()).any(dim=1)
    gap = best[:, k - 1] - best[:, k] if best.size(1) > k else torch.full_like(best[:, 0], math.inf)
    gap = gap.nan_to_num(nan=math.inf, posinf=math.inf)  # -inf minus -inf: nothing left to choose from
    best, positions = best[:, :k].clone(), positions[:, :k].clone()
    for row in tied.nonzero()[:, 0].tolist():
        among = (values[row] >= best[row, -1]).nonzero()[:, 0]  # positions in rising order
        order = values[row, among].sort(descending=True, stable=True).indices[:k]
        positions[row] = among[order]
        best[row] = values[row, positions[row]]
    return best, positions, gap


def _fast_topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`values.topk(k)` of each row of values (B, N), much faster on long rows of a CPU.

    A row is seen as _STRANDS strands of C values below each other: whatever is among its k largest values is in one of
    the k columns whose largest values are largest.
    """
    n_rows, n_columns = values.size(0), values.size(1) // _STRANDS
    if values.device.type != "cpu" or values.numel() < 16_000 or n_columns < k:
        best, positions = values.topk(k)
        return best, positions
    width = n_columns * _STRANDS
    columns = values[:, :width].view(n_rows, _STRANDS, n_columns).amax(1).topk(k, sorted=False).indices
    places = (columns[:, None, :] + torch.arange(0, width, n_columns)[:, None]).flatten(1)
    if width < values.size(1):
        places = torch.cat([places, torch.arange(width, values.size(1)).expand(n_rows, -1)], dim=1)
    best, chosen = values.gather(1, places).topk(k)
    return best, places.gather(1, chosen)
