"""Batches of given translations, which a model reads as if it had predicted them (forced decoding)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mtkit.console import counted
from mtkit.data.batching import plan_epoch
from mtkit.engines.native import pad
from mtkit.errors import MtkitError
from mtkit.runtime import is_out_of_memory
from mtkit.tokens.special_ids import BOS_ID, EOS_ID

BATCH_TOKENS = 4096  # sentences times longest sentence


@dataclass(frozen=True)
class ForcedPair:
    """A source and the translation to score, as token ids without special ones."""

    src: Sequence[int]
    tgt: Sequence[int]
    ends: bool = True  # whether the translation ends with EOS, as a finished hypothesis does


@dataclass(frozen=True)
class ForcedBatch:
    """Pairs of like length as tensors, padded on the right with PAD."""

    indices: list[int]  # of the pairs, in the caller's order
    src: Tensor  # (B, S): ids, EOS
    tgt_in: Tensor  # (B, T): BOS, ids
    tgt_out: list[list[int]]  # tokens to predict: ids, EOS if the translation ends; at most T each


def forced_batches(
    pairs: Sequence[ForcedPair], device: torch.device, *, batch_tokens: int = BATCH_TOKENS
) -> Iterator[ForcedBatch]:
    """Yield all pairs in batches of like length.

    A batch holds at most batch_tokens tokens (sentences times longest sentence), or a single pair.
    """
    src_lengths = np.array([len(pair.src) for pair in pairs], dtype=np.int32)
    tgt_lengths = np.array([len(pair.tgt) for pair in pairs], dtype=np.int32)
    for indices in plan_epoch(src_lengths, tgt_lengths, batch_tokens=batch_tokens, seed=0, epoch=0, shuffle=False):
        batch = [pairs[index] for index in indices]
        tgt_out = [[*pair.tgt, EOS_ID] if pair.ends else [*pair.tgt] for pair in batch]
        src = pad([[*pair.src, EOS_ID] for pair in batch]).to(device)
        tgt_in = pad([[BOS_ID, *ids[:-1]] for ids in tgt_out]).to(device)
        yield ForcedBatch(indices.tolist(), src, tgt_in, tgt_out)


@contextmanager
def explain_out_of_memory(batch: ForcedBatch) -> Iterator[None]:
    """Convert torch's error for pairs that do not fit into memory to an MtkitError that says so."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise MtkitError(
            f"{batch.src.device}: there is not enough memory for {counted(len(batch.indices), 'pair')} of up to "
            f"{max(batch.src.size(1), batch.tgt_in.size(1))} tokens; leave out the longest lines"
        ) from error
