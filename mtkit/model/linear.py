"""Linear layers for training: on a CPU multiplied by oneDNN, at few different sizes, or by MKL."""

from functools import cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from mtkit.cores import made_by_intel

Then = Literal["none", "relu"]  # what becomes of a product at once


class Linear(nn.Linear):
    """torch's, with the same weights and (first) gradients; only the last bits depend on who multiplies.

    For training on a CPU it differs in three things. oneDNN makes a kernel for each size of a product, which takes
    milliseconds and a megabyte; so rows are filled up to one of few numbers of them. And torch leaves products in
    float32 to MKL, which uses all that Intel's processors can do, but not what others can: on AMD's, at the sizes of a
    training step, oneDNN needs a tenth to a quarter less time. Compiled layers are torch's own: its compiler knows
    oneDNN's products with constant weights only.
    """

    def forward(self, input: Tensor, then: Then = "none") -> Tensor:
        """(..., n_in) -> (..., n_out); what is negative then becomes zero, if asked for."""
        y = self._multiply(input, self.bias)
        return y if then == "none" else y.relu()

    def product(self, input: Tensor) -> Tensor:
        """(..., n_in) -> (..., n_out), without the bias, which somebody else has to add."""
        return self._multiply(input, None)

    def _multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
        if not torch.is_grad_enabled() or torch.compiler.is_compiling() or not _is_ours(x, self.weight, dtype):
            return F.linear(x, self.weight, bias)
        rows = x.reshape(-1, x.size(-1))
        y: Tensor = _CpuLinear.apply(rows, self.weight, bias, dtype)  # type: ignore[no-untyped-call]
        return y.view(*x.shape[:-1], -1)


def has_onednn() -> bool:
    """Whether this torch brings oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


@cache
def onednn_multiplies(dtype: torch.dtype) -> bool:
    """Whether this torch brings oneDNN, and it multiplies numbers of this precision on this processor."""
    if dtype == torch.bfloat16:
        return has_onednn() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32 and has_onednn()


def _is_ours(x: Tensor, weight: Tensor, dtype: torch.dtype) -> bool:
    """Whether x is to be multiplied here by a layer's weight in the precision dtype."""
    return (
        x.device.type == "cpu"
        and weight.dtype == torch.float32
        and (dtype == torch.float32 or (dtype == torch.bfloat16 and onednn_multiplies(dtype)))
        and x.numel() > 0
    )


def by_onednn(x: Tensor) -> bool:
    """Whether oneDNN multiplies such matrices in training: it can, and it is faster than torch's own products."""
    return x.device.type == "cpu" and onednn_multiplies(x.dtype) and not (x.dtype == torch.float32 and made_by_intel())


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None = None, then: Then = "none") -> Tensor:
    """x (N, n_in) times weight (n_out, n_in) transposed, plus bias, then nothing or relu, by oneDNN, no gradient."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, then, [], "")
    return y


def product(x: Tensor, weight: Tensor) -> Tensor:
    """x (N, n_in) times weight (n_out, n_in) transposed, by whatever is faster here, no gradient."""
    return onednn_product(x, weight) if by_onednn(x) else x @ weight.t()


def one_of_few_sizes(n: int) -> int:
    """The next number from n on that has at most six significant bits: 3 % more at most."""
    unit = 1 << max(0, n.bit_length() - 6)
    return -(-n // unit) * unit


def weight_gradient(rows: Tensor, grad: Tensor) -> Tensor:
    """The gradient (n_out, n_in) by a matrix, from what it multiplied (N, n_in) and the gradient by the products.

    Its shape decides what is fastest, in float32: MKL is up to a tenth faster where its result is wide, not high, and
    oneDNN, where it is the better one, needs 5 % less than that for twice as wide a result, 15 % for a vocabulary.
    """
    if grad.dtype == torch.float32 and grad.size(1) > rows.size(1):
        if by_onednn(grad) and grad.size(1) > 2 * rows.size(1):
            return onednn_product(rows.t().contiguous(), grad.t()).t()
        return (rows.t() @ grad).t()
    return grad.t() @ rows


def _filled_up(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x (N, D) in this precision and, behind it, rows of zeros up to one of few numbers of rows."""
    n = one_of_few_sizes(len(x))
    if n == len(x):
        return x.to(dtype).contiguous()
    rows = x.new_empty(n, x.size(1), dtype=dtype)
    rows[: len(x)] = x
    rows[len(x) :] = 0
    return rows


class _CpuLinear(Function):
    """x W^T + b in this precision; x: (N, n_in)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
        matrix = weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
        ctx.dtypes, ctx.by_onednn = (x.dtype, weight.dtype), by_onednn(matrix)
        if ctx.by_onednn:
            rows = _filled_up(x, dtype)
            y = onednn_product(rows, matrix, bias).resize_(len(x), len(weight))  # what was filled up goes
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
        of_x, of_weight, of_bias = ctx.needs_input_grad[:3]
        of_input, of_parameters = ctx.dtypes
        if ctx.by_onednn:
            grad = _filled_up(grad, rows.dtype)
        if of_x:
            grad_x = product(grad, matrix.t()).resize_(n, rows.size(1)).to(of_input)
        return (
            grad_x,
            weight_gradient(rows, grad).to(of_parameters) if of_weight else None,
            grad.sum(dim=0).to(of_parameters) if of_bias else None,
            None,
        )
