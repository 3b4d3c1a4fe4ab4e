"""A copy of a model for inference, with linear layers in float32, bfloat16 or 8-bit integers."""

import copy
from typing import TypeVar

import torch
from torch import nn

from mtkit.model import ops

_Model = TypeVar("_Model", bound=nn.Module)


def quantize(model: _Model, precision: str) -> _Model:
    """Return a copy of the model whose linear layers compute in this precision; it shares all other weights.

    The copy is for inference on the device of the model. In fp32 its weights are the same but laid out for the
    processor; if no layout is faster, return the model itself. precision: see `supported_precision`; on a CPU, int8
    also works where it is not fast.
    """
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    replacements = {id(linear): ops.inference_linear(linear, precision) for linear in linears}
    if all(replacements[id(linear)] is linear for linear in linears):
        return model
    return copy_with(model, replacements)


def supported_precision(precision: str, device: torch.device) -> str:
    """Return the precision (fp32, bf16 or int8) if torch multiplies fast in it there, else the next more precise."""
    choices = ("int8", "bf16", "fp32")
    return next(choice for choice in choices[choices.index(precision) :] if ops.can_multiply(choice, device))


def copy_with(module: _Model, replacements: dict[int, nn.Module]) -> _Model:
    """Return a copy of the module with replacements for the submodules of these ids; it shares all parameters."""
    if id(module) in replacements:
        return replacements[id(module)]  # type: ignore[return-value]
    twin = copy.copy(module)
    twin._modules = {
        name: None if child is None else copy_with(child, replacements) for name, child in module._modules.items()
    }
    return twin
