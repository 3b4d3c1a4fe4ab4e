"""A model as the search sees it: last ids in, log-probabilities of the next ones out."""

import math

import torch
from torch import Tensor

from mtkit.data.special_ids import BOS_ID, PAD_ID
from mtkit.model.transformer import Transformer


class ModelStep:
    """A `DecodeStep` over one Transformer, whose key/value caches it keeps."""

    def __init__(self, model: Transformer, src: Tensor, beam_size: int) -> None:
        """Encode src (B, S) once for all steps; beam_size hypotheses will be extended for each sentence."""
        self._model = model
        self._cache = model.start_decoding(src, beam_size)

    def __call__(self, last_ids: Tensor) -> Tensor:
        """last_ids: (B, K). Returns log-probabilities (B, K, V) of what follows, float32.

        PAD and BOS are never chosen: they get -inf after the softmax, so that the others keep the model's own
        log-probabilities (PAD is never a training target, so it holds next to nothing).
        """
        log_probs = torch.log_softmax(self._model.decode_step(last_ids, self._cache), dim=-1, dtype=torch.float32)
        log_probs[..., PAD_ID] = -math.inf
        log_probs[..., BOS_ID] = -math.inf
        return log_probs

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was hypothesis parents[b, k]; (B, K)."""
        self._cache.reorder(parents)

    def keep(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current numbers."""
        self._cache.keep(sentences)
