"""Decode with a shortlist: the search sees only the target tokens that a sentence of its batch may use."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from mtkit.engines.shortlist import Shortlist
from mtkit.engines.steps import ModelStep
from mtkit.model.transformer import Transformer
from mtkit.search.hypothesis import Hypothesis, Segment


@dataclass(frozen=True)
class LocalVocabulary:
    """The target tokens of a batch, given local ids from 0 in the order of their ids.

    Special tokens keep their ids: these are the lowest of all, and on every list.
    """

    ids: Tensor  # (U,) the target id of each local id
    allowed: Tensor  # bool (B, U): which of them a sentence may use

    @classmethod
    def from_shortlist(
        cls, shortlist: Shortlist, segments: Sequence[Segment], device: torch.device
    ) -> "LocalVocabulary":
        """Take the tokens on the segments' lists and in their forced beginnings."""
        extra = [segment.prefix for segment in segments]
        ids, allowed = shortlist.union([segment.ids for segment in segments], extra)
        return cls(torch.from_numpy(ids).to(device), torch.from_numpy(allowed).to(device))

    def localize(self, segments: Sequence[Segment]) -> list[Segment]:
        """Return the segments with their forced beginnings in local ids."""
        return [replace(segment, prefix=self._local_ids(segment.prefix)) for segment in segments]

    def _local_ids(self, ids: Sequence[int]) -> tuple[int, ...]:
        return tuple(torch.searchsorted(self.ids, torch.tensor(ids, device=self.ids.device)).tolist())

    def globalize(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Return the hypotheses in target ids."""
        ids = self._target_ids
        return [replace(hypothesis, ids=[ids[local_id] for local_id in hypothesis.ids]) for hypothesis in hypotheses]

    @cached_property
    def _target_ids(self) -> list[int]:
        target_ids: list[int] = self.ids.tolist()
        return target_ids


class ShortlistedStep(ModelStep):
    """A `DecodeStep` over one Transformer, in the local ids of a vocabulary.

    The tokens on a sentence's own list share its probability.
    """

    def __init__(
        self, model: Transformer, src: Tensor, beam_size: int, vocabulary: LocalVocabulary, *, attention: bool = False
    ) -> None:
        super().__init__(model, src, beam_size, attention=attention)
        self._cache.output = model.output.select_outputs(vocabulary.ids)
        self._ids = vocabulary.ids
        self._forbidden = ~vocabulary.allowed.unsqueeze(1)  # (B, 1, U)

    def logits(self, last_ids: Tensor) -> Tensor:
        """Extend the hypotheses by last_ids (B, K), local ids; return logits (B, K, U)."""
        return super().logits(self._ids[last_ids]).masked_fill_(self._forbidden, -math.inf)

    def select(self, sentences: Tensor) -> None:
        """Keep only these sentences (B',), given by their current indices."""
        super().select(sentences)
        self._forbidden = self._forbidden.index_select(0, sentences)
