"""Compute operations of `mtkit.model.ops` faster on a CPU.

Each function has the name and the arguments of an operation there. It returns None where it cannot be faster.
"""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.config.model import ModelConfig
from mtkit.model.cpu import fused, packed, products, random_bytes
from mtkit.model.distances import by_distance, by_key
from mtkit.model.inference import InferenceLinear
from mtkit.model.masks import BLOCKED

if TYPE_CHECKING:
    from mtkit.model.cpu.compiled import CompiledTransformer

_SHORT = 160 * 160  # query-key pairs of a head up to which two batched products beat torch's fused kernel
_VECTOR = 16  # float32 numbers in a vector of AVX-512
# The rows of a chunk of the loss are a multiple of it. oneDNN's kernels for products with the vocabulary are large, so
# only few sizes may occur.
_ROW_UNIT = 64


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """Multiply by oneDNN or MKL, whichever is faster; only in training."""
    return products.linear(x, weight, bias)


def relu_linear(x: Tensor, weight: Tensor, bias: Tensor, p: float, training: bool) -> Tensor | None:
    """Add the bias, apply ReLU and dropout in one pass over memory."""
    if not (training and fused.has_kernels(x, bias)):
        return None
    y = products.linear(x, weight, None)
    if y is None:
        y = F.linear(x, weight)
    if not fused.has_kernels(y):  # autocast made it float16
        return None
    return fused.relu_dropout(y, bias, p, random_bytes.draw_seed() if p else 0)


def dropout(x: Tensor, p: float) -> Tensor | None:
    """Draw one random byte for each element."""
    if p == 0 or x.device.type != "cpu":
        return None
    if fused.has_kernels(x):
        return fused.dropout(x, p, random_bytes.draw_seed())
    return x * random_bytes.scaled_keep_mask(x.shape, p, x.dtype)


def add_dropout(x: Tensor, y: Tensor, p: float) -> Tensor | None:
    """Apply dropout and add in one pass over memory."""
    if p == 0 or x.shape != y.shape or not fused.has_kernels(x, y):
        return None
    return fused.add_dropout(x, y, p, random_bytes.draw_seed())


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float, training: bool) -> Tensor | None:
    """Return the norm in bf16 if that is the precision of autocast's products; in float32 torch's own is as fast."""
    if not training or not torch.is_autocast_enabled("cpu") or torch.get_autocast_dtype("cpu") != torch.bfloat16:
        return None
    return fused.layer_norm(x, gain, bias, eps, torch.bfloat16) if fused.has_kernels(x, gain) else None


def attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, p: float = 0.0, *, causal: bool = False
) -> Tensor | None:
    """Make two batched products with a softmax between them.

    On short sequences such as sentences this is faster than torch's fused kernel, which is made for GPUs and long
    sequences. With dropout, torch has no fused kernel for a CPU.
    """
    if q.device.type != "cpu" or not (p or q.size(-2) * k.size(-2) <= _SHORT):
        return None
    scores = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2))
    weights = _weights(scores, bias, p, q, v.dtype)
    return torch.bmm(weights, v.flatten(0, 1)).view(q.shape)


def attend_relative(
    q: Tensor, k: Tensor, v: Tensor, key_rows: Tensor, value_rows: Tensor, bias: Tensor | None, p: float = 0.0
) -> Tensor | None:
    """Let the batched products add the terms of relative positions."""
    if q.device.type != "cpu":
        return None
    queries, n_keys = q.flatten(0, 1), k.size(2)
    distant = by_key(queries @ key_rows.t(), n_keys)
    scores = torch.baddbmm(distant, queries, k.flatten(0, 1).transpose(1, 2))
    weights = _weights(scores, bias, p, q, v.dtype)
    distant = by_distance(weights, len(value_rows)) @ value_rows
    return torch.baddbmm(distant, weights, v.flatten(0, 1)).view(q.shape)


def _weights(scores: Tensor, bias: Tensor | None, p: float, q: Tensor, dtype: torch.dtype) -> Tensor:
    """Return dropout(softmax(scores / sqrt(d_head) + bias)), (B x H, Q, L); scores may be overwritten."""
    n_heads, scale = q.size(1), q.size(3) ** -0.5
    if torch.is_grad_enabled() and fused.has_kernels(scores):
        weights = fused.softmax(scores, bias, scale, n_heads)
    else:
        weights = _softmax(scores, bias, scale, n_heads).to(dtype)
    dropped = dropout(weights, p)
    return weights if dropped is None else dropped


def _softmax(scores: Tensor, bias: Tensor | None, scale: float, n_heads: int) -> Tensor:
    """Return softmax(scale x scores + bias), as `fused.softmax`, by torch; scores may be overwritten."""
    # At least float32: it is closer, and torch's softmax in bf16 is up to four times slower on rows this short.
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).mul_(scale)
    if bias is not None:
        scores = scores.view(-1, n_heads, *scores.shape[1:]).add_(bias).view(scores.shape)
    n_keys = scores.size(-1)
    if n_keys < _VECTOR:  # torch's softmax takes ten times longer over rows that do not fill a vector
        scores = F.pad(scores, (0, _VECTOR - n_keys), value=BLOCKED)
    return scores.softmax(dim=-1)[..., :n_keys]


def output_logits(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor | None:
    """Let oneDNN add the bias while it multiplies in bf16."""
    if x.dtype != torch.bfloat16 or not products.by_onednn(weight):
        return None
    return products.onednn_product(x, weight, bias.to(x.dtype)).float()


def cross_entropy(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    label_smoothing: float,
    r_drop: float,
    with_gradients: bool,
) -> tuple[float, float, Tensor, Tensor] | None:
    """Go over the logits once, turning them into their gradients."""
    if not (with_gradients and fused.has_kernels(weight, bias)):
        return None
    logits = products.product(x.reshape(-1, x.size(-1)), weight).view(*x.shape[:2], -1)
    loss, nll, by_bias = fused.cross_entropy_(logits, bias, targets, label_smoothing, r_drop)
    logits[:, len(targets) :] = 0
    return loss, nll, logits, by_bias


def product_gradients(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """Multiply by oneDNN or MKL, whichever is faster."""
    if grad.device.type != "cpu":
        return None
    return products.product(grad, weight.t()), products.weight_gradient(grad, x)


def schedule_free_step(
    ys: list[Tensor],
    zs: list[Tensor],
    squares: list[Tensor],
    gradients: list[Tensor],
    numbers: tuple[float, ...],
) -> bool | None:
    """Go over the memory of each weight once."""
    weights = list(zip(ys, zs, squares, gradients, strict=True))
    if not all(fused.has_kernels(*tensors) and fused.are_plain(*tensors) for tensors in weights):
        return None
    fused.schedule_free_step(weights, numbers)
    return True


def row_unit(weight: Tensor) -> int | None:
    """Return a unit that keeps the sizes of products few, because oneDNN compiles a kernel for each."""
    return _ROW_UNIT if products.by_onednn(weight) else None


def seeded_dropout(seed: int, device: torch.device) -> AbstractContextManager[None] | None:
    """Seed this thread's own generator."""
    return random_bytes.seeded(seed) if device.type == "cpu" else None


def decoder(model: Any, precision: str) -> "CompiledTransformer | None":
    """Return the compiled loops over all layers if numba works and they support the model."""
    weight = next(model.parameters(), None)
    if weight is None or weight.device.type != "cpu" or not has_faster_decoder(model.cfg, precision):
        return None
    if any(isinstance(module, InferenceLinear) for module in model.modules()):
        return None  # the loops would replace the arithmetic of these layers
    from mtkit.model.cpu.compiled import CompiledTransformer  # here: it imports numba

    return CompiledTransformer(model, precision)


def has_faster_decoder(cfg: ModelConfig, precision: str) -> bool:
    """Return whether numba works and the loops support the model."""
    if not fused.has_numba():
        return False
    from mtkit.model.cpu.compiled import can_compile  # here: it imports numba

    return can_compile(cfg, precision)


def can_multiply(precision: str, device: torch.device) -> bool | None:
    """Check the processor's instructions."""
    return packed.can_multiply(precision) if device.type == "cpu" else None


def inference_linear(linear: nn.Linear, precision: str) -> nn.Module | None:
    """Pack the weights for this processor."""
    return packed.packed_linear(linear, precision) if linear.weight.device.type == "cpu" else None
