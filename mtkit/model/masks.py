"""Who may look where: masks as a bias that is added to attention scores before the softmax."""

import torch
from torch import Tensor

# Far below any score, yet finite in every precision (fp16 ends at -65504): exp(BLOCKED) is exactly 0, and a row in
# which everything is blocked, such as the one of an empty source, stays a number instead of becoming NaN.
BLOCKED = -30000.0


def padding_bias(pad_mask: Tensor) -> Tensor:
    """Keep every query from looking at padding keys.

    pad_mask: bool (B, L), True at padding. Returns float (B, 1, 1, L): 0 where a query may look, else BLOCKED.
    """
    bias = torch.zeros(pad_mask.shape, dtype=torch.float32, device=pad_mask.device)
    return bias.masked_fill_(pad_mask, BLOCKED)[:, None, None, :]


def causal_bias(length: int, device: torch.device | None = None) -> Tensor:
    """Keep every position from looking at later ones; returns float (1, 1, length, length).

    Padding on the right needs no mask of its own beside this one: it comes later than every real token.
    """
    return torch.full((length, length), BLOCKED, device=device).triu_(diagonal=1)[None, None]
