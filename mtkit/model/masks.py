"""Masks of padding and of later positions, as a bias that is added to attention scores before the softmax."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor

# Far below any score, so exp(BLOCKED) is exactly 0. Finite in every precision (fp16 ends at -65504), so a row in which
# everything is blocked, such as that of an empty source, does not become NaN.
BLOCKED = -30000.0


def is_one_of(token_ids: Sequence[int], ids: Any) -> Any:
    """Return a mask like ids, a tensor or an array: True where it holds one of these token ids."""
    return reduce(or_, (ids == token_id for token_id in token_ids))


def padding_bias(pad_mask: Tensor) -> Tensor:
    """Keep every query from looking at padding keys.

    pad_mask: bool (B, L), True at padding. Returns float (B, 1, 1, L): 0 where a query may look, else BLOCKED.
    """
    bias = torch.zeros(pad_mask.shape, dtype=torch.float32, device=pad_mask.device)
    return bias.masked_fill_(pad_mask, BLOCKED)[:, None, None, :]


def causal_bias(length: int, device: torch.device | None = None) -> Tensor:
    """Keep every position from looking at later ones. Returns float (1, 1, length, length).

    It also hides padding on the right, because padding follows every real token.
    """
    return torch.full((length, length), BLOCKED, device=device).triu_(diagonal=1)[None, None]
