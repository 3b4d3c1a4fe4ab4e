"""Linear layers made for inference: weights packed for the processor once, in float32, bfloat16 or 8-bit integers."""

import copy
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.console import log
from mtkit.model.linear import Then, has_onednn, onednn_multiplies, onednn_product

_Model = TypeVar("_Model", bound=nn.Module)

_LEVELS = 127  # of an 8-bit integer, on each side of zero
_ROWS_EXPECTED = 32  # what oneDNN chooses the layout of packed weights for
_ROWS_AT_ONCE = 256  # what is in between then stays in the processor's cache


class FastLinear(nn.Module):
    """x W^T + b for inference: float32 in, float32 out, no gradients."""

    def forward(self, x: Tensor, then: Then = "none") -> Tensor:
        """(..., n_in) -> (..., n_out); what is negative then becomes zero, if asked for."""
        raise NotImplementedError

    def __call__(self, x: Tensor, then: Then = "none") -> Tensor:
        """`forward` without a module's hooks: what looks for them costs as much as a small operation."""
        return self.forward(x, then)


class PackedLinear(FastLinear):
    """In the precision of its weight, float32 or bfloat16, laid out as oneDNN wants it.

    For the sizes of usual models a row's result does not depend on how many rows there are beside it, but for one that
    is alone: oneDNN adds up each row's products in the same order. A row alone is multiplied by weights that are not
    packed, in the layout in which they are read fastest.
    """

    def __init__(self, linear: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        weight = linear.weight.detach().to(dtype)
        self.bias = None if linear.bias is None else linear.bias.detach().to(dtype)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS_EXPECTED)
        self.for_one_row = weight.t().contiguous() if weight.size(0) >= weight.size(1) else weight.t()  # (n_in, n_out)

    @property
    def weight(self) -> Tensor:
        """(n_out, n_in)."""
        return self.for_one_row.t()

    def forward(self, x: Tensor, then: Then = "none") -> Tensor:
        """(..., n_in) -> (..., n_out); relu, if asked for, in the same pass over memory."""
        rows = x.reshape(-1, x.size(-1)).to(self.dtype)
        if rows.size(0) == 1 and self.dtype == torch.float32:
            y = rows @ self.for_one_row if self.bias is None else torch.addmm(self.bias, rows, self.for_one_row)
            y = y.relu_() if then == "relu" else y
        else:
            y = onednn_product(rows, self.packed, self.bias, then)
        return y.float().view(*x.shape[:-1], -1)


class CastLinear(FastLinear):
    """In another precision, where there is no packing for it: on a GPU."""

    def __init__(self, linear: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = linear.weight.detach().to(dtype)
        self.bias = None if linear.bias is None else linear.bias.detach().to(dtype)

    def forward(self, x: Tensor, then: Then = "none") -> Tensor:
        """(..., n_in) -> (..., n_out)."""
        y = F.linear(x.to(self.weight.dtype), self.weight, self.bias)
        return (y.relu_() if then == "relu" else y).float()


class Int8Linear(FastLinear):
    """In 8-bit integers: a scale for each output of the weight, fixed, and one for each row of x, found at each call.

    Both are symmetric: the largest magnitude becomes 127. The sums are exact integers, so a row's result does not
    depend on the rows beside it.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(1).clamp_min_(1e-12) / _LEVELS
        self.weight = (weight / scale[:, None]).round_().to(torch.int8).t()  # (n_in, n_out)
        self.scale = scale
        bias = linear.bias
        self.bias = torch.zeros_like(scale) if bias is None else bias.detach().float()
        self.smallest = torch.tensor(1e-12)  # a row of zeros is divided by this

    def forward(self, x: Tensor, then: Then = "none") -> Tensor:
        """(..., n_in) -> (..., n_out)."""
        rows = x.reshape(-1, x.size(-1))
        y = x.new_empty(rows.size(0), self.weight.size(1))
        for first in range(0, rows.size(0), _ROWS_AT_ONCE):
            self._product(rows[first : first + _ROWS_AT_ONCE], y[first : first + _ROWS_AT_ONCE])
        return (y.relu_() if then == "relu" else y).view(*x.shape[:-1], -1)

    def _product(self, rows: Tensor, y: Tensor) -> None:
        row_scale = torch.add(self.smallest, rows.abs().amax(1, keepdim=True), alpha=1 / _LEVELS)
        whole = rows.div(row_scale).round_().to(torch.int8)
        sums = torch._int_mm(whole, self.weight).float()
        torch.addcmul(self.bias, sums.mul_(row_scale), self.scale, out=y)


def quantize(model: _Model, precision: str) -> _Model:
    """A copy of the model whose linear layers compute in precision (fp32, bf16 or int8); all else is shared with it.

    The copy is for inference on the device that the model is on. What the device has no instructions for is computed in
    the next better precision that it has, and a log line says so. fp32 means: the same weights, only laid out anew.
    """
    device = next((weight.device for weight in model.parameters()), torch.device("cpu"))
    possible = supported_precision(precision, device)
    if possible != precision:
        where = "CPU" if device.type == "cpu" else "GPU"
        log.warning(f"decode.precision={precision}: this {where} has no instructions for it; {possible} instead")
    if possible == "fp32" and (device.type != "cpu" or not has_onednn()):
        return model
    layers = {id(layer): _fast(layer, possible) for layer in model.modules() if isinstance(layer, nn.Linear)}
    return _with(model, layers)


def supported_precision(precision: str, device: torch.device) -> str:
    """The precision itself if the device has instructions for it, else the next better one that it has."""
    if precision == "int8" and not _multiplies_int8(device):
        precision = "bf16"
    return "fp32" if precision == "bf16" and not _multiplies_bf16(device) else precision


def _multiplies_int8(device: torch.device) -> bool:
    return device.type == "cpu" and _has("avx512_vnni", "avx_vnni", "amx_int8") and has_onednn()


def _multiplies_bf16(device: torch.device) -> bool:
    if device.type == "cpu":
        return _has("avx512_bf16", "amx_bf16") and onednn_multiplies(torch.bfloat16)
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def _has(*names: str) -> bool:
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(capabilities.get(name) for name in names)


def _fast(linear: nn.Linear, precision: str) -> nn.Module:
    if linear.weight.device.type != "cpu":
        return CastLinear(linear, torch.bfloat16)
    if precision == "int8":
        return Int8Linear(linear)
    return PackedLinear(linear, torch.bfloat16 if precision == "bf16" else torch.float32)


def _with(module: _Model, replacements: dict[int, nn.Module]) -> _Model:
    """A copy of the module with replacements in place of the submodules of these ids; parameters are shared."""
    if id(module) in replacements:
        return replacements[id(module)]  # type: ignore[return-value]
    twin = copy.copy(module)
    twin._modules = {
        name: None if child is None else _with(child, replacements) for name, child in module._modules.items()
    }
    return twin
