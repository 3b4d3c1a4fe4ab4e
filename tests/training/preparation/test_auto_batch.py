"""train.batch_tokens: auto, on simulated machines; the expected sizes were worked out by hand."""

from typing import cast

import numpy as np
import pytest
import torch

from mtkit.config.reading.loading import load_config
from mtkit.data.batching import plan_epoch
from mtkit.data.encoded import EncodedCorpus, EncodedSide
from mtkit.errors import TrainingError
from mtkit.runs.train import train
from mtkit.training.preparation import auto_batch
from mtkit.training.preparation.auto_batch import longest_batch, most_for, with_batch_tokens
from mtkit.training.update.optimizer_step import Updater


class Corpus:
    """Sentences of 5 to 24 tokens on either side."""

    def __init__(self, n_pairs):
        rng = np.random.default_rng(0)
        self.n_pairs = n_pairs
        self.src, self.tgt = (self.side(rng.integers(5, 25, n_pairs, dtype=np.int32)) for _ in range(2))
        self.src_lengths, self.tgt_lengths = self.src.lengths, self.tgt.lengths

    def side(self, lengths):
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return EncodedSide(np.full(starts[-1], 9, dtype=np.uint16), starts, lengths)


def corpus_of(n_pairs: int) -> EncodedCorpus:
    return cast(EncodedCorpus, Corpus(n_pairs))


class Machine:
    """What stands for the updater: its device, and that no batch was cut."""

    def __init__(self, device):
        self.device = torch.device(device)
        self.batch_limit = None


@pytest.fixture
def chosen(make_config, monkeypatch):
    """Call it with a device and a corpus; the number that auto becomes."""

    def choose(device, corpus):
        cfg = make_config(batch_tokens="auto", accumulate=1)
        return with_batch_tokens(cfg, corpus, lambda cfg: cast(Updater, Machine(device))).train.batch_tokens

    return choose


def test_on_a_cpu_it_is_the_smallest_that_is_nearly_as_fast_as_any(chosen, monkeypatch):
    speeds = {512: 700.0, 1024: 980.0, 2048: 1000.0, 4096: 990.0, 8192: 900.0, 16384: 800.0}
    monkeypatch.setattr(auto_batch, "_tokens_per_second", lambda updater, corpus, number: speeds[number])
    assert chosen("cpu", corpus_of(200_000)) == 1024


def test_on_a_cpu_sizes_that_would_not_fit_are_not_tried(chosen, monkeypatch):
    tried = []
    monkeypatch.setattr(auto_batch, "_tokens_per_second", lambda *args: tried.append(args[-1]) or len(tried))
    monkeypatch.setattr(auto_batch, "available_memory", lambda: 8e9)  # half of it may be used
    heights = iter([0.0, 0.5e9, 0.5e9, 1.5e9, 1.5e9, 4e9, 4e9, 9e9])  # grown by 0.5, 1.0, 2.5: twice that is too much
    monkeypatch.setattr(auto_batch, "resident_memory", lambda: next(heights))
    chosen("cpu", corpus_of(200_000))
    assert tried == [512, 1024, 2048]


@pytest.fixture
def gpu(monkeypatch):
    """Call it with bytes that are free, and bytes that an update of so many tokens takes."""

    def make(free, peak):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, free))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
        monkeypatch.setattr(auto_batch, "_gpu_peak", lambda updater, corpus, number: peak(number))

    return make


def test_on_a_gpu_it_is_the_largest_that_leaves_a_margin(chosen, gpu):
    gpu(10e9, lambda number: 1e9 + 4e5 * number)
    assert chosen("cuda", corpus_of(200_000)) == 18_688, "(8.5e9 - 1e9) / 4e5 = 18,750, and a multiple of 256"


def test_on_a_gpu_a_size_that_does_not_fit_after_all_is_lowered(chosen, gpu):
    def peak(number):
        return 1e9 + 40 * number**2

    gpu(10e9, peak)
    number = chosen("cuda", corpus_of(400_000))
    assert peak(number) <= 8.7e9 < peak(1.3 * number)


def test_a_gpu_without_memory_for_a_small_batch_is_an_error(chosen, gpu):
    gpu(1e9, lambda number: 2e9)
    with pytest.raises(TrainingError, match=r"train\.batch_tokens=auto: "):
        chosen("cuda", corpus_of(200_000))


def test_an_epoch_keeps_a_hundred_updates(chosen, gpu):
    corpus = corpus_of(20_000)
    gpu(1e15, lambda number: 1e9 + number)
    number = chosen("cuda", corpus)
    assert number == most_for(corpus, accumulate=1)
    batches = plan_epoch(corpus.src_lengths, corpus.tgt_lengths, batch_tokens=number, seed=1, epoch=0)
    assert 100 <= len(batches) < 115
    assert most_for(corpus, accumulate=4) <= number / 4


def test_the_longest_batch_holds_the_longest_sentences():
    corpus = corpus_of(1000)
    batch = longest_batch(corpus, 500)
    assert max(batch.src.shape[1], batch.tgt_in.shape[1]) == 25, "24 tokens and EOS"
    assert len(batch.indices) == 20
    assert longest_batch(corpus_of(3), 10**6).src.shape[0] == 3


def test_a_resumed_run_keeps_its_batch_size(make_config, monkeypatch):
    monkeypatch.setattr(auto_batch, "_TRY_S", 0.0)
    cfg = make_config(batch_tokens="auto", max_steps=2, validate_every=2, warmup_steps=1)
    train(cfg)
    number = load_config(cfg.run_dir / "config.yaml").train.batch_tokens
    assert number == 256, "of so small a corpus, the least"

    def must_not_be_asked(*args):
        raise AssertionError("tried again")

    monkeypatch.setattr(auto_batch, "_fastest", must_not_be_asked)
    assert train(make_config(batch_tokens="auto", max_steps=4, validate_every=2, warmup_steps=1)).steps == 4
    assert load_config(cfg.run_dir / "config.yaml").train.batch_tokens == number
