"""A bundle with a tiny random model: what it says means nothing, but it is a whole bundle."""

import shutil
from pathlib import Path

import pytest
import torch

from mtkit.bundle import save_bundle
from mtkit.config.schema import Config
from mtkit.data.special_ids import EOS_ID
from mtkit.data.tokenizer import Tokenizer, train_tokenizer
from mtkit.model.transformer import Transformer

SENTENCES = ["I love oranges.", "The cat sleeps under the table.", "Do you see the big house?", "It rains, it rains."]


def make_config(tie: str = "decoder") -> Config:
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    side = {"vocab_size": 300}
    return Config.model_validate(
        {
            "data": {"train": [{"src": "/nowhere/a.en", "tgt": "/nowhere/a.fr"}], "dev": {"tsv": "/nowhere/dev.tsv"}},
            "tokenizer": {"src": side, "tgt": side, "shared": tie == "all"},
            "model": {**sizes, "tie": tie},
            "train": {"max_steps": 2000, "threads": 1},
            "decode": {"beam_size": 3, "max_len_factor": 1.0, "max_len_constant": 8, "on_suspect": "off", "threads": 1},
        }
    )


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)  # tensors here are tiny: more threads would only wait for each other


@pytest.fixture(scope="session")
def spm(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "any.spm"
    train_tokenizer(SENTENCES, make_config().tokenizer.src, path)
    return path


@pytest.fixture(scope="session")
def make_bundle(spm):
    """make_bundle(folder, tie) writes a bundle and returns the model in it."""

    def make(folder: Path, tie: str = "decoder") -> Transformer:
        vocab_size = Tokenizer.load(spm).vocab_size
        cfg = make_config(tie)
        torch.manual_seed(2)
        model = Transformer(cfg.model, vocab_size, vocab_size).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.5)  # far from uniform, so that sources differ in what comes out
            model.output.bias[EOS_ID + 1 : EOS_ID + 257] = -30.0  # single bytes: letters read better in a failure
        save_bundle(folder, model.state_dict(), cfg, spm, spm, training={"dev": {"bleu": 12.5}})
        return model

    return make


@pytest.fixture(scope="session")
def shared_bundle(make_bundle, tmp_path_factory) -> Path:
    """A bundle that tests only read."""
    folder = tmp_path_factory.mktemp("shared") / "runs" / "tiny" / "model"
    make_bundle(folder)
    return folder


@pytest.fixture
def bundle(shared_bundle, tmp_path) -> Path:
    """A bundle that a test may spoil."""
    return Path(shutil.copytree(shared_bundle, tmp_path / "bundle"))


@pytest.fixture
def in_an_empty_folder(tmp_path, monkeypatch):
    """Where there is no run to be found, and no variable names one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MTKIT_MODEL", raising=False)
