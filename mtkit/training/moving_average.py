"""Means of a model's weights: the running one that is kept beside it while it trains."""

import copy

import torch
from torch import Tensor

from mtkit.model.transformer import Transformer


class MovingAverage:
    """An exponential running mean of a model's weights, held by a second model that is never trained itself.

    After update n it moves by 1 - d of the way to the new weights, d = min(decay, (1 + n) / (10 + n)): at first it
    follows closely, so that the weights drawn at the start are soon forgotten. The idea is Polyak and Juditsky 1992,
    the warm-up of the decay that of tf.train.ExponentialMovingAverage with num_updates.
    """

    def __init__(self, model: Transformer, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self._means: list[Tensor] = list(self.model.parameters())  # float32, as the weights are in any precision
        self._weights: list[Tensor] = list(model.parameters())

    @torch.no_grad()
    def update(self, n: int) -> None:
        """Take in the weights that the model has after update number n, counted from 1."""
        torch._foreach_lerp_(self._means, self._weights, 1 - min(self.decay, (1 + n) / (10 + n)))
