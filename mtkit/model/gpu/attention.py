"""Attention of sentences on a GPU, in training: `kernels` as an operation of torch, which torch.compile need not see.

A sentence's scores fit on the chip, so memory is the limit: torch's own kernels, made for long texts, take several
times as long as reading and writing the arrays once.
"""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

_LONGEST = 128  # positions
_LARGEST = 128 * 64  # numbers in a head's queries or keys: with more, registers and memory on chip do not suffice


def has_kernels() -> bool:
    """Return whether Triton is installed and the current GPU can run what it compiles."""
    return _has_kernels()


@cache
def _has_kernels() -> bool:
    # 8.0: products in bfloat16, and enough memory on chip
    return (
        torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0) and find_spec("triton") is not None
    )


def can_attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, *, causal: bool) -> bool:
    """Return whether `attend` computes this faster than torch; the arguments are those of `mtkit.model.ops.attend`."""
    longest, d_head = max(q.size(-2), k.size(-2)), q.size(-1)
    return (
        q.device.type == "cuda"
        and torch.is_grad_enabled()
        and all(x.dtype == torch.bfloat16 for x in (q, k, v))
        and d_head in (16, 32, 64, 128)
        and longest <= _LONGEST
        and longest * d_head <= _LARGEST
        and (causal or bias is None or (bias.size(1) == 1 and bias.size(2) == 1))
        and has_kernels()
    )


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, p: float, *, causal: bool) -> Tensor:
    """Compute `mtkit.model.ops.attend`; q: (B, H, Q, d_head); k, v: (B, H, L, d_head); bias: (B or 1, 1, 1, L).

    causal: no query looks at later positions, and the bias has no other purpose. The result's memory is in the order
    (B, Q, H, d_head). Dropout depends on torch's generator alone.
    """
    parts = [x.transpose(1, 2).unsqueeze(2) for x in (q, k, v)]
    return attend_packed(parts, None if causal else bias, p, causal=causal).transpose(1, 2)


def attend_packed(parts: Sequence[Tensor], bias: Tensor | None, p: float, *, causal: bool) -> Tensor:
    """Return what `attend` does, as (B, Q, H, d_head), of queries, keys and values in parts: (B, Q or L, N, H, d_head).

    The N of all parts add up to three. Their gradients are packed in the same way.
    """
    device = parts[0].device
    seed = torch.randint(2**31 - 1, (1,), device=device) if p else None
    mixed: Tensor = _attend(list(parts), None if bias is None else bias.flatten(1), seed, p, causal)
    return mixed


@torch.library.custom_op("mtkit::attend", mutates_args=())
def _attend(parts: Sequence[Tensor], bias: Tensor | None, seed: Tensor | None, p: float, causal: bool) -> Tensor:
    """bias: float32 (B or 1, L); seed: (1,)."""
    from mtkit.model.gpu import kernels  # here: it imports Triton

    q, k, v = _heads([_in_rows(part) for part in parts])
    mixed = q.new_empty(q.shape)
    with torch.cuda.device_of(q):  # type: ignore[no-untyped-call]
        kernels.forward[(q.size(0) * q.size(2),)](
            q, k, v, mixed, *_rows(q, k, v, mixed), *_bias(bias), seed, **_sizes(q, k), P=p, CAUSAL=causal
        )  # fmt: skip
    return mixed


@torch.library.custom_op("mtkit::attend_backward", mutates_args=())
def _attend_backward(
    by_mixed: Tensor, parts: Sequence[Tensor], bias: Tensor | None, seed: Tensor | None, p: float, causal: bool
) -> list[Tensor]:
    """Return the gradients by the parts."""
    from mtkit.model.gpu import kernels  # here: it imports Triton

    q, k, v = _heads([_in_rows(part) for part in parts])
    by_mixed = by_mixed.contiguous()
    by_parts = [part.new_empty(part.shape) for part in parts]
    by_q, by_k, by_v = _heads(by_parts)
    with torch.cuda.device_of(q):  # type: ignore[no-untyped-call]
        kernels.backward[(q.size(0) * q.size(2),)](
            q, k, v, by_mixed, by_q, by_k, by_v, *_rows(q, k, v, by_mixed, by_q, by_k, by_v),
            *_bias(bias), seed, **_sizes(q, k), P=p, CAUSAL=causal,
        )  # fmt: skip
    return by_parts


@_attend.register_fake
def _(parts: Sequence[Tensor], *_: Any) -> Tensor:
    batch, n_queries, _n, *heads = parts[0].shape
    return parts[0].new_empty((batch, n_queries, *heads))


@_attend_backward.register_fake
def _(by_mixed: Tensor, parts: Sequence[Tensor], *_: Any) -> list[Tensor]:
    return [part.new_empty(part.shape) for part in parts]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    parts, bias, seed, ctx.p, ctx.causal = inputs
    ctx.save_for_backward(*parts, bias, seed)


def _differentiate(ctx: Any, by_mixed: Tensor) -> tuple[Any, ...]:
    *parts, bias, seed = ctx.saved_tensors
    return _attend_backward(by_mixed, parts, bias, seed, ctx.p, ctx.causal), None, None, None, None


_attend.register_autograd(_differentiate, setup_context=_save)


def _heads(parts: Sequence[Tensor]) -> list[Tensor]:
    """Return queries, keys and values as views (B, Q or L, H, d_head) of the parts."""
    return [x for part in parts for x in part.unbind(2)]


def _in_rows(part: Tensor) -> Tensor:
    """Return the part if its heads, and its positions with equal distances, are in the order that kernels assume."""
    row, d_head = part.stride(1), part.size(4)
    strides = (part.size(1) * row, d_head, 1)
    return part if (part.stride(0), *part.stride()[3:]) == strides else part.contiguous()


def _rows(*xs: Tensor) -> list[int]:
    """Return the distances between two positions; torch leaves the stride of a single one undefined."""
    return [x.stride(1) if x.size(1) > 1 else x.stride(0) for x in xs]


def _bias(bias: Tensor | None) -> tuple[Tensor | None, int]:
    """Return the bias in memory's order, and the distance between two sentences."""
    if bias is None:
        return None, 0
    bias = bias.contiguous()
    return bias, 0 if bias.size(0) == 1 else bias.size(1)


def _sizes(q: Tensor, k: Tensor) -> dict[str, int]:
    """Return the sizes that both kernels need, and how many warps compute a pair."""
    d_head, tiles = q.size(3), [max(16, 1 << (x.size(1) - 1).bit_length()) for x in (q, k)]
    return {
        "n_heads": q.size(2),
        "n_queries": q.size(1),
        "n_keys": k.size(1),
        "D": d_head,
        "Q": tiles[0],
        "L": tiles[1],
        "num_warps": max(1, min(8, max(tiles) // 16)),
    }
