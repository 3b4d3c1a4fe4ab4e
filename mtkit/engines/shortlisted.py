"""Decoding with a shortlist: the search sees only the target tokens that some sentence of its batch may use."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mtkit.engines.shortlist import Shortlist
from mtkit.engines.steps import ModelStep
from mtkit.model.selected_outputs import select_outputs
from mtkit.model.transformer import Transformer
from mtkit.search.beam import Watch
from mtkit.search.hypothesis import Segment
from mtkit.search.step import SearchResult


@dataclass(frozen=True)
class LocalVocabulary:
    """The tokens of a batch, numbered from 0 in the order of their ids.

    The special ids, the lowest of all and on every list, are their own numbers.
    """

    ids: Tensor  # (U,) the target id of each number
    allowed: Tensor  # bool (B, U): which of them a sentence may use

    @classmethod
    def of(cls, shortlist: Shortlist, segments: Sequence[Segment], device: torch.device) -> "LocalVocabulary":
        """What the segments' own lists and forced beginnings hold."""
        extra = [segment.prefix for segment in segments]
        ids, allowed = shortlist.union([segment.ids for segment in segments], extra)
        return cls(torch.from_numpy(ids).to(device), torch.from_numpy(allowed).to(device))

    def localize(self, segments: Sequence[Segment]) -> list[Segment]:
        """The segments with their forced beginnings in numbers of this vocabulary."""
        return [replace(segment, prefix=self._numbers(segment.prefix)) for segment in segments]

    def _numbers(self, ids: Sequence[int]) -> tuple[int, ...]:
        return tuple(torch.searchsorted(self.ids, torch.tensor(ids, device=self.ids.device)).tolist())

    def globalize(self, results: Sequence[SearchResult]) -> list[SearchResult]:
        """What a search found, in target ids."""
        ids: list[int] = self.ids.tolist()
        return [
            replace(result, n_best=[replace(found, ids=[ids[n] for n in found.ids]) for found in result.n_best])
            for result in results
        ]

    def globalized(self, watch: Watch) -> Watch:
        """Tells the watch, in target ids, what it is told itself."""
        ids: list[int] = self.ids.tolist()
        return lambda hypotheses: watch([[ids[n] for n in numbers] for numbers in hypotheses])


class ShortlistedStep(ModelStep):
    """A `DecodeStep` over one Transformer whose tokens are the numbers of a local vocabulary.

    A sentence's probabilities are shared out among the tokens on its own list.
    """

    def __init__(
        self, model: Transformer, src: Tensor, beam_size: int, vocabulary: LocalVocabulary, *, attention: bool = False
    ) -> None:
        super().__init__(model, src, beam_size, attention=attention)
        self._cache.output = select_outputs(model.output, vocabulary.ids)
        self._ids = vocabulary.ids
        self._forbidden = ~vocabulary.allowed.unsqueeze(1)  # (B, 1, U)

    def logits(self, last_ids: Tensor) -> Tensor:
        """last_ids: (B, K) numbers. Returns (B, K, U)."""
        return super().logits(self._ids[last_ids]).masked_fill_(self._forbidden, -math.inf)

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current numbers."""
        super().select(sentences)
        self._forbidden = self._forbidden.index_select(0, sentences)
