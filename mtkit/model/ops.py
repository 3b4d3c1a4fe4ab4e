"""The operations of the model's layers and the step of an optimizer, written as formulas in plain torch.

On a CPU, `mtkit.model.cpu` computes many of them faster, with the same results up to rounding and random numbers.
`_or_faster` below chooses between the two. On a GPU, `attention` and `products` of `mtkit.model.gpu` are faster. Only
this module imports any of them.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from inspect import unwrap
from typing import Any, ParamSpec, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.config.model import ModelConfig
from mtkit.model.cpu import overrides
from mtkit.model.distances import by_distance, by_key
from mtkit.model.gpu import attention as gpu_attention
from mtkit.model.gpu import products as gpu_products
from mtkit.model.inference import CastLinear, Decoder

_SHORT = 64  # up to this many queries a sentence, a GPU is faster without flash attention (docs/log.md)
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _or_faster(plain: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compute the operation by the override of the same name, or by the plain formula if that returns None."""
    override: Callable[_P, _R | None] = getattr(overrides, plain.__name__)

    @wraps(plain)
    def chosen(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        result = override(*args, **kwargs)
        return plain(*args, **kwargs) if result is None else result

    return chosen


@_or_faster
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b: (..., n_in) -> (..., n_out)."""
    return F.linear(x, weight, bias)


@_or_faster
def relu_linear(x: Tensor, weight: Tensor, bias: Tensor, p: float, training: bool) -> Tensor:
    """Return dropout(max(0, x W^T + b)) (the first half of Vaswani et al. 2017, equation 2).

    p: the probability to drop, 0 outside of training.
    """
    if gpu_products.has_relu_linear(x):
        return dropout(gpu_products.relu_linear(x, weight, bias), p)
    return dropout(F.relu(linear(x, weight, bias)), p)


@_or_faster
def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p) (Srivastava et al. 2014)."""
    return F.dropout(x, p) if p else x


@_or_faster
def add_dropout(x: Tensor, y: Tensor, p: float) -> Tensor:
    """Return x + dropout(y), the residual connection (Vaswani et al. 2017, section 5.4)."""
    return x + dropout(y, p)


@_or_faster
def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float, training: bool) -> Tensor:
    """Return (x - mean) / sqrt(variance + eps) * gain + bias, over the last dimension (Ba et al. 2016, equation 4).

    The result is the input of matrix products, so in training it may have their precision.
    """
    return F.layer_norm(x, gain.shape, gain, bias, eps)


@_or_faster
def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, p: float = 0.0, *, causal: bool = False) -> Tensor:
    """Return dropout(softmax(q k^T / sqrt(d_head) + bias)) v, heads apart (Vaswani et al. 2017, equation 1).

    q: (B, H, Q, d_head); k, v: (B, H, L, d_head); bias: 0 where a query may look, else BLOCKED, broadcastable to
    (B, H, Q, L). Returns (B, H, Q, d_head). causal: bias only hides later positions; for long texts, torch then needs
    no mask and can use its flash kernel.
    """
    if gpu_attention.can_attend(q, k, v, bias, causal=causal):
        return gpu_attention.attend(q, k, v, bias, p, causal=causal)
    is_flash = causal and (bias is None or q.size(-2) > _SHORT)
    mask = None if bias is None or is_flash else bias.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p, is_causal=is_flash)


def split_heads(x: Tensor, n_parts: int, n_heads: int) -> tuple[Tensor, ...]:
    """Split (B, L, n_parts D) into n_parts tensors (B, H, L, d_head), which are contiguous on a CPU.

    Kernels for a GPU need no such copy.
    """
    parts = x.view(*x.shape[:2], n_parts, n_heads, -1).unbind(2)  # before transpose: one copy each in the backward pass
    heads = (part.transpose(1, 2) for part in parts)
    return tuple(part.contiguous() for part in heads) if x.device.type == "cpu" else tuple(heads)


def join_heads(x: Tensor) -> Tensor:
    """Join heads (B, H, L, d_head) into (B, L, D)."""
    return x.transpose(1, 2).flatten(2)


def self_attend(packed: Tensor, n_heads: int, bias: Tensor | None, p: float = 0.0, *, causal: bool = False) -> Tensor:
    """Return `attend` of a sequence to itself, with the heads joined: (B, L, D).

    packed: (B, L, 3 D), the queries, keys and values. On a GPU, a single kernel writes the gradient of all three.
    """
    q, k, v = split_heads(packed, 3, n_heads)
    if gpu_attention.can_attend(q, k, v, bias, causal=causal):
        parts = [packed.view(*packed.shape[:2], 3, n_heads, -1)]
        return gpu_attention.attend_packed(parts, None if causal else bias, p, causal=causal).flatten(2)
    return join_heads(attend(q, k, v, bias, p, causal=causal))


@_or_faster
def attend_relative(
    q: Tensor, k: Tensor, v: Tensor, key_rows: Tensor, value_rows: Tensor, bias: Tensor | None, p: float = 0.0
) -> Tensor:
    """Like `attend`, with a vector of the distance added to each key and each value (Shaw et al. 2018, section 3.2).

    key_rows, value_rows: (L, d_head), the vectors of each key for all queries; or (2 L, d_head), the vectors of the
    distances from -(L - 1) to L. Their products with queries and weights take (B, H, Q, 2 L) numbers: a vector for each
    pair of positions is never needed.
    """
    scores = (q @ k.transpose(-1, -2) + by_key(q @ key_rows.T, k.size(-2))) * q.size(-1) ** -0.5
    weights = dropout((scores if bias is None else scores + bias).softmax(dim=-1).to(v.dtype), p)
    return weights @ v + by_distance(weights, len(value_rows)) @ value_rows


@_or_faster
def output_logits(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x W^T + b in float32: (N, D) -> (N, V); x and W in the working precision, b in float32."""
    return torch.addmm(bias, x, weight.T) if x.dtype == torch.float32 else torch.mm(x, weight.T) + bias


@_or_faster
def cross_entropy(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    label_smoothing: float,
    r_drop: float,
    with_gradients: bool,
) -> tuple[Tensor | float, Tensor | float, Sequence[Tensor], Tensor | None]:
    """Return the loss of `training.update.loss`, its unsmoothed part, and the gradients by the logits and by the bias.

    x: (P, N or more, D), P = 1 or 2 passes; weight: (V, D), in x's precision; bias: (V,); targets: (N,). The gradients
    by the logits are one tensor a pass, with x's precision and rows (those behind the first N are 0); they come only
    with_gradients.
    """
    n, y = len(targets), targets[:, None]
    logits = [output_logits(one, weight, bias)[:n] for one in x]
    probs = [z.softmax(dim=1) for z in logits]
    # log Z from the largest logit and its probability saves one pass over memory against logsumexp, and is as exact.
    log_z = [(z.amax(dim=1) - p.amax(dim=1).log()).unsqueeze(1) for z, p in zip(logits, probs, strict=True)]
    nll = torch.stack([(own - z.gather(1, y)).sum() for own, z in zip(log_z, logits, strict=True)]).mean()
    # The mean over V of -log p is log Z minus the mean logit; that is a small product without a pass over memory.
    mean_row, mean_bias = weight.mean(dim=0, dtype=torch.float32), bias.mean()
    sums = [one[:n].sum(dim=0, dtype=torch.float32).dot(mean_row) + n * mean_bias for one in x]
    uniform = torch.stack([own.sum() - of_means for own, of_means in zip(log_z, sums, strict=True)]).mean()
    loss = (1 - label_smoothing) * nll + label_smoothing * uniform
    if len(x) == 2:
        divergence, by_divergence = _divergence(logits, probs, log_z)
        loss += r_drop / 4 * divergence
    if not with_gradients:
        return loss, nll, [], None
    # d cross-entropy / d logits = probs - the smoothed target
    by_logits = [_add_to_targets(p.sub_(label_smoothing / len(bias)), y, label_smoothing - 1) for p in probs]
    if len(x) == 2:
        for grad, apart in zip(by_logits, by_divergence, strict=True):
            grad.div_(2).add_(apart, alpha=r_drop / 4)
    by_logits = [grad.to(x.dtype) for grad in by_logits]
    by_bias = torch.stack([grad.sum(dim=0, dtype=torch.float32) for grad in by_logits]).sum(dim=0)
    if (n_more := x.size(1) - n) > 0:
        by_logits = [F.pad(grad, (0, 0, 0, n_more)) for grad in by_logits]
    return loss, nll, by_logits, by_bias


def _add_to_targets(grad: Tensor, y: Tensor, value: float) -> Tensor:
    """Add value to grad[n, y[n]], in place; grad: (N, V); y: (N, 1)."""
    if torch.compiler.is_compiling():  # a scatter would keep the compiler from computing all in one pass over memory
        return grad.add_(torch.where(torch.arange(grad.size(1), device=grad.device) == y, value, 0.0))
    return grad.scatter_add_(1, y, grad.new_full(y.shape, value))


@cache
def compiled_cross_entropy() -> Callable[..., Any]:
    """Return `cross_entropy` compiled by torch for any number of positions: it reads the logits fewer times."""
    return torch.compile(unwrap(cross_entropy), dynamic=True)


def compile_layer(layer: nn.Module) -> None:
    """Make torch compile a layer at its first use, for batches of any size."""
    # Torch cannot trace it. As a decorator, this would import torch's compiler into every process.
    torch.compiler.assume_constant_result(gpu_attention.has_kernels)  # type: ignore[no-untyped-call]
    layer.compile(dynamic=True)


def _divergence(
    logits: Sequence[Tensor], probs: Sequence[Tensor], log_z: Sequence[Tensor]
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return KL(p || q) + KL(q || p), summed over the positions, and its gradients by the logits of p and of q.

    The gradient of KL(p || q) by p's logits is p (log p - log q - KL(p || q)), and by q's q - p.
    """
    p, q = probs
    log_ratio = torch.sub(*logits).sub_(log_z[0] - log_z[1])  # log p - log q
    p_to_q = (p * log_ratio).sum(dim=1, keepdim=True)
    q_to_p = (q * log_ratio).sum(dim=1, keepdim=True).neg_()
    by_q = log_ratio.neg().sub_(q_to_p - 1).mul_(q).sub_(p)
    by_p = log_ratio.sub_(p_to_q - 1).mul_(p).sub_(q)
    return (p_to_q + q_to_p).sum(), (by_p, by_q)


@_or_faster
def product_gradients(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of x W^T by x, (N, n_in), and by W, (n_out, n_in); grad: (N, n_out)."""
    return grad @ weight, grad.t() @ x


@_or_faster
def schedule_free_step(
    ys: list[Tensor],
    zs: list[Tensor],
    squares: list[Tensor],
    gradients: list[Tensor],
    numbers: tuple[float, ...],
) -> bool:
    """Make a step of `training.update.schedule_free` on weights ys and their sequences zs, in place; return True.

    squares: the means of the squared gradients. numbers: the learning rate, beta1, beta2, what divides the squares,
    epsilon, the decay of the weights and the share of the new z in the mean of all.
    """
    lr, beta1, beta2, correction, eps, decay, share = numbers
    torch._foreach_mul_(squares, beta2)
    torch._foreach_addcmul_(squares, gradients, gradients, value=1 - beta2)
    roots = torch._foreach_div(squares, correction)
    torch._foreach_sqrt_(roots)
    torch._foreach_add_(roots, eps)
    steps = torch._foreach_div(gradients, list(roots))
    if decay:
        torch._foreach_add_(steps, ys, alpha=decay)
    # y of the new z and x, without keeping x
    torch._foreach_lerp_(ys, zs, share)
    torch._foreach_add_(ys, steps, alpha=lr * (beta1 * (1 - share) - 1))
    torch._foreach_sub_(zs, steps, alpha=lr)
    return True


@_or_faster
def row_unit(weight: Tensor) -> int:
    """Return the unit that the number of rows in a product with this weight should be a multiple of."""
    return 1


@_or_faster
def seeded_dropout(seed: int, device: torch.device) -> AbstractContextManager[None]:
    """Let all dropout that this thread applies on the device in a `with` block depend on the seed alone."""
    torch.manual_seed(seed)
    return nullcontext()


@_or_faster
def decoder(model: Any, precision: str) -> Decoder | None:
    """Return a faster decoder that is equivalent to a `Transformer`; None if there is none."""
    return None


@_or_faster
def has_faster_decoder(cfg: ModelConfig, precision: str) -> bool:
    """Return whether `decoder` supports a `Transformer` of this shape in this precision on a CPU."""
    return False


@_or_faster
def can_multiply(precision: str, device: torch.device) -> bool:
    """Return whether torch multiplies fast in this precision (fp32, bf16 or int8) on the device."""
    if precision == "bf16":
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return precision == "fp32"


@_or_faster
def inference_linear(linear: nn.Linear, precision: str) -> nn.Module:
    """Return the layer for inference in this precision; in fp32 the layer itself."""
    return linear if precision == "fp32" else CastLinear(linear, torch.bfloat16)
