"""Linear layers for inference on a CPU: weights packed once, in float32, bfloat16 or 8-bit integers."""

import copy

import torch
from torch import Tensor, nn

from mtkit.cores import has_instructions_for
from mtkit.model.cpu.products import has_onednn, onednn_multiplies, onednn_product
from mtkit.model.inference import InferenceLinear, SelectedLinear

_LEVELS = 127  # of an 8-bit integer, on each side of zero
_ROWS_EXPECTED = 32  # oneDNN lays packed weights out for products with this many rows
_ROWS_AT_ONCE = 256  # intermediate results of this many rows fit into the processor's cache


def can_multiply(precision: str) -> bool:
    """Return whether torch multiplies fast in this precision (fp32, bf16 or int8) on this CPU."""
    if precision == "int8":
        return bool(has_instructions_for("int8")) and has_onednn()
    return precision == "fp32" or (bool(has_instructions_for("bf16")) and onednn_multiplies(torch.bfloat16))


def packed_linear(linear: nn.Linear, precision: str) -> nn.Module:
    """Return the layer for inference in this precision, or the layer itself if torch lacks oneDNN."""
    if precision == "int8":
        return Int8Linear(linear)
    if not has_onednn():
        return linear
    return PackedLinear(linear, torch.bfloat16 if precision == "bf16" else torch.float32)


class PackedLinear(InferenceLinear):
    """A linear layer in float32 or bfloat16, laid out for oneDNN.

    At usual model sizes, a row's result does not depend on the number of other rows, because oneDNN adds up each row's
    products in the same order. A single row is the exception: we multiply it by an unpacked copy of the weight, in the
    layout that is fastest to read.
    """

    def __init__(self, linear: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        weight = linear.weight.detach().to(dtype)
        self.bias = None if linear.bias is None else linear.bias.detach().to(dtype)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS_EXPECTED)
        self.for_one_row = weight.t().contiguous() if weight.size(0) >= weight.size(1) else weight.t()  # (n_in, n_out)

    def forward(self, x: Tensor, relu: bool = False, dropout: float = 0.0) -> Tensor:
        """Return x W^T + b, or max(0, x W^T + b): (..., n_in) -> (..., n_out); in one pass over memory."""
        rows = x.reshape(-1, x.size(-1)).to(self.dtype)
        if rows.size(0) == 1 and self.dtype == torch.float32:
            y = rows @ self.for_one_row if self.bias is None else torch.addmm(self.bias, rows, self.for_one_row)
            y = y.relu_() if relu else y
        else:
            y = onednn_product(rows, self.packed, self.bias, relu)
        return y.float().view(*x.shape[:-1], -1)

    def select_outputs(self, ids: Tensor) -> InferenceLinear:
        """Return a layer that computes the outputs ids (U,) alone."""
        return SelectedLinear(self.for_one_row.t(), self.bias, ids)


class Int8Linear(InferenceLinear):
    """A linear layer in 8-bit integers: a fixed scale for each output, and a scale for each row of x, made per call.

    Both are symmetric: the largest magnitude becomes 127. The sums are exact integers, so a row's result does not
    depend on the other rows. On processors where torch multiplies bytes one by one, float32 holds the integers. Sums
    are exact there up to 2^24: 1,040 inputs cannot exceed that, and more inputs hardly ever do.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(1).clamp_min_(1e-12) / _LEVELS
        kind = torch.int8 if can_multiply("int8") else torch.float32
        self.weight = (weight / scale[:, None]).round_().to(kind).t()  # (n_in, n_out)
        self.scale = scale
        bias = linear.bias
        self.bias = torch.zeros_like(scale) if bias is None else bias.detach().float()
        self.smallest = torch.tensor(1e-12)  # avoids a division by zero for a row of zeros

    def forward(self, x: Tensor, relu: bool = False, dropout: float = 0.0) -> Tensor:
        """Return x W^T + b, or max(0, x W^T + b): (..., n_in) -> (..., n_out)."""
        rows = x.reshape(-1, x.size(-1))
        y = x.new_empty(rows.size(0), self.weight.size(1))
        for first in range(0, rows.size(0), _ROWS_AT_ONCE):
            self._product(rows[first : first + _ROWS_AT_ONCE], y[first : first + _ROWS_AT_ONCE])
        return (y.relu_() if relu else y).view(*x.shape[:-1], -1)

    def _product(self, rows: Tensor, y: Tensor) -> None:
        row_scale = torch.add(self.smallest, rows.abs().amax(1, keepdim=True), alpha=1 / _LEVELS)
        quantized = rows.div(row_scale).round_().to(self.weight.dtype)
        is_float = quantized.is_floating_point()
        sums = quantized @ self.weight if is_float else torch._int_mm(quantized, self.weight).float()
        torch.addcmul(self.bias, sums.mul_(row_scale), self.scale, out=y)

    def select_outputs(self, ids: Tensor) -> "Int8Linear":
        """Return a layer that computes the outputs ids (U,) alone."""
        selected = copy.copy(self)
        selected.weight = self.weight.t()[ids].t()
        selected.scale, selected.bias = self.scale[ids], self.bias[ids]
        return selected
