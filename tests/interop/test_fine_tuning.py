"""Fine-tune an imported model: post-norm, Marian's positions, and new text with tokens that it never chooses."""

import json

import pytest

from mtkit.bundle import load_bundle
from mtkit.config.schema import Config
from mtkit.interop import marian
from mtkit.runs.train import train


@pytest.mark.parametrize("pre", [True, False])
def test_an_imported_model_learns_new_text(make_marian, tmp_path, pre):
    marian.import_model(make_marian(tmp_path / "marian", tied="tied-embeddings-all", pre=pre), tmp_path / "base")
    (tmp_path / "new.en").write_text("I love the cat.\nDo you see it?\n" * 8)
    (tmp_path / "new.fr").write_text("Le chat dort.\nIl pleut à 5 ℃.\n" * 8)  # the vocabulary has no ℃
    files = {"src": str(tmp_path / "new.en"), "tgt": str(tmp_path / "new.fr")}
    rest = {"max_steps": 30, "warmup_steps": 3, "lr": 0.01, "log_every": 1, "validate_every": 30, "metric": "loss"}
    cfg = Config.model_validate(
        {
            "run_dir": str(tmp_path / "run"),
            "data": {"train": [files], "dev": files},
            "train": {"init_from": str(tmp_path / "base"), "device": "cpu", "threads": 1, "precision": "fp32", **rest},
            "decode": {"beam_size": 1, "max_len": 8},
        }
    )
    tuned = load_bundle(train(cfg).bundle)
    base = load_bundle(tmp_path / "base")
    assert tuned.config.model == base.config.model
    assert (tuned.config.model.positions, tuned.config.model.norm_position) == ("marian", "pre" if pre else "post")
    assert tuned.tgt_tokenizer.fingerprint == base.tgt_tokenizer.fingerprint
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if line["kind"] == "train"]
    assert losses[0] < 60, "a bias of -30000 would show here"
    assert losses[-1] < losses[0] - 1
