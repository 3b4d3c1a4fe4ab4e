"""A tiny parallel corpus and a config that trains on it in seconds."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_corpus import write_corpus

from mtkit.config.schema import Config
from mtkit.runs import finish, plan


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The data section of a config."""
    folder = tmp_path_factory.mktemp("corpus")
    return {"train": [write_corpus(folder, "train", 120, seed=0)], "dev": write_corpus(folder, "dev", 8, seed=1)}


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Files survive a killed process without it, and a busy disk can take seconds each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_pictures() -> Iterator[None]:
    """Drawing the learning curves takes longer than these runs."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (finish, plan):
            patch.setattr(module, "plot_curves", lambda run_dir: None)
        yield


ConfigMaker = Callable[..., Config]


@pytest.fixture(scope="session")
def config_of(corpus: dict[str, Any]) -> ConfigMaker:
    """Call it with a run folder and with keys of the train section, or data, model, ... for the rest."""

    def make(run_dir: Path, **changes: Any) -> Config:
        pieces = {"type": "char", "vocab_size": 300}
        small = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
        values = {
            "run_dir": str(run_dir),
            "data": corpus,
            "tokenizer": {"src": pieces, "tgt": pieces},
            "decode": {"beam_size": 1, "max_len_factor": 1.0, "max_len_constant": 5},
            "model": {**small, **changes.pop("model", {})},
        }
        values |= {
            key: changes.pop(key) for key in ("data", "seed", "decode", "tokenizer", "distill") if key in changes
        }
        often = {
            "batch_tokens": 300,
            "accumulate": 2,
            "log_every": 4,
            "validate_every": 6,
            "validate_sentences": 3,
            "average_best": 3,
        }
        rest = {"max_steps": 20, "warmup_steps": 4, "lr": 0.01, "threads": 1, "device": "cpu", "precision": "fp32"}
        return Config.model_validate({**values, "train": {**often, **rest, **changes}})

    return make


@pytest.fixture
def make_config(config_of: ConfigMaker, tmp_path: Path) -> ConfigMaker:
    """The same for the run folder tmp_path/run."""
    return lambda **changes: config_of(tmp_path / "run", **changes)
