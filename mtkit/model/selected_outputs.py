"""Some of a linear layer's outputs: the projection onto a few tokens of a large vocabulary."""

import copy

import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.model.linear import Then
from mtkit.model.quantization import CastLinear, FastLinear, Int8Linear, PackedLinear


class SelectedLinear(FastLinear):
    """x W^T + b for some rows of W and b, copied out once; no gradients."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x: Tensor, then: Then = "none") -> Tensor:
        """(..., n_in) -> (..., n_selected), in the precision of the weight."""
        y = F.linear(x.to(self.weight.dtype), self.weight, self.bias)
        return y.relu_() if then == "relu" else y


def select_outputs(linear: nn.Module, ids: Tensor) -> nn.Module:
    """The layer's outputs ids (U,), in this order and in the layer's own precision.

    Raises TypeError for a kind of layer that is not known here.
    """
    if isinstance(linear, Int8Linear):
        chosen = copy.copy(linear)
        chosen.weight = linear.weight.t()[ids].t()
        chosen.scale, chosen.bias = linear.scale[ids], linear.bias[ids]
        return chosen
    if isinstance(linear, nn.Linear | PackedLinear | CastLinear):
        bias = None if linear.bias is None else linear.bias.detach()[ids]
        return SelectedLinear(linear.weight.detach()[ids], bias)
    raise TypeError(f"outputs of a {type(linear).__name__} cannot be selected")
