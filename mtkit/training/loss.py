"""Label-smoothed cross-entropy of the output projection, computed without ever holding all logits; and R-Drop."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from mtkit.model.cpu import fused
from mtkit.model.linear import by_onednn, onednn_product, product, weight_gradient

_CHUNK = 512  # target positions whose logits exist at the same time on a CPU
_TAIL_UNIT = 64  # the last chunk has a multiple of so many: large kernels, kept among large logits, cost memory
_GPU_CHUNK = 2048  # and elsewhere: small products keep a GPU waiting


def chunk_size(device: torch.device) -> int:
    """The number of target positions whose logits exist at the same time."""
    return _CHUNK if device.type == "cpu" else _GPU_CHUNK


def smoothed_cross_entropy_sum(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, label_smoothing: float, r_drop: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The summed loss of predicting targets from hidden, and the part of it that is not smoothed.

    hidden: (P, N, D), of one pass through the model or of two with different dropout; weight: (V, D); bias: (V,);
    targets: (N,) ids, padding already left out. The distribution to match gives the target 1 - label_smoothing and
    spreads label_smoothing evenly over all V tokens, the target included (Szegedy et al. 2016, section 7). The loss is
    the mean over the passes; for two, p and q being what they predict, r_drop / 4 x (KL(p || q) + KL(q || p)) comes
    to it. That is half of what R-Drop minimises, with its alpha = r_drop (Liang et al. 2021, equation 4).
    Returns two scalars in nats: the loss, which has a gradient, and the sum of -log p(target), which has none.
    """
    loss: Tensor
    nll: Tensor
    if torch.is_autocast_enabled(hidden.device.type):
        hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    with_gradients = torch.is_grad_enabled()  # inside the Function it never is
    loss, nll = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, targets, label_smoothing, r_drop, with_gradients
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
        r_drop: float,
        with_gradients: bool,
    ) -> tuple[Tensor, Tensor]:
        matrix = weight.to(hidden.dtype)
        n_positions = hidden.size(1)
        size = chunk_size(hidden.device)
        if by_onednn(matrix):  # which makes a kernel for each size
            hidden = F.pad(hidden, (0, 0, 0, -n_positions % _TAIL_UNIT))
        if with_gradients:
            grad_hidden = torch.empty_like(hidden)
            grad_weight, grad_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        loss, nll = weight.new_zeros(()), weight.new_zeros(())
        chunks: _Chunks | _PlainChunks
        if with_gradients and fused.has_kernels(matrix, bias):
            chunks = _Chunks(matrix, bias, label_smoothing, r_drop)
        else:
            passes = [_Chunk(min(size, hidden.size(1)), matrix, bias) for _ in hidden]
            chunks = _PlainChunks(passes, label_smoothing, r_drop)
        for start in range(0, n_positions, size):
            x, y = hidden[:, start : start + size], targets[start : start + size]
            chunk_loss, chunk_nll = chunks.predict(x, y)
            loss += chunk_loss
            nll += chunk_nll
            if not with_gradients:
                continue
            gradients, by_bias = chunks.gradients(x, y)
            grad_bias += by_bias
            for number, gradient in enumerate(gradients):
                grad_hidden[number, start : start + size] = product(gradient, matrix.t())
                grad_weight += weight_gradient(x[number], gradient)
        if with_gradients:
            ctx.save_for_backward(grad_hidden[:, :n_positions], grad_weight, grad_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _grad_nll: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        return grad_hidden * grad_loss, grad_weight * grad_loss, grad_bias * grad_loss, None, None, None, None


class _Chunks:
    """What one or two passes predict, chunk by chunk of the positions, and the gradients: in one pass over memory."""

    def __init__(self, matrix: Tensor, bias: Tensor, label_smoothing: float, r_drop: float) -> None:
        self._matrix, self._bias = matrix, bias
        self._settings = label_smoothing, r_drop

    def predict(self, x: Tensor, y: Tensor) -> tuple[float, float]:
        """From x (P, N or more, D) the loss of predicting y, (N,), and the part of it that is not smoothed."""
        rows, matrix = x.reshape(-1, x.size(-1)), self._matrix
        self._logits = product(rows, matrix).view(*x.shape[:2], -1)
        loss, nll, self._by_bias = fused.cross_entropy_(self._logits, self._bias, y, *self._settings)
        return loss, nll

    def gradients(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Of that loss, by the logits of all rows of x, (P, N or more, V), and by the bias."""
        self._logits[:, len(y) :] = 0
        return self._logits, self._by_bias


class _PlainChunks:
    """The same by torch's operations, for other devices and precisions, and where numba is not installed."""

    def __init__(self, passes: "list[_Chunk]", label_smoothing: float, r_drop: float) -> None:
        self._passes = passes
        self._label_smoothing, self._r_drop = label_smoothing, r_drop

    def predict(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """As `_Chunks.predict`."""
        found = [one.predict(x_of_one, y[:, None]) for one, x_of_one in zip(self._passes, x, strict=True)]
        nll, uniform = (torch.stack(parts).mean() for parts in zip(*found, strict=True))
        loss = (1 - self._label_smoothing) * nll + self._label_smoothing * uniform
        if len(self._passes) == 2:
            divergence, self._apart = _divergence(*self._passes)
            loss += self._r_drop / 4 * divergence
        return loss, nll

    def gradients(self, x: Tensor, y: Tensor) -> tuple[list[Tensor], Tensor]:
        """As `_Chunks.gradients`."""
        found = [one.gradient(y[:, None], self._label_smoothing) for one in self._passes]
        if len(found) == 2:
            for gradient, apart in zip(found, self._apart, strict=True):
                gradient.div_(2).add_(apart, alpha=self._r_drop / 4)
        by_bias = torch.stack([gradient.sum(dim=0) for gradient in found]).sum(dim=0)
        return [one.filled_up(grad, x.size(1)) for one, grad in zip(self._passes, found, strict=True)], by_bias


class _Chunk:
    """What one pass predicts at some positions: (N, V). Its memory serves each chunk again: fresh pages are slow."""

    def __init__(self, n_rows: int, matrix: Tensor, bias: Tensor) -> None:
        self._matrix, self._bias = matrix, bias
        self._mean_output = matrix.mean(dim=0, dtype=torch.float32), bias.mean()
        self._logits = matrix.new_empty(n_rows, len(matrix), dtype=torch.float32)
        self._products = self._logits  # of the working precision
        if matrix.dtype != torch.float32:
            self._products = matrix.new_empty(n_rows, len(matrix))
        self._probs = torch.empty_like(self._logits)
        self._spare: Tensor | None = None

    def predict(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """From x (N or more, D), the sum of -log p(y), y: (N, 1); and that of the mean of -log p over all tokens."""
        n = len(y)
        self.logits, self.probs = self._logits[:n], self._probs[:n]
        if self._products.dtype == self._logits.dtype:
            torch.addmm(self._bias, x[:n], self._matrix.T, out=self.logits)
        elif by_onednn(self._matrix):  # which adds the bias as it multiplies
            self.logits.copy_(onednn_product(x, self._matrix, self._bias.to(x.dtype))[:n])
        else:
            torch.mm(x, self._matrix.T, out=self._products[:n])
            torch.add(self._products[:n], self._bias, out=self.logits)
        torch.softmax(self.logits, dim=1, out=self.probs)
        # The normaliser from the largest logit and its probability: one pass less than logsumexp, and as exact.
        self.log_norm = (self.logits.amax(dim=1) - self.probs.amax(dim=1).log()).unsqueeze(1)
        nll = (self.log_norm - self.logits.gather(1, y)).sum()
        mean_row, mean_bias = self._mean_output  # the mean of the logits needs no pass over them: it is a product, too
        sum_of_means = x[:n].sum(dim=0, dtype=torch.float32).dot(mean_row) + n * mean_bias
        return nll, self.log_norm.sum() - sum_of_means

    def gradient(self, y: Tensor, label_smoothing: float) -> Tensor:
        """d cross-entropy / d logits = probs - the smoothed target; it takes the place of the probabilities."""
        grad = self.probs.sub_(label_smoothing / len(self._bias))
        return grad.scatter_add_(1, y, grad.new_full(y.shape, label_smoothing - 1))

    def filled_up(self, grad: Tensor, n_rows: int) -> Tensor:
        """The gradient in the working precision, with rows of zeros behind it up to so many."""
        if self._products.dtype != grad.dtype:
            self._products[: len(grad)].copy_(grad)
            filled = self._products
        else:
            filled = self._probs  # where it is
        filled[len(grad) : n_rows] = 0
        return filled[:n_rows]

    def spare(self) -> Tensor:
        """More memory of the shape of the logits."""
        if self._spare is None:
            self._spare = torch.empty_like(self._logits)
        return self._spare[: len(self.logits)]


def _divergence(one: _Chunk, two: _Chunk) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """KL(p || q) + KL(q || p), summed over the positions, and its gradients by the logits of either.

    KL(p || q) changes with p's logits by p (log p - log q - KL(p || q)), and with q's by q - p.
    """
    p, q = one.probs, two.probs
    by_p, by_q = one.spare(), two.spare()
    log_ratio = torch.sub(one.logits, two.logits, out=by_p).sub_(one.log_norm - two.log_norm)  # log p - log q
    p_to_q = torch.mul(p, log_ratio, out=by_q).sum(dim=1, keepdim=True)
    q_to_p = torch.mul(q, log_ratio, out=by_q).sum(dim=1, keepdim=True).neg_()
    torch.neg(log_ratio, out=by_q).sub_(q_to_p - 1).mul_(q).sub_(p)
    log_ratio.sub_(p_to_q - 1).mul_(p).sub_(q)
    return (p_to_q + q_to_p).sum(), (by_p, by_q)
