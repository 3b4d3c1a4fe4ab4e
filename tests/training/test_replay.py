"""A replay of a run's last steps finds it equal, or says what is not."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.errors import CheckpointError, ConfigError
from mtkit.files import sha256_file
from mtkit.training import trainer
from mtkit.training.checkpoint import Checkpoints
from mtkit.training.replay import first_difference, replay
from mtkit.training.trainer import train


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory, config_of):
    run_dir = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "plot_curves", lambda run_dir: None)
        train(config_of(run_dir, model={"residual_dropout": 0.1}))
    return run_dir


@pytest.fixture
def run(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / "run")


def checksums(folder):
    return {str(path.relative_to(folder)): sha256_file(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def change(checkpoint, name, by):
    """Change one number of a checkpoint's weights, and its manifest so that it counts as undamaged."""
    weights = load_file(checkpoint / "model.safetensors")
    weights[name].view(-1)[3] += by
    save_file(weights, checkpoint / "model.safetensors")
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["sha256"]["model.safetensors"] = sha256_file(checkpoint / "model.safetensors")
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


def test_a_run_is_replayed_bit_for_bit_and_left_as_it_was(finished_run):
    before = checksums(finished_run)
    result = replay(finished_run)
    assert result.is_equal
    assert (result.first_step, result.last_step) == (18, 20)
    assert {part.name for part in result.parts} == {"weights", "optimizer", "state", "metrics.jsonl"}
    weights = next(part for part in result.parts if part.name == "weights")
    assert weights.recorded == before["checkpoints/step-20/model.safetensors"]
    assert checksums(finished_run) == before


def test_a_weight_that_is_off_is_named_and_the_machine_that_differs_too(run):
    name = "src_embedding.weight"
    change(run / "checkpoints" / "step-20", name, by=0.5)
    manifest = run / "checkpoints" / "step-20" / "manifest.json"
    values = json.loads(manifest.read_text())
    values["made_with"]["threads"] = "7"
    manifest.write_text(json.dumps(values))
    result = CliRunner().invoke(app, ["doctor", "resume", str(run), "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert not found["equal"]
    assert found["parts"][0]["difference"].startswith(f"{name}: 1 of ")
    assert found["parts"][0]["difference"].endswith("numbers differ, by 0.5 at most")
    assert found["causes"] == ["threads: 7 when the run was trained, 1 here"]


def test_an_equal_replay_is_said_in_words(finished_run):
    result = CliRunner().invoke(app, ["doctor", "resume", str(finished_run)])
    assert result.exit_code == 0
    assert "steps 19 to 20 made again" in result.stdout
    assert "equal: resuming gives this run bit for bit" in result.stdout


def test_fewer_steps_compare_the_metrics_alone(run):
    shutil.rmtree(run / "checkpoints" / "step-18")
    (run / "checkpoints").rename(run / "later")
    with pytest.raises(CheckpointError, match=r"here is no checkpoint; it has finished"):
        replay(run)
    (run / "later").rename(run / "checkpoints")
    with pytest.raises(CheckpointError, match=r"here is only step-20; it has finished"):
        replay(run)


def test_too_few_steps_to_compare_anything_are_refused(finished_run):
    with pytest.raises(ConfigError, match=r"nothing to compare after 1 steps: .* a line every 4; raise --steps"):
        replay(finished_run, steps=1)


def test_changed_data_is_named(run, corpus, tmp_path):
    config = run / "config.yaml"
    [files] = corpus["train"]
    other = tmp_path / "other.en"
    other.write_text("red cat\n" * 120)
    config.write_text(config.read_text().replace(files["src"], str(other)))
    with pytest.raises(ConfigError, match=r"the text of data\.train, or a tokenizer, is not what this run was started"):
        replay(run)


def test_a_rate_that_followed_the_clock_is_refused(run):
    config = run / "config.yaml"
    text = config.read_text().replace("schedule: inverse_sqrt", "schedule: cosine")
    config.write_text(text.replace("max_minutes: null", "max_minutes: 5"))
    with pytest.raises(ConfigError, match=r"its learning rate followed the clock \(train.max_minutes\)"):
        replay(run)


def test_a_damaged_checkpoint_is_named(run):
    (run / "checkpoints" / "step-18" / "optimizer.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"optimizer\.pt: damaged .*; a replay needs two whole checkpoints"):
        replay(run)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="not the folder of a run"):
        replay(tmp_path)


def test_the_first_tensor_that_differs_is_told():
    old = {"a": torch.zeros(2), "b": torch.zeros(4), "c": torch.ones(1)}
    assert first_difference(old, dict(old)) is None
    off = {**old, "b": torch.tensor([0.0, 0.25, 0.0, -0.5]), "c": torch.zeros(1)}
    assert first_difference(old, off) == "b: 2 of 4 numbers differ, by 0.5 at most"
    assert first_difference(old, {"a": torch.zeros(2)}) == "b: only in the run"


def test_checkpoints_before_a_step_are_preferred(finished_run):
    checkpoints = Checkpoints(finished_run / "checkpoints")
    assert checkpoints.newest().state.step == 20
    assert checkpoints.newest(before=20).state.step == 18
    assert checkpoints.newest(before=5).state.step == 20, "better than none"
