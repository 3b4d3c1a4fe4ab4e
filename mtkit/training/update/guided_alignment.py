"""Teach cross-attention to align words: guided alignment."""

from dataclasses import dataclass

from torch import Tensor

from mtkit.data.batching import Batch
from mtkit.scoring.alignment_lexicon import AlignmentLexicon

_FLOOR = 1e-9  # of attention, whose logarithm is taken


@dataclass(frozen=True)
class Guidance:
    """The part of the loss that guides attention (Chen et al. 2016, section 3; Garg et al. 2019, section 4.2)."""

    lexicon: AlignmentLexicon
    weight: float

    def loss_sum(self, attention: Tensor, batch: Batch) -> Tensor:
        """Return weight times the cross-entropy of the attention to the lexicon's links, summed over target tokens.

        attention: (B, T, S) of the batch, or (2 B, T, S) of two passes; both are on the lexicon's device.
        """
        links = self.lexicon.links(batch.src, batch.tgt_out).repeat(attention.size(0) // batch.src.size(0), 1, 1)
        return -self.weight * (links * attention.float().clamp_min(_FLOOR).log()).sum()
