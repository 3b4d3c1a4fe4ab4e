"""What training a Transformer costs in floating-point operations, and how fast a device multiplies such matrices.

Counted are the matrix products that the sentences themselves need, two operations per multiply-add: nothing for
padding, norms, softmax, dropout or the optimizer. The backward pass needs every product twice, once for each of its
factors, so an update costs three times its forward pass. With S and T the tokens of a source and of its target, ends
counted, d = d_model, f = d_ff and V the target vocabulary, multiply-adds of the forward pass are

    per source token and encoder layer:  4 d^2 + 2 d f     queries, keys, values, output; feed-forward (swiglu: 3 d f)
    per target token and decoder layer:  6 d^2 + 2 d f     as above, and the query and output of the cross-attention
    per source token and decoder layer:  2 d^2             its keys and values
    per sentence pair:                   2 d S^2 per encoder layer, 2 d (T^2 + T S) per decoder layer
    per target token:                    d V               the output projection

The half of the target's self-attention that the causal mask hides is counted, as is usual.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mtkit.config.model import ModelConfig
from mtkit.model.cpu.products import onednn_multiplies, onednn_product
from mtkit.training.update.loss import chunk_size

_REPEATS = 5
_LEAST_S = 0.01  # a shape is measured for at least so long each time


def training_flops(cfg: ModelConfig, vocab_size: int, src: npt.ArrayLike, tgt: npt.ArrayLike) -> int:
    """Operations of forward and backward pass over sentence pairs of these lengths (N,), ends counted."""
    _require_attention(cfg)
    s, t = np.asarray(src, dtype=np.int64), np.asarray(tgt, dtype=np.int64)
    d, feed_forward = cfg.d_model, _feed_forward_matrices(cfg) * cfg.d_model * cfg.d_ff
    encoder = int(s.sum()) * (4 * d * d + feed_forward) + 2 * d * int((s * s).sum())
    decoder = int(t.sum()) * (6 * d * d + feed_forward) + int(s.sum()) * 2 * d * d + 2 * d * int((t * t + t * s).sum())
    output = int(t.sum()) * d * vocab_size
    return 2 * 3 * (cfg.n_encoder_layers * encoder + cfg.n_decoder_layers * decoder + output)


@dataclass(frozen=True)
class Product:
    """A product (n, rows, inner) x (n, inner, columns) with its two of the backward pass, made `count` times."""

    kind: str
    rows: int
    inner: int
    columns: int
    n: int = 1  # matrices in a batched product
    count: int = 1  # how often it occurs in one update

    @property
    def flops(self) -> int:
        """Of all occurrences, forward and backward."""
        return 2 * 3 * self.n * self.rows * self.inner * self.columns * self.count


def products(
    cfg: ModelConfig, vocab_size: int, n_pairs: int, src_len: int, tgt_len: int, device: torch.device
) -> list[Product]:
    """All products of an update on n_pairs pairs of one length, as they are cut on this device.

    Together they have the operations of training_flops.
    """
    _require_attention(cfg)
    d, f, heads = cfg.d_model, cfg.d_ff, cfg.n_heads
    n_src, n_tgt, n_matrices = n_pairs * src_len, n_pairs * tgt_len, n_pairs * heads
    opening = 2 * f if cfg.activation == "swiglu" else f
    found = []
    for side, rows, layers in (("source", n_src, cfg.n_encoder_layers), ("target", n_tgt, cfg.n_decoder_layers)):
        n_outputs = layers if side == "source" else 3 * layers  # the cross-attention's query is as large as an output
        found += [
            Product(f"{side} queries, keys, values", rows, d, 3 * d, count=layers),
            Product(f"{side} attention output", rows, d, d, count=n_outputs),
            Product(f"{side} feed-forward in", rows, d, opening, count=layers),
            Product(f"{side} feed-forward out", rows, f, d, count=layers),
        ]
    found.append(Product("cross keys, values", n_src, d, 2 * d, count=cfg.n_decoder_layers))
    lengths = [(src_len, src_len, cfg.n_encoder_layers), (tgt_len, tgt_len, cfg.n_decoder_layers)]
    for queries, keys, layers in [*lengths, (tgt_len, src_len, cfg.n_decoder_layers)]:
        found.append(Product("attention scores", queries, d // heads, keys, n_matrices, layers))
        found.append(Product("attention mixing", queries, keys, d // heads, n_matrices, layers))
    chunk = chunk_size(device, vocab_size)
    whole, rest = divmod(n_tgt, chunk)
    found += [Product("output projection", chunk, d, vocab_size, count=whole)] if whole else []
    found += [Product("output projection", rest, d, vocab_size)] if rest else []
    return found


@dataclass(frozen=True)
class MeasuredProduct:
    """A product and how fast it ran."""

    product: Product
    seconds: float  # of all its occurrences in one update

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.product.flops / self.seconds


def measure(found: Sequence[Product], dtype: torch.dtype, device: torch.device) -> list[MeasuredProduct]:
    """Time each product by itself, with its operands in place: the best of a few goes.

    On a CPU torch's own products (MKL's in float32) and oneDNN's of a linear layer, in either order, are timed, and the
    fastest counts: a training step uses them all.
    """
    return [MeasuredProduct(product, product.count * _seconds(product, dtype, device)) for product in found]


def overall_rate(measured: Sequence[MeasuredProduct]) -> float:
    """Operations per second if an update were these products and nothing else."""
    return sum(m.product.flops for m in measured) / sum(m.seconds for m in measured)


def _seconds(product: Product, dtype: torch.dtype, device: torch.device) -> float:
    """Of one occurrence: forward, and both products of the backward pass."""
    p = product

    def matrices(rows: int, columns: int) -> Tensor:
        shape = (p.n, rows, columns) if p.n > 1 else (rows, columns)
        return torch.randn(shape, device=device).to(dtype)

    # a layer's weights lie transposed, as torch keeps them
    x, weight, y = matrices(p.rows, p.inner), matrices(p.columns, p.inner), matrices(p.rows, p.columns)
    return sum(
        min(_best_of_a_few(way, device) for way in _ways(left, right))
        for left, right in ((x, weight.mT), (y, weight), (y.mT, x))
    )


def _ways(left: Tensor, right: Tensor) -> list[Callable[[], object]]:
    """How two matrices, or two batches of them, can be multiplied."""
    multiply = torch.bmm if left.dim() > 2 else torch.mm
    result = multiply(left, right)
    ways: list[Callable[[], object]] = [lambda: multiply(left, right, out=result)]
    if left.dim() == 2 and left.device.type == "cpu" and onednn_multiplies(left.dtype):
        ways.append(lambda: onednn_product(left, right.mT))
        ways.append(lambda: onednn_product(right.mT.contiguous(), left).mT)
    return ways


def _best_of_a_few(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call, once memory and kernels are there."""
    work()
    n_times = max(1, int(_LEAST_S / _timed(work, 1, device)))
    return min(_timed(work, n_times, device) for _ in range(_REPEATS)) / n_times


def _timed(work: Callable[[], object], n_times: int, device: torch.device) -> float:
    _wait(device)
    started = time.perf_counter()
    for _ in range(n_times):
        work()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _feed_forward_matrices(cfg: ModelConfig) -> int:
    return 3 if cfg.activation == "swiglu" else 2


def _require_attention(cfg: ModelConfig) -> None:
    if cfg.decoder != "attention":
        raise ValueError(f"decoder={cfg.decoder}: its operations are not counted here")
