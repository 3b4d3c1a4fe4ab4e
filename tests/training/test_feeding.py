"""Batches of a run: weights, windows and sampled subwords, from the config and across a stop."""

import os
import signal
import threading

import pytest

from mtkit.data import feed
from mtkit.errors import TrainingError
from mtkit.runs.train import train
from mtkit.tokens.special_ids import PAD_ID
from mtkit.training.metrics_log import read_metrics
from mtkit.training.preparation.prepare import prepare
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.training.update.optimizer_step import Updater

PIECES = {"type": "unigram", "vocab_size": 285, "sampling": 0.3}


@pytest.fixture
def batches_of(monkeypatch):
    """The indices of each batch of each update that is made from now on, by step."""
    seen = {}
    original = Updater.update

    def update(self, batches, step, *rest):
        seen[step] = [batch.indices.tolist() for batch in batches]
        return original(self, batches, step, *rest)

    monkeypatch.setattr(Updater, "update", update)
    return seen


def test_a_run_in_windows_with_weights_and_sampling_resumes_where_it_stopped(
    config_of, corpus, tmp_path, monkeypatch, batches_of
):
    monkeypatch.setattr(feed, "_WINDOW_PAIRS", 50)
    weighted = {**corpus, "train": [{**corpus["train"][0], "weight": 1.5}]}
    options = {"data": weighted, "tokenizer": {"src": PIECES, "tgt": PIECES}, "validate_every": 10, "max_steps": 20}
    train(config_of(tmp_path / "never-stopped", **options))
    uninterrupted = dict(batches_of)
    batches_of.clear()

    original = Updater.update

    def interrupted(self, batches, step, *rest):
        if step == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, batches, step, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Updater, "update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(config_of(tmp_path / "stopped", **options))
    assert list(batches_of) == list(range(1, 8))
    train(config_of(tmp_path / "stopped", **options))
    assert batches_of == uninterrupted
    weights = [(tmp_path / run / "model" / "model.safetensors").read_bytes() for run in ("never-stopped", "stopped")]
    assert weights[0] == weights[1]


def test_a_pair_of_weight_two_comes_twice_an_epoch(config_of, corpus, tmp_path, batches_of):
    weighted = {**corpus, "train": [{**corpus["train"][0], "weight": 2.0}]}
    train(config_of(tmp_path / "run", data=weighted, max_epochs=1, max_steps=None))
    seen = sorted(index for batches in batches_of.values() for indices in batches for index in indices)
    assert seen == sorted([*range(120), *range(120)])
    epochs = [entry.get("epoch", 0.0) for entry in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    assert max(epochs) == 1.0


def test_no_thread_outlives_a_run_that_fails(config_of, tmp_path, monkeypatch):
    def fail(*_):
        raise TrainingError("no more")

    before = threading.active_count()
    monkeypatch.setattr(Updater, "update", fail)
    with pytest.raises(TrainingError, match="no more"):
        train(config_of(tmp_path / "run"))
    assert threading.active_count() == before


def test_sampling_splits_a_pair_differently_in_each_epoch(config_of, tmp_path):
    cfg = config_of(tmp_path / "run", tokenizer={"src": {**PIECES, "sampling": 0.0}, "tgt": PIECES})
    prepared = prepare(cfg, cfg.run_dir, Checkpoints(cfg.run_dir / "checkpoints"))
    spelled: dict[str, list[dict]] = {"src": [{}, {}], "tgt": [{}, {}]}  # by epoch and pair
    position = feed.Position()
    with prepared.feed:
        while position.epoch < 2:
            epoch = position.epoch
            batches, position = prepared.feed.next_after(position)
            for batch in batches:
                for row, index in enumerate(batch.indices.tolist()):
                    spelled["src"][epoch][index] = [i for i in batch.src[row].tolist() if i != PAD_ID]
                    spelled["tgt"][epoch][index] = [i for i in batch.tgt_out[row].tolist() if i != PAD_ID]
    first, second = spelled["tgt"]
    # Pieces are whole words, likely ones, and letters. By the probabilities of all spellings (those of unigram sampling
    # with alpha 0.3), 41.7 of the 120 sentences are drawn differently in two epochs, with a standard deviation of 5.0.
    assert 41.7 - 25 < sum(first[i] != second[i] for i in range(120)) < 41.7 + 25
    decode = prepared.text.tokenizers[1].decode
    assert all(decode(first[i]) == decode(second[i]) for i in range(120))
    assert spelled["src"][0] == spelled["src"][1], "that side's sampling is off"
