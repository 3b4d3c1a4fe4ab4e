"""The weights before training: held against those of a real run before its first update."""

import json
import shutil

import pytest
import torch

from mtkit.bundle import MANIFEST, load_bundle
from mtkit.files import sha256_file
from mtkit.inspection.initial import beginning_of, drawn_model
from mtkit.training.checkpoint import Checkpoints
from mtkit.training.prepare import prepare


def edit_config(folder, old: str, new: str):
    """The bundle with another config.yaml, and a manifest that says so."""
    path, manifest = folder / "config.yaml", folder / MANIFEST
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    found = json.loads(manifest.read_text())
    found["sha256"]["config.yaml"] = sha256_file(path)
    manifest.write_text(json.dumps(found))


def test_they_are_those_that_the_trainer_begins_with(bundle_of_a_run, config_of_a_run):
    begun = beginning_of(load_bundle(bundle_of_a_run))
    assert begun.origin == "the weights drawn from seed=7"
    run_dir = bundle_of_a_run.parent
    updater = prepare(config_of_a_run, run_dir, Checkpoints(run_dir / "checkpoints")).updater
    expected = updater.model.state_dict()
    assert begun.model.state_dict().keys() == expected.keys()
    for name, weight in begun.model.state_dict().items():
        assert torch.equal(weight, expected[name]), name


def test_drawing_them_leaves_the_random_state_of_the_process(bundle_of_a_run):
    bundle = load_bundle(bundle_of_a_run)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    drawn_model(bundle)
    assert torch.equal(torch.rand(3), expected)


def test_another_seed_is_found_out_by_vectors_that_training_never_moves(bundle_of_a_run, tmp_path):
    folder = shutil.copytree(bundle_of_a_run, tmp_path / "other")
    edit_config(folder, "seed: 7", "seed: 8")
    begun = beginning_of(load_bundle(folder))
    assert begun.model is None
    assert "the weights drawn from seed=8 are not those that this training began with" in begun.origin


def test_a_run_that_began_with_a_model_began_with_its_weights(bundle_of_a_run, tmp_path):
    folder = shutil.copytree(bundle_of_a_run, tmp_path / "warm")
    edit_config(folder, "init_from: null", f"init_from: {bundle_of_a_run}")
    bundle, origin = load_bundle(folder), load_bundle(bundle_of_a_run)
    begun = beginning_of(bundle)
    assert torch.equal(begun.model.src_embedding.weight, origin.model.src_embedding.weight)
    assert begun.origin == f"the weights of train.init_from={bundle_of_a_run}"


def test_vectors_of_zeros_are_the_same_though_they_have_no_direction(bundle_of_a_run, monkeypatch):
    bundle = load_bundle(bundle_of_a_run)
    begun = drawn_model(bundle)
    with torch.no_grad():
        for model in (begun, bundle.model):
            model.src_embedding.weight[:4] = 0
    monkeypatch.setattr("mtkit.inspection.initial.drawn_model", lambda bundle: begun)
    assert beginning_of(bundle).model is begun


@pytest.mark.parametrize(
    ("training", "init_from", "reason"),
    [
        ({}, "/nowhere/model", "train.init_from, which cannot be read: /nowhere/model: no such folder"),
        ({"imported": {"format": "marian"}}, "null", "the model was imported"),
        ({"averaged_models": ["a", "b"]}, "null", "the model is the mean of several models"),
    ],
)
def test_where_they_are_not_known_it_says_why(bundle_of_a_run, tmp_path, training, init_from, reason):
    folder = shutil.copytree(bundle_of_a_run, tmp_path / "other")
    if init_from != "null":
        edit_config(folder, "init_from: null", f"init_from: {init_from}")
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "training": training}))
    begun = beginning_of(load_bundle(folder))
    assert begun.model is None
    assert reason in begun.origin
