from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.mixture import cut_into_windows, epoch_pairs, uniform

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=4)


@given(sizes=SIZES, seed=st.integers(0, 9), epoch=st.integers(0, 9))
def test_without_weights_an_epoch_is_every_pair_once_in_order(sizes, seed, epoch):
    pairs = epoch_pairs(uniform(sizes, [1.0] * len(sizes)), seed=seed, epoch=epoch)
    assert pairs.tolist() == list(range(sum(sizes)))


@given(data=st.data(), sizes=SIZES, seed=st.integers(0, 9))
def test_over_the_epochs_each_pair_of_a_corpus_gets_its_turn(data, sizes, seed):
    weights = data.draw(st.lists(st.sampled_from([0.1, 0.5, 0.7, 1.0, 1.25, 2.0, 3.9]), min_size=4, max_size=4))
    seen = np.zeros(sum(sizes), dtype=int)
    for epoch in range(1, 7):
        pairs = epoch_pairs(uniform(sizes, weights[: len(sizes)]), seed=seed, epoch=epoch - 1)
        assert np.all(np.diff(pairs) >= 0)
        in_epoch = np.bincount(pairs, minlength=len(seen))
        seen += in_epoch
        first = 0
        for size, weight in zip(sizes, weights, strict=False):
            own = slice(first, first + size)
            first += size
            if size:
                assert set(in_epoch[own]) <= {int(weight), int(weight) + 1}
                assert seen[own].max() - seen[own].min() <= 1
                assert abs(seen[own].sum() - epoch * weight * size) <= 0.5 + 1e-6


def test_half_of_a_corpus_takes_turns_with_the_other_half():
    first, second, third = (set(epoch_pairs(uniform([3, 10], [1.0, 0.5]), seed=1, epoch=e).tolist()) for e in range(3))
    assert first & second == {0, 1, 2}
    assert first | second == set(range(13))
    assert third == first
    assert first != {0, 1, 2, 3, 4, 5, 6, 7}, "drawn, not the corpus' first half"


def test_which_pairs_come_more_often_depends_on_seed_and_corpus():
    def extra(sizes, seed):
        counts = Counter(epoch_pairs(uniform(sizes, [1.5] * len(sizes)), seed=seed, epoch=0).tolist())
        return [{i % 100 for i, n in counts.items() if n == 2 and i // 100 == corpus} for corpus in range(len(sizes))]

    [one, other], [with_seed_2] = extra([100, 100], 1), extra([100], 2)
    assert len(one) == len(other) == len(with_seed_2) == 50
    assert one != other
    assert one != with_seed_2


def test_a_pair_of_weight_n_comes_n_times_in_every_epoch():
    for epoch in range(3):
        assert epoch_pairs(uniform([2, 1], [2.0, 3.0]), seed=1, epoch=epoch).tolist() == [0, 0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(("n_pairs", "sizes"), [(0, []), (10, [10]), (11, [6, 5]), (31, [8, 8, 8, 7])])
def test_windows_have_equal_sizes_and_hold_every_pair(n_pairs, sizes):
    windows = cut_into_windows(np.arange(n_pairs, dtype=np.int32), 10, seed=1, epoch=0)
    assert [len(window) for window in windows] == sizes
    assert sorted(index for window in windows for index in window) == list(range(n_pairs))


def test_each_epoch_draws_its_windows_from_the_whole_corpus():
    pairs = np.arange(1000, dtype=np.int32)
    first, again, second = (cut_into_windows(pairs, 100, seed=1, epoch=e)[0].tolist() for e in (0, 0, 1))
    assert first == again
    assert first != second
    assert pairs.tolist() == list(range(1000)), "what was passed in stays as it was"
    for window in (first, second):
        assert 400 < np.mean(window) < 600
        assert len(set(window)) == 100
