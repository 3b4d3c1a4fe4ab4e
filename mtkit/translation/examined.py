"""The native engine under examination: without its cache, and with a record of what its model said on the way."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mtkit.data.special_ids import EOS_ID
from mtkit.engines.native import NativeEngine, pad
from mtkit.engines.shortlisted import LocalVocabulary
from mtkit.engines.steps import log_probs_to_choose_from
from mtkit.model.transformer import Transformer
from mtkit.search.hypothesis import Segment
from mtkit.search.step import DecodeStep

Ids = tuple[int, ...]


class UncachedStep:
    """A `DecodeStep` that keeps no keys and values: each call decodes the whole prefixes anew, as training does."""

    def __init__(self, model: Transformer, src: Tensor, beam_size: int) -> None:
        """Encode src (B, S); beam_size hypotheses will be extended for each sentence."""
        self._model = model
        memory, pad_bias = model.encode(src)
        self._memory = memory.repeat_interleave(beam_size, dim=0)  # rows B x K, sentence by sentence
        self._pad_bias = pad_bias.repeat_interleave(beam_size, dim=0)
        self._ids = torch.empty(src.size(0), beam_size, 0, dtype=torch.long, device=src.device)

    def __call__(self, last_ids: Tensor) -> Tensor:
        """last_ids: (B, K). Returns log-probabilities (B, K, V) of what follows."""
        self._ids = torch.cat([self._ids, last_ids.unsqueeze(2)], dim=2)
        hidden = self._model.decode(self._ids.flatten(0, 1), self._memory, self._pad_bias)
        return log_probs_to_choose_from(self._model.output(hidden[:, -1]).float().unflatten(0, last_ids.shape))

    def attention(self) -> Tensor:
        """Not computed here: a search without coverage penalty does not ask for it."""
        raise NotImplementedError

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was hypothesis parents[b, k]; (B, K)."""
        self._ids = self._ids.gather(1, parents.unsqueeze(2).expand_as(self._ids))

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current numbers."""
        beam_size = self._ids.size(1)
        beams = torch.arange(beam_size, device=sentences.device)
        rows = (sentences[:, None] * beam_size + beams).flatten()
        self._memory, self._pad_bias = self._memory.index_select(0, rows), self._pad_bias.index_select(0, rows)
        self._ids = self._ids.index_select(0, sentences)


class Record:
    """The log-probabilities that a search was told of along given hypotheses.

    wanted: by source tokens, target tokens without EOS; EOS is followed as well.
    """

    def __init__(self, wanted: Mapping[Ids, Sequence[Ids]]) -> None:
        self._wanted = {src: [(*ids, EOS_ID) for ids in hypotheses] for src, hypotheses in wanted.items()}
        self._log_probs: dict[tuple[Ids, Ids], float] = {}  # by source, and the target up to the token

    def is_wanted(self, src: Sequence[int]) -> bool:
        """Whether hypotheses of this source are followed."""
        return tuple(src) in self._wanted

    def note(self, src: Sequence[int], prefix: Ids, log_probs: Tensor) -> None:
        """log_probs (V,): of what follows the prefix (without BOS)."""
        for ids in self._wanted[tuple(src)]:
            if ids[: len(prefix)] == prefix and len(ids) > len(prefix):
                place = (tuple(src), ids[: len(prefix) + 1])
                self._log_probs[place] = float(log_probs[ids[len(prefix)]])

    def log_probs(self, src: Sequence[int], ids: Sequence[int]) -> list[float]:
        """Of each of the ids after those before it; NaN where the search did not come by."""
        return [self._log_probs.get((tuple(src), tuple(ids[: n + 1])), math.nan) for n in range(len(ids))]


class RecordedStep:
    """A `DecodeStep` that does what another one does, and notes what is wanted."""

    def __init__(self, step: DecodeStep, segments: Sequence[Segment], record: Record) -> None:
        self._step = step
        self._segments = list(segments)
        self._record = record
        self._ids: Tensor | None = None  # (B, K, 1 + n), BOS first

    def __call__(self, last_ids: Tensor) -> Tensor:
        """last_ids: (B, K). Returns log-probabilities (B, K, V) of what follows."""
        last = last_ids.unsqueeze(2)
        self._ids = last if self._ids is None else torch.cat([self._ids, last], dim=2)
        log_probs = self._step(last_ids)
        for row, segment in enumerate(self._segments):
            if self._record.is_wanted(segment.ids):
                for k, ids in enumerate(self._ids[row, :, 1:].tolist()):
                    self._record.note(segment.ids, tuple(ids), log_probs[row, k])
        return log_probs

    def attention(self) -> Tensor:
        """That of the step itself."""
        return self._step.attention()

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was hypothesis parents[b, k]; (B, K)."""
        self._step.reorder(parents)
        assert self._ids is not None  # there is nothing to reorder before the first call
        self._ids = self._ids.gather(1, parents.unsqueeze(2).expand_as(self._ids))

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current numbers."""
        self._step.select(sentences)
        assert self._ids is not None
        self._ids = self._ids.index_select(0, sentences)
        self._segments = [self._segments[row] for row in sentences.tolist()]


class ExaminedEngine(NativeEngine):
    """The native engine over one model, if so wished without a cache, or with a record."""

    def __init__(
        self,
        model: Transformer,
        device: torch.device | str = "cpu",
        precision: str = "fp32",
        *,
        cached: bool = True,
        record: Record | None = None,
    ) -> None:
        super().__init__([model], device, precision)
        self._cached = cached
        self._record = record

    def make_step(
        self,
        segments: Sequence[Segment],
        beam_size: int,
        *,
        attention: bool = False,
        vocabulary: LocalVocabulary | None = None,
    ) -> DecodeStep:
        """The engine's own step, or that without a cache, recorded if so wished."""
        step: DecodeStep
        if self._cached:
            step = super().make_step(segments, beam_size, attention=attention, vocabulary=vocabulary)
        else:
            src = pad([[*segment.ids, EOS_ID] for segment in segments]).to(self.device)
            step = UncachedStep(self.models[0], src, beam_size)
        return step if self._record is None else RecordedStep(step, segments, self._record)
