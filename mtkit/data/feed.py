"""Turn an encoded corpus into the batches of each update of a run, from any position on; threads prepare them ahead.

Each epoch is cut at random into windows of half a million pairs. A window is copied from the encoded corpus in one
pass over its files, planned like a small corpus, and dropped after use: memory and the time to start hardly depend on
the size of the corpus.
"""

import itertools
import threading
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import numpy as np

from mtkit.data.batching import Batch, Indices, make_batch, padding_share, plan_epoch
from mtkit.data.encoded import EncodedCorpus, EncodedPairs, EncodedSide, concatenate
from mtkit.data.mixture import Mixture, PairIndices, cut_into_windows, epoch_pairs, uniform
from mtkit.data.prefetcher import Prefetcher

_WINDOW_PAIRS = 500_000
_UPDATES_AHEAD = 8
_SAMPLED_PAIRS = 2_000  # segmented again to estimate how much that changes lengths
_PIECE_PAIRS = 20_000  # copied or segmented at a time: bounds the memory, and the time to stop


@dataclass(frozen=True)
class Position:
    """A position between two updates of a run."""

    epoch: int = 0  # complete passes over the training data
    window: int = 0  # complete windows of the current pass
    update: int = 0  # updates made in the current window
    epochs: float = 0.0  # passes, including the fraction of the current one
    stage: int = 0  # of the run: which mixture the batches come from
    cut: float = 0.0  # parts of passes left out because a stage ended in them

    def in_stage(self, stage: int) -> "Position":
        """Return the next position of a run in this stage, at a new epoch if the stage is new."""
        if stage == self.stage:
            return self
        if not self.window and not self.update:
            return replace(self, stage=stage)
        return Position(self.epoch + 1, 0, 0, self.epochs, stage, self.epoch + 1 - self.epochs)


class Update(NamedTuple):
    """The batches of one optimizer step."""

    batches: list[Batch]  # this process' share
    position: Position  # after the update


@dataclass(frozen=True)
class EpochSize:
    """The size of an epoch: exact for a single window without subword sampling, otherwise an estimate."""

    n_batches: int
    n_updates: int
    padding_share: float  # of the positions of all batches
    is_exact: bool


class Sampler(Protocol):
    """Segments training text differently in each epoch; `mtkit.data.subwords.SubwordSampler` is one."""

    def sample(self, corpus: EncodedCorpus, indices: Indices, epoch: int, window: int) -> EncodedPairs:
        """Return these pairs, in this order, in the subwords of this window; a repeated pair gets different ones."""


@dataclass(frozen=True)
class _Window:
    """Pairs in memory, and the plan of their batches. Satisfies EncodedPairs."""

    begin: Position  # of the window
    n_windows: int  # of the epoch
    pair_indices: PairIndices  # (N,): of the pairs in the corpus
    src: EncodedSide
    tgt: EncodedSide
    updates: list[list[Indices]]  # the batches of each update, as rows of this window

    def position_after(self, n_updates: int) -> Position:
        """Return the position after the first n_updates of this window."""
        epoch, index, cut = self.begin.epoch, self.begin.window, self.begin.cut
        if n_updates < len(self.updates):
            part = (index + n_updates / len(self.updates)) / self.n_windows
            return replace(self.begin, update=n_updates, epochs=epoch + part - cut)
        if index + 1 < self.n_windows:
            return replace(self.begin, window=index + 1, epochs=epoch + (index + 1) / self.n_windows - cut)
        return replace(self.begin, epoch=epoch + 1, window=0, epochs=epoch + 1 - cut)


class BatchStream:
    """The batches of a run's updates: a pure function of corpus, settings and position, not of earlier calls."""

    def __init__(
        self,
        corpus: EncodedCorpus,
        *,
        batch_tokens: int,
        accumulate: int,
        seed: int,
        mixtures: Sequence[Mixture] | None = None,
        sampler: Sampler | None = None,
        part: tuple[int, int] = (0, 1),
        window_pairs: int | None = None,
    ) -> None:
        """accumulate: batches of an update, over all processes; the last update of a window may have fewer.

        mixtures: the mixture of an epoch in each stage of the run, by default each pair once. part (r, n): return only
        batches r, r + n, ... of each update; a short update may have none.
        """
        self._corpus = corpus
        self._batch_tokens = batch_tokens
        self._accumulate = accumulate
        self._seed = seed
        self._mixtures = mixtures or [uniform(corpus.sizes)]
        self._sampler = sampler
        self._part = part
        self._window_pairs = window_pairs or _WINDOW_PAIRS
        self._prefetcher: Prefetcher[Update] | None = None
        self._position: Position | None = None  # before the next update of self._prefetcher
        self._stopping = threading.Event()

    def next_after(self, position: Position) -> Update:
        """Return the update that follows this position; calls in the order of the run find it prepared."""
        if self._prefetcher is None or self._position != position:
            self.close()
            self._stopping = threading.Event()
            self._prefetcher = Prefetcher(self._updates(position, self._stopping), _UPDATES_AHEAD)
        try:
            update = next(self._prefetcher)
        except BaseException:
            self.close()
            raise
        self._position = update.position
        return update

    def close(self) -> None:
        """Stop the threads; `next_after` starts them again."""
        self._stopping.set()
        if self._prefetcher is not None:
            self._prefetcher.close()
        self._prefetcher = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def stage_at(self, fraction: float) -> int:
        """Return the stage of a run after this share of it, 0 to 1."""
        return max(stage for stage, mixture in enumerate(self._mixtures) if mixture.begin <= fraction)

    def epoch_size(self, stage: int = 0) -> EpochSize:
        """Return the size of a first epoch in this stage; if it has n windows, estimate it from every n-th pair.

        With subword sampling, estimate the change in length from a few pairs.
        """
        pairs = epoch_pairs(self._mixtures[stage], seed=self._seed, epoch=0)
        n_windows = max(1, -(-len(pairs) // self._window_pairs))
        sample = pairs[::n_windows]
        lengths = self._corpus.src_lengths[sample], self._corpus.tgt_lengths[sample]
        if self._sampler and len(sample):
            few = sample[:: -(-len(sample) // _SAMPLED_PAIRS)].astype(np.int64)
            sampled = self._sampler.sample(self._corpus, few, 0, 0)
            src, tgt = (
                np.rint(side * (now.lengths.sum() / before[few].sum())).astype(np.int32)
                for side, now, before in zip(
                    lengths,
                    (sampled.src, sampled.tgt),
                    (self._corpus.src_lengths, self._corpus.tgt_lengths),
                    strict=True,
                )
            )
            lengths = src, tgt
        self._corpus.release()
        plan = plan_epoch(*lengths, batch_tokens=self._batch_tokens, seed=self._seed, epoch=0)
        return EpochSize(
            n_batches=n_windows * len(plan),
            n_updates=max(1, n_windows * -(-len(plan) // self._accumulate)),  # an epoch may draw no pair
            padding_share=padding_share(*lengths, plan) if plan else 0.0,
            is_exact=n_windows == 1 and self._sampler is None,
        )

    def _updates(self, position: Position, stopping: threading.Event) -> Generator[Update, None, None]:
        rank, n_parts = self._part
        first = position.update
        with closing(Prefetcher(self._windows(position, stopping), depth=1)) as windows:
            for window in windows:
                for update_index in range(first, len(window.updates)):
                    rows = window.updates[update_index][rank::n_parts]
                    batches = [make_batch(window, batch_rows) for batch_rows in rows]
                    batches = [
                        replace(batch, indices=window.pair_indices[batch.indices].astype(np.int64)) for batch in batches
                    ]
                    yield Update(batches, window.position_after(update_index + 1))
                first = 0

    def _windows(self, position: Position, stopping: threading.Event) -> Generator[_Window, None, None]:
        first = position.window
        for epoch in itertools.count(position.epoch):
            pairs = epoch_pairs(self._mixtures[position.stage], seed=self._seed, epoch=epoch)
            windows = cut_into_windows(pairs, self._window_pairs, seed=self._seed, epoch=epoch)
            for window_index in range(first, len(windows)):
                pair_indices = np.sort(windows[window_index])  # in the order of the files
                src, tgt = self._load(pair_indices, epoch, window_index, stopping)
                plan = plan_epoch(
                    src.lengths,
                    tgt.lengths,
                    batch_tokens=self._batch_tokens,
                    seed=self._seed,
                    epoch=epoch,
                    window=window_index,
                )
                updates = [plan[i : i + self._accumulate] for i in range(0, len(plan), self._accumulate)]
                begin = replace(position, epoch=epoch, window=window_index, update=0)
                yield _Window(begin, len(windows), pair_indices, src, tgt, updates)
            first = 0

    def _load(
        self, pair_indices: PairIndices, epoch: int, window: int, stopping: threading.Event
    ) -> tuple[EncodedSide, EncodedSide]:
        """Copy the pairs (indices ascending), in the subwords of this window if there is a sampler."""
        pieces: list[EncodedPairs] = []
        # All repetitions of a pair go into one piece: the sampler segments each of them differently.
        firsts = np.unique(np.searchsorted(pair_indices, pair_indices[::_PIECE_PAIRS]))
        for piece in np.split(pair_indices.astype(np.int64), firsts[1:]):
            if stopping.is_set():
                raise InterruptedError("the batch stream is being closed")  # this window is not needed any more
            sampler = self._sampler
            pieces.append(sampler.sample(self._corpus, piece, epoch, window) if sampler else self._corpus.take(piece))
            self._corpus.release()
        return concatenate([piece.src for piece in pieces]), concatenate([piece.tgt for piece in pieces])
