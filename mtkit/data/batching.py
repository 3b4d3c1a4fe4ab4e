"""Group the pairs of an encoded corpus into batches, and build a batch's tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mtkit.data.encoded import EncodedPairs, Lengths
from mtkit.tokens.special_ids import EOS_ID, PAD_ID

BATCH_ORDER = 2  # raise it whenever the same seed begins to give other batches
# Neighbouring differences of length that are mixed with each other. More mixing means more padding
# (docs/log.md, "Batches").
_MIXED = 4
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Sentence pairs of similar length, padded on the right with PAD."""

    src: Tensor  # (B, S) int64: ids, EOS
    tgt_in: Tensor  # (B, T) int64: BOS, ids
    tgt_out: Tensor  # (B, T) int64: ids, EOS; the model predicts tgt_out[:, t] from tgt_in[:, : t + 1]
    indices: Indices  # (B,): of the pairs in the corpus
    n_tgt_tokens: int  # in tgt_out, EOS counted, padding not

    def to(self, device: torch.device | str) -> "Batch":
        """Copy the batch to a device; does not wait for a GPU to finish."""
        non_blocking = torch.device(device).type == "cuda"
        texts = (self.src, self.tgt_in, self.tgt_out)
        src, tgt_in, tgt_out = (text.to(device, non_blocking=non_blocking) for text in texts)
        return Batch(src, tgt_in, tgt_out, self.indices, self.n_tgt_tokens)


def plan_epoch(
    src_lengths: Lengths,
    tgt_lengths: Lengths,
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
    window: int = 0,
    shuffle: bool = True,
) -> list[Indices]:
    """Return the pairs of each batch of an epoch, or of one window of it; a pure function of the arguments.

    Every pair occurs once. The pairs of a batch have similar lengths. Their count times the longest sentence of either
    side, EOS included, is at most batch_tokens, unless a single pair is longer than that.
    lengths: tokens without special ids. shuffle: regroup the pairs and reorder the batches in each epoch; otherwise
    batches go from short to long.
    """
    n_pairs = len(src_lengths)
    if not n_pairs:
        return []
    rng = np.random.default_rng([seed, epoch, window])  # numpy ignores zeros at the end
    order = _order_by_length(src_lengths, tgt_lengths, rng if shuffle else None)
    sizes = np.maximum(src_lengths, tgt_lengths)[order].astype(np.int64) + 1
    batches = np.split(order, _batch_starts(sizes, batch_tokens)[1:])
    if shuffle:
        batches = [batches[index] for index in rng.permutation(len(batches))]
    return batches


def _order_by_length(src_lengths: Lengths, tgt_lengths: Lengths, rng: np.random.Generator | None) -> Indices:
    """Sort the pairs by their longer side, and within one length by how much longer the source is than the target.

    The second key ascends for one length and descends for the next, so that a batch that crosses the border between
    two lengths has little padding on both sides. rng: mix the pairs of _MIXED neighbouring differences at random;
    which of them are mixed also differs from length to length and from call to call.
    """
    longer = np.maximum(src_lengths, tgt_lengths)
    difference = (src_lengths - tgt_lengths).astype(np.float64)
    turn = longer
    if rng is not None:
        first = rng.integers(_MIXED, size=int(longer.max()) + 1)
        difference = (difference + first[longer]) // _MIXED + rng.random(len(longer))
        turn = longer + rng.integers(2)
    return np.lexsort((np.where(turn % 2, -difference, difference), longer))


def _batch_starts(sizes: Indices, batch_tokens: int) -> list[int]:
    """Fill one batch after another; return where each begins. sizes: tokens of the longer side, ascending."""
    starts = [0]
    while True:
        start = starts[-1]
        candidates = sizes[start : start + batch_tokens // int(sizes[start])]
        tokens = candidates * np.arange(1, len(candidates) + 1)
        end = start + max(1, int(np.searchsorted(tokens, batch_tokens, side="right")))
        if end >= len(sizes):
            return starts
        starts.append(end)


def make_batch(corpus: EncodedPairs, indices: Indices) -> Batch:
    """Build the batch of these pairs, in this order."""
    src = corpus.src.padded(indices, n_before=0)
    src[np.arange(len(indices)), corpus.src.lengths[indices]] = EOS_ID
    tgt_in, tgt_out = corpus.tgt.targets(indices)
    return Batch(
        src=torch.from_numpy(src),
        tgt_in=torch.from_numpy(tgt_in),
        tgt_out=torch.from_numpy(tgt_out),
        indices=indices,
        n_tgt_tokens=int((tgt_out != PAD_ID).sum()),
    )


def padding_share(src_lengths: Lengths, tgt_lengths: Lengths, plan: Sequence[Indices]) -> float:
    """Return the share of padding among all positions of the plan's batches, on both sides together."""
    cells = tokens = 0
    for indices in plan:
        for lengths in (src_lengths[indices], tgt_lengths[indices]):
            cells += len(indices) * (int(lengths.max()) + 1)
            tokens += int(lengths.sum()) + len(indices)
    return 1 - tokens / cells
