"""A model as the search sees it: last ids in, log-probabilities of the next ones out."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from mtkit.data.special_ids import BOS_ID, PAD_ID
from mtkit.model.attention import CrossAttention
from mtkit.model.transformer import Transformer
from mtkit.search.step import DecodeStep


def log_probs_to_choose_from(logits: Tensor) -> Tensor:
    """The log-probabilities (..., V), float32, of what may follow.

    PAD and BOS are never chosen: they get -inf after the softmax, so that the others keep the model's own
    log-probabilities (PAD is never a training target, so it holds next to nothing).
    """
    if logits.requires_grad or logits.dtype != torch.float32:
        log_probs = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
    else:
        log_probs = torch.log_softmax(logits, dim=-1, out=logits)  # the one large tensor of a step: no second copy
    log_probs[..., PAD_ID] = -math.inf
    log_probs[..., BOS_ID] = -math.inf
    return log_probs


class ModelStep:
    """A `DecodeStep` over one Transformer, whose key/value caches it keeps."""

    def __init__(self, model: Transformer, src: Tensor, beam_size: int, *, attention: bool = False) -> None:
        """Encode src (B, S) once for all steps; beam_size hypotheses will be extended for each sentence.

        attention: keep what `attention()` gives.
        """
        self._model = model
        self._cache = model.start_decoding(src, beam_size)
        self._attention: list[Tensor] | None = [] if attention else None

    def __call__(self, last_ids: Tensor) -> Tensor:
        """last_ids: (B, K). Returns log-probabilities (B, K, V) of what follows, float32."""
        return log_probs_to_choose_from(self.logits(last_ids))

    def logits(self, last_ids: Tensor) -> Tensor:
        """The same before the softmax; each call is a step."""
        with self._attention_noted():
            return self._model.decode_step(last_ids, self._cache)

    def attention(self) -> Tensor:
        """The latest step's attention to the source (B, K, S), the mean over all layers and heads."""
        return torch.stack(self._attention or []).mean(0)

    @contextmanager
    def _attention_noted(self) -> Iterator[None]:
        """Note what the decoder's layers look at during the block, if it was asked for: computed a second time."""
        if self._attention is None:
            yield
            return
        noted: list[Tensor] = []

        def note(module: CrossAttention, args: tuple[Tensor, Tensor, Tensor, Tensor], _: Tensor) -> None:
            x, keys, _values, bias = args
            noted.append(module.weights(x, keys, bias).mean(1))

        hooks = [layer.cross_attention.register_forward_hook(note) for layer in self._model.decoder_layers]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
        self._attention = noted

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was hypothesis parents[b, k]; (B, K)."""
        self._cache.reorder(parents)

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current numbers."""
        self._cache.select(sentences)


class EnsembleStep:
    """A `DecodeStep` over several models: the next token's probability is the mean of theirs."""

    def __init__(self, steps: Sequence[DecodeStep]) -> None:
        """The models have one target vocabulary, and each has been given the same sentences."""
        self._steps = steps

    def __call__(self, last_ids: Tensor) -> Tensor:
        """last_ids: (B, K). Returns log-probabilities (B, K, V)."""
        log_probs = torch.stack([step(last_ids) for step in self._steps])
        return log_probs.logsumexp(0) - math.log(len(self._steps))

    def attention(self) -> Tensor:
        """That of the first model."""
        return self._steps[0].attention()

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was hypothesis parents[b, k]; (B, K)."""
        for step in self._steps:
            step.reorder(parents)

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current numbers."""
        for step in self._steps:
            step.select(sentences)
