"""The first half of a feed-forward layer on a GPU: the product's kernel also adds the bias and applies ReLU.

torch.compile leaves such a product to the library, and would read and write its result once more for the ReLU.
"""

from typing import Any

import torch
from torch import Tensor


def working_dtype(x: Tensor) -> torch.dtype:
    """Return the type in which the device computes products with x: with autocast not that of x."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def has_relu_linear(x: Tensor) -> bool:
    """Return whether `relu_linear` is faster than torch's two operations."""
    return x.device.type == "cuda" and working_dtype(x) in (torch.bfloat16, torch.float16)


def relu_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return max(0, x W^T + b) in the working precision: (..., n_in) -> (..., n_out)."""
    dtype = working_dtype(x)
    rows: Tensor = _relu_linear(x.to(dtype).flatten(0, -2), weight.to(dtype), bias.to(dtype))
    return rows.view(*x.shape[:-1], -1)


@torch.library.custom_op("mtkit::relu_linear", mutates_args=())
def _relu_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x: (N, n_in)."""
    return torch._addmm_activation(bias, x, weight.t())


@_relu_linear.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.size(0), weight.size(0))


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    x, weight, _bias = inputs
    ctx.save_for_backward(x, weight, output)


def _differentiate(ctx: Any, by_output: Tensor) -> tuple[Tensor, ...]:
    x, weight, output = ctx.saved_tensors
    by_sum = torch.where(output > 0, by_output, 0.0)
    return by_sum @ weight, by_sum.t() @ x, by_sum.sum(dim=0)


_relu_linear.register_autograd(_differentiate, setup_context=_save)
