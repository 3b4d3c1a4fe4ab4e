"""The decoding step of a model: it computes log-probabilities of the next ids from the last ids."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from mtkit.engines.shortlist import Shortlist
from mtkit.model.inference import Decoder
from mtkit.search.hypothesis import Hypothesis, Segment
from mtkit.search.step import DecodeStep
from mtkit.tokens.special_ids import BOS_ID, PAD_ID

_NEVER = PAD_ID, BOS_ID  # tokens that no search chooses


def log_probs_to_choose_from(logits: Tensor) -> Tensor:
    """Return log-probabilities (..., V), float32, of the next token; PAD and BOS get -inf and are never chosen.

    They get it after the softmax, so that the others keep the model's log-probabilities (PAD is never a training
    target, so its probability is next to nothing).
    """
    if logits.requires_grad or logits.dtype != torch.float32:
        log_probs = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
    else:
        # in place: the largest tensor of a step needs no second copy
        log_probs = torch.log_softmax(logits, dim=-1, out=logits)
    for token in _NEVER:
        log_probs[..., token] = -math.inf
    return log_probs


class ModelStep:
    """A `ChoosingStep` over one model, with its key/value caches."""

    def __init__(self, model: Decoder, src: Tensor, beam_size: int, *, attention: bool = False) -> None:
        """Encode src (B, S) once for all steps of a search with beam_size hypotheses for each sentence.

        attention: compute what `attention()` returns.
        """
        self._model = model
        self._cache = model.start_decoding(src, beam_size)
        self._cache.attention = torch.empty(0) if attention else None

    def __call__(self, last_ids: Tensor) -> Tensor:
        """Extend the hypotheses by last_ids (B, K); return log-probabilities (B, K, V) of the next token, float32."""
        return log_probs_to_choose_from(self.logits(last_ids))

    def logits(self, last_ids: Tensor) -> Tensor:
        """Do the same, but return logits."""
        return self._model.decode_step(last_ids, self._cache)

    def likeliest(self, last_ids: Tensor, n: int) -> tuple[Tensor, Tensor] | None:
        """See `ChoosingStep`."""
        return self._model.choose(last_ids, self._cache, n, _NEVER)

    def attention(self) -> Tensor:
        """Return the latest step's attention to the source (B, K, S): that of the heads that align words best."""
        attention: Tensor = self._cache.attention
        return attention

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was hypothesis parents[b, k]; (B, K)."""
        self._cache.reorder(parents)

    def select(self, sentences: Tensor) -> None:
        """Keep only these sentences (B',), given by their current indices."""
        self._cache.select(sentences)


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
        """Collect the tokens on the segments' lists, in their forced beginnings, and those that must appear."""
        extra = [(*segment.prefix, *segment.once) for segment in segments]
        ids, allowed = shortlist.union([segment.ids for segment in segments], extra)
        return cls(torch.from_numpy(ids).to(device), torch.from_numpy(allowed).to(device))

    def localize(self, segments: Sequence[Segment]) -> list[Segment]:
        """Return the segments with the target tokens that they name in local ids."""
        return [
            replace(
                segment,
                prefix=self._local_ids(segment.prefix),
                once=self._local_ids(segment.once),
                never=self._local_ids([token for token in segment.never if token in self._target_id_set]),
            )
            for segment in segments
        ]

    def _local_ids(self, ids: Sequence[int]) -> tuple[int, ...]:
        return tuple(torch.searchsorted(self.ids, torch.tensor(ids, device=self.ids.device)).tolist())

    @cached_property
    def _target_id_set(self) -> frozenset[int]:
        return frozenset(self._target_ids)

    def globalize(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Return the hypotheses in target ids."""
        ids = self._target_ids
        return [replace(hypothesis, ids=[ids[local_id] for local_id in hypothesis.ids]) for hypothesis in hypotheses]

    @cached_property
    def _target_ids(self) -> list[int]:
        target_ids: list[int] = self.ids.tolist()
        return target_ids


class ShortlistedStep(ModelStep):
    """A `DecodeStep` over one model, in the local ids of a vocabulary.

    The tokens on a sentence's own list share its probability.
    """

    def __init__(
        self, model: Decoder, src: Tensor, beam_size: int, vocabulary: LocalVocabulary, *, attention: bool = False
    ) -> None:
        super().__init__(model, src, beam_size, attention=attention)
        self._cache.output = model.output.select_outputs(vocabulary.ids)
        self._ids = vocabulary.ids
        self._forbidden = ~vocabulary.allowed  # (B, U)
        self._fewest = min(vocabulary.allowed.sum(1).tolist(), default=0) - len(_NEVER)  # tokens to choose from

    def likeliest(self, last_ids: Tensor, n: int) -> tuple[Tensor, Tensor] | None:
        """See `ChoosingStep`."""
        if n > self._fewest:
            return None
        return self._model.choose(self._ids[last_ids], self._cache, n, _NEVER, self._forbidden)

    def logits(self, last_ids: Tensor) -> Tensor:
        """Extend the hypotheses by last_ids (B, K), local ids; return logits (B, K, U)."""
        return super().logits(self._ids[last_ids]).masked_fill_(self._forbidden.unsqueeze(1), -math.inf)

    def select(self, sentences: Tensor) -> None:
        """Keep only these sentences (B',), given by their current indices."""
        super().select(sentences)
        self._forbidden = self._forbidden.index_select(0, sentences)


class EnsembleStep:
    """A `DecodeStep` over several models that averages their probabilities of the next token."""

    def __init__(self, steps: Sequence[DecodeStep]) -> None:
        """steps: of models with one target vocabulary, over the same sentences."""
        self._steps = steps

    def __call__(self, last_ids: Tensor) -> Tensor:
        """Extend the hypotheses by last_ids (B, K); return log-probabilities (B, K, V) of the next token."""
        log_probs = torch.stack([step(last_ids) for step in self._steps])
        return log_probs.logsumexp(0) - math.log(len(self._steps))

    def attention(self) -> Tensor:
        """Return the first model's attention."""
        return self._steps[0].attention()

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was hypothesis parents[b, k]; (B, K)."""
        for step in self._steps:
            step.reorder(parents)

    def select(self, sentences: Tensor) -> None:
        """Keep only these sentences (B',), given by their current indices."""
        for step in self._steps:
            step.select(sentences)
