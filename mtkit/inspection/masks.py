"""Sentence pairs in; their padded batch, its masks, and what padding changes in each sentence's figures out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.data.special_ids import PAD_ID
from mtkit.inspection.sentence_pair import SentencePair, Subject, named_pieces
from mtkit.model.masks import causal_bias
from mtkit.model.transformer import Transformer

TOLERANCE = 1e-3  # of a logit: rounding to float32 makes some 1e-5, one token too many that is looked at some 0.1
# Further below the highest logit a token's probability is nothing. Models that must never say a token may give it
# -30,000, where float32 has no more than two decimals.
_NEGLIGIBLE = 100.0
_NO_ID = -1


@dataclass(frozen=True)
class Difference:
    """How far a sentence's figures are from those that it has alone; NaN where one of them is NaN."""

    encoder: float  # largest of the encoder's outputs at its own tokens
    logits: float  # largest of the logits at its own tokens, see _NEGLIGIBLE
    changed: int  # positions at which another token is now the likeliest

    def within(self, tolerance: float) -> bool:
        """Whether both are at most the tolerance."""
        return self.encoder <= tolerance and self.logits <= tolerance


@dataclass(frozen=True)
class PaddedSentence:
    """One row of the batch."""

    pair: SentencePair
    src: Sequence[str]  # what the encoder is given, <pad> at its end
    tgt_in: Sequence[str]  # what the decoder is given, <start> first
    n_src: int  # of them no padding
    n_tgt: int
    src_mask: Tensor  # bool (S,), True where any position may look, in the encoder and from the decoder
    masked: Difference
    unmasked: Difference  # as it would be if padding were looked at


@dataclass(frozen=True)
class PaddedBatch:
    """Sentences that are computed together."""

    sentences: Sequence[PaddedSentence]
    causal_mask: Tensor  # bool (T, T): row t may look at the columns that are True
    recurrent: bool  # the decoder has a recurrent unit (SSRU), which is causal without a mask
    tolerance: float

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return any(row.n_src < len(row.src) or row.n_tgt < len(row.tgt_in) for row in self.sentences)

    @property
    def holds(self) -> bool:
        """Whether padding changes nothing."""
        return all(row.masked.within(self.tolerance) for row in self.sentences)


@torch.no_grad()
def padded_batch(
    subject: Subject,
    pairs: Sequence[SentencePair],
    *,
    tolerance: float = TOLERANCE,
    advance: Callable[[], object] = lambda: None,
) -> PaddedBatch:
    """The pairs as one batch, compared with each pair alone. advance: called after each pair."""
    model = subject.model
    src = _padded([pair.src.ids for pair in pairs])
    tgt_in = _padded([pair.tgt_in for pair in pairs])
    src_mask = model.encode(src)[1][:, 0, 0] == 0
    masked = _Figures.of(model, src, tgt_in)
    with _padding_looked_at(model):
        unmasked = _Figures.of(model, src, tgt_in)
    rows = []
    for i, pair in enumerate(pairs):
        alone = _Figures.of(model, torch.tensor([pair.src.ids]), torch.tensor([pair.tgt_in]))
        rows.append(
            PaddedSentence(
                pair,
                named_pieces(subject.src_tokenizer, src[i].tolist()),
                named_pieces(subject.tgt_tokenizer, tgt_in[i].tolist()),
                len(pair.src.ids),
                len(pair.tgt_in),
                src_mask[i],
                alone.difference(masked, i),
                alone.difference(unmasked, i),
            )
        )
        advance()
    causal = causal_bias(tgt_in.size(1))[0, 0] == 0
    return PaddedBatch(rows, causal, model.cfg.decoder == "ssru", tolerance)


@dataclass(frozen=True)
class _Figures:
    """What the model computes for a batch."""

    memory: Tensor  # (B, S, D)
    logits: Tensor  # (B, T, V)

    @classmethod
    def of(cls, model: Transformer, src: Tensor, tgt_in: Tensor) -> "_Figures":
        memory, pad_bias = model.encode(src)
        return cls(memory, model.output(model.decode(tgt_in, memory, pad_bias)))

    def difference(self, batch: "_Figures", i: int) -> Difference:
        """Between this sentence alone and sentence i of the batch, as far as this one goes."""
        memory, logits = self.memory[0], self.logits[0]
        batch_memory, batch_logits = batch.memory[i, : len(memory)], batch.logits[i, : len(logits)]
        changed = (logits.argmax(-1) != batch_logits.argmax(-1)).sum()
        floor = logits.amax(-1, keepdim=True) - _NEGLIGIBLE
        difference = logits.maximum(floor) - batch_logits.maximum(floor)
        return Difference(float((memory - batch_memory).abs().max()), float(difference.abs().max()), int(changed))


@contextmanager
def _padding_looked_at(model: Transformer) -> Iterator[None]:
    """During the block no token counts as padding, so that nothing hides it."""
    pad_id, model.pad_id = model.pad_id, _NO_ID
    try:
        yield
    finally:
        model.pad_id = pad_id


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD_ID)
