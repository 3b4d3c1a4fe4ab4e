"""From an encoded corpus to batches: which pairs go together, and a batch's tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mtkit.data.encoded import EncodedPairs, EncodedSide, Lengths
from mtkit.data.special_ids import BOS_ID, EOS_ID, PAD_ID

# Tokens by which lengths may be off when like ones are put together, so that pairs meet others in the next epoch.
_NOISE = 2.0
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Sentence pairs of like length, padded on the right with PAD. Owns the shift between tgt_in and tgt_out."""

    src: Tensor  # (B, S) int64: ids, EOS
    tgt_in: Tensor  # (B, T) int64: BOS, ids
    tgt_out: Tensor  # (B, T) int64: ids, EOS; tgt_out[:, t] is to be predicted from tgt_in[:, : t + 1]
    indices: Indices  # (B,): the pairs' numbers in the corpus
    n_tgt_tokens: int  # in tgt_out, EOS counted, padding not

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on the device; a GPU is not waited for."""
        at_once = torch.device(device).type == "cuda"
        texts = (self.src, self.tgt_in, self.tgt_out)
        src, tgt_in, tgt_out = (text.to(device, non_blocking=at_once) for text in texts)
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
    """Which pairs make up each batch of the epoch, or of one window of it; a pure function of its arguments.

    Every pair occurs once. A batch's pairs are of like length; their number times the longest sentence, on the longer
    side with EOS counted, is at most batch_tokens, except where a single pair is longer than that.
    lengths: tokens without special ids. shuffle: which pairs share a batch, and the batches' order, differ from epoch
    to epoch; without it, batches go from short to long.
    """
    n_pairs = len(src_lengths)
    if not n_pairs:
        return []
    rng = np.random.default_rng([seed, epoch, window])  # to numpy, zeros at the end make no difference
    noise = rng.uniform(0, _NOISE, n_pairs) if shuffle else np.zeros(n_pairs)
    order = _like_lengths_together(src_lengths, tgt_lengths, noise)
    sizes = np.maximum(src_lengths, tgt_lengths)[order].astype(np.int64) + 1
    batches = np.split(order, _batch_starts(sizes, batch_tokens)[1:])
    if shuffle:
        batches = [batches[number] for number in rng.permutation(len(batches))]
    return batches


def _like_lengths_together(src_lengths: Lengths, tgt_lengths: Lengths, noise: npt.NDArray[np.float64]) -> Indices:
    """The order by the longer side, and within one length by how much longer the source is than the target.

    The second key runs up and down in turn, so that it does not jump where the first one steps: each batch then has
    little padding on both sides. noise (N,) is added to it.
    """
    longer = np.maximum(src_lengths, tgt_lengths)
    difference = src_lengths - tgt_lengths + noise
    return np.lexsort((np.where(longer % 2, -difference, difference), longer))


def _batch_starts(sizes: Indices, batch_tokens: int) -> list[int]:
    """Where each batch begins, filling one after the other. sizes: tokens on each pair's longer side, ascending."""
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
    """The tensors of these pairs, in this order."""
    src = _pad(corpus.src, indices, n_before=0)
    tgt = _pad(corpus.tgt, indices, n_before=1)
    tgt_lengths = corpus.tgt.lengths[indices]
    rows = np.arange(len(indices))
    src[rows, corpus.src.lengths[indices]] = EOS_ID
    tgt_in = tgt[:, :-1].copy()
    tgt_in[:, 0] = BOS_ID
    tgt_out = tgt[:, 1:]
    tgt_out[rows, tgt_lengths] = EOS_ID
    return Batch(
        src=torch.from_numpy(src),
        tgt_in=torch.from_numpy(tgt_in),
        tgt_out=torch.from_numpy(np.ascontiguousarray(tgt_out)),
        indices=indices,
        n_tgt_tokens=int(tgt_lengths.sum()) + len(indices),
    )


def _pad(side: EncodedSide, indices: Indices, n_before: int) -> Indices:
    """The sentences' ids (B, n_before + longest + 1), with n_before PADs at the left and at least one at the right."""
    taken = side.take(indices)
    padded = np.full((len(indices), n_before + int(taken.lengths.max()) + 1), PAD_ID, dtype=np.int64)
    is_token = np.arange(padded.shape[1] - n_before) < taken.lengths[:, None]
    padded[:, n_before:][is_token] = taken.ids
    return padded


def padding_share(src_lengths: Lengths, tgt_lengths: Lengths, plan: Sequence[Indices]) -> float:
    """The share of the positions of all the plan's batches, on both sides, that is padding."""
    cells = tokens = 0
    for indices in plan:
        for lengths in (src_lengths[indices], tgt_lengths[indices]):
            cells += len(indices) * (int(lengths.max()) + 1)
            tokens += int(lengths.sum()) + len(indices)
    return 1 - tokens / cells
