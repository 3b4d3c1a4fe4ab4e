"""Updates of a tiny model: batches of any pairs of ids, and the weights and the gradient that are left."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mtkit.config.model import ModelConfig
from mtkit.config.training import TrainConfig
from mtkit.data.batching import Batch
from mtkit.model.transformer import Transformer
from mtkit.runtime import Precision
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID
from mtkit.training.preparation.warm_start import freeze
from mtkit.training.update.optimizer_step import Updater

Pair = tuple[list[int], list[int]]


def batch_of(pairs: Sequence[Pair], numbers: Sequence[int] | None = None) -> Batch:
    """A batch as long as its longest sentence. numbers: of the pairs in the corpus, by default from 0."""
    tgt_out = padded([[*tgt, EOS_ID] for _, tgt in pairs])
    return Batch(
        padded([[*src, EOS_ID] for src, _ in pairs]),
        padded([[BOS_ID, *tgt] for _, tgt in pairs]),
        tgt_out,
        np.array(range(len(pairs)) if numbers is None else numbers),
        int((tgt_out != PAD_ID).sum()),
    )


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    length = max(map(len, rows))
    return torch.tensor([[*row, *[PAD_ID] * (length - len(row))] for row in rows])


def random_pairs(n_pairs: int, longest: int, vocab_size: int, seed: int = 0) -> list[Pair]:
    """Pairs of 1 to `longest` random tokens, of different lengths on both sides."""
    rng = np.random.default_rng(seed)

    def sentence() -> list[int]:
        return [int(number) for number in rng.integers(4, vocab_size, rng.integers(1, longest + 1))]

    return [(sentence(), sentence()) for _ in range(n_pairs)]


def updater_of(
    vocab_size: int,
    *,
    model: dict[str, Any] | None = None,
    dropout: float = 0.0,
    precision: Precision = "fp32",
    frozen: list[str] | None = None,
    device: str = "cpu",
    **train: Any,
) -> Updater:
    """An updater of a model 8 wide with a layer a side, whose gradient is not clipped; always the same weights.

    model and train: keys of these sections that differ; dropout: in all places.
    """
    torch.manual_seed(3)
    rates = dict.fromkeys(("embedding_dropout", "residual_dropout", "attention_dropout", "ffn_dropout"), dropout)
    shape = {"d_model": 8, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, **(model or {})}
    transformer = Transformer(ModelConfig.model_validate({**shape, **rates}), vocab_size, vocab_size)
    with torch.no_grad():
        for parameter in transformer.parameters():  # biases too, so that nothing is zero by symmetry
            parameter.add_(0.1 * torch.randn_like(parameter))
    freeze(transformer.to(device), frozen or [])
    cfg = TrainConfig.model_validate({"max_steps": 99, "warmup_steps": 0, "max_grad_norm": 1e9, **train})
    return Updater(transformer, cfg, seed=5, precision=precision)


def weights(updater: Updater) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in updater.model.parameters()])


def gradient(updater: Updater) -> Tensor:
    """Of all weights that are trained; each must have one."""
    parts = []
    for name, parameter in updater.model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            parts.append(parameter.grad.flatten())
    return torch.cat(parts)
