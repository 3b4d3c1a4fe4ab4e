import itertools
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.data.batching import make_batch, plan_epoch
from mtkit.data.encoded import EncodedSide, PairsInMemory
from mtkit.data.feed import BatchStream, Position
from mtkit.data.mixture import Mixture, uniform

BATCH_TOKENS = 40


def side(rng, lengths):
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return EncodedSide(rng.integers(4, 99, starts[-1]).astype(np.uint16), starts, np.asarray(lengths, dtype=np.int32))


class Corpus:
    """The parts of an EncodedCorpus that a BatchStream needs: random pairs, each with a unique first source token."""

    def __init__(self, *sizes, seed=0):
        rng = np.random.default_rng(seed)
        self.sizes = list(sizes)
        self.n_pairs = sum(sizes)
        self.src, self.tgt = (side(rng, rng.integers(1, 9, self.n_pairs)) for _ in range(2))
        self.src.ids[self.src.starts[:-1]] = 100 + np.arange(self.n_pairs)
        self.src_lengths, self.tgt_lengths = self.src.lengths, self.tgt.lengths
        self.n_released = 0

    def take(self, indices):
        return PairsInMemory(self.src.take(indices), self.tgt.take(indices))

    def release(self):
        self.n_released += 1


def feed_of(corpus, **options):
    return BatchStream(corpus, **{"batch_tokens": BATCH_TOKENS, "accumulate": 2, "seed": 1, **options})


def updates(feed, n, position=None):
    """The next n updates, each as (batches, position after it)."""
    fed = []
    position = position or Position()
    with feed:
        for _ in range(n):
            fed.append(feed.next_after(position))
            position = fed[-1].position
    return fed


def written_out(batches):
    return [
        (b.src.tolist(), b.tgt_in.tolist(), b.tgt_out.tolist(), b.indices.tolist(), b.n_tgt_tokens) for b in batches
    ]


def epochs_of(feed, n_epochs):
    """The updates of n_epochs epochs, epoch by epoch."""
    epochs: list[list[Any]] = [[] for _ in range(n_epochs)]
    position = Position()
    with feed:
        while position.epoch < n_epochs:
            update = feed.next_after(position)
            epochs[position.epoch].append(update)
            position = update.position
    return epochs


def test_a_corpus_of_one_window_follows_its_plan():
    corpus = Corpus(70)
    for epoch, fed in enumerate(epochs_of(feed_of(corpus), 3)):
        plan = plan_epoch(corpus.src_lengths, corpus.tgt_lengths, batch_tokens=BATCH_TOKENS, seed=1, epoch=epoch)
        expected = [
            written_out([make_batch(corpus, indices) for indices in plan[i : i + 2]]) for i in range(0, len(plan), 2)
        ]
        assert [written_out(update.batches) for update in fed] == expected
        assert [update.position.epochs for update in fed] == [
            epoch + (number + 1) / len(expected) for number in range(len(expected))
        ]


@pytest.mark.parametrize("window_pairs", [7, 25, 100])
def test_every_epoch_has_every_pair_once_whatever_the_windows(window_pairs):
    corpus = Corpus(60, 13)
    for fed in epochs_of(feed_of(corpus, window_pairs=window_pairs), 2):
        batches = [batch for update in fed for batch in update.batches]
        assert sorted(itertools.chain.from_iterable(batch.indices.tolist() for batch in batches)) == list(range(73))
        for batch in batches:
            assert batch.src[:, 0].tolist() == (100 + batch.indices).tolist(), "the pairs are those that are named"
            assert len(batch.indices) * max(batch.src.shape[1], batch.tgt_in.shape[1]) <= BATCH_TOKENS
        assert all(len(update.batches) in (1, 2) for update in fed)


def test_each_window_is_planned_on_its_own():
    corpus = Corpus(60)
    [fed] = epochs_of(feed_of(corpus, window_pairs=20), 1)
    windows = [
        {int(i) for update in group for batch in update.batches for i in batch.indices}
        for _, group in itertools.groupby(fed, key=lambda update: (update.position.epochs - 1e-9) // (1 / 3))
    ]
    assert [len(window) for window in windows] == [20, 20, 20]
    assert not windows[0] & windows[1]


def test_the_next_epoch_groups_other_pairs():
    first, second = epochs_of(feed_of(Corpus(200), window_pairs=50), 2)
    batches = [{tuple(sorted(b.indices.tolist())) for update in fed for b in update.batches} for fed in (first, second)]
    assert len(batches[0] & batches[1]) < 0.2 * len(batches[0])


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    window_pairs=st.integers(5, 60),
    accumulate=st.integers(1, 4),
    stops=st.lists(st.integers(0, 12), max_size=4),
    weight=st.sampled_from([1.0, 0.4, 1.5]),
)
def test_stopped_anywhere_and_resumed_equals_never_stopped(sizes, window_pairs, accumulate, stops, weight):
    corpus = Corpus(*sizes)
    options = {
        "window_pairs": window_pairs,
        "accumulate": accumulate,
        "mixtures": [uniform(sizes, [weight] * len(sizes))],
    }
    expected = updates(feed_of(corpus, **options), 12)
    position = Position()
    fed: list[Any] = []
    for stop in [*sorted(stops), 12]:
        # a checkpoint keeps a position as its fields
        part = updates(feed_of(corpus, **options), stop - len(fed), Position(**vars(position)))
        fed += part
        position = part[-1].position if part else position
    assert [update.position for update in fed] == [update.position for update in expected]
    assert [written_out(update.batches) for update in fed] == [written_out(update.batches) for update in expected]


def test_a_stream_sent_back_gives_the_same_again():
    position = Position()
    fed: list[Any] = []
    with feed_of(Corpus(60), window_pairs=20) as feed:
        for _ in range(9):
            fed.append(feed.next_after(position))
            position = fed[-1].position
        again = feed.next_after(fed[2].position)
    assert again.position == fed[3].position
    assert written_out(again.batches) == written_out(fed[3].batches)


@pytest.mark.parametrize("world", [2, 3])
def test_the_parts_of_all_processes_make_up_the_update(world):
    corpus, options = Corpus(60), {"accumulate": 6, "window_pairs": 25}
    whole = updates(feed_of(corpus, **options), 6)
    parts = [updates(feed_of(corpus, part=(rank, world), **options), 6) for rank in range(world)]
    for index, update in enumerate(whole):
        assert {part[index].position for part in parts} == {update.position}
        for rank, part in enumerate(parts):
            assert written_out(part[index].batches) == written_out(update.batches[rank::world])


def staged(corpus):
    """A run of two stages: all pairs, then the first corpus twice and every other pair of the second."""
    half = np.arange(corpus.sizes[1]) % 2 == 0
    second = Mixture(0.5, 1.0, [corpus.sizes[0], int(half.sum())], [2.0, 1.0], [None, half])
    return [replace(uniform(corpus.sizes), end=0.5), second]


def test_the_stage_follows_the_share_of_the_run():
    feed = feed_of(Corpus(4, 4), mixtures=staged(Corpus(4, 4)))
    assert [feed.stage_at(share) for share in (0.0, 0.4999, 0.5, 1.0)] == [0, 0, 1, 1]


@settings(max_examples=20)
@given(change=st.integers(0, 9), stop=st.integers(0, 12), window_pairs=st.sampled_from([7, 100]))
def test_a_new_stage_begins_a_new_epoch_also_after_a_stop(change, stop, window_pairs):
    corpus = Corpus(20, 11)

    def run(first, last, position):
        fed = []
        with feed_of(corpus, mixtures=staged(corpus), window_pairs=window_pairs) as feed:
            for step in range(first, last):
                fed.append(feed.next_after(position.in_stage(int(step >= change))))
                position = fed[-1].position
        return fed, position

    whole, _ = run(0, 13, Position())
    before, position = run(0, stop, Position())
    after, _ = run(stop, 13, Position(**vars(position)))
    assert [(written_out(u.batches), u.position) for u in before + after] == [
        (written_out(u.batches), u.position) for u in whole
    ]
    passes = [0.0, *(update.position.epochs for update in whole)]
    assert all(earlier < later <= earlier + 1 for earlier, later in itertools.pairwise(passes)), "nothing is skipped"
    second = [update for update in whole if update.position.stage]
    assert len(second) == 13 - change
    allowed = {*range(20), *range(20, 31, 2)}
    assert {int(i) for update in second for batch in update.batches for i in batch.indices} <= allowed
    first_epoch = [u for u in second if u.position.epochs <= passes[change] + 1 + 1e-9]
    if len(first_epoch) < len(second):  # it is complete
        drawn = sorted(int(i) for update in first_epoch for batch in update.batches for i in batch.indices)
        assert drawn == sorted([*range(20), *range(20), *range(20, 31, 2)])


def test_weights_set_how_often_a_pair_comes():
    corpus = Corpus(10, 8)
    for fed in epochs_of(feed_of(corpus, mixtures=[uniform(corpus.sizes, [2.0, 0.5])], window_pairs=9), 2):
        counts = np.bincount(np.concatenate([b.indices for u in fed for b in u.batches]), minlength=18)
        assert counts[:10].tolist() == [2] * 10
        assert counts[10:].sum() == 4


def test_an_epoch_without_pairs_is_skipped():
    [update] = updates(feed_of(Corpus(1), mixtures=[uniform([1], [0.3])]), 1)
    assert update.position.epoch == 2, "0.3, then 0.6 of a pair: rounded, the second epoch has one"


def test_positions_only_go_forward():
    fed = updates(feed_of(Corpus(60), window_pairs=20), 30)
    epochs = [0.0, *(update.position.epochs for update in fed)]
    assert all(a < b for a, b in itertools.pairwise(epochs))


def test_an_error_in_the_thread_is_raised_by_next_after_and_ends_the_thread(monkeypatch):
    corpus = Corpus(60)
    n_threads = threading.active_count()
    take, calls = corpus.take, []

    def fail_later(indices):
        calls.append(len(indices))
        if len(calls) == 2:
            raise OSError("the disk is gone")
        return take(indices)

    monkeypatch.setattr(corpus, "take", fail_later)
    feed = feed_of(corpus, window_pairs=20)
    position, n_updates = Position(), 0
    with pytest.raises(OSError, match="the disk is gone"):
        while True:
            position, n_updates = feed.next_after(position).position, n_updates + 1
    assert (position.window, position.update) == (1, 0), "what was made before came first"
    assert n_updates > 1
    assert threading.active_count() == n_threads
    assert feed.next_after(position).batches, "the next try goes on from there"
    feed.close()


def test_an_exception_of_the_caller_ends_the_threads():
    n_threads = threading.active_count()
    feed = feed_of(Corpus(60), window_pairs=20)
    with pytest.raises(KeyboardInterrupt), feed:
        feed.next_after(Position())
        assert threading.active_count() > n_threads
        raise KeyboardInterrupt
    assert threading.active_count() == n_threads


def test_closing_does_not_wait_for_a_complete_window(monkeypatch):
    from mtkit.data import feed as feed_module

    monkeypatch.setattr(feed_module, "_PIECE_PAIRS", 1)
    corpus = Corpus(400)
    entered, go_on, taken = threading.Event(), threading.Event(), []

    def slow(indices):
        taken.append(indices)
        entered.set()
        go_on.wait(300)
        return Corpus.take(corpus, indices)

    monkeypatch.setattr(corpus, "take", slow)
    feed = feed_of(corpus)

    def ask():
        with pytest.raises(InterruptedError):
            feed.next_after(Position())

    trainer = threading.Thread(target=ask)
    trainer.start()
    assert entered.wait(300)
    feed._stopping.set()  # what close() begins with
    go_on.set()
    trainer.join(300)
    assert not trainer.is_alive()
    assert len(taken) <= 2, "of 400 pieces"


class Lengthening:
    """A sampler: adds 1000 times the epoch to each id, and repeats the last id of each sentence."""

    def sample(self, corpus, indices, epoch, window):
        def lengthened(given):
            ids = [np.append(given[i], given[i][-1:]) + 1000 * epoch for i in indices]
            lengths = np.array([len(sentence) for sentence in ids], dtype=np.int32)
            return EncodedSide(np.concatenate(ids), np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), lengths)

        return PairsInMemory(lengthened(corpus.src), lengthened(corpus.tgt))


def test_a_sampler_changes_each_epoch_and_batches_are_planned_by_its_lengths():
    corpus = Corpus(30)
    epochs = epochs_of(feed_of(corpus, sampler=Lengthening(), window_pairs=20), 2)
    for epoch, fed in enumerate(epochs):
        for batch in (batch for update in fed for batch in update.batches):
            assert len(batch.indices) * max(batch.src.shape[1], batch.tgt_in.shape[1]) <= BATCH_TOKENS
            for row, i in enumerate(batch.indices):
                given = corpus.tgt[i].tolist()
                expected = [token + 1000 * epoch for token in [*given, given[-1]]]
                assert batch.tgt_in[row, 1 : len(expected) + 1].tolist() == expected


class Recording:
    """A sampler that records its calls and changes nothing."""

    def __init__(self):
        self.calls = []

    def sample(self, corpus, indices, epoch, window):
        self.calls.append((epoch, window, indices.tolist()))
        return corpus.take(indices)


@pytest.mark.parametrize("piece_pairs", [1, 3, 4, 1000])
def test_a_sampler_gets_all_repetitions_of_a_pair_in_a_window_at_once(monkeypatch, piece_pairs):
    monkeypatch.setattr("mtkit.data.feed._PIECE_PAIRS", piece_pairs)
    sampler = Recording()
    epochs_of(feed_of(Corpus(5, 8), mixtures=[uniform([5, 8], [3.0, 2.0])], window_pairs=20, sampler=sampler), 1)
    first_epoch = [(window, indices) for epoch, window, indices in sampler.calls if epoch == 0]
    assert sorted(i for _, indices in first_epoch for i in indices) == sorted([*range(5)] * 3 + [*range(5, 13)] * 2)
    pairs = [(window, i) for window, indices in first_epoch for i in set(indices)]
    assert len(set(pairs)) == len(pairs)
    assert {window for window, _ in pairs} == {0, 1}
    assert max(len(indices) for _, indices in first_epoch) <= piece_pairs + 2


def test_the_size_of_an_epoch_of_one_window_is_exact():
    corpus = Corpus(70)
    feed = feed_of(corpus, accumulate=3)
    [fed] = epochs_of(feed, 1)
    size = feed.epoch_size()
    assert size.is_exact
    assert (size.n_updates, size.n_batches) == (len(fed), sum(len(update.batches) for update in fed))
    cells = sum(b.src.numel() + b.tgt_in.numel() for update in fed for b in update.batches)
    tokens = int(corpus.src_lengths.sum() + corpus.tgt_lengths.sum()) + 2 * 70
    assert size.padding_share == pytest.approx(1 - tokens / cells)


def test_an_epoch_that_draws_no_pair_has_one_update_all_the_same():
    feed = feed_of(Corpus(1), mixtures=[uniform([1], [0.3])])
    assert feed.epoch_size().n_updates == 1


def test_the_size_of_an_epoch_of_several_windows_is_estimated():
    feed = feed_of(Corpus(2000), window_pairs=300)
    [fed] = epochs_of(feed, 1)
    size = feed.epoch_size()
    assert not size.is_exact
    assert size.n_updates == pytest.approx(len(fed), rel=0.05)


def test_the_size_of_an_epoch_counts_sampled_subwords():
    corpus, sampler = Corpus(500), Lengthening()
    [fed] = epochs_of(feed_of(corpus, sampler=sampler), 1)
    size = feed_of(corpus, sampler=sampler).epoch_size()
    assert not size.is_exact
    assert size.n_updates == pytest.approx(len(fed), rel=0.15)  # it scales lengths, though this sampler adds a token
    assert size.n_updates > 1.1 * feed_of(corpus).epoch_size().n_updates


def test_the_files_memory_is_released_while_windows_are_made():
    corpus = Corpus(60)
    updates(feed_of(corpus, window_pairs=20), 20)
    assert corpus.n_released >= 3
