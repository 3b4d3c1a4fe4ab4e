"""Make the network of a config, and count its weights; only this module knows the network of each task."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mtkit.config.schema import Config
from mtkit.model.classifier import EncoderClassifier, count_classifier_weights
from mtkit.model.network import Network
from mtkit.model.transformer import Transformer, count_weights


def new_network(cfg: Config, src_vocab_size: int, tgt_vocab_size: int) -> Network:
    """Return the network of the config's task, with weights drawn from torch's default generator."""
    if cfg.task == "classify":
        return EncoderClassifier(cfg.model, src_vocab_size, len(cfg.data.labels))
    network = Transformer(cfg.model, src_vocab_size, tgt_vocab_size)
    network.is_guided = cfg.train.guided_alignment > 0
    return network


def network_to_load(cfg: Config, src_vocab_size: int, tgt_vocab_size: int) -> Network:
    """Return the network of the config's task with undefined weights, to load others into it.

    To draw weights for a model of 512 dimensions takes half a second. The random state stays as it is.
    """
    with _WithoutDraws():
        return new_network(cfg, src_vocab_size, tgt_vocab_size)


class _WithoutDraws(TorchFunctionMode):
    """Leaves tensors as they are that would get random numbers."""

    _draws = nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_, Tensor.uniform_, Tensor.normal_

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in self._draws:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def count_network_weights(cfg: Config, src_vocab_size: int, tgt_vocab_size: int) -> int:
    """Return how many weights `new_network` has."""
    if cfg.task == "classify":
        return count_classifier_weights(cfg.model, src_vocab_size, len(cfg.data.labels))
    return count_weights(cfg.model, src_vocab_size, tgt_vocab_size)


def find_not_finite(weights: Mapping[str, Tensor]) -> str | None:
    """Return the name of the first tensor that holds a NaN or an infinity; None if all numbers are finite."""
    for name, weight in weights.items():
        if (
            weight.numel() and not torch.stack(torch.aminmax(weight)).isfinite().all()
        ):  # with a NaN, both extremes are NaN
            return name
    return None
