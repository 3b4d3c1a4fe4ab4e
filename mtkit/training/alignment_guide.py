"""Soft word alignments of a batch, by lexicons of the training text, which cross-attention learns: guided alignment.

A link between a source and a target token is likely if each is a likely translation of the other, and if both stand at
like places. Nothing is stored for each sentence, so that subword sampling and any order of the pairs work.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mtkit.data.batching import Batch
from mtkit.data.encoded import EncodedSide
from mtkit.data.special_ids import EOS_ID, PAD_ID
from mtkit.engines.lexicon import EMPTY_SHARE, EMPTY_WORD, Model1, even_sample

_TENSION = 4.0  # of links to the diagonal (Dyer et al. 2013, section 3.2)
_LEAST = 0.5  # probability of a link (Liang et al. 2006, section 4: the mean of both directions)
_FLOOR = 1e-9  # of attention, whose logarithm is taken
_MOST_LINKS = 10_000_000  # to learn from: half a minute, and 0.5 GB


@dataclass(frozen=True)
class _Table:
    """The translation probabilities t(to | from) above 0; from is EMPTY_WORD for the empty word."""

    keys: Tensor  # (E,) int64, rising: from times n_to plus to
    probs: Tensor  # (E,) float32
    n_to: int  # size of the other vocabulary

    @classmethod
    def learn(cls, src: EncodedSide, tgt: EncodedSide, n_to: int) -> "_Table":
        """Learn the probabilities of target tokens, given source tokens."""
        src_text, tgt_text = ((side.ids.astype(np.int64), side.lengths.astype(np.int64)) for side in (src, tgt))
        lexicon = Model1(src_text, tgt_text, tension=_TENSION).lexicon(with_empty_word=True)
        keys = torch.from_numpy(lexicon.src_ids * n_to + lexicon.tgt_ids)
        return cls(keys, torch.from_numpy(lexicon.probs).float(), n_to)

    def to(self, device: torch.device) -> "_Table":
        return _Table(self.keys.to(device), self.probs.to(device), self.n_to)

    def links(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Return the probability that each target token translates each source token, (B, T, S), by this direction.

        src: (B, S), tgt: (B, T), with PAD where there is no word.
        """
        is_src, is_tgt = (src != PAD_ID)[:, None, :], (tgt != PAD_ID)[:, :, None]
        distance = _places(src)[:, None, :] - _places(tgt)[:, :, None]
        odds = torch.exp(-_TENSION * distance.abs()) * is_src
        odds *= (1 - EMPTY_SHARE) / odds.sum(-1, keepdim=True).clamp_min(1e-9)
        odds *= self._of(src[:, None, :], tgt[:, :, None])
        empty = EMPTY_SHARE * self._of(torch.full_like(tgt, EMPTY_WORD), tgt)[:, :, None]
        return odds / (odds.sum(-1, keepdim=True) + empty).clamp_min(1e-9) * is_tgt

    def _of(self, src: Tensor, tgt: Tensor) -> Tensor:
        keys = src * self.n_to + tgt
        found = torch.searchsorted(self.keys, keys).clamp_max(len(self.keys) - 1)
        return torch.where(self.keys[found] == keys, self.probs[found], 0.0)


def _places(ids: Tensor) -> Tensor:
    """Return where each token stands in its sentence, from 0 to 1: (B, L)."""
    lengths = (ids != PAD_ID).sum(1, keepdim=True).clamp_min(1)
    return (torch.arange(ids.size(1), device=ids.device) + 0.5) / lengths


@dataclass(frozen=True)
class AlignmentGuide:
    """Knows which source token each target token translates, as far as both directions agree."""

    forward: _Table
    backward: _Table

    @classmethod
    def learn(cls, src: EncodedSide, tgt: EncodedSide, src_vocab_size: int, tgt_vocab_size: int) -> "AlignmentGuide":
        """Learn from an even sample of sentence pairs."""
        sample = even_sample(src.lengths, tgt.lengths, _MOST_LINKS)
        src, tgt = src.take(sample), tgt.take(sample)
        return cls(_Table.learn(src, tgt, tgt_vocab_size), _Table.learn(tgt, src, src_vocab_size))

    def to(self, device: torch.device) -> "AlignmentGuide":
        """Copy the guide to a device."""
        return AlignmentGuide(self.forward.to(device), self.backward.to(device))

    @torch.no_grad()
    def links(self, src: Tensor, tgt_out: Tensor) -> Tensor:
        """Return what attention of each target token to the source should be: (B, T, S).

        A row adds up to 1, or is 0 where the token's counterpart is not sure. The ends belong together.
        src: (B, S) and tgt_out: (B, T), ids with EOS and padding.
        """
        words = [ids.masked_fill(ids == EOS_ID, PAD_ID) for ids in (src, tgt_out)]
        there, back = self.forward.links(*words), self.backward.links(words[1], words[0]).transpose(1, 2)
        both = (there * back).sqrt()
        both = both.masked_fill(both < _LEAST, 0.0)
        both = both / both.sum(-1, keepdim=True).clamp_min(_LEAST)
        return both + ((src == EOS_ID)[:, None, :] & (tgt_out == EOS_ID)[:, :, None])


@dataclass(frozen=True)
class Guidance:
    """The part of the loss that guides attention (Chen et al. 2016, section 3; Garg et al. 2019, section 4.2)."""

    guide: AlignmentGuide
    weight: float

    def loss_sum(self, attention: Tensor, batch: Batch) -> Tensor:
        """Return weight times the cross-entropy of the attention to the guide's links, summed over target tokens.

        attention: (B, T, S) of the batch, or (2 B, T, S) of two passes; both are on the guide's device.
        """
        links = self.guide.links(batch.src, batch.tgt_out).repeat(attention.size(0) // batch.src.size(0), 1, 1)
        return -self.weight * (links * attention.float().clamp_min(_FLOOR).log()).sum()
