"""Shapes of networks, and batches of random sentences for them: what `gpu.py` trains on and decodes."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mtkit.config.model import ModelConfig
from mtkit.data.batching import Batch, plan_epoch
from mtkit.data.encoded import Lengths
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID

_FIRST_ID = EOS_ID + 1
_MEAN_LENGTH, _LONGEST = 26, 100  # tokens: those of news text in a vocabulary of 37,000


@dataclass(frozen=True)
class Shape:
    """A network with its vocabulary and batch."""

    model: ModelConfig
    vocab_size: int
    batch_tokens: int


_OF_PAPER = ModelConfig(
    d_model=512, d_ff=2048, n_heads=8, n_encoder_layers=6, n_decoder_layers=6, norm_position="post", tie="all"
)
SHAPES = {
    "tiny": Shape(ModelConfig(d_model=32, d_ff=64, n_heads=2, n_encoder_layers=1, n_decoder_layers=1), 500, 1000),
    "256": Shape(ModelConfig(), 8000, 25000),  # the 256-wide 3+3 layers of configs/tatoeba-en-fr.yaml
    "base": Shape(_OF_PAPER, 37000, 25000),  # configs/transformer-base.yaml
    "big": Shape(_OF_PAPER.model_copy(update={"d_model": 1024, "d_ff": 4096, "n_heads": 16}), 37000, 25000),
}


def synthetic_batches(vocab_size: int, batch_tokens: int) -> Iterator[Batch]:
    """Batches without end, made like those of real text; the target is the source."""
    rng = np.random.default_rng(1)
    lengths = random_lengths(rng, 20000)
    epoch = 0
    while True:
        for indices in plan_epoch(lengths, lengths, batch_tokens=batch_tokens, seed=1, epoch=epoch):
            src = source(lengths[indices], vocab_size, seed=int(indices[0]))
            first = torch.full((len(indices), 1), BOS_ID)
            tgt_in = torch.cat([first, src[:, :-1].masked_fill(src[:, :-1] == EOS_ID, PAD_ID)], dim=1)
            yield Batch(src, tgt_in, src, indices, int((src != PAD_ID).sum()))
        epoch += 1


def random_lengths(rng: np.random.Generator, n: int) -> Lengths:
    """Sentence lengths in tokens, spread as in news text: many about the mean, a few very long ones."""
    return np.clip(rng.gamma(shape=3.0, scale=_MEAN_LENGTH / 3, size=n).astype(np.int32), 1, _LONGEST)


def source(lengths: Lengths, vocab_size: int, seed: int = 0) -> Tensor:
    """Random ids (B, longest + 1), each row ending in EOS, padded."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(_FIRST_ID, vocab_size, size=(len(lengths), int(lengths.max()) + 1))
    positions = np.arange(ids.shape[1])
    ids[positions == lengths[:, None]] = EOS_ID
    ids[positions > lengths[:, None]] = PAD_ID
    return torch.from_numpy(ids)


def now(device: torch.device) -> float:
    """Seconds on a clock, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
    return time.perf_counter()
