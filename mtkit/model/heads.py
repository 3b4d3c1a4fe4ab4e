"""Views of packed products as the heads of multi-head attention (Vaswani et al. 2017, section 3.2.2), and back."""

from torch import Tensor


def split_heads(x: Tensor, n_parts: int, n_heads: int) -> tuple[Tensor, ...]:
    """Split (B, L, n_parts D) into n_parts tensors (B, H, L, d_head), which are contiguous on a CPU.

    Kernels for a GPU need no such copy.
    """
    parts = x.view(*x.shape[:2], n_parts, n_heads, -1).unbind(2)  # before transpose: one copy each in the backward pass
    heads = (part.transpose(1, 2) for part in parts)
    return tuple(part.contiguous() for part in heads) if x.device.type == "cpu" else tuple(heads)


def join_heads(x: Tensor) -> Tensor:
    """Join heads (B, H, L, d_head) into (B, L, D)."""
    return x.transpose(1, 2).flatten(2)
