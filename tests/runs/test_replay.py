"""A replay of a run's last steps finds them equal, or names the difference."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.errors import CheckpointError, ConfigError, TrainingError
from mtkit.files import sha256_file
from mtkit.runs.replay import first_difference, replay
from mtkit.runs.train import train
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.training.update.divergence import Divergence
from mtkit.training.update.optimizer_step import Updater

SAMPLED = {"type": "bpe", "vocab_size": 310, "sampling": 0.1}


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory, config_of):
    run_dir = tmp_path_factory.mktemp("finished") / "run"
    train(config_of(run_dir, model={"residual_dropout": 0.1}, max_steps=18))
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
    assert (result.first_step, result.last_step) == (12, 18)
    assert {part.name for part in result.parts} == {"weights", "optimizer", "state", "metrics.jsonl"}
    weights = next(part for part in result.parts if part.name == "weights")
    assert weights.recorded == before["checkpoints/step-18/model.safetensors"]
    assert checksums(finished_run) == before


def test_a_different_weight_and_a_different_machine_are_named(run):
    name = "src_embedding.weight"
    change(run / "checkpoints" / "step-18", name, by=0.5)
    manifest = run / "checkpoints" / "step-18" / "manifest.json"
    values = json.loads(manifest.read_text())
    values["made_with"]["threads"] = "7"
    manifest.write_text(json.dumps(values))
    result = CliRunner().invoke(app, ["doctor", "resume", str(run), "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert not found["equal"]
    assert found["parts"][0]["difference"].startswith(f"{name}: 1 of ")
    assert found["parts"][0]["difference"].endswith("numbers differ, by at most 0.5")
    assert found["causes"] == ["threads: 7 when the run was trained, 1 here"]


def test_an_equal_replay_is_reported_in_words(finished_run):
    result = CliRunner().invoke(app, ["doctor", "resume", str(finished_run)])
    assert result.exit_code == 0
    assert "repeated steps 13 to 18" in result.stdout
    assert "equal: resuming reproduces this run bit for bit" in result.stdout


@pytest.mark.parametrize(
    "changes",
    [
        {
            "ema": 0.9,
            "r_drop": 1.0,
            "model": {"word_dropout": 0.2},
            "tokenizer": dict.fromkeys(("src", "tgt"), SAMPLED),
        },
        {"r_drop": 1.0, "r_drop_from": 0.7},  # it begins among the steps that are made again
        {"schedule": "schedule_free"},
        {"init_from": True, "freeze": ["encoder"], "average_last": 2},
    ],
    ids=["all that is random", "R-Drop late", "schedule-free", "warm start"],
)
def test_runs_of_every_kind_are_replayed_bit_for_bit(changes, config_of, finished_run, tmp_path, monkeypatch):
    if "init_from" in changes:
        changes = {**changes, "init_from": str(finished_run)}
    train(config_of(tmp_path / "run", max_steps=12, **changes))
    result = replay(tmp_path / "run")
    assert result.is_equal, result.parts
    has_mean = "ema" in changes or "schedule" in changes
    assert ("mean of the weights" in [part.name for part in result.parts]) == has_mean


def test_fewer_steps_compare_the_metrics_alone(run):
    result = replay(run, steps=4)
    assert (result.last_step, result.is_equal) == (16, True)
    assert [(part.name, part.recorded) for part in result.parts] == [("metrics.jsonl", "1 line")]
    metrics = run / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"step": 16, ', '"step": 16, "extra": 1, '))
    [part] = replay(run, steps=4).parts
    assert part.difference == "first at step 16: extra 1 in the run, None in the replay"


def test_without_two_checkpoints_the_error_names_those_that_exist(run):
    shutil.rmtree(run / "checkpoints" / "step-12")
    (run / "checkpoints").rename(run / "later")
    with pytest.raises(CheckpointError, match=r"/checkpoints: .*\bno checkpoint\b"):
        replay(run)
    (run / "later").rename(run / "checkpoints")
    with pytest.raises(CheckpointError, match=r"/checkpoints: .*\bonly step-18\b"):
        replay(run)


def test_too_few_steps_to_compare_anything_are_refused(finished_run):
    with pytest.raises(ConfigError, match=r"after 1 step: .*\b4\b.* --steps"):
        replay(finished_run, steps=1)


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ("tokenizers.json", r"text of \S+other\.en has changed.*restore"),
        (None, r"/run: the text of data\.train\b.* restore"),
    ],
    ids=["tokenizers of its own", "given tokenizers"],
)
def test_changed_data_is_named_and_the_scratch_folder_is_not(run, corpus, tmp_path, caplog, kept, message):
    caplog.set_level("INFO", "mtkit")
    if kept is None:
        (run / "tokenizers.json").unlink()
    config = run / "config.yaml"
    [files] = corpus["train"]
    other = tmp_path / "other.en"
    other.write_text("red cat\n" * 120)
    config.write_text(config.read_text().replace(files["src"], str(other)))
    with pytest.raises(ConfigError, match=message) as refusal:
        replay(run)
    assert str(refusal.value).startswith(f"{run}: ")
    assert "mtkit-replay" not in caplog.text + str(refusal.value)
    assert "learning" not in caplog.text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("schedule: inverse_sqrt", "schedule: cosine"),
        ("r_drop: 0.0\n  r_drop_from: 0.0", "r_drop: 1.0\n  r_drop_from: 0.5"),
        ("weight: 1.0", "weight: {0: 1, 0.5: 2}"),
    ],
)
def test_a_run_that_followed_the_clock_is_refused(run, old, new):
    config = run / "config.yaml"
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new).replace("max_minutes: null", "max_minutes: 5"))
    with pytest.raises(ConfigError, match=r"train\.max_minutes"):
        replay(run)


def test_a_damaged_checkpoint_is_named(run):
    (run / "checkpoints" / "step-12" / "optimizer.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"optimizer\.pt: damaged "):
        replay(run)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        replay(tmp_path)


def test_the_first_different_tensor_is_described():
    old = {"a": torch.zeros(2), "b": torch.zeros(4), "c": torch.ones(1)}
    assert first_difference(old, dict(old)) is None
    off = {**old, "b": torch.tensor([0.0, 0.25, 0.0, -0.5]), "c": torch.zeros(1)}
    assert first_difference(old, off) == "b: 2 of 4 numbers differ, by at most 0.5"
    assert first_difference(old, {"a": torch.zeros(2)}) == "b: only in the run"


def test_checkpoints_before_a_step_are_preferred(finished_run):
    checkpoints = Checkpoints(finished_run / "checkpoints")
    newest, earlier, first = (checkpoints.newest(before=step) for step in (None, 18, 5))
    assert newest is not None and newest.state.step == 18
    assert earlier is not None and earlier.state.step == 12
    assert first is not None and first.state.step == 12, "better than none"


def test_the_record_of_a_recovery_is_not_a_difference(config_of, tmp_path, monkeypatch, caplog):
    """Until there is a later checkpoint, the newest has the note and the one before it has not."""
    original, run_dir = Updater.update, tmp_path / "run"

    def update(self, batches, step, *rest):
        if step == 16:
            raise Divergence("step 16: the loss is nan", "lower train.lr")
        return original(self, batches, step, *rest)

    with monkeypatch.context():
        monkeypatch.setattr(Updater, "update", update)
        with pytest.raises(TrainingError, match="step 16"):
            train(config_of(run_dir))
    monkeypatch.undo()
    assert replay(run_dir).is_equal
    assert "cannot write" not in caplog.text
