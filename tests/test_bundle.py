"""A bundle is read as it was written, and nothing else is accepted."""

import hashlib
import json
import math
import os
import resource
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import SHAPES, tiny_classifier_config, tiny_config
from typer.testing import CliRunner

from mtkit.bundle import (
    FILES,
    add_to_bundle,
    bundle_file,
    find_model,
    load_bundle,
    read_bundle,
    save_bundle,
)
from mtkit.cli import app
from mtkit.errors import BundleError, MtkitError
from mtkit.files import write_text
from mtkit.model.networks import network_to_load

SRC, TGT_IN = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 9, 8]])


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_a_bundle_gives_back_the_model_that_was_saved(make_bundle, tmp_path, tie):
    model = make_bundle(tmp_path / "model", tie)
    loaded = load_bundle(tmp_path / "model")
    with torch.no_grad():
        assert torch.equal(loaded.model(SRC, TGT_IN), model(SRC, TGT_IN))
    assert not loaded.model.training
    assert loaded.config.model.tie == tie
    assert loaded.config.decode.beam_size == 3
    assert loaded.manifest["training"] == {"dev": {"bleu": 12.5}}
    assert loaded.src_tokenizer.decode(loaded.src_tokenizer.encode("the cat")) == "the cat"


@pytest.mark.parametrize(("tie", "n_matrices"), [("none", 3), ("decoder", 2), ("all", 1)])
def test_tied_weights_are_stored_once_as_float32(make_bundle, tmp_path, tie, n_matrices):
    model = make_bundle(tmp_path / "model", tie)
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    assert sum(tensor.size(0) > 256 and tensor.dim() == 2 for tensor in tensors.values()) == n_matrices
    assert sum(tensor.numel() for tensor in tensors.values()) == sum(p.numel() for p in model.parameters())
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}


def test_a_state_whose_tied_weights_were_averaged_apart_is_stored_once_too(make_bundle, spm, tmp_path):
    model = make_bundle(tmp_path / "a")
    apart = {name: tensor.clone().double() for name, tensor in model.state_dict().items()}
    save_bundle(tmp_path / "b", apart, load_bundle(tmp_path / "a").config, spm, spm, training={"dev": {"bleu": 12.5}})
    assert sha256(tmp_path / "b" / "model.safetensors") == sha256(tmp_path / "a" / "model.safetensors")


def test_loading_leaves_the_random_state_alone(shared_bundle):
    """And takes no time for weights that the file's replace at once."""
    before = torch.get_rng_state()
    load_bundle(shared_bundle)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_network_to_load_draws_no_weights(shape):
    before = torch.get_rng_state()
    for cfg in (tiny_config(SHAPES[shape]), tiny_classifier_config(SHAPES[shape])):
        network_to_load(cfg, 300, 300)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_manifest_holds_the_checksum_of_every_file(shared_bundle):
    manifest = json.loads((shared_bundle / "manifest.json").read_text())
    assert sorted(path.name for path in shared_bundle.iterdir()) == sorted([*FILES, "manifest.json"])
    assert manifest["sha256"] == {name: sha256(shared_bundle / name) for name in FILES}
    assert manifest["format_version"] == 1
    assert manifest["mtkit_version"]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_failed_save_leaves_the_bundle_that_was_there(make_bundle, spm, tmp_path):
    folder = tmp_path / "model"
    model = make_bundle(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FileNotFoundError):
        save_bundle(folder, model.state_dict(), load_bundle(folder).config, spm, tmp_path / "none.spm", training={})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_is_refused_by_name(bundle, name):
    raw = bytearray((bundle / name).read_bytes())
    raw[len(raw) // 2] ^= 1
    (bundle / name).write_bytes(raw)
    with pytest.raises(BundleError, match=f"bundle/{name}: .*sha256 .*copy the bundle again"):
        load_bundle(bundle)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["encoder_layers.0.feed_forward.in_proj.weight", "output.bias"])
def test_a_weight_that_is_not_finite_is_refused_by_name(make_bundle, spm, tmp_path, name, value):
    folder, other = tmp_path / "model", tmp_path / "other"
    model = make_bundle(folder)
    damaged = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    damaged[name].view(-1)[-1] = value
    with pytest.raises(BundleError, match=f"other: .*{name} .*NaN or infinity"):
        save_bundle(other, damaged, load_bundle(folder).config, spm, spm, training={})
    assert not other.exists()
    weights = folder / "model.safetensors"
    save_file({**load_file(weights), name: damaged[name]}, weights)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"][weights.name] = sha256(weights)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match=f"model.safetensors: .*{name} .*NaN or infinity"):
        load_bundle(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(bundle, name):
    (bundle / name).unlink()
    with pytest.raises(BundleError, match=f"bundle/{name}: missing.*copy the bundle again"):
        load_bundle(bundle)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format_version": 7, "mtkit_version": "9.9"}', r"manifest.json: .*format 7.* format 1;.*\(9\.9\)"),
        ('{"format_version": 1}', "manifest.json: .*sha256"),
        ('{"name": "web app"}', "manifest.json: .*format_version"),
        ("[1]", "manifest.json: .*format_version"),
        ('{"format_version": 1, ', "manifest.json: .*JSON"),
        ("[" * 200_000, "manifest.json: .*JSON.*nested"),
        ('{"format_version": 1, "sha256": {}}', "bundle/config.yaml: "),
    ],
)
def test_a_manifest_that_cannot_be_used_is_explained(bundle, content, message):
    (bundle / "manifest.json").write_text(content)
    with pytest.raises(BundleError, match=message):
        load_bundle(bundle)


def test_a_file_added_while_another_is_written_stays_in_the_manifest(bundle):
    def slowly(path: Path) -> None:
        add_to_bundle(bundle, "quick.json", lambda other: other.write_text("1"))
        path.write_text("2")

    add_to_bundle(bundle, "slow.json", slowly)
    files = read_bundle(bundle)
    assert [bundle_file(files, name) for name in ("quick.json", "slow.json")] == [
        bundle / "quick.json",
        bundle / "slow.json",
    ]


def test_a_file_added_while_another_one_moves_stays_in_the_manifest(bundle, monkeypatch):
    def sync_slowly(path):
        if path.name.startswith(".slow"):
            monkeypatch.undo()
            add_to_bundle(bundle, "quick.json", lambda other: other.write_text("1"))

    monkeypatch.setattr("mtkit.files.sync", sync_slowly)
    add_to_bundle(bundle, "slow", lambda folder: (folder / "large.bin").write_text("2"))
    files = read_bundle(bundle)
    assert [bundle_file(files, name) for name in ("quick.json", "slow")] == [bundle / "quick.json", bundle / "slow"]


def test_an_unknown_file_in_an_added_folder_is_refused(bundle):
    add_to_bundle(bundle, "ctranslate2", lambda folder: (folder / "model.bin").write_text("a"))
    assert bundle_file(read_bundle(bundle), "ctranslate2") == bundle / "ctranslate2"
    (bundle / "ctranslate2" / "shared_vocabulary.json").touch()
    with pytest.raises(BundleError, match=r"shared_vocabulary\.json: .*manifest\.json.*remove"):
        bundle_file(read_bundle(bundle), "ctranslate2")


def test_weights_that_do_not_fit_the_config_are_refused(bundle):
    """Only a wrongly made bundle gets past the checksums; the message still says what is wrong."""
    reconfigure(bundle, "d_ff: 32", "d_ff: 64")
    with pytest.raises(BundleError, match=r"model\.safetensors: .*config\.yaml"):
        load_bundle(bundle)


def test_a_model_too_large_for_its_file_is_refused_before_it_takes_memory(bundle):
    reconfigure(bundle, "n_encoder_layers: 1", "n_encoder_layers: 256")
    reconfigure(bundle, "d_ff: 32", "d_ff: 1048576")
    reconfigure(bundle, "d_model: 16", "d_model: 65536")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BundleError, match=r"model\.safetensors: .*config\.yaml.*weights need more than the .*bytes"):
        load_bundle(bundle)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**17, "KiB"


def test_an_alias_in_the_config_of_a_bundle_is_bounded(bundle):
    reconfigure(bundle, "data:", f"x: &x {'ha' * 1000}\ny: [{'*x, ' * 1000}]\ndata:")
    with pytest.raises(MtkitError, match=r"config\.yaml: .*\n  line \d+: aliases repeat"):
        load_bundle(bundle)


def reconfigure(bundle: Path, old: str, new: str) -> None:
    """Change the config of a bundle, with a checksum that matches."""
    config = (bundle / "config.yaml").read_text()
    assert old in config
    (bundle / "config.yaml").write_text(config.replace(old, new))
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["sha256"]["config.yaml"] = sha256(bundle / "config.yaml")
    (bundle / "manifest.json").write_text(json.dumps(manifest))


def test_a_model_is_found_by_run_or_bundle_folder(shared_bundle):
    assert find_model(shared_bundle) == shared_bundle
    assert find_model(shared_bundle.parent) == shared_bundle


def test_without_a_path_the_environment_then_the_newest_run_decides(shared_bundle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MTKIT_MODEL", "")
    for age, run in ((300, "old"), (10, "new"), (200, "middle")):
        weights = shutil.copytree(shared_bundle, f"runs/{run}/model") / Path("model.safetensors")
        stamp = weights.stat().st_mtime - age
        os.utime(weights, (stamp, stamp))
    assert find_model() == Path("runs/new/model")
    add_to_bundle(Path("runs/old/model"), "notes.txt", lambda path: write_text(path, "late"))
    assert find_model() == Path("runs/new/model")
    monkeypatch.setenv("MTKIT_MODEL", "runs/old")
    assert find_model() == Path("runs/old/model")
    assert find_model(Path("runs/middle")) == Path("runs/middle/model")
    monkeypatch.setenv("MTKIT_MODEL", "runs/none")
    with pytest.raises(BundleError, match=r"\$MTKIT_MODEL: runs/none: "):
        find_model()


def test_without_any_model_the_error_names_the_remedy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MTKIT_MODEL", raising=False)
    with pytest.raises(BundleError, match=r"\./runs; give --model, .*\$MTKIT_MODEL.* mtkit demo"):
        find_model()
    Path("runs/half/checkpoints").mkdir(parents=True)
    with pytest.raises(BundleError, match=r"no model: runs/half: "):
        find_model()


@pytest.mark.parametrize("is_bundle", [True, False])
def test_a_file_given_as_a_model_suggests_its_folder_only_if_that_is_a_model(tmp_path, is_bundle):
    (tmp_path / ("manifest.json" if is_bundle else "other.json")).write_text("{}")
    (tmp_path / "text.en").write_text("one\n")
    with pytest.raises(BundleError, match="a file, but a model is a run or bundle folder") as error:
        find_model(tmp_path / "text.en")
    assert (f"did you mean {tmp_path}?" in str(error.value)) == is_bundle


@pytest.mark.parametrize(
    ("name", "is_hub"),
    [("Helsinki/opus-en-fr", True), ("runs/nothing", False), ("nothing", False), ("a/b/c", False), ("/a/b", False)],
)
def test_a_name_like_those_of_a_hub_comes_with_the_way_to_download(tmp_path, monkeypatch, name, is_hub):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    with pytest.raises(BundleError, match="no such folder") as error:
        find_model(Path(name))
    assert all(fact in str(error.value) for fact in ("downloads nothing", f"download {name}", "mtkit import")) == is_hub
    result = CliRunner().invoke(app, ["import", name, "--out", "new"])
    assert result.exit_code == 1 and ("downloads nothing" in result.stderr) == is_hub


def test_a_run_with_only_tokenizers_has_not_finished(spm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MTKIT_MODEL", raising=False)
    run = Path("runs/new")
    run.mkdir(parents=True)
    for name in ("src.spm", "tgt.spm"):
        shutil.copyfile(spm, run / name)
    (run / "tokenizers.json").write_text("{}")
    with pytest.raises(BundleError, match=r"^runs/new has no model/ yet: .*mtkit train"):
        find_model(run)
    with pytest.raises(BundleError, match=r"^no model: runs/new: "):
        find_model()


@pytest.mark.parametrize("damage", ["config.yaml", "src.spm", "manifest.json"])
def test_a_damaged_bundle_of_a_run_can_be_written_again(bundle, tmp_path, damage):
    model = bundle.rename(tmp_path / "model")
    (tmp_path / "config.yaml").touch()
    (model / damage).unlink()
    for folder in (tmp_path, model):
        with pytest.raises(BundleError) as without_checkpoints:
            load_bundle(find_model(folder))
        assert "copy the bundle again" in str(without_checkpoints.value)
        assert "mtkit train" not in str(without_checkpoints.value)
        (tmp_path / "checkpoints").mkdir()
        with pytest.raises(BundleError) as with_checkpoints:
            load_bundle(find_model(folder))
        assert str(with_checkpoints.value).startswith(str(without_checkpoints.value))
        assert f"remove {model} and run `mtkit train`" in str(with_checkpoints.value)
        (tmp_path / "checkpoints").rmdir()


def test_a_folder_that_is_not_a_model_is_described(bundle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "photos").mkdir()
    (tmp_path / "empty").mkdir()
    for name in "abcdef":
        (tmp_path / "photos" / f"{name}.jpg").touch()
    (bundle / "manifest.json").unlink()
    for path, message in {
        "none": "none: no such",
        "photos/a.jpg": r"photos/a\.jpg: a file, .* such as runs/NAME$",
        "photos": r"photos .* a\.jpg, b\.jpg, c\.jpg, d\.jpg, e\.jpg, \.\.\.; ",
        "empty": "empty .*empty; ",
        "run": "run has no model/ yet: ",
        "bundle": r"bundle: .*manifest\.json",
    }.items():
        with pytest.raises(BundleError, match=f"^{message}"):
            find_model(Path(path))
