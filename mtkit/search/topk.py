"""The k largest values of each row, with a rule for ties."""

import math

import torch
from torch import Tensor

_STRANDS = 16  # a long row is cut into this many pieces to find its largest values


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the k largest of each row of values (B, N) and their indices, largest first; the lower index among equals.

    The third tensor (B,) holds the lead of the k-th value over the next one, inf if there is none.
    `torch.topk` takes any of several equal values, and which one depends on the shape. So ask for one more: if two
    neighbours are equal, repeat that row, and only that row.
    """
    best, indices = _fast_topk(values, min(k + 1, values.size(1)))
    tied = ((best[:, 1:] == best[:, :-1]) & best[:, 1:].isfinite()).any(dim=1)
    gap = best[:, k - 1] - best[:, k] if best.size(1) > k else torch.full_like(best[:, 0], math.inf)
    gap = gap.nan_to_num(nan=math.inf, posinf=math.inf)  # -inf minus -inf: nothing left to choose from
    best, indices = best[:, :k].clone(), indices[:, :k].clone()
    for row in tied.nonzero()[:, 0].tolist():
        candidates = (values[row] >= best[row, -1]).nonzero()[:, 0]  # in rising order
        order = values[row, candidates].sort(descending=True, stable=True).indices[:k]
        indices[row] = candidates[order]
        best[row] = values[row, indices[row]]
    return best, indices, gap


def _fast_topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return `values.topk(k)` of each row of values (B, N), much faster for long rows on a CPU.

    See a row as _STRANDS strands of C values below each other: its k largest values are all in the k columns with the
    largest maxima.
    """
    n_rows, n_columns = values.size(0), values.size(1) // _STRANDS
    if values.device.type != "cpu" or values.numel() < 16_000 or n_columns < k:
        best, indices = values.topk(k)
        return best, indices
    width = n_columns * _STRANDS
    columns = values[:, :width].view(n_rows, _STRANDS, n_columns).amax(1).topk(k, sorted=False).indices
    candidates = (columns[:, None, :] + torch.arange(0, width, n_columns)[:, None]).flatten(1)
    candidates = torch.cat([candidates, torch.arange(width, values.size(1)).expand(n_rows, -1)], dim=1)
    best, chosen = values.gather(1, candidates).topk(k)
    return best, candidates.gather(1, chosen)
