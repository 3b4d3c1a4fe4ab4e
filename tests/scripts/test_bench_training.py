"""The scripts that measure training: the operations they count, the peers' files and logs, and the GPU script."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mtkit.config.model import ModelConfig
from mtkit.config.schema import Config
from mtkit.config.training import TrainConfig
from mtkit.data.batching import Batch
from mtkit.model.cpu.products import has_onednn, onednn_multiplies
from mtkit.model.transformer import Transformer
from mtkit.training.update.optimizer_step import Updater

BENCH = Path(__file__).parents[2] / "scripts" / "bench"
MODULES = "gpu gpu_training marian model_flops synthetic train training_peers"


@pytest.fixture(autouse=True)
def bench(monkeypatch):
    """A function that imports a module of scripts/bench."""
    monkeypatch.syspath_prepend(str(BENCH))
    threads = torch.get_num_threads()
    yield importlib.import_module
    torch.set_num_threads(threads)
    for name in MODULES.split():
        sys.modules.pop(name, None)


def random_batch(n_pairs, src_len, tgt_len, vocab_size):
    chance = torch.Generator().manual_seed(0)
    src, tgt_in, tgt_out = (
        torch.randint(4, vocab_size, (n_pairs, length), generator=chance) for length in (src_len, tgt_len, tgt_len)
    )
    return Batch(src, tgt_in, tgt_out, np.arange(n_pairs), n_pairs * tgt_len)


@pytest.fixture
def no_onednn(monkeypatch):
    """As if torch had no oneDNN, whose products it does not count; the cached answer is dropped before and after."""
    onednn_multiplies.cache_clear()
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    yield
    onednn_multiplies.cache_clear()


@pytest.mark.usefixtures("no_onednn")
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_the_operations_counted_are_those_that_torch_counts_in_an_update(bench, activation):
    flops = bench("model_flops")
    sizes = {"d_model": 32, "d_ff": 48, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 3}
    cfg = ModelConfig(**sizes, activation=activation)
    updater = Updater(Transformer(cfg, 50, 40), TrainConfig(max_steps=9999), seed=1, precision="fp32")
    with FlopCounterMode(display=False) as counter:
        updater.update([random_batch(8, 16, 24, vocab_size=40)], step=1, lr=1e-3)
    assert flops.training_flops(cfg, 40, [16] * 8, [24] * 8) == counter.get_total_flops()
    assert (
        sum(product.flops for product in flops.products(cfg, 40, 8, 16, 24, torch.device("cpu")))
        == counter.get_total_flops()
    )


def test_the_rate_of_all_products_lies_between_those_of_the_fastest_and_the_slowest(bench):
    flops = bench("model_flops")
    cfg = ModelConfig(d_model=32, d_ff=48, n_heads=4)
    measured = flops.measure(
        flops.products(cfg, 40, 8, 16, 24, torch.device("cpu"))[:3], torch.float32, torch.device("cpu")
    )
    rates = [one.rate for one in measured]
    assert 0 < min(rates) <= flops.overall_rate(measured) <= max(rates)


@pytest.mark.parametrize("shape", [(5, 7, 3), (2, 5, 7, 3)])
def test_every_way_to_multiply_that_is_timed_gives_the_product(bench, shape):
    *n, rows, inner, columns = shape
    left, right = torch.randn(*n, rows, inner), torch.randn(*n, columns, inner).mT
    ways = bench("model_flops")._ways(left, right)
    assert len(ways) == (3 if has_onednn() and not n else 1)  # of batches, torch's alone
    for way in ways:
        torch.testing.assert_close(way(), left @ right)


def test_joeynmts_batches_end_where_its_own_rule_ends_them(bench):
    sizes = np.random.default_rng(5).integers(2, 30, size=500).tolist()
    batches = bench("training_peers").joeynmt_batches(sizes, batch_tokens=200, seed=1)
    order = [number for batch in batches for number in batch]
    assert len(set(order)) == len(order) > 480
    ends, n_pairs, longest = [], 0, 0
    for place, number in enumerate(order):  # its sampler: ends a batch once pairs times the longest reach the budget
        n_pairs, longest = n_pairs + 1, max(longest, sizes[number])
        if n_pairs * longest >= 200:
            ends.append(place)
            n_pairs = longest = 0
    assert ends == (np.cumsum([len(batch) for batch in batches]) - 1).tolist()
    assert not n_pairs


def test_the_peers_logs_are_read(bench):
    peers = bench("training_peers")
    marian = (
        "[2026-01-01 10:00:00] Training started\n"
        "[2026-01-01 10:00:09] Ep. 1 : Up. 2 : Sen. 683 : Cost 9.31 : Time 18.25s : 549.5 words/s : gNorm 3.0960\n"
    )
    assert peers.read_marian(marian) == [(549.5, 18.25)]
    joeynmt = (
        "INFO - joeynmt.training - Epoch   1, Step:        2, Batch Loss: 1.0, Tokens per Sec:      920, Lr: 0.1\n"
    )
    assert peers.read_joeynmt(joeynmt) == [920.0]
    mtkit = '{"kind": "train", "step": 2, "tokens_per_s": 12.5}\n{"kind": "validation", "step": 2}\n{"kind": "tra'
    assert bench("train").read_mtkit(mtkit) == [12.5]


def test_the_peers_get_the_same_pieces_in_vocabularies_of_the_same_size(bench, tmp_path):
    peers = bench("training_peers")
    vocabulary = ["<pad>", "<unk>", "<start>", "<end>", "▁a", "b"]
    pieces = peers.Pieces([["▁a", "b"], ["b"]], [["b"], ["▁a"]], vocabulary, vocabulary)
    cfg = Config.model_validate(
        {"data": {"train": [{"tsv": "x"}], "dev": {"tsv": "x"}}, "train": {"max_steps": 5000, "batch_tokens": 16}}
    )
    peers.write_marian(cfg, pieces, tmp_path / "marian", threads=1, batch_words=16)
    peers.write_joeynmt(cfg, pieces, tmp_path / "joeynmt", ordered=False)
    for folder in ("marian", "joeynmt"):
        assert (tmp_path / folder / "train.src").read_text(encoding="utf-8") == "▁a b\nb\n"
        assert (tmp_path / folder / "train.tgt").read_text(encoding="utf-8") == "b\n▁a\n"
    marian = (tmp_path / "marian" / "src.yml").read_text(encoding="utf-8").splitlines()
    joeynmt = (tmp_path / "joeynmt" / "src.vocab").read_text(encoding="utf-8").splitlines()
    assert len(marian) == len(joeynmt) == len(vocabulary)
    assert joeynmt == ["<unk>", "<pad>", "<s>", "</s>", "▁a", "b"]


def test_speeds_become_ratios_and_shares(bench):
    train = bench("train")
    measured = {
        "mtkit-fp32": [train.Measured(300.0, 2**20), train.Measured(330.0, 2**21)],
        "marian": [train.Measured(100.0, 2**20), train.Measured(110.0, 2**20)],
    }
    table = train.as_table(measured, {"fp32": [4e6, 4.4e6], "bf16": [9e6, 9e6]}, flops=1e4).splitlines()
    assert table[1].split() == ["mtkit-fp32", "300", "315", "330", "3.00", "x", "75%", "2"]
    assert table[2].split() == ["marian", "100", "105", "110", "1.00", "x", "25%", "1"]
    assert "limit" in table[3] and "400" in table[3]


@pytest.mark.slow
def test_mtkit_is_measured_from_the_command_line(bench, tmp_path, monkeypatch, capsys):
    lines = [f"{word} {number}" for number in range(60) for word in ("one", "two")]
    for name in ("src", "tgt"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sizes = "--d-model 16 --d-ff 32 --heads 2 --layers 1 --vocab-size 300 --batch-tokens 64 --threads 1"
    run = "--systems mtkit-fp32 --rounds 1 --seconds 0.1 --work work --json found.json"
    monkeypatch.chdir(tmp_path)
    command = ["train.py", "--src", "src", "--tgt", "tgt", *sizes.split(), *run.split()]
    monkeypatch.setattr(sys, "argv", command)
    train = bench("train")
    train.main()
    assert "mtkit-fp32" in capsys.readouterr().out
    found = json.loads(Path("found.json").read_text(encoding="utf-8"))
    assert found["systems"]["mtkit-fp32"][0]["tokens_per_s"] > 0
    assert found["systems"]["mtkit-fp32"][0]["peak_bytes"] > 50e6, "a Python with torch is not smaller"


@pytest.mark.slow  # several processes that load torch, for a script that is made for GPUs
def test_the_gpus_script_runs_on_a_cpu(bench, tmp_path, monkeypatch, capsys):
    sizes = "--device cpu --shapes tiny --precisions fp32 --steps 4 --sentences 8 --batch-sentences 4 --systems mtkit"
    monkeypatch.setattr(sys, "argv", ["gpu.py", *sizes.split(), "--json", str(tmp_path / "found.json")])
    with pytest.raises(SystemExit) as ended:
        bench("gpu").main()
    assert ended.value.code == 0
    (result,) = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["results"]
    assert result["same_greedy"] == 1.0
    assert [training["system"] for training in result["trainings"]] == ["mtkit"]
    assert 0 < result["trainings"][0]["utilization"] < 1
    assert min(result["decoding"]["mtkit"]) > 0
    assert "of the peak" in capsys.readouterr().out


def test_marianmt_learns_from_the_same_batches(bench):
    pytest.importorskip("transformers", reason="only for the comparison with MarianMT")
    training = bench("gpu_training").train(
        "marianmt", bench("synthetic").SHAPES["tiny"], torch.device("cpu"), "fp32", n_steps=60
    )
    assert training.losses[1] < training.losses[0]
