"""Linear layers for training: on a CPU multiplied by oneDNN, at few different sizes."""

from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from mtkit.cores import made_by_intel

Then = Literal["none", "relu"]  # what becomes of a product at once


class Linear(nn.Linear):
    """torch's, with the same weights and (first) gradients; only the last bits depend on who multiplies.

    For training on a CPU it differs in two things. oneDNN makes a kernel for each size of a product, which takes
    milliseconds and a megabyte; so rows are filled up to one of few numbers of them. And torch leaves products in
    float32 to MKL, which uses all that Intel's processors can do, but not what others can: on AMD's, at the sizes of a
    training step, oneDNN needs a quarter less time. (For the weights' gradients, sums over thousands of rows, it has no
    such advantage.) Compiled layers are torch's own: its compiler knows oneDNN's products with constant weights only.
    """

    def forward(self, input: Tensor, then: Then = "none") -> Tensor:
        """(..., n_in) -> (..., n_out); what is negative then becomes zero, if asked for, in the same pass over memory.

        oneDNN's relu makes zero of what is not a number, too.
        """
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else input.dtype
        if torch.is_grad_enabled() and not torch.compiler.is_compiling() and _is_for_onednn(input, self.weight, dtype):
            rows = input.reshape(-1, input.size(-1))
            y: Tensor = _OneDnnLinear.apply(rows, self.weight, self.bias, then, dtype)  # type: ignore[no-untyped-call]
            return y.view(*input.shape[:-1], -1)
        y = super().forward(input)
        return y if then == "none" else y.relu()


def has_onednn() -> bool:
    """Whether this torch brings oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


@cache
def onednn_multiplies(dtype: torch.dtype) -> bool:
    """Whether this torch brings oneDNN, and it multiplies numbers of this precision on this processor."""
    if dtype == torch.bfloat16:
        return has_onednn() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32 and has_onednn()


def _is_for_onednn(x: Tensor, weight: Tensor, dtype: torch.dtype) -> bool:
    """Whether oneDNN is to multiply x by a layer's weight in the precision dtype."""
    return (
        x.device.type == "cpu"
        and weight.dtype == torch.float32
        and onednn_multiplies(dtype)
        and not (dtype == torch.float32 and made_by_intel())
        and x.numel() > 0
    )


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None = None, then: Then = "none") -> Tensor:
    """x (N, n_in) times weight (n_out, n_in) transposed, plus bias, then nothing or relu, by oneDNN, no gradient."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, then, [], "")
    return y


def one_of_few_sizes(n: int) -> int:
    """The next number from n on that has at most six significant bits: 3 % more at most."""
    unit = 1 << max(0, n.bit_length() - 6)
    return -(-n // unit) * unit


def _filled_up(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x (N, D) in this precision and, behind it, rows of zeros up to one of few numbers of rows."""
    if one_of_few_sizes(len(x)) == len(x):
        return x.to(dtype).contiguous()
    rows = _with_zeros_behind(x, dtype)
    rows[: len(x)] = x
    return rows


def _with_zeros_behind(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Room for x (N, D) in this precision, not yet filled, and the rows of zeros behind it."""
    rows = x.new_empty(one_of_few_sizes(len(x)), x.size(1), dtype=dtype)
    rows[len(x) :] = 0
    return rows


class _OneDnnLinear(Function):
    """x W^T + b in this precision, then nothing or relu; x: (N, n_in)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, then: Then, dtype: torch.dtype) -> Tensor:
        rows, matrix = _filled_up(x, dtype), weight.to(dtype)
        y = onednn_product(rows, matrix, None if bias is None else bias.to(dtype), then)
        y.resize_(len(x), len(weight))  # what was filled up goes
        ctx.then, ctx.dtypes = then, (x.dtype, weight.dtype)
        ctx.save_for_backward(rows, matrix, *([y] if then == "relu" else []))
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix, *y = ctx.saved_tensors
        n = len(grad)
        if ctx.then == "relu":
            given, grad = grad, _with_zeros_behind(grad, rows.dtype)
            torch.ops.aten.threshold_backward(given, y[0], 0, grad_input=grad[:n])
        else:
            grad = _filled_up(grad, rows.dtype)
        of_x, of_weight, of_bias = ctx.needs_input_grad[:3]
        of_input, of_parameters = ctx.dtypes
        return (
            onednn_product(grad, matrix.t()).resize_(n, rows.size(1)).to(of_input) if of_x else None,
            (grad.t() @ rows).to(of_parameters) if of_weight else None,
            grad.sum(dim=0).to(of_parameters) if of_bias else None,
            None,
            None,
        )
