"""Linear layers for training: on a CPU in float32 multiplied by oneDNN, which is faster at it than what torch calls."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable


class Linear(nn.Linear):
    """torch's, with the same weights and (first) gradients; only the last bits depend on who multiplies.

    torch leaves products in float32 to MKL, which on AMD's processors does not use what they can do: at the sizes of a
    training step oneDNN needs a quarter less time. For the weights' gradients, sums over thousands of rows, it has no
    such advantage. Compiled layers are torch's own: its compiler knows oneDNN's products with constant weights only.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(..., n_in) -> (..., n_out)."""
        if torch.is_grad_enabled() and not torch.compiler.is_compiling() and _in_float32_on_cpu(input, self.weight):
            rows = input.reshape(-1, input.size(-1))
            y: Tensor = _OneDnnLinear.apply(rows, self.weight, self.bias)  # type: ignore[no-untyped-call]
            return y.view(*input.shape[:-1], -1)
        return super().forward(input)


def has_onednn() -> bool:
    """Whether this torch brings oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def _in_float32_on_cpu(x: Tensor, weight: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.numel() > 0
        and not torch.is_autocast_enabled("cpu")
        and has_onednn()
    )


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (N, n_in) times weight (n_out, n_in) transposed, plus bias, by oneDNN, without a gradient."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return y


class _OneDnnLinear(Function):
    """x W^T + b, x: (N, n_in)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return onednn_product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            onednn_product(grad, weight.t()) if of_x else None,
            grad.t() @ x if of_weight else None,
            grad.sum(dim=0) if of_bias else None,
        )
