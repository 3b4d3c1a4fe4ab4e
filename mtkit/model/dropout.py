"""Dropout whose random numbers cost little on a CPU."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.model.cpu import fused

_WHOLE_NUMBERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by their bytes


class Dropout(nn.Module):
    """Zero each element with probability p and scale the others by 1/(1 - p) (Srivastava et al. 2014), in training.

    On a CPU one random byte decides for each element instead of one random float, which is several times faster; p is
    then the nearest multiple of 1/256, and the scale is the one for that p, rounded to x's precision.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Any shape; returns the same shape."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        if fused.has_kernels(x):
            return fused.dropout(x, n_dropped(self.p), _drawn_seed())
        return x * scaled_keep_mask(x.shape, self.p, x.dtype)

    def added(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y); they are broadcast as in any sum."""
        if self.training and self.p > 0 and x.shape == y.shape and fused.has_kernels(x, y):
            return fused.add_dropout(x, y, n_dropped(self.p), _drawn_seed())
        return x + self(y)

    def of_relu(self, x: Tensor, bias: Tensor) -> Tensor:
        """dropout(relu(x + bias)); x: (..., D); bias: (D,), in any precision. Returns x's shape and precision."""
        if self.training and fused.has_kernels(x, bias):
            return fused.relu_dropout(x, bias, n_dropped(self.p), _drawn_seed() if self.p else 0)
        return self((x + bias.to(x.dtype)).relu())

    def extra_repr(self) -> str:
        """What print(model) shows."""
        return f"p={self.p}"


class WordDropout(Dropout):
    """Zero whole tokens with probability p and scale the others by 1/(1 - p), in training.

    Any token can go, <start> and <end> included: nothing has to be learnt from a token that is always there. (On little
    text this helps a good deal, on both sides: Sennrich and Zhang 2019, section 4.)
    """

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., D), a vector per token; returns the same shape."""
        if not self.training or self.p == 0:
            return x
        return x * super().forward(torch.ones_like(x[..., :1]))


class _Source(threading.local):
    generator: torch.Generator | None = None  # None: torch's default one, which all threads share


_source = _Source()


@contextmanager
def seeded_dropout(seed: int, device: torch.device) -> Iterator[None]:
    """A block in which all dropout that this thread applies on the device depends on the seed alone."""
    if device.type != "cpu":
        torch.manual_seed(seed)
        yield
        return
    before, _source.generator = _source.generator, torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _source.generator = before


def n_dropped(p: float) -> int:
    """How many of the 256 values of a byte stand for an element that is dropped with probability p."""
    return 0 if p == 0 else min(max(1, round(p * 256)), 255)


def _drawn_seed() -> int:
    return int(torch.empty((), dtype=torch.int64).random_(generator=_source.generator))


def scaled_keep_mask(shape: torch.Size, p: float, dtype: torch.dtype) -> Tensor:
    """A CPU tensor that holds 0 with probability k/256, the multiple nearest to p (0 < p < 1), else 1/(1 - k/256)."""
    threshold = n_dropped(p)
    n_elements = prod(shape)
    words = torch.empty((n_elements + 7) // 8, dtype=torch.int64)
    words.random_(-(2**63), None, generator=_source.generator)  # all 64 bits are random
    values = words.view(torch.uint8)[:n_elements].view(shape)
    # In place, so as bytes: on a CPU making bools by comparison, and numbers of them, is ten times slower. The scale is
    # put in as the whole number that has its bits: torch multiplies those twice as fast as numbers of two bytes.
    scale = torch.tensor(256 / (256 - threshold), dtype=dtype)
    bits = _WHOLE_NUMBERS[dtype.itemsize]
    return values.ge_(threshold).to(bits).mul_(scale.view(bits)).view(dtype)
