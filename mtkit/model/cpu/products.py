"""Matrix products of training on a CPU, by oneDNN or by MKL.

oneDNN multiplies in bf16. In float32 it does so on AMD's processors with AVX-512, which MKL uses only on Intel's: this
makes an update 4 to 8 % faster (Zen 4), with only a few lines more than bf16 needs anyway. With AVX2 alone, MKL is
faster: an update takes 7 to 17 % less time (Zen 3). oneDNN compiles a kernel for each size of a product, which costs
milliseconds and a megabyte. We therefore add rows of zeros, so that the number of rows is one of few sizes.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from mtkit.cores import made_by_intel


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
    """Return x W^T + b with gradients, in autocast's precision; (..., n_in) -> (..., n_out).

    Returns None where torch's own linear has to multiply: without gradients, in other precisions, in compiled code
    (torch's compiler knows oneDNN's products with constant weights only), and where there is nothing to multiply.
    """
    if not torch.is_grad_enabled() or torch.compiler.is_compiling() or x.device.type != "cpu":
        return None
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
    known = dtype == torch.float32 or (dtype == torch.bfloat16 and onednn_multiplies(dtype))
    if not known or weight.dtype != torch.float32 or x.numel() == 0:
        return None
    rows = x.reshape(-1, x.size(-1))
    y: Tensor = _Linear.apply(rows, weight, bias, dtype)  # type: ignore[no-untyped-call]
    return y.view(*x.shape[:-1], -1)


def has_onednn() -> bool:
    """Return whether this torch includes oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


@cache
def onednn_multiplies(dtype: torch.dtype) -> bool:
    """Return whether this torch includes oneDNN, and oneDNN multiplies in this precision on this processor."""
    if dtype == torch.bfloat16:
        return has_onednn() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32 and has_onednn()


@cache
def mkl_is_faster() -> bool:
    """Return whether MKL multiplies float32 faster than oneDNN on this processor."""
    return made_by_intel() or torch.backends.cpu.get_cpu_capability() == "AVX2"


def by_onednn(x: Tensor) -> bool:
    """Return whether oneDNN multiplies matrices like x in training: it can, and it is faster than MKL."""
    return x.device.type == "cpu" and onednn_multiplies(x.dtype) and not (x.dtype == torch.float32 and mkl_is_faster())


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """Return x W^T + b, or max(0, x W^T + b), without a gradient; x: (N, n_in); weight: (n_out, n_in)."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "relu" if relu else "none", [], "")
    return y


def product(x: Tensor, weight: Tensor) -> Tensor:
    """Return x W^T, without a gradient; x: (N, n_in); weight: (n_out, n_in)."""
    return onednn_product(x, weight) if by_onednn(x) else x @ weight.t()


def weight_gradient(grad: Tensor, x: Tensor) -> Tensor:
    """Return the gradient (n_out, n_in) of x W^T by W; grad: (N, n_out); x: (N, n_in).

    In float32 the shape decides which library is faster. MKL is up to a tenth faster if its result is wider than high.
    Where oneDNN is faster, it takes 5 % less time for a result twice as wide and 15 % less for a vocabulary.
    """
    if grad.dtype == torch.float32 and grad.size(1) > x.size(1):
        if by_onednn(grad) and grad.size(1) > 2 * x.size(1):
            return onednn_product(x.t().contiguous(), grad.t()).t()
        return (x.t() @ grad).t()
    return grad.t() @ x


def round_up_size(n: int) -> int:
    """Return the smallest number from n on with at most six significant bits; it is at most 3 % larger than n."""
    unit = 1 << max(0, n.bit_length() - 6)
    return -(-n // unit) * unit


def _pad_rows(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return x (N, D) in this precision, with rows of zeros up to round_up_size(N)."""
    n = round_up_size(len(x))
    if n == len(x):
        return x.to(dtype).contiguous()
    rows = x.new_empty(n, x.size(1), dtype=dtype)
    rows[: len(x)] = x
    rows[len(x) :] = 0
    return rows


class _Linear(Function):
    """x W^T + b in this precision; x: (N, n_in)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
        matrix = weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
        ctx.dtypes, ctx.by_onednn = (x.dtype, weight.dtype), by_onednn(matrix)
        if ctx.by_onednn:
            rows = _pad_rows(x, dtype)
            y = onednn_product(rows, matrix, bias).resize_(len(x), len(weight))  # cuts the padding off
        else:
            rows = x
            y = F.linear(rows, matrix, bias)
        ctx.save_for_backward(rows, matrix)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix = ctx.saved_tensors
        n, grad_x = len(grad), None
        x_wanted, weight_wanted, bias_wanted = ctx.needs_input_grad[:3]
        x_dtype, weight_dtype = ctx.dtypes
        if ctx.by_onednn:
            grad = _pad_rows(grad, rows.dtype)
        if x_wanted:
            grad_x = product(grad, matrix.t()).resize_(n, rows.size(1)).to(x_dtype)
        return (
            grad_x,
            weight_gradient(grad, rows).to(weight_dtype) if weight_wanted else None,
            grad.sum(dim=0).to(weight_dtype) if bias_wanted else None,
            None,
        )
