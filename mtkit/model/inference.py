"""The interface that decoding needs from a model, and the linear layers that `quantize` puts into its copy."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class InferenceLinear(nn.Module):
    """x W^T + b without gradients and without dropout; float32 in, float32 out."""

    def forward(self, x: Tensor, relu: bool = False, dropout: float = 0.0) -> Tensor:
        """Return x W^T + b, or max(0, x W^T + b): (..., n_in) -> (..., n_out)."""
        raise NotImplementedError

    def __call__(self, x: Tensor, relu: bool = False, dropout: float = 0.0) -> Tensor:
        """Call `forward` directly, because the search for hooks would cost as much as a small operation."""
        return self.forward(x, relu)

    def select_outputs(self, ids: Tensor) -> "InferenceLinear":
        """Return a layer that computes the outputs ids (U,) alone, in this order and in the same precision."""
        raise NotImplementedError


class CastLinear(InferenceLinear):
    """A linear layer in another precision."""

    def __init__(self, linear: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = linear.weight.detach().to(dtype)
        self.bias = None if linear.bias is None else linear.bias.detach().to(dtype)

    def forward(self, x: Tensor, relu: bool = False, dropout: float = 0.0) -> Tensor:
        """Return x W^T + b, or max(0, x W^T + b): (..., n_in) -> (..., n_out)."""
        y = F.linear(x.to(self.weight.dtype), self.weight, self.bias)
        return (y.relu_() if relu else y).float()

    def select_outputs(self, ids: Tensor) -> InferenceLinear:
        """Return a layer that computes the outputs ids (U,) alone."""
        return SelectedLinear(self.weight, self.bias, ids)


class SelectedLinear(InferenceLinear):
    """Some outputs of a linear layer: the projection onto a few tokens of a large vocabulary."""

    def __init__(self, weight: Tensor, bias: Tensor | None, ids: Tensor) -> None:
        """Copy the rows ids (U,) of the weight and the bias."""
        super().__init__()
        self.weight = weight.detach()[ids]
        self.bias = None if bias is None else bias.detach()[ids]

    def forward(self, x: Tensor, relu: bool = False, dropout: float = 0.0) -> Tensor:
        """Return x W^T + b, or max(0, x W^T + b): (..., n_in) -> (..., U), in the precision of the weight."""
        y = F.linear(x.to(self.weight.dtype), self.weight, self.bias)
        return y.relu_() if relu else y


class Decoder(Protocol):
    """A `Transformer` as decoding sees it, or a faster equivalent; each has its own kind of cache."""

    output: Any  # the projection onto the vocabulary, which can `select_outputs`
    rounds_by_batch: bool  # whether the last bits of a sentence's logits depend on its batch

    def start_decoding(self, src: Tensor, beam_size: int) -> Any:
        """Encode src (B, S) and return a cache to decode beam_size hypotheses of each sentence.

        A step lets every hypothesis continue itself, unless `reorder` has set other parents since the step before.
        """
        ...

    def decode_step(self, last_ids: Tensor, cache: Any) -> Tensor:
        """Advance every hypothesis by its newest token: last_ids (B, K) -> logits (B, K, V) for the next one."""
        ...

    def choose(
        self, last_ids: Tensor, cache: Any, n: int, banned: Sequence[int], forbidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """Do the same, but return log-probabilities and ids of the n likeliest allowed tokens: (B, K, n) each.

        The likeliest comes first; among equals, the lower id. banned: tokens that never come. forbidden: bool (B, V),
        tokens that have no probability, either. None means that nothing was done: ask for the logits.
        """
        ...
