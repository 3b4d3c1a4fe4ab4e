"""Exports to Marian and Hugging Face: imported again, compared with the model, and refused if they differ."""

import json
from pathlib import Path

import pytest
from fixtures.interop import ENGLISH
from typer.testing import CliRunner

from mtkit.bundle import load_bundle, read_bundle, save_bundle
from mtkit.cli import app
from mtkit.interop import marian, marian_vocabulary
from mtkit.interop.huggingface import marianmt
from mtkit.tokens.special_ids import UNK_ID

KINDS = {"marian": (marian, "to_parameters"), "hf": (marianmt, "to_tensors")}


@pytest.fixture
def export(make_native, tmp_path):
    """export(to, *options) writes a random bundle with three lines to compare on; returns the result and its folder."""
    bundle = make_native(tmp_path / "bundle", "decoder", positions="marian", zero_start=True)
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in ENGLISH[:3]))

    def run(to: str, *options: object):
        arguments = ["export", "--to", to, "--model", bundle, "--out", tmp_path / "out", *options]
        return CliRunner().invoke(app, list(map(str, arguments))), tmp_path / "out"

    return run


@pytest.mark.parametrize("to", KINDS)
def test_an_export_has_a_certificate(export, tmp_path, to):
    done, out = export(to, "--src", tmp_path / "text")
    assert done.exit_code == 0, done.output
    parity = json.loads((out / "parity.json").read_text())
    assert (parity["n_lines"], {search["token_agreement"] for search in parity["searches"]}) == (3, {1.0})
    assert parity["score_difference_max"] < 1e-3
    assert "100.00%" in done.stdout


@pytest.mark.parametrize("to", KINDS)
def test_an_export_that_translates_otherwise_is_not_written(export, tmp_path, monkeypatch, to):
    module, name = KINDS[to]
    write = getattr(module, name)

    def wrong(state, cfg):
        changed = {key: tensor.flip(0) if key == "output.bias" else tensor for key, tensor in state.items()}
        return write(changed, cfg)

    monkeypatch.setattr(module, name, wrong)
    done, out = export(to, "--src", tmp_path / "text")
    assert done.exit_code == 1
    assert "nats a token" in done.stderr and "not written" in done.stderr
    assert not Path(out).exists()


def test_a_model_that_has_learned_to_write_unk_goes_back_to_marian_whose_engine_writes_none(make_marian, tmp_path):
    marian.import_model(make_marian(tmp_path / "marian"), tmp_path / "base")
    files, model = read_bundle(tmp_path / "base"), load_bundle(tmp_path / "base").model
    model.output.bias.data[UNK_ID] = 99.0  # as a run from this model learns it from characters without pieces
    spms = [tmp_path / "base" / f"{side}.spm" for side in ("src", "tgt")]
    save_bundle(tmp_path / "tuned", model.state_dict(), files.config, *spms, training=files.manifest["training"])
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in ENGLISH[:3]))
    arguments = ["export", "--to", "marian", "--model", tmp_path / "tuned", "--src", tmp_path / "text"]
    done = CliRunner().invoke(app, [*map(str, arguments), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert marian_vocabulary.decoder_options(tmp_path / "out" / "model.npz")["allow-unk"] is False


@pytest.mark.parametrize("to", KINDS)
def test_without_text_an_export_has_no_certificate_and_says_so(export, to):
    done, out = export(to)
    assert done.exit_code == 0, done.output
    assert "--src" in done.stderr and "not compared" in done.stderr
    assert not (out / "parity.json").exists()
