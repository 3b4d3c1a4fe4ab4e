"""A batch passed through the model by several threads at once, each with its share of the pairs.

The operators of a small model are too short for threads to share the work of each one. Whole passes side by side keep
all cores busy: on two of them, 12 % more tokens a second in bf16 and 8 % in fp32 (256 wide, batches of 4,096 tokens).
"""

import copy
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TypeVar

import torch
from torch import nn

from mtkit.console import log
from mtkit.data.batching import Batch
from mtkit.data.special_ids import PAD_ID
from mtkit.model.transformer import Transformer

_SHARE_TOKENS = 1024  # no thread gets a smaller share: products of few rows are slow

_T = TypeVar("_T")
CutPath = tuple[int, ...]  # which half was taken at each cut, 1 or 2; () is the whole batch


class Replicas:
    """A model, and for each further thread a copy with the same weights, in the same memory, but its own gradient."""

    def __init__(self, model: Transformer, *, alone: bool = False) -> None:
        """alone: let the model itself pass all batches, whole."""
        self._models = [model]
        self._alone = alone
        self._pool: ThreadPoolExecutor | None = None

    @property
    def n_copies(self) -> int:
        """Copies made so far: a batch that has more shares than any before makes more."""
        return len(self._models) - 1

    def each(self, batch: Batch, work: Callable[[Transformer, Batch, int], _T]) -> list[_T]:
        """What work(model, share, number of the share) returns for every share; all are at work at the same time.

        The shares depend on the batch and on the number of threads that torch uses, on nothing else. If several fail,
        the error of one is raised, once all have ended.
        """
        n_threads = torch.get_num_threads()
        n_shares = 1 if self._alone else max(1, min(n_threads, len(batch.indices), size_of(batch) // _SHARE_TOKENS))
        if n_shares == 1:
            return [work(self._models[0], batch, 0)]
        while len(self._models) < n_shares:
            self._models.append(_twin(self._models[0]))
        if self._pool is None:
            self._pool = ThreadPoolExecutor(n_threads - 1, thread_name_prefix="mtkit-replica")

        def in_its_thread(number: int, share: Batch) -> _T:
            torch.set_num_threads(n_threads // n_shares)  # holds for the thread that calls it
            return work(self._models[number], share, number)

        own, *others = enumerate(in_shares(batch, n_shares))
        waiting = [self._pool.submit(in_its_thread, *other) for other in others]
        try:
            return [in_its_thread(*own), *(one.result() for one in waiting)]
        finally:
            wait(waiting)
            torch.set_num_threads(n_threads)

    def add_up(self) -> None:
        """Add the copies' gradients, one after the other, to the model's."""
        for twin in self._models[1:]:
            for parameter, its in zip(self._models[0].parameters(), twin.parameters(), strict=True):
                if its.grad is not None:
                    parameter.grad = its.grad if parameter.grad is None else parameter.grad.add_(its.grad)
                    its.grad = None

    def clear(self) -> None:
        """Forget all gradients."""
        for model in self._models:
            model.zero_grad()


def _twin(model: Transformer) -> Transformer:
    """A copy whose parameters lie where the model's do."""
    parameters = {id(p): nn.Parameter(p.detach(), requires_grad=p.requires_grad) for p in model.parameters()}
    return copy.deepcopy(model, parameters)


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
