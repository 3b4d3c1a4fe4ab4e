"""Measure the inputs of a model's matrix products, which decide how Bergamot's engine rounds inputs and weights.

The multiplier that turns the inputs of a product into 8-bit integers is 127 / (m + 1.1 s): m and s are the mean and the
standard deviation of the largest absolute input, over the sentences of a sample in the encoder and over single
positions in the decoder, as Bergamot's students have them (Bogoychev et al. 2020, section 3.2). Larger inputs are cut
off.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.alignment.forced import ForcedPair, forced_batches
from mtkit.config.decoding import DecodeConfig
from mtkit.engines.native import NativeEngine
from mtkit.model.transformer import Transformer
from mtkit.search.hypothesis import Segment

_DEVIATIONS = 1.1
_LONGEST = 3  # target tokens for each source token, as Marian allows


@dataclass
class Inputs:
    """The inputs of one linear layer (..., n_in), for the sentences of a sample."""

    largest: list[Tensor] = field(default_factory=list)  # absolute values
    gram: Tensor = field(default_factory=lambda: torch.zeros(()))  # X^T X (n_in, n_in), in float64

    @property
    def multiplier(self) -> float:
        """The multiplier in the file."""
        return 127.0 / _limit(torch.cat(self.largest).double().numpy())


def measured_inputs(model: Transformer, sources: Sequence[Sequence[int]]) -> dict[str, Inputs]:
    """Return the inputs of each linear layer, by the layer's name in the model.

    sources: token ids, without <end>; the model reads them and its own greedy translations of them.
    """
    pairs = _translated(model, sources)
    measured: dict[str, Inputs] = {}
    with torch.inference_mode(), _noting(model, measured):
        for pair in pairs:
            [batch] = forced_batches([pair], torch.device("cpu"))
            model(batch.src, batch.tgt_in)
    return measured


def _translated(model: Transformer, sources: Sequence[Sequence[int]]) -> list[ForcedPair]:
    segments = [Segment(tuple(ids), max_len=_LONGEST * len(ids) + _LONGEST) for ids in sources if ids]
    greedy = DecodeConfig(beam_size=1)
    pairs = []
    for index, [best] in NativeEngine([model]).decode(segments, greedy, 1):
        pairs.append(ForcedPair(segments[index].ids, best.ids, best.finished))
    return pairs


@contextmanager
def _noting(model: Transformer, measured: dict[str, Inputs]) -> Iterator[None]:
    """Add the inputs of all linear layers to `measured` while the model computes."""

    def noting(name: str) -> object:
        # the encoder computes all positions of a sentence at once, also keys and values for the decoder
        at_once = name.startswith("encoder_") or name.endswith("cross_attention.kv_proj")

        def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            of_positions = inputs[0].abs().amax(-1).flatten()
            of_layer, rows = measured.setdefault(name, Inputs()), inputs[0].flatten(0, -2).double()
            of_layer.largest.append(of_positions.amax()[None] if at_once else of_positions)
            of_layer.gram = of_layer.gram + rows.T @ rows

        return note

    layers: Mapping[str, nn.Module] = {
        name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)
    }
    hooks = [layer.register_forward_pre_hook(noting(name)) for name, layer in layers.items()]  # type: ignore[arg-type]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _limit(largest: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    return max(float(largest.mean() + _DEVIATIONS * largest.std()), 1e-6)
