"""The kernels of `mtkit.model.cpu.kernels` as torch functions with gradients; each goes over memory once.

Every function expects tensors that `has_kernels` accepts.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from mtkit.cores import numba_version

_STRIP = 2**16  # a thread for fewer elements would not pay


def has_kernels(*tensors: Tensor) -> bool:
    """Return whether numba works and its kernels accept these tensors; in code that torch compiles they accept none."""
    return (
        not torch.compiler.is_compiling()
        and all(x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16) for x in tensors)
        and has_numba()
    )


def dropout(x: Tensor, p: float, seed: int) -> Tensor:
    """Zero each element of x with probability p, and scale the others so that the mean stays."""
    y: Tensor = _Dropout.apply(x, p, seed)  # type: ignore[no-untyped-call]
    return y


def add_dropout(x: Tensor, y: Tensor, p: float, seed: int) -> Tensor:
    """Return x + dropout(y), both of one shape, in the precision of the sum x + y."""
    z: Tensor = _AddDropout.apply(x, y, p, seed)  # type: ignore[no-untyped-call]
    return z


def relu_dropout(x: Tensor, bias: Tensor, p: float, seed: int) -> Tensor:
    """Return dropout(relu(x + bias)); x: (..., D); bias: (D,); p may be 0."""
    y: Tensor = _ReluDropout.apply(x, bias, p, seed)  # type: ignore[no-untyped-call]
    return y


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    """Normalise the last dimension (Ba et al. 2016); the result has this precision; gain, bias: (D,)."""
    y: Tensor = _LayerNorm.apply(x, gain, bias, eps, dtype)  # type: ignore[no-untyped-call]
    return y


def softmax(scores: Tensor, bias: Tensor | None, scale: float, n_heads: int) -> Tensor:
    """Return softmax(scale x scores + bias) over the last dimension.

    scores: (B x H, Q, L); bias: (B or 1, H or 1, Q or 1, L), float32. Returns (B x H, Q, L) in the precision of scores.
    """
    weights: Tensor = _Softmax.apply(scores, bias, scale, n_heads)  # type: ignore[no-untyped-call]
    return weights


def cross_entropy_(
    logits: Tensor, bias: Tensor, targets: Tensor, label_smoothing: float, r_drop: float
) -> tuple[float, float, Tensor]:
    """Return the summed loss of `mtkit.training.update.loss`, its unsmoothed part, and the gradient by the bias, (V,).

    logits: (P, N or more, V), without their bias (V,); the first N rows become their own gradients, the others stay as
    they are. targets: (N,). Raises IndexError if a target is not from 0 to V - 1.
    """
    n_positions, n_tokens = len(targets), logits.size(2)
    if n_positions and not 0 <= targets.min() <= targets.max() < n_tokens:
        raise IndexError(f"targets from {targets.min()} to {targets.max()}, but the vocabulary has {n_tokens} tokens")
    n_strips = _n_strips(n_positions, len(logits) * n_positions * n_tokens)
    by_bias, sums = np.zeros((n_strips, n_tokens), np.float32), np.zeros((n_strips, 2))
    rows, added, ids, kernels = _array(logits), _vector(bias), targets.numpy(), _kernels()
    smoothing, strength = np.float32(label_smoothing), np.float32(r_drop)

    def work(strip: int, first: int, last: int) -> None:
        kernels.cross_entropy(rows, added, ids, smoothing, strength, by_bias[strip], sums[strip], first, last)

    _in_strips(work, n_positions, n_strips)
    loss, nll = sums.sum(axis=0).tolist()
    return loss, nll, torch.from_numpy(by_bias).sum(dim=0)


def are_plain(*tensors: Tensor) -> bool:
    """Return whether these are whole tensors in float32 without gaps, and not the shards of FSDP2."""
    kinds = (Tensor, nn.Parameter)
    return all(type(x) in kinds and x.dtype == torch.float32 and x.is_contiguous() for x in tensors)


def schedule_free_step(weights: Sequence[Sequence[Tensor]], numbers: Sequence[float]) -> None:
    """Call the kernel of this name for each weight: y, z, squares and gradient, all plain."""
    kernel, given = _kernels().schedule_free_step, [np.float32(number) for number in numbers]
    for tensors in weights:
        n = tensors[0].numel()
        work = partial(_step_in_strip, kernel, [_flat(x) for x in tensors], given)
        _in_strips(work, n, _n_strips(n, n))


def _step_in_strip(kernel: Any, arrays: Any, numbers: Any, _strip: int, first: int, last: int) -> None:
    kernel(*arrays, *numbers, first, last)


def has_numba() -> bool:
    """Return whether numba, which compiles `kernels`, works."""
    return numba_version() is not None


@cache
def _kernels() -> ModuleType:
    """Import the kernels at their first use, because that takes a second and translating does not need them."""
    from mtkit.model.cpu import kernels

    return kernels


def _array(x: Tensor) -> "np.ndarray[Any, Any]":
    """Return x's memory as `kernels` expects it: bfloat16 as uint16."""
    x = x.detach()
    return x.view(torch.uint16).numpy() if x.dtype == torch.bfloat16 else x.numpy()


def _vector(x: Tensor) -> "np.ndarray[Any, Any]":
    """Return a copy of a weight, because torch never frees memory that numpy has seen, and FSDP2 must free weights."""
    return _array(x.detach().clone())


def _flat(x: Tensor) -> "np.ndarray[Any, Any]":
    return _array(x).reshape(-1)


def _drawn(seed: int, p: float) -> tuple[np.uint64, np.uint32, np.float32]:
    """Return the arguments of a kernel that drops: seed, p in units of 2^-24 (at least 1 unless p is 0), and scale."""
    units = min(max(1 if p else 0, round(p * 2**24)), 2**24 - 1)
    return np.uint64(seed), np.uint32(units), np.float32(2**24 / (2**24 - units))


def _n_strips(n: int, n_elements: int) -> int:
    """Return the number of strips to cut n items into, so that each of torch's threads gets enough elements."""
    return max(1, min(torch.get_num_threads(), n, n_elements // _STRIP))


def _in_strips(work: Callable[[int, int, int], None], n: int, n_strips: int) -> None:
    """Call work(index of the strip, first, last) for each strip of n items, in n_strips threads."""
    bounds = [n * i // n_strips for i in range(n_strips + 1)]
    strips = list(enumerate(pairwise(bounds)))
    others = [_pool().submit(work, index, *strip) for index, strip in strips[1:]]
    work(0, *strips[0][1])
    for other in others:
        other.result()


def _over_blocks(kernel: Any, *arguments: Any, n_elements: int) -> None:
    """Call a kernel for all blocks of elements, in strips."""
    n = -(-n_elements // _kernels().BLOCK)
    _in_strips(lambda _, first, last: kernel(*arguments, first, last), n, _n_strips(n, n_elements))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="mtkit-kernel")


class _Dropout(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int) -> Tensor:
        ctx.drawn = p, seed
        return _dropped(x, x.dtype, p, seed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _dropped(grad, grad.dtype, *ctx.drawn), None, None


def _dropped(x: Tensor, dtype: torch.dtype, p: float, seed: int) -> Tensor:
    """Drop elements of x; the seed decides which, so the backward pass draws the mask again instead of keeping it."""
    x = x.contiguous()
    out = torch.empty_like(x, dtype=dtype)
    _over_blocks(_kernels().dropout, _flat(x), _flat(out), *_drawn(seed, p), n_elements=x.numel())
    return out


class _AddDropout(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, p: float, seed: int) -> Tensor:
        ctx.drawn, ctx.dtypes = (p, seed), (x.dtype, y.dtype)
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x, dtype=torch.promote_types(x.dtype, y.dtype))
        arrays = _flat(x), _flat(y), _flat(out)
        _over_blocks(_kernels().add_dropout, *arrays, *_drawn(seed, p), n_elements=x.numel())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x_dtype, y_dtype = ctx.dtypes
        return grad.to(x_dtype), _dropped(grad, y_dtype, *ctx.drawn), None, None


class _ReluDropout(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, p: float, seed: int) -> Tensor:
        x = x.contiguous()
        out, kernels, drawn = torch.empty_like(x), _kernels(), _drawn(seed, p)
        repeated = np.resize(_array(bias.detach().to(torch.float32, copy=True)), len(bias) + kernels.BLOCK)
        _over_blocks(kernels.relu_dropout, _flat(x), repeated, _flat(out), len(bias), *drawn, n_elements=x.numel())
        ctx.scale, ctx.of_bias = drawn[-1], bias.dtype
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (y,) = ctx.saved_tensors
        grad, size, kernels, scale = grad.contiguous(), y.size(-1), _kernels(), ctx.scale
        out, n_blocks = torch.empty_like(grad), -(-y.numel() // kernels.BLOCK)
        arrays = _flat(y), _flat(grad), _flat(out)
        n_strips = _n_strips(n_blocks, y.numel())
        by_bias = np.zeros((n_strips, size + kernels.BLOCK), np.float32)

        def work(strip: int, first: int, last: int) -> None:
            kernels.relu_dropout_gradient(*arrays, by_bias[strip], size, scale, first, last)

        _in_strips(work, n_blocks, n_strips)
        total = by_bias.sum(axis=0)
        for start in range(size, len(total), size):
            more = total[start : start + size]
            total[: len(more)] += more
        return out, torch.from_numpy(total[:size]).to(ctx.of_bias), None, None


class _LayerNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
        x, size, kernels = x.contiguous(), x.size(-1), _kernels()
        out, n = torch.empty_like(x, dtype=dtype), x.numel() // size
        kept = torch.empty(2, n, dtype=torch.float32)
        rows, result = (_array(whole).reshape(-1, size) for whole in (x, out))
        arrays = [rows, _vector(gain), _vector(bias), result, *kept.numpy()]

        def work(_: int, first: int, last: int) -> None:
            kernels.layer_norm(*arrays, np.float32(eps), first, last)

        _in_strips(work, n, _n_strips(n, x.numel()))
        ctx.save_for_backward(x, gain, kept)
        ctx.of_bias = bias.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, kept = ctx.saved_tensors
        size, kernels = x.size(-1), _kernels()
        n, out = x.numel() // size, torch.empty_like(x)
        given = [_array(x).reshape(-1, size), _vector(gain), *kept.numpy(), _array(grad.contiguous()).reshape(-1, size)]
        result, n_strips = _array(out).reshape(-1, size), _n_strips(n, x.numel())
        sums = np.zeros((n_strips, 2, size), np.float32)

        def work(strip: int, first: int, last: int) -> None:
            kernels.layer_norm_gradient(*given, result, *sums[strip], first, last)

        _in_strips(work, n, n_strips)
        by_gain, by_bias = torch.from_numpy(sums.sum(axis=0))
        return out, by_gain.to(gain.dtype), by_bias.to(ctx.of_bias), None, None


class _Softmax(Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, bias: Tensor | None, scale: float, n_heads: int) -> Tensor:
        n, _, n_keys = scores.shape
        scores, out = scores.contiguous(), torch.empty_like(scores, memory_format=torch.contiguous_format)
        bias = torch.zeros(1, 1, 1, n_keys) if bias is None else bias.contiguous()
        arrays, kernels, scale_ = (_array(scores), _array(bias), _array(out)), _kernels(), np.float32(scale)

        def work(_: int, first: int, last: int) -> None:
            kernels.softmax(*arrays, scale_, n_heads, first, last)

        _in_strips(work, n, _n_strips(n, scores.numel()))
        ctx.scale = scale_
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (weights,) = ctx.saved_tensors
        grad = grad.contiguous()
        out = torch.empty_like(weights)
        n_keys, kernels, scale = weights.size(-1), _kernels(), ctx.scale
        arrays = [_array(x).reshape(-1, n_keys) for x in (weights, grad, out)]

        def work(_: int, first: int, last: int) -> None:
            kernels.softmax_gradient(*arrays, scale, first, last)

        n = weights.numel() // n_keys
        _in_strips(work, n, _n_strips(n, weights.numel()))
        return out, None, None, None
