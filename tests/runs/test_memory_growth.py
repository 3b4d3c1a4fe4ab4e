"""How memory grows with the shapes of batches: made-up figures on a straight line, and shapes counted one by one."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mtkit.data.encoded import EncodedSide
from mtkit.data.feed import BatchStream, Position
from mtkit.runs.memory_growth import Growth, resident_now, shapes_of_run
from mtkit.training.auto_batch import resident_memory

MB = 10**6


def batch(*shape):
    n_pairs, n_src, n_tgt = shape
    return SimpleNamespace(src=torch.zeros(n_pairs, n_src), tgt_in=torch.zeros(n_pairs, n_tgt))


def grown(per_shape, n_shapes):
    """After updates with so many shapes, each of which has added so much to 500 MB."""
    growth = Growth()
    for number in range(1, n_shapes + 1):
        growth.note([batch(number, 5, 6)], 500 * MB + number * per_shape)
        growth.note([batch(number, 5, 6)], 500 * MB + number * per_shape)  # seen before: nothing is added
    return growth


def shapes(n):
    return {(number, 5, 6) for number in range(1, n + 1)}


@pytest.fixture(autouse=True)
def stores(monkeypatch):
    """Of kernels: a function that sets how many are kept; torch's, in each of two threads, half as many as oneDNN's."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    def keep(n_kernels):
        monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(n_kernels // 2))
        monkeypatch.setenv("LRU_CACHE_CAPACITY", str(n_kernels // 4))

    keep(1024)
    return keep


def test_each_new_shape_adds_what_those_before_have_added():
    assert grown(15 * MB, 10).to_come(shapes(40)) == pytest.approx(30 * 15 * MB)
    assert grown(15 * MB, 10).to_come(shapes(7)) == 0


def test_shapes_that_only_the_probe_has_met_do_not_count():
    assert grown(15 * MB, 10).to_come(shapes(12) - shapes(8)) == pytest.approx(2 * 15 * MB)


def test_memory_that_has_not_grown_will_not_grow():
    assert grown(0, 10).to_come(shapes(400)) == 0
    assert grown(-3 * MB, 10).to_come(shapes(400)) == 0


def test_without_two_shapes_to_compare_nothing_is_foreseen():
    growth = grown(15 * MB, 1)
    assert growth.to_come(shapes(400)) == 0
    growth.note([batch(1, 5, 6)], 700 * MB)
    assert growth.to_come(shapes(400)) == 0


def test_growth_ends_when_the_stores_of_kernels_are_full(stores):
    all_of_it = grown(15 * MB, 10).to_come(shapes(400)) + 10 * 15 * MB
    assert 800 * MB < all_of_it < 1100 * MB, "a thousand kernels of nearly a megabyte"
    stores(512)
    assert grown(15 * MB, 10).to_come(shapes(400)) + 10 * 15 * MB == pytest.approx(all_of_it / 2)
    assert grown(100 * MB, 10).to_come(shapes(400)) == 0, "it is full already"
    once, twice = grown(15 * MB, 10), grown(15 * MB, 10)
    twice.note([batch(5, 5, 6)], 650 * MB, r_drop=3.0)  # of a shape that it has met, two times five sentences
    assert twice.to_come(shapes(400)) > 2 * once.to_come(shapes(400)), "its kernels are larger"


def corpus(n_pairs):
    rng = np.random.default_rng(0)

    def side():
        lengths = rng.integers(5, 25, n_pairs, dtype=np.int32)
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return EncodedSide(np.full(starts[-1], 9, dtype=np.uint16), starts, lengths)

    src, tgt = side(), side()
    return SimpleNamespace(
        n_pairs=n_pairs, sizes=[n_pairs], src=src, tgt=tgt, src_lengths=src.lengths, tgt_lengths=tgt.lengths
    )


@pytest.mark.parametrize("n_batches", [3, 25, 150])
def test_the_shapes_of_a_run_are_those_of_the_batches_that_it_gets(n_batches, monkeypatch):
    pairs = corpus(1000)
    pairs.take = lambda rows: SimpleNamespace(src=pairs.src.take(rows), tgt=pairs.tgt.take(rows))
    pairs.release = lambda: None
    met, position = set(), Position()
    with BatchStream(pairs, batch_tokens=300, accumulate=1, seed=4) as feed:
        for _ in range(n_batches):
            batches, position = feed.next_after(position)
            met |= {(*batch.src.shape, batch.tgt_in.shape[1]) for batch in batches}
    assert (position.epoch > 0) == (n_batches == 150), "one of the runs goes beyond an epoch"
    assert shapes_of_run(pairs, batch_tokens=300, seed=4, n_batches=n_batches) == met


def test_with_r_drop_each_sentence_passes_twice():
    options = {"batch_tokens": 300, "seed": 4}
    once, first = (shapes_of_run(corpus(1000), **options, n_batches=n) for n in (40, 10))
    later = shapes_of_run(corpus(1000), **options, n_batches=40, without_r_drop=0.25)
    always = shapes_of_run(corpus(1000), **options, n_batches=40, without_r_drop=0.0)
    assert always == {(2 * n_pairs, *lengths) for n_pairs, *lengths in once}
    assert first < later <= first | always
    growth = Growth()
    for number, memory in ((1, 500), (2, 515), (3, 530)):
        for r_drop, more in ((0.0, 0), (3.0, 15)):
            growth.note([batch(number, 5, 6)], (memory + number * 15 + more) * MB, r_drop)
    assert growth.to_come({(1, 5, 6), (2, 5, 6), (6, 5, 6), (8, 5, 6)}) == pytest.approx(15 * MB)


def test_a_run_without_end_is_counted_too():
    endless, short = (shapes_of_run(corpus(400), batch_tokens=300, seed=4, n_batches=n) for n in (10**9, 50))
    assert endless > short


def test_memory_that_is_taken_shows():
    before = resident_now()
    taken = np.ones(50 * MB, dtype=np.uint8)
    assert 45 * MB < resident_now() - before < 80 * MB
    assert resident_now() < 1.1 * resident_memory(), "not what is merely mapped"
    assert taken[-1]
