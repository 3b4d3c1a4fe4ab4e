"""Several threads that run shares of a batch at the same time give the gradient of one thread."""

import time

import numpy as np
import pytest
import tiny_updates as updates
import torch
from tiny_updates import gradient, weights

from mtkit.data.batching import Batch
from mtkit.errors import TrainingError
from mtkit.model.ops import attend, seeded_dropout
from mtkit.training.update import micro_batches
from mtkit.training.update import optimizer_step as update

VOCAB_SIZE = 30
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _small_shares(monkeypatch):
    monkeypatch.setattr(micro_batches, "_SHARE_TOKENS", 8)


@pytest.fixture
def threads():
    """A function that sets torch's threads, which are put back in the end."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def batch_of(n_pairs, seed=0):
    return updates.batch_of(updates.random_pairs(n_pairs, 9, VOCAB_SIZE, seed))


def make_updater(tie="decoder", **settings):
    shape = {"d_model": 16, "d_ff": 32, "n_encoder_layers": 2, "n_decoder_layers": 2, "tie": tie}
    return updates.updater_of(VOCAB_SIZE, model=shape, **settings)


def sizes_of_shares(updater, monkeypatch):
    """A list that gets the number of pairs of each pass through the model."""
    sizes = []

    def counted(original):
        def loss(*arguments):
            batch = next(argument for argument in arguments if isinstance(argument, Batch))
            sizes.append(len(batch.indices))
            return original(*arguments)

        return loss

    monkeypatch.setattr(updater, "batch_loss", counted(updater.batch_loss))
    monkeypatch.setattr(update, "batch_loss", counted(update.batch_loss))
    return sizes


@pytest.mark.parametrize("settings", [{}, {"tie": "all"}, {"r_drop": 3.0}, {"frozen": ("encoder_layers",)}])
@pytest.mark.parametrize("n_threads", [2, 3])
def test_shares_give_the_gradient_of_the_whole_batch(n_threads, settings, threads, monkeypatch):
    whole, shared = make_updater(**settings), make_updater(**settings)
    batches = [batch_of(11), batch_of(8, seed=1)]
    threads(1)
    expected = whole.update(batches, step=1, lr=0.01)
    threads(n_threads)
    sizes = sizes_of_shares(shared, monkeypatch)
    stats = shared.update(batches, step=1, lr=0.01)
    assert sorted(sizes) == sorted({2: [5, 6, 4, 4], 3: [3, 4, 4, 2, 3, 3]}[n_threads])
    torch.testing.assert_close(gradient(shared), gradient(whole), rtol=1e-4, atol=1e-7)
    assert stats.loss_sum == pytest.approx(expected.loss_sum, rel=1e-6)
    assert stats.nll_sum == pytest.approx(expected.nll_sum, rel=1e-6)
    assert stats.grad_norm == pytest.approx(expected.grad_norm, rel=1e-5)
    assert torch.get_num_threads() == n_threads, "put back"


def test_the_copies_follow_the_weights(threads):
    whole, shared = make_updater(), make_updater()
    losses = []
    for step in range(1, 6):
        threads(1)
        expected = whole.update([batch_of(12)], step, lr=0.01)
        threads(2)
        losses.append(shared.update([batch_of(12)], step, lr=0.01).loss_sum)
        assert losses[-1] == pytest.approx(expected.loss_sum, rel=1e-4)
    assert losses[-1] < 0.9 * losses[0], "the weights have moved"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_bits_do_not_depend_on_the_order_of_threads(precision, threads, monkeypatch):
    threads(3)

    def run(late):
        updater = make_updater(dropout=0.3, precision=precision, r_drop=1.0)
        each = updater.replicas.each

        def delayed(batch, work):
            def slow(model, share, number):
                if number == late:
                    time.sleep(0.02)
                return work(model, share, number)

            return each(batch, slow)

        monkeypatch.setattr(updater.replicas, "each", delayed)
        stats = [updater.update([batch_of(9, seed=s), batch_of(7, seed=-s + 50)], s, lr=0.01) for s in (1, 2, 3)]
        return weights(updater), stats

    runs = [run(late) for late in (0, 1, 2)]
    assert all(torch.equal(one[0], runs[0][0]) and one[1] == runs[0][1] for one in runs)


def test_each_share_has_dropout_of_its_own(threads, monkeypatch):
    threads(2)
    updater = make_updater(dropout=0.3)
    once = batch_of(4)
    src, tgt_in, tgt_out = (torch.cat([t, t]) for t in (once.src, once.tgt_in, once.tgt_out))
    twice = Batch(src, tgt_in, tgt_out, np.arange(8), 1)
    losses = []
    each = updater.replicas.each
    monkeypatch.setattr(updater.replicas, "each", lambda *arguments: losses.extend(found := each(*arguments)) or found)
    updater.update([twice], step=1, lr=0.0)
    assert len(losses) == 2
    assert not torch.equal(*losses)


def test_a_small_batch_is_not_split(threads, monkeypatch):
    threads(4)
    updater = make_updater()
    sizes = sizes_of_shares(updater, monkeypatch)
    monkeypatch.setattr(micro_batches, "_SHARE_TOKENS", 50)
    tokens = torch.full((11, 9), 5)
    for n_pairs in (11, 12, 1):
        some = torch.cat([tokens, tokens])[:n_pairs]
        updater.update([Batch(some, some, some, np.arange(n_pairs), n_pairs * 9)], step=1, lr=0.0)
    assert sorted(sizes) == [1, 6, 6, 11], "99 tokens are less than two shares of 50, 108 are not"


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_in_a_share_is_raised_after_all_have_ended_and_leaves_no_gradient(failing, threads):
    threads(2)
    updater = make_updater()
    ended = []

    def work(model, share, number):
        if number == failing:
            raise TrainingError(f"share {number}")
        time.sleep(0.05)
        update.batch_loss(model, share, 0.0, "fp32")[0].backward()
        ended.append(number)

    with pytest.raises(TrainingError, match=f"share {failing}"):
        updater.replicas.each(batch_of(8), work)
    assert ended == [1 - failing]
    assert torch.get_num_threads() == 2
    fresh = make_updater()
    for one in (fresh, updater):
        one.update([batch_of(8, seed=7)], step=1, lr=0.0)
    assert torch.equal(gradient(updater), gradient(fresh))


def test_shares_that_do_not_fit_into_memory_are_split(threads, monkeypatch, caplog):
    threads(2)
    whole, split = make_updater(), make_updater(batch_tokens=4096)
    whole.update([batch_of(12)], step=1, lr=0.0)
    original = update.batch_loss

    def loss(model, share, *rest):
        if len(share.indices) > 3:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")
        return original(model, share, *rest)

    monkeypatch.setattr(update, "batch_loss", loss)
    monkeypatch.setattr(split, "batch_loss", lambda *arguments: loss(split.model, *arguments))
    split.update([batch_of(12)], step=1, lr=0.0)
    torch.testing.assert_close(gradient(split), gradient(whole), rtol=1e-4, atol=1e-7)
    assert "do not fit into memory" in caplog.text


@pytest.mark.parametrize("length", [5, 300])
def test_dropout_in_attention_depends_on_its_seed_alone(length):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, length, 4)

    def attended(seed):
        with seeded_dropout(seed, CPU):
            return attend(q, k, v, None, p=0.5)

    first = attended(1)
    torch.rand(100)
    assert torch.equal(attended(1), first)
    assert not torch.equal(attended(2), first)
    mean = torch.stack([attended(seed) for seed in range(400)]).mean(dim=0)
    torch.testing.assert_close(mean, attend(q, k, v, None), rtol=0, atol=0.35)
