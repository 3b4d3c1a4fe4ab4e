"""The loss: label-smoothed cross-entropy in chunks of positions, with R-Drop and guided alignment."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from mtkit.alignment.lexicon import AlignmentLexicon
from mtkit.data.batching import Batch
from mtkit.model import ops

_CHUNK = 512  # target positions on a CPU
_ATTENTION_FLOOR = 1e-9  # whose logarithm is taken
_GPU_CHUNKS = 2048, 8192  # smaller products keep a GPU waiting; larger ones gain nothing
_GPU_SHARE = 64  # of a GPU's memory, for the logits of a chunk in float32


def chunk_size(device: torch.device, vocab_size: int) -> int:
    """Return the number of target positions whose logits exist at the same time."""
    if device.type == "cpu":
        return _CHUNK
    fewest, most = _GPU_CHUNKS
    if device.type != "cuda" or not torch.cuda.is_available():
        return fewest
    total: int = torch.cuda.get_device_properties(device).total_memory
    return max(fewest, min(most, total // _GPU_SHARE // (4 * vocab_size)))


def smoothed_cross_entropy_sum(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    label_smoothing: float,
    r_drop: float = 0.0,
    *,
    compiled: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the summed loss of predicting targets from hidden, and its unsmoothed part.

    hidden: (P, N, D), of one pass through the model or of two with different dropout; weight: (V, D); bias: (V,);
    targets: (N,) ids without padding. The distribution to match gives the target 1 - label_smoothing and spreads
    label_smoothing evenly over all V tokens, the target included (Szegedy et al. 2016, section 7). The loss is the mean
    over the passes. For two passes that predict p and q, it also has the term r_drop / 4 x (KL(p || q) + KL(q || p)):
    half of what R-Drop minimises with alpha = r_drop (Liang et al. 2021, equation 4). The two scalars are in nats: the
    loss, with a gradient, and the sum of -log p(target), without. compiled: let torch compile the formula.
    """
    loss: Tensor
    nll: Tensor
    if torch.is_autocast_enabled(hidden.device.type):
        hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    with_gradients = torch.is_grad_enabled()  # inside the Function it is always off
    loss, nll = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, targets, label_smoothing, r_drop, with_gradients, compiled
    )
    return loss, nll


class _ChunkedLoss(Function):
    """The loss by chunks of positions; the forward pass also computes the gradients, while a chunk's logits exist."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        label_smoothing: float,
        r_drop: float,
        with_gradients: bool,
        compiled: bool,
    ) -> tuple[Tensor, Tensor]:
        cross_entropy = ops.compiled_cross_entropy() if compiled else ops.cross_entropy
        matrix = weight.to(hidden.dtype)
        n_positions = hidden.size(1)
        size = chunk_size(hidden.device, len(bias))
        if n_more := -n_positions % ops.row_unit(matrix):
            hidden = F.pad(hidden, (0, 0, 0, n_more))
        if with_gradients:
            grad_hidden = torch.empty_like(hidden)
            grad_weight, grad_bias = None, torch.zeros_like(bias)
        loss, nll = weight.new_zeros(()), weight.new_zeros(())
        for start in range(0, n_positions, size):
            x, y = hidden[:, start : start + size], targets[start : start + size]
            chunk_loss, chunk_nll, gradients, by_bias = cross_entropy(
                x, matrix, bias, y, label_smoothing, r_drop, with_gradients
            )
            loss += chunk_loss
            nll += chunk_nll
            if by_bias is None:
                continue
            grad_bias += by_bias
            for index, gradient in enumerate(gradients):
                by_hidden, by_weight = ops.product_gradients(gradient, x[index], matrix)
                grad_hidden[index, start : start + size] = by_hidden
                grad_weight = by_weight.to(weight.dtype) if grad_weight is None else grad_weight.add_(by_weight)
            del gradients, gradient  # large: free them before the next chunk allocates its own
        if with_gradients:
            grad_weight = torch.zeros_like(weight) if grad_weight is None else grad_weight  # of no positions
            ctx.save_for_backward(grad_hidden[:, :n_positions], grad_weight, grad_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _grad_nll: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (gradient.mul_(grad_loss) for gradient in ctx.saved_tensors)
        return *gradients, None, None, None, None, None


@dataclass(frozen=True)
class Guidance:
    """The part of the loss that guides attention (Chen et al. 2016, section 3; Garg et al. 2019, section 4.2)."""

    lexicon: AlignmentLexicon
    weight: float

    def loss_sum(self, attention: Tensor, batch: Batch) -> Tensor:
        """Return weight times the cross-entropy of the attention to the lexicon's links, summed over target tokens.

        attention: (B, T, S) of the batch, or (2 B, T, S) of two passes; both are on the lexicon's device.
        """
        links = self.lexicon.links(batch.src, batch.tgt_out).repeat(attention.size(0) // batch.src.size(0), 1, 1)
        return -self.weight * (links * attention.float().clamp_min(_ATTENTION_FLOOR).log()).sum()
