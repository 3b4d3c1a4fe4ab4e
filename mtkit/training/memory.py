"""Batches that do not fit into memory: cut in two by pairs, again and again, until each part does.

The loss of an update is a sum over its pairs, divided by the target tokens of all: however the pairs are cut into
parts, the gradient is the same (up to the order of sums).
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from mtkit.console import log
from mtkit.data.batching import Batch
from mtkit.data.special_ids import PAD_ID

CutPath = tuple[int, ...]  # which half was taken at each cut, 1 or 2; () is the whole batch


def size_of(batch: Batch) -> int:
    """Pairs times longest sentence on the longer side, as train.batch_tokens counts."""
    return max(batch.src.numel(), batch.tgt_in.numel())


def parts_of(batch: Batch, limit: int | None, path: CutPath = ()) -> Iterator[tuple[CutPath, Batch]]:
    """The batch in parts of at most `limit` tokens, or of a single pair; the same ones each time."""
    n_pairs = len(batch.indices)
    if limit is None or n_pairs == 1 or size_of(batch) <= limit:
        yield path, batch
        return
    for number, half in enumerate(in_shares(batch, 2), start=1):
        yield from parts_of(half, limit, (*path, number))


def in_shares(batch: Batch, n_shares: int) -> list[Batch]:
    """The batch cut into so many parts, the first with most pairs, none with fewer by more than one."""
    ends = [-(-len(batch.indices) * number // n_shares) for number in range(n_shares + 1)]
    return [_pairs(batch, slice(start, end)) for start, end in itertools.pairwise(ends)]


def lower_limit(part: Batch, step: int, reason: str, batch_tokens: object) -> int:
    """The limit under which this part, which did not fit, will come in two; says so. The part has several pairs."""
    n_pairs, size = len(part.indices), size_of(part)
    limit = (n_pairs + 1) // 2 * (size // n_pairs)
    log.warning(
        f"step {step}: {n_pairs} pairs of {size // n_pairs} tokens do not fit into memory ({reason}): from now on "
        f"batches of more than {limit:,} tokens go through it in parts. Every update stays as it is; only "
        f"train.batch_tokens={batch_tokens} is more than this machine can hold at once"
    )
    return limit


def _pairs(batch: Batch, some: slice) -> Batch:
    """A batch of some of the pairs, no longer than their longest sentence."""
    tgt_out = batch.tgt_out[some]
    src, tgt_in = batch.src[some], batch.tgt_in[some]
    n_src, n_tgt = (int((side != PAD_ID).sum(dim=1).max()) for side in (src, tgt_out))
    return replace(
        batch,
        src=src[:, :n_src].contiguous(),
        tgt_in=tgt_in[:, :n_tgt].contiguous(),
        tgt_out=tgt_out[:, :n_tgt].contiguous(),
        indices=batch.indices[some],
        n_tgt_tokens=int((tgt_out != PAD_ID).sum()),
    )
