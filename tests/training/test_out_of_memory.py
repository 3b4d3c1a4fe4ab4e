"""Batches that do not fit into memory are split, with the gradient of the whole."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tiny_updates as updates
import torch
from tiny_updates import gradient

from mtkit.data.batching import Batch
from mtkit.errors import TrainingError
from mtkit.training.update.micro_batches import parts_of

VOCAB_SIZE = 12
ERRORS = {
    "on a GPU": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    "on a CPU": RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"),
}


def batch_of(n_pairs, seed=0):
    return updates.batch_of(updates.random_pairs(n_pairs, 6, VOCAB_SIZE, seed))


make_updater = partial(updates.updater_of, VOCAB_SIZE)


def fails_above(updater, n_pairs, error):
    """Let the backward pass of more pairs fail halfway, with part of its gradient made; returns the sizes tried."""
    tried = []
    original = updater.batch_loss

    def fail(grad):
        raise error

    def batch_loss(batch, *rest):
        loss_sum, nll_sum = original(batch, *rest)
        tried.append(len(batch.indices))
        if len(batch.indices) > n_pairs:
            bias = updater.model.output.bias
            loss_sum = loss_sum + (bias * 1.0).sum()  # a gradient that must not stay
            memory = torch.zeros((), requires_grad=True)
            memory.register_hook(fail)
            loss_sum = loss_sum + memory * 0
        return loss_sum, nll_sum

    updater.batch_loss = batch_loss
    return tried


@pytest.mark.parametrize("kind", ERRORS)
def test_a_batch_that_does_not_fit_is_split_and_the_gradient_stays(kind, caplog):
    whole, split = make_updater(), make_updater(batch_tokens=4096)
    batches = [batch_of(3, seed=1), batch_of(8)]
    expected = whole.update(batches, step=1, lr=0.01)
    tried = fails_above(split, 2, ERRORS[kind])
    stats = split.update(batches, step=1, lr=0.01)
    torch.testing.assert_close(gradient(split), gradient(whole), rtol=1e-5, atol=1e-7)
    assert stats.loss_sum == pytest.approx(expected.loss_sum, rel=1e-6)
    assert stats.n_tgt_tokens == expected.n_tgt_tokens
    assert max(tried[-6:]) <= 2, "the successful attempt"
    assert "train.batch_tokens=4096" in caplog.text


def test_later_batches_are_split_at_once_without_another_message(caplog):
    updater = make_updater()
    tried = fails_above(updater, 4, ERRORS["on a GPU"])
    updater.update([batch_of(8)], step=1, lr=0.01)
    assert tried == [8, 4, 4]
    caplog.clear()
    updater.update([batch_of(8), batch_of(2)], step=2, lr=0.01)
    assert tried[3:] == [4, 4, 2]
    assert not caplog.text


def test_a_single_pair_that_does_not_fit_is_an_error():
    updater = make_updater(batch_tokens=512, accumulate=3)
    fails_above(updater, 0, ERRORS["on a GPU"])
    before = [parameter.detach().clone() for parameter in updater.model.parameters()]
    with pytest.raises(TrainingError, match=r"step 4: .*out of memory.* train\.batch_tokens=512"):
        updater.update([batch_of(8)], step=4, lr=0.01)
    assert all(map(torch.equal, updater.model.parameters(), before))


@pytest.mark.parametrize(("limit", "sizes"), [(None, [7]), (49, [7]), (48, [4, 3]), (15, [2, 2, 2, 1]), (1, [1] * 7)])
def test_parts_hold_each_pair_once_within_the_limit(limit, sizes):
    tokens = torch.full((7, 7), 5)
    batch = Batch(tokens, tokens, tokens, np.arange(7), 49)  # seven pairs of 7 tokens
    parts = list(parts_of(batch, limit))
    assert [len(part.indices) for _, part in parts] == sizes
    assert np.concatenate([part.indices for _, part in parts]).tolist() == list(range(7))
    assert sum(part.n_tgt_tokens for _, part in parts) == 49
    assert len({path for path, _ in parts}) == len(parts), "each has dropout of its own"


def update_within(n_mib):
    """Make an update of 64 pairs with so many MiB left, 0: with all there is; prints what came of it."""
    torch.set_num_threads(1)
    shape = {"d_model": 64, "d_ff": 2048, "n_encoder_layers": 2, "n_decoder_layers": 2}
    updater = make_updater(model=shape)
    tokens = torch.randint(4, VOCAB_SIZE, (64, 64))
    few, many = (Batch(tokens[:n], tokens[:n], tokens[:n], np.arange(n), n * 64) for n in (2, 64))
    updater.update([few], step=1, lr=0.0)  # what the first update alone needs
    if n_mib:
        import resource

        most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + n_mib * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    stats = updater.update([many], step=2, lr=0.0)
    print(json.dumps([updater.batch_limit, stats.loss_sum, stats.grad_norm]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is limited and counted as Linux does")
def test_a_real_memory_limit_does_not_change_the_update():
    here = Path(__file__).parent
    program = f"import sys; sys.path[:0] = {[str(here), str(here.parent)]}; import test_memory as t; t.update_within"
    results = [
        subprocess.run([sys.executable, "-c", f"{program}({n_mib})"], capture_output=True, text=True, check=True)
        for n_mib in (0, 150)
    ]
    (no_limit, *whole), (limit, *parts) = (json.loads(result.stdout) for result in results)
    assert no_limit is None
    assert limit < 64 * 64
    assert parts == pytest.approx(whole, rel=1e-5)
