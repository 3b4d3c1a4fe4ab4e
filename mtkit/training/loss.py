"""Label-smoothed cross-entropy of the output projection, computed without ever holding all logits."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

_CHUNK = 512  # target positions whose logits exist at the same time


def smoothed_cross_entropy_sum(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """The summed loss of predicting targets from hidden, and the part of it that is not smoothed.

    hidden: (N, D); weight: (V, D); bias: (V,); targets: (N,) ids, padding already left out. The distribution to match
    gives the target 1 - label_smoothing and spreads label_smoothing evenly over all V tokens, the target included
    (Szegedy et al. 2016, section 7). Returns two scalars in nats: the loss, which has a gradient, and the sum of
    -log p(target), which has none.
    """
    loss: Tensor
    nll: Tensor
    if torch.is_autocast_enabled(hidden.device.type):
        hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    with_gradients = torch.is_grad_enabled()  # inside the Function it never is
    loss, nll = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, targets, label_smoothing, with_gradients
    )
    return loss, nll


class _ChunkedLoss(Function):
    """Forms the gradients in the forward pass, chunk by chunk, while the chunk's logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        label_smoothing: float,
        with_gradients: bool,
    ) -> tuple[Tensor, Tensor]:
        matrix = weight.to(hidden.dtype)
        buffers = _Buffers(min(_CHUNK, len(hidden)), len(weight), hidden)
        if with_gradients:
            grad_hidden = torch.empty_like(hidden)
            grad_weight, grad_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        loss, nll = weight.new_zeros(()), weight.new_zeros(())
        for start in range(0, len(hidden), _CHUNK):
            rows = slice(start, start + _CHUNK)
            x, y = hidden[rows], targets[rows, None]
            product, logits, probs = buffers.first(len(x))
            torch.mm(x, matrix.T, out=product)
            logits.copy_(product).add_(bias)
            torch.softmax(logits, dim=1, out=probs)
            # The normaliser from the largest logit and its probability: one pass less than logsumexp, and as exact.
            log_norm = (logits.amax(dim=1) - probs.amax(dim=1).log()).unsqueeze(1)
            chunk_nll = (log_norm - logits.gather(1, y)).sum()
            uniform = (log_norm - logits.mean(dim=1, keepdim=True)).sum()  # cross-entropy with all tokens alike
            nll += chunk_nll
            loss += (1 - label_smoothing) * chunk_nll + label_smoothing * uniform
            if not with_gradients:
                continue
            grad = probs.sub_(label_smoothing / len(weight))  # d loss / d logits = probs - the smoothed target
            grad.scatter_add_(1, y, grad.new_full(y.shape, label_smoothing - 1))
            grad_bias += grad.sum(dim=0)
            grad = product.copy_(grad)
            torch.mm(grad, matrix, out=grad_hidden[rows])
            grad_weight += grad.T @ x
        if with_gradients:
            ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _grad_nll: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        return grad_hidden * grad_loss, grad_weight * grad_loss, grad_bias * grad_loss, None, None, None


class _Buffers:
    """Memory for one chunk, used again for each: fresh pages of this size cost as much as the products."""

    def __init__(self, n_rows: int, vocab_size: int, like: Tensor) -> None:
        self.product = like.new_empty(n_rows, vocab_size)  # of the working precision
        self.logits = like.new_empty(n_rows, vocab_size, dtype=torch.float32)
        self.probs = torch.empty_like(self.logits)

    def first(self, n_rows: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.product[:n_rows], self.logits[:n_rows], self.probs[:n_rows]
