"""Models for those who look into them: a tiny random one, and a run that has been trained for a few steps."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tiny_corpus import write_corpus
from tiny_models import tiny_bundle, tiny_config, tiny_tokenizer

from mtkit.config.schema import Config
from mtkit.inspection.sentence_pair import Subject


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)  # tensors here are tiny: more threads would only wait for each other


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For a module's models."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def spm(folder: Path) -> Path:
    """A tokenizer's file."""
    return tiny_tokenizer(folder, tiny_config({}))


@pytest.fixture(scope="module")
def subject(folder: Path, spm: Path) -> Subject:
    """A plain random model, whose bundle is `plain` in the folder."""
    return Subject(tiny_bundle(folder / "plain", spm, tiny_config({})))


@pytest.fixture(scope="session")
def config_of_a_run(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Trains on words, each a token, for a few steps."""
    folder = tmp_path_factory.mktemp("inspected")
    side = {"vocab_size": 290}
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    values = {
        "run_dir": str(folder / "runs" / "tiny"),
        "seed": 7,
        "data": {
            "src_lang": "en",
            "tgt_lang": "fr",
            "train": [write_corpus(folder, "train", 120, seed=0)],
            "dev": write_corpus(folder, "dev", 8, seed=1),
        },
        "tokenizer": {"src": side, "tgt": side},
        "model": sizes,
        "train": {
            **{"max_steps": 80, "warmup_steps": 10, "lr": 0.02, "threads": 1, "device": "cpu", "precision": "fp32"},
            **{"batch_tokens": 400, "validate_every": 80, "validate_sentences": 2, "average_best": 1},
        },
        "decode": {"beam_size": 2, "max_len_factor": 1.0, "max_len_constant": 8, "on_suspect": "off"},
    }
    return Config.model_validate(values)


@pytest.fixture(scope="session")
def bundle_of_a_run(config_of_a_run: Config) -> Iterator[Path]:
    """The bundle of a finished run."""
    from mtkit.runs import finish
    from mtkit.training.trainer import train

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(finish, "plot_curves", lambda run_dir: None)
        yield train(config_of_a_run).bundle
