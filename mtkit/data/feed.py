"""An encoded corpus in, the updates of a run out, in order and from any place on; made ahead of their use in threads.

An epoch is cut into windows of half a million pairs at random. Each is copied from the encoded corpus in one pass over
its files, planned like a small corpus, and let go: memory and the time to begin hardly depend on the corpus' size.
"""

import itertools
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import numpy as np

from mtkit.data.ahead import Ahead
from mtkit.data.batching import Batch, Indices, make_batch, padding_share, plan_epoch
from mtkit.data.encoded import EncodedCorpus, EncodedPairs, EncodedSide, concatenate
from mtkit.data.epochs import PairNumbers, cut_into_windows, epoch_pairs

_WINDOW_PAIRS = 500_000
_UPDATES_AHEAD = 8
_CUT_PAIRS = 2_000  # cut anew to tell how much longer or shorter that makes them
_PIECE_PAIRS = 20_000  # copied or cut anew at a time: bounds the memory, and the time that stopping takes


@dataclass(frozen=True)
class Position:
    """A place between two updates of a run."""

    epoch: int = 0  # complete passes over the training data
    window: int = 0  # complete windows of the running pass
    update: int = 0  # updates made in the running window
    epochs: float = 0.0  # passes, with the fraction of the running one


class Update(NamedTuple):
    """What one optimizer step learns from."""

    batches: list[Batch]  # this process' part
    position: Position  # behind the update


@dataclass(frozen=True)
class EpochSize:
    """What an epoch amounts to; exact if a single window holds it and no text is cut anew, else an estimate."""

    n_batches: int
    n_updates: int
    padding_share: float  # of the positions of all batches
    is_exact: bool


class Sampler(Protocol):
    """Cuts training text anew for each epoch, as `mtkit.data.subwords.SubwordSampler` does."""

    def sample(self, corpus: EncodedCorpus, indices: Indices, epoch: int, window: int) -> EncodedPairs:
        """These pairs with the subwords of this window, in this order; a pair that comes again has others."""


@dataclass(frozen=True)
class _Window:
    """Pairs in memory, and the plan of their batches. Satisfies EncodedPairs."""

    epoch: int
    number: int
    n_windows: int  # of the epoch
    numbers: PairNumbers  # (N,): the pairs' numbers in the corpus
    src: EncodedSide
    tgt: EncodedSide
    updates: list[list[Indices]]  # of each update its batches, as rows of this window

    def behind(self, n_updates: int) -> Position:
        """The place behind so many updates of this window."""
        if n_updates < len(self.updates):
            part = (self.number + n_updates / len(self.updates)) / self.n_windows
            return Position(self.epoch, self.number, n_updates, self.epoch + part)
        if self.number + 1 < self.n_windows:
            return Position(self.epoch, self.number + 1, 0, self.epoch + (self.number + 1) / self.n_windows)
        return Position(self.epoch + 1, 0, 0, float(self.epoch + 1))


class Feed:
    """The updates of a run: pure functions of corpus, settings and position, whoever asked for what before."""

    def __init__(
        self,
        corpus: EncodedCorpus,
        *,
        batch_tokens: int,
        accumulate: int,
        seed: int,
        weights: Sequence[float] | None = None,
        sampler: Sampler | None = None,
        part: tuple[int, int] = (0, 1),
        window_pairs: int | None = None,
    ) -> None:
        """accumulate: batches of an update, over all processes; the last one of a window may have fewer.

        weights: how often an epoch sees each corpus' pairs, by default once. part (r, n): of each update give only
        batches r, r + n, ..., which may be none of a short one.
        """
        self._corpus = corpus
        self._batch_tokens = batch_tokens
        self._accumulate = accumulate
        self._seed = seed
        self._weights = weights or [1.0] * len(corpus.sizes)
        self._sampler = sampler
        self._part = part
        self._window_pairs = window_pairs or _WINDOW_PAIRS
        self._ahead: Ahead[Update] | None = None
        self._position: Position | None = None  # before the update that self._ahead gives next
        self._stopping = threading.Event()

    def after(self, position: Position) -> Update:
        """The update that follows this place; it is waiting already if the one before it was the last asked for."""
        if self._ahead is None or self._position != position:
            self.close()
            self._stopping = threading.Event()
            self._ahead = Ahead(self._updates(position, self._stopping), _UPDATES_AHEAD)
        try:
            update = next(self._ahead)
        except BaseException:
            self.close()
            raise
        self._position = update.position
        return update

    def close(self) -> None:
        """End the threads; `after` starts them again."""
        self._stopping.set()
        if self._ahead is not None:
            self._ahead.close()
        self._ahead = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def epoch_size(self) -> EpochSize:
        """What the first epoch amounts to. Of several windows, one with every n-th pair stands for all.

        Where text is cut anew, a few pairs tell by how much all lengths change.
        """
        pairs = epoch_pairs(self._corpus.sizes, self._weights, seed=self._seed, epoch=0)
        n_windows = max(1, -(-len(pairs) // self._window_pairs))
        sample = pairs[::n_windows]
        lengths = self._corpus.src_lengths[sample], self._corpus.tgt_lengths[sample]
        if self._sampler and len(sample):
            few = sample[:: -(-len(sample) // _CUT_PAIRS)].astype(np.int64)
            cut = self._sampler.sample(self._corpus, few, 0, 0)
            src, tgt = (
                np.rint(side * (now.lengths.sum() / before[few].sum())).astype(np.int32)
                for side, now, before in zip(
                    lengths, (cut.src, cut.tgt), (self._corpus.src_lengths, self._corpus.tgt_lengths), strict=True
                )
            )
            lengths = src, tgt
        self._corpus.release()
        plan = plan_epoch(*lengths, batch_tokens=self._batch_tokens, seed=self._seed, epoch=0)
        return EpochSize(
            n_batches=n_windows * len(plan),
            n_updates=n_windows * -(-len(plan) // self._accumulate),
            padding_share=padding_share(*lengths, plan) if plan else 0.0,
            is_exact=n_windows == 1 and self._sampler is None,
        )

    def _updates(self, position: Position, stopping: threading.Event) -> Generator[Update, None, None]:
        rank, n_parts = self._part
        first = position.update
        with Ahead(self._windows(position, stopping), depth=1) as windows:
            for window in windows:
                for number in range(first, len(window.updates)):
                    rows = window.updates[number][rank::n_parts]
                    batches = [make_batch(window, batch_rows) for batch_rows in rows]
                    named = [
                        replace(batch, indices=window.numbers[batch.indices].astype(np.int64)) for batch in batches
                    ]
                    yield Update(named, window.behind(number + 1))
                first = 0

    def _windows(self, position: Position, stopping: threading.Event) -> Generator[_Window, None, None]:
        first = position.window
        for epoch in itertools.count(position.epoch):
            pairs = epoch_pairs(self._corpus.sizes, self._weights, seed=self._seed, epoch=epoch)
            windows = cut_into_windows(pairs, self._window_pairs, seed=self._seed, epoch=epoch)
            for number in range(first, len(windows)):
                numbers = np.sort(windows[number])  # in the order of the files
                src, tgt = self._load(numbers, epoch, number, stopping)
                plan = plan_epoch(
                    src.lengths,
                    tgt.lengths,
                    batch_tokens=self._batch_tokens,
                    seed=self._seed,
                    epoch=epoch,
                    window=number,
                )
                updates = [plan[i : i + self._accumulate] for i in range(0, len(plan), self._accumulate)]
                yield _Window(epoch, number, len(windows), numbers, src, tgt, updates)
            first = 0

    def _load(
        self, numbers: PairNumbers, epoch: int, window: int, stopping: threading.Event
    ) -> tuple[EncodedSide, EncodedSide]:
        """Copies of the pairs, whose numbers ascend, with the subwords of this window where these are drawn."""
        pieces: list[EncodedPairs] = []
        # A pair that comes several times is in one piece, for the sampler to see that.
        firsts = np.unique(np.searchsorted(numbers, numbers[::_PIECE_PAIRS]))
        for piece in np.split(numbers.astype(np.int64), firsts[1:]):
            if stopping.is_set():
                raise InterruptedError("the feed is being closed")  # nobody is waiting for this window any more
            sampler = self._sampler
            pieces.append(sampler.sample(self._corpus, piece, epoch, window) if sampler else self._corpus.take(piece))
            self._corpus.release()
        return concatenate([piece.src for piece in pieces]), concatenate([piece.tgt for piece in pieces])
