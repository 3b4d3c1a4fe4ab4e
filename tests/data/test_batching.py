import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.batching import make_batch, padding_share, plan_epoch
from mtkit.data.encoded import EncodedSide
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=200)


def arrays(pairs):
    return tuple(np.array(side, dtype=np.int32) for side in (zip(*pairs, strict=True) if pairs else ([], [])))


def natural_lengths(n=3000, seed=0):
    """Lengths as in Tatoeba: short sentences, the target a little longer."""
    rng = np.random.default_rng(seed)
    src = 1 + rng.gamma(4, 2, n).astype(np.int32)
    return src, np.maximum(1, src + rng.normal(1, 2, n).astype(np.int32))


def as_lists(plan):
    return [indices.tolist() for indices in plan]


@given(pairs=LENGTHS, batch_tokens=st.integers(1, 300), seed=st.integers(0, 9), shuffle=st.booleans())
def test_each_pair_occurs_once_and_no_batch_exceeds_the_budget(pairs, batch_tokens, seed, shuffle):
    src, tgt = arrays(pairs)
    plan = plan_epoch(src, tgt, batch_tokens=batch_tokens, seed=seed, epoch=3, shuffle=shuffle)
    assert sorted(itertools.chain.from_iterable(as_lists(plan))) == list(range(len(pairs)))
    for indices in plan:
        longest = max(src[indices].max(), tgt[indices].max()) + 1  # EOS, or BOS
        assert len(indices) * longest <= batch_tokens or len(indices) == 1


def test_a_pair_longer_than_the_budget_has_a_batch_of_its_own():
    src, tgt = arrays([(3, 3)] * 6 + [(99, 3)] + [(3, 99)] + [(20, 20)] * 2)
    plan = as_lists(plan_epoch(src, tgt, batch_tokens=50, seed=1, epoch=0))
    assert [6] in plan and [7] in plan
    assert {8, 9} in map(set, plan)


def test_batches_are_filled():
    """40 pairs that need 10 tokens each make 5 batches of 80 tokens."""
    src, tgt = arrays([(9, 4), (2, 9)] * 20)
    plan = plan_epoch(src, tgt, batch_tokens=80, seed=1, epoch=0)
    assert [len(indices) for indices in plan] == [8] * 5


def test_a_plan_is_a_function_of_seed_and_epoch():
    def plan(seed, epoch):
        return as_lists(plan_epoch(*natural_lengths(), batch_tokens=500, seed=seed, epoch=epoch))

    assert plan(1, 0) == plan(1, 0)
    others = [plan(1, 1), plan(2, 0), plan(0, 1)]
    assert all(a != b for a, b in itertools.combinations([plan(1, 0), *others], 2))


def test_the_next_epoch_groups_other_pairs_and_reorders_the_batches():
    src, tgt = natural_lengths()
    first, second = (plan_epoch(src, tgt, batch_tokens=500, seed=1, epoch=epoch) for epoch in (0, 1))
    unchanged = {frozenset(batch) for batch in as_lists(first)} & {frozenset(batch) for batch in as_lists(second)}
    assert sum(map(len, unchanged)) < 0.1 * len(src)  # the longest pairs have few others of their length
    for plan in (first, second):
        longest = [int(np.maximum(src, tgt)[indices].max()) for indices in plan]
        assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.4  # neither short nor long ones first


def batch_of_each_pair(plan, n):
    batch_of = np.empty(n, dtype=int)
    for batch_index, indices in enumerate(plan):
        batch_of[indices] = batch_index
    return batch_of


def mates_again(first, second, n):
    """The share of two pairs in a batch of the first plan that are in one batch of the second."""
    batch_of = batch_of_each_pair(second, n)
    together = sum((np.bincount(batch_of[indices]) ** 2).sum() - len(indices) for indices in first)
    return together / sum(len(indices) * (len(indices) - 1) for indices in first)


def test_few_mates_are_mates_again_and_little_more_is_padding():
    """Compared with the least padding, which ordering by both lengths gives, ties broken at random."""
    src, tgt = natural_lengths(n := 30_000)
    longer, rng = np.maximum(src, tgt), np.random.default_rng(0)
    mixed = [plan_epoch(src, tgt, batch_tokens=4096, seed=1, epoch=epoch) for epoch in (0, 1)]
    sizes = [len(indices) for indices in plan_epoch(src, tgt, batch_tokens=4096, seed=1, epoch=0, shuffle=False)]
    ordered = [
        np.split(np.lexsort((rng.random(n), np.where(longer % 2, tgt - src, src - tgt), longer)), np.cumsum(sizes)[:-1])
        for _ in range(2)
    ]
    assert mates_again(mixed[0], mixed[1], n) < 0.5 * mates_again(ordered[0], ordered[1], n)
    assert padding_share(src, tgt, mixed[0]) < padding_share(src, tgt, ordered[0]) + 0.04


def test_every_epoch_has_equally_many_batches():
    """Plans of a run's length rest on it."""
    src, tgt = natural_lengths()
    assert len({len(plan_epoch(src, tgt, batch_tokens=500, seed=1, epoch=epoch)) for epoch in range(20)}) == 1


def test_pairs_of_equal_length_are_mixed_again_in_each_epoch():
    src = tgt = np.full(1000, 9, dtype=np.int32)
    plans = [plan_epoch(src, tgt, batch_tokens=100, seed=1, epoch=epoch) for epoch in (0, 1)]
    batch_of = batch_of_each_pair(plans[1], 1000)
    together_twice = sum(len(indices) - len(set(batch_of[indices])) for indices in plans[0])
    assert together_twice < 100  # by chance some 45 of 1000


def test_without_shuffling_every_epoch_goes_from_short_to_long():
    src, tgt = natural_lengths()
    plans = [plan_epoch(src, tgt, batch_tokens=500, seed=s, epoch=s, shuffle=False) for s in (0, 1)]
    assert as_lists(plans[0]) == as_lists(plans[1])
    longest = [int(np.maximum(src, tgt)[indices].max()) for indices in plans[0]]
    assert longest == sorted(longest)


def test_little_of_a_natural_corpus_is_padding():
    src, tgt = natural_lengths(20_000)
    for shuffle in (True, False):
        plan = plan_epoch(src, tgt, batch_tokens=4096, seed=1, epoch=0, shuffle=shuffle)
        assert padding_share(src, tgt, plan) < 0.1
        by_longer_side = np.argsort(np.maximum(src, tgt), kind="stable")
        assert padding_share(src, tgt, plan) < padding_share(src, tgt, np.array_split(by_longer_side, len(plan))) * 0.75


def test_the_padding_share_equals_a_count_by_hand():
    src, tgt = arrays([(1, 4), (3, 2)])
    # Together, EOS counted: 2 x 4 source and 2 x 5 target places for 2 + 4 and 5 + 3 tokens. Alone: no padding.
    assert padding_share(src, tgt, [np.array([0, 1])]) == pytest.approx(4 / 18)
    assert padding_share(src, tgt, [np.array([0]), np.array([1])]) == 0


def corpus_of(src, tgt):
    """The parts of an EncodedCorpus that a batch needs."""

    def side(sentences):
        lengths = np.array([len(ids) for ids in sentences], dtype=np.int32)
        ids = np.array([token_id for ids in sentences for token_id in ids], dtype=np.uint16)
        return EncodedSide(ids, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), lengths)

    return SimpleNamespace(src=side(src), tgt=side(tgt))


def test_a_batch_equals_one_written_by_hand():
    corpus = corpus_of([[10, 11], [12], [13, 14, 15]], [[20], [21, 22, 23], [24, 25]])
    batch = make_batch(corpus, np.array([2, 0]))
    assert batch.src.tolist() == [[13, 14, 15, EOS_ID], [10, 11, EOS_ID, PAD_ID]]
    assert batch.tgt_in.tolist() == [[BOS_ID, 24, 25], [BOS_ID, 20, PAD_ID]]
    assert batch.tgt_out.tolist() == [[24, 25, EOS_ID], [20, EOS_ID, PAD_ID]]
    assert batch.indices.tolist() == [2, 0]
    assert batch.n_tgt_tokens == 5
    assert {tensor.dtype for tensor in (batch.src, batch.tgt_in, batch.tgt_out)} == {torch.int64}
    assert all(tensor.is_contiguous() for tensor in (batch.src, batch.tgt_in, batch.tgt_out))


SENTENCES = st.lists(st.integers(4, 99), min_size=1, max_size=8)


@given(pairs=st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=12), data=st.data())
def test_the_batch_shifts_tgt_in_against_tgt_out(pairs, data):
    src, tgt = map(list, zip(*pairs, strict=True))
    indices = data.draw(st.lists(st.sampled_from(range(len(pairs))), min_size=1, unique=True))
    batch = make_batch(corpus_of(src, tgt), np.array(indices))
    assert batch.tgt_in.shape == batch.tgt_out.shape
    assert torch.all(batch.tgt_in[:, 0] == BOS_ID)
    for row, i in enumerate(indices):
        n = len(tgt[i])
        assert batch.src[row].tolist()[: len(src[i]) + 1] == [*src[i], EOS_ID]
        assert batch.tgt_in[row, 1 : n + 1].tolist() == batch.tgt_out[row, :n].tolist() == tgt[i]
        assert batch.tgt_out[row, n] == EOS_ID
        for tensor, length in ((batch.src, len(src[i]) + 1), (batch.tgt_in, n + 1), (batch.tgt_out, n + 1)):
            assert torch.all(tensor[row, length:] == PAD_ID)
    assert batch.n_tgt_tokens == int((batch.tgt_out != PAD_ID).sum())
    assert batch.src.shape[1] == 1 + max(len(src[i]) for i in indices)


def test_a_batch_moves_to_a_device_whole():
    batch = make_batch(corpus_of([[10]], [[20]]), np.array([0])).to("meta")
    assert {tensor.device.type for tensor in (batch.src, batch.tgt_in, batch.tgt_out)} == {"meta"}
    assert batch.n_tgt_tokens == 2
