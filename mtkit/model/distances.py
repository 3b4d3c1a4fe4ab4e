"""Convert numbers of pairs of positions between two layouts: by query and key, or by query and distance."""

import torch.nn.functional as F
from torch import Tensor


def by_key(x: Tensor, n_keys: int) -> Tensor:
    """Turn numbers by distance (..., L, 2 L), as of `attend_relative`, into numbers by key (..., L, L).

    Read in memory's order, a row by distance begins one number later by key than the row before it, so the result is a
    view. It returns x itself if x is by key already.
    """
    if x.size(-1) == n_keys:
        return x
    row = 2 * n_keys - 1
    inner = x.flatten(-2)[..., n_keys - 1 : n_keys - 1 + n_keys * row]
    return inner.view(*x.shape[:-1], row)[..., :n_keys]


def by_distance(x: Tensor, n_rows: int) -> Tensor:
    """Turn numbers by key (..., L, L) into numbers by distance (..., L, 2 L), 0 where no key is: undo `by_key`."""
    n_keys = x.size(-1)
    if n_rows == n_keys:
        return x
    return F.pad(F.pad(x, (0, n_keys - 1)).flatten(-2), (n_keys - 1, 1)).view(*x.shape[:-1], n_rows)
