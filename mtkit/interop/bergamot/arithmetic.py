"""Compute an exported model as Bergamot's engine does in a browser: whole numbers in, and sums that saturate.

The engine multiplies the input of a matrix product by the multiplier in the file, rounds it, cuts it off at 127 and
adds 127. It adds up the products of two inputs in 16 bits, where a sum beyond the range becomes the end of the range
(instruction `maddubs`), and these sums in 32 bits. So two large weights next to each other can lose a part.
"""

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mtkit.interop.marian import layer_parameters
from mtkit.model.inference import InferenceLinear
from mtkit.model.quantization import copy_with
from mtkit.model.transformer import Transformer

ACTIVATIONS = "_QuantMultA"  # suffix of the names of the inputs' multipliers
OUTPUTS = ("Wemb", "decoder_Wemb", "none")  # the engine's names of the output matrix; "none" with a lexicon

_LEVELS = 127
_EPSILON = 1e-6  # added to the variance; with torch's 1e-5, other numbers would be rounded up
_LEAST, _MOST = -(2**15), 2**15 - 1  # of 16 bits


def as_in_browser(model: Transformer, tensors: Mapping[str, NDArray[np.float32]]) -> Transformer:
    """Return a copy of an imported model that computes its products as the engine does.

    tensors: of the model's file, with the multipliers of the inputs.
    """
    replacements: dict[int, nn.Module] = {}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            names = OUTPUTS[-1:] if name == "output" else layer_parameters(model.cfg, name)
            multipliers = [tensors[name + ACTIVATIONS].item() for name in names]
            replacements[id(layer)] = BrowserLinear.from_linear(layer, multipliers)
        elif isinstance(layer, nn.LayerNorm):
            replacements[id(layer)] = copy.copy(layer)
            replacements[id(layer)].eps = _EPSILON  # type: ignore[assignment]
    return copy_with(model, replacements)


class _Matrix:
    """One matrix of the file, with its part of the layer's bias."""

    def __init__(self, weight: Tensor, bias: Tensor, multiplier: float) -> None:
        """Round the weights (n_out, n_in) to 8 bits; those of an imported layer are such numbers already.

        multiplier: of the inputs.
        """
        of_inputs, of_weights = np.float32(multiplier), _LEVELS / np.float32(weight.abs().amax().clamp(min=1e-30))
        self.multiplier = multiplier
        self.whole = (weight * float(of_weights)).round()
        self.scale = float(1 / (of_inputs * of_weights))
        sums = self.whole.sum(1)
        # The engine adds 127 to the inputs, and takes off what this adds to the sums together with the bias: rounding
        # in float32, as here, decides which numbers the next layer rounds up.
        self.added = _LEVELS * sums
        self.addend = bias - sums * float((_LEVELS / of_inputs) * (_LEVELS / of_weights) / _LEVELS)
        pairs = _pairs(self.whole)
        largest = 2 * _LEVELS * torch.stack([pairs.clamp(min=0).sum(-1), -pairs.clamp(max=0).sum(-1)]).amax(0)
        self.outputs, self.pairs = (largest > _MOST).nonzero(as_tuple=True)  # only these can saturate
        self.pair_weights = pairs[self.outputs, self.pairs]

    def __call__(self, x: Tensor) -> Tensor:
        """Return x W^T + b: (N, n_in) -> (N, n_out)."""
        inputs = (x * self.multiplier).round_().clamp_(-_LEVELS, _LEVELS)
        of_pairs = (_pairs(inputs + _LEVELS)[:, self.pairs] * self.pair_weights).sum(-1)
        sums = (inputs @ self.whole.T).index_add_(1, self.outputs, of_pairs.clamp(_LEAST, _MOST) - of_pairs)
        return (sums + self.added) * self.scale + self.addend

    def select_outputs(self, ids: Tensor) -> "_Matrix":
        chosen = copy.copy(self)
        chosen.whole, chosen.added, chosen.addend = self.whole[ids], self.added[ids], self.addend[ids]
        selected, places = (ids[:, None] == self.outputs).nonzero(as_tuple=True)
        chosen.outputs, chosen.pairs, chosen.pair_weights = selected, self.pairs[places], self.pair_weights[places]
        return chosen


def _pairs(x: Tensor) -> Tensor:
    return x.view(len(x), x.size(1) // 2, 2)


class BrowserLinear(InferenceLinear):
    """A linear layer of one or several matrices, which the engine multiplies separately."""

    def __init__(self, matrices: Sequence[_Matrix]) -> None:
        super().__init__()
        self.matrices = matrices

    @classmethod
    def from_linear(cls, linear: nn.Linear, multipliers: Sequence[float]) -> "BrowserLinear":
        """Return the layer as the engine computes it; multipliers: of the inputs, for each of the file's matrices."""
        weights = linear.weight.detach().chunk(len(multipliers))
        bias = linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias.detach()
        return cls([*map(_Matrix, weights, bias.chunk(len(multipliers)), multipliers)])

    def forward(self, x: Tensor, relu: bool = False, dropout: float = 0.0) -> Tensor:
        """Return x W^T + b, or max(0, x W^T + b): (..., n_in) -> (..., n_out)."""
        rows = x.reshape(-1, x.size(-1))
        y = torch.cat([matrix(rows) for matrix in self.matrices], dim=1)
        return (y.relu_() if relu else y).view(*x.shape[:-1], -1)

    def select_outputs(self, ids: Tensor) -> "BrowserLinear":
        """Return a layer that computes the outputs ids (U,) alone; only for a layer of one matrix."""
        [matrix] = self.matrices
        return BrowserLinear([matrix.select_outputs(ids)])
