"""Checkpoints: what they restore, which ones stay, and what happens with a damaged file or a full disk."""

import json
import logging
import re
import resource
import shutil
import signal

import pytest
import torch
from torch import nn

from mtkit.errors import CheckpointError
from mtkit.files import atomic_folder, sha256_file
from mtkit.training.update.checkpoint import Checkpoints, check_fits, find_damage, read_optimizer_state
from mtkit.training.update.state import Scored, TrainState


def make(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    return model, optimizer


def learn(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(1, 3)).square().sum().backward()
    optimizer.step()


def write(checkpoints, state, model, optimizer):
    checkpoints.save(state, dict(model.named_parameters()), optimizer.state_dict())


def save(folder, *steps, best=()):
    """Train through the steps, saving each; returns model and optimizer as they are at the last."""
    checkpoints = Checkpoints(folder)
    model, optimizer = make()
    for step in steps:
        learn(model, optimizer)
        state = TrainState(step=step, best=[Scored(number, 1.0, 2.0) for number in best if number <= step])
        write(checkpoints, state, model, optimizer)
    return model, optimizer


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_restores_weights_optimizer_and_state(tmp_path):
    model, optimizer = save(tmp_path, 10, 20)
    checkpoint = Checkpoints(tmp_path).newest()
    assert checkpoint is not None
    other, other_optimizer = make(seed=1)
    other.load_state_dict(checkpoint.weights())
    other_optimizer.load_state_dict(checkpoint.optimizer_state())
    assert checkpoint.state == TrainState(step=20)
    for _ in range(2):  # the next update needs Adam's running means too
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
        learn(model, optimizer)
        learn(other, other_optimizer)


def test_weights_that_are_not_finite_are_refused_by_name(tmp_path):
    model, optimizer = make()
    with torch.no_grad():
        model[1].weight[0, 2] = torch.nan
    write(Checkpoints(tmp_path), TrainState(step=10), model, optimizer)
    checkpoint = Checkpoints(tmp_path).newest()
    assert checkpoint is not None
    with pytest.raises(CheckpointError, match=r"step-10/model\.safetensors: .*1\.weight .*NaN or infinity.*remove"):
        checkpoint.weights()
    with pytest.raises(CheckpointError, match=r"1\.weight"):
        Checkpoints(tmp_path).mean_weights([10])


def test_a_state_survives_json():
    state = TrainState(step=3, seconds=0.1 + 0.2, best=[Scored(2, 33.3, 1.5)], grad_scaler={"scale": 65536.0})
    state.interval.loss_sum = 1 / 3
    assert TrainState.from_dict(json.loads(json.dumps(state.to_dict()))) == state


def test_a_run_without_checkpoints_has_no_newest(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert checkpoints.newest() is None
    assert not checkpoints.exist()


def test_the_newest_two_and_the_best_are_kept(tmp_path):
    save(tmp_path, 10, 20, 30, 40, 50, best=[20, 50])
    assert names(tmp_path) == ["best-20", "step-40", "step-50"]
    assert names(tmp_path / "best-20") == ["manifest.json", "model.safetensors", "state.json"]


def test_the_best_of_the_previous_checkpoint_are_kept_for_a_fallback(tmp_path):
    model, optimizer = make()
    checkpoints = Checkpoints(tmp_path)
    for step, best in [(10, [10]), (20, [10, 20]), (30, [10, 20]), (40, [40, 20])]:
        write(checkpoints, TrainState(step=step, best=[Scored(number, 1.0, 2.0) for number in best]), model, optimizer)
    assert names(tmp_path) == ["best-10", "best-20", "step-30", "step-40"]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "state.json"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_checkpoint_is_named_and_the_previous_one_used(tmp_path, caplog, name, damage):
    save(tmp_path, 10, 20)
    path = tmp_path / "step-20" / name
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    else:
        path.unlink()
    with caplog.at_level(logging.WARNING, "mtkit"):
        checkpoint = Checkpoints(tmp_path).newest()
    assert checkpoint is not None and checkpoint.state.step == 10
    assert str(path) in caplog.text


def test_the_next_save_removes_a_damaged_newer_checkpoint(tmp_path):
    save(tmp_path, 10, 20)
    (tmp_path / "step-20" / "optimizer.pt").write_bytes(b"")
    model, optimizer = make()
    write(Checkpoints(tmp_path), TrainState(step=15), model, optimizer)
    assert names(tmp_path) == ["step-10", "step-15"]


def test_if_all_are_damaged_the_error_says_how_to_go_on(tmp_path):
    save(tmp_path, 10, 20)
    for step in (10, 20):
        (tmp_path / f"step-{step}" / "manifest.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"\b2 checkpoints .* remove this folder"):
        Checkpoints(tmp_path).newest()


def test_a_full_disk_is_explained_and_loses_nothing(tmp_path):
    save(tmp_path, 10)
    model, optimizer = make()
    state = TrainState(step=20)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write beyond the limit fails like a full disk
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(CheckpointError) as caught:
            write(Checkpoints(tmp_path), state, model, optimizer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    message = str(caught.value)
    assert re.search(r"step-20: .* \(\d+ MiB .* run the same command again.* step 10", message)
    assert names(tmp_path) == ["step-10"]
    assert find_damage(tmp_path / "step-10") is None


def test_a_process_killed_while_saving_leaves_no_checkpoint(tmp_path):
    save(tmp_path, 10)
    with atomic_folder(tmp_path / "step-20") as half:
        (half / "model.safetensors").write_bytes(b"half")
        checkpoints = Checkpoints(tmp_path)
        newest = checkpoints.newest()
        assert newest is not None and newest.state.step == 10
        assert checkpoints.usable([10, 20]) == [10]


def test_the_average_is_the_mean_of_the_weights(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    values = {10: 1.0, 20: 2.0, 30: 6.0}
    for step, value in values.items():
        model, optimizer = make()
        for parameter in model.parameters():
            nn.init.constant_(parameter, value)
        write(
            checkpoints, TrainState(step=step, best=[Scored(number, 1.0, 2.0) for number in values]), model, optimizer
        )
    for steps, mean in (([10, 30, 20], 3.0), ([20], 2.0)):
        weights = checkpoints.mean_weights(steps)
        assert weights.keys() == dict(model.named_parameters()).keys()
        assert all(torch.equal(weight, torch.full_like(weight, mean)) for weight in weights.values())


def test_weights_that_are_damaged_or_missing_are_left_out_of_the_average(tmp_path, caplog):
    save(tmp_path, 10, 20, 30, 40, best=[10, 20, 40])
    path = tmp_path / "best-10" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    shutil.rmtree(tmp_path / "best-20")
    (tmp_path / "step-40" / "optimizer.pt").unlink()  # not needed for this
    assert Checkpoints(tmp_path).usable([40, 20, 10]) == [40]
    assert f"{path}: damaged" in caplog.text
    assert f"{tmp_path / 'best-20'}" in caplog.text
    assert "step-40" not in caplog.text


def test_without_the_best_weights_the_newest_are_used(tmp_path, caplog):
    save(tmp_path, 10, 20, 30, best=[10])
    for name, expected in [("best-10", 30), ("step-30", 20)]:
        (tmp_path / name / "model.safetensors").unlink()
        assert Checkpoints(tmp_path).usable([10]) == [expected]
        assert f"weights of step {expected}" in caplog.text
    (tmp_path / "step-20" / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=rf"{re.escape(str(tmp_path))}: .* remove this folder"):
        Checkpoints(tmp_path).usable([10])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda state: {**state, "mood": "good"}, "unexpected keyword argument 'mood'"),
        (lambda state: {key: value for key, value in state.items() if key != "last"}, r"\(it lacks 'last'\)"),
    ],
    ids=["newer", "older"],
)
def test_a_checkpoint_of_another_version_is_not_reported_as_damaged(tmp_path, change, found):
    save(tmp_path, 10)
    path, manifest = tmp_path / "step-10" / "state.json", tmp_path / "step-10" / "manifest.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    manifest.write_text(json.dumps({"sha256": sums(tmp_path / "step-10")}))
    with pytest.raises(CheckpointError, match=rf"state\.json: .*{found}.*start a new run"):
        Checkpoints(tmp_path).newest()


def forge(folder, **files):
    """Overwrite files of a checkpoint, with checksums that match."""
    for stem, write in files.items():
        [path] = folder.glob(f"{stem}.*")
        write(path)
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").write_text(json.dumps({"sha256": sums(folder)}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("step", wrong) for wrong in ("10", None, -1, 2**60, [1])),
        ("position", {"epoch": "many", "window": 0, "update": 0, "epochs": 0.0}),
        ("position", {"epoch": -1, "window": 0, "update": 0, "epochs": 0.0}),
        ("best", [{"step": 1.5, "value": 1.0, "loss": 2.0}]),
        ("best", {"a": 1}),
        ("grad_scaler", {"scale": "large"}),
    ],
)
def test_a_state_of_wrong_types_is_refused_and_the_checkpoint_before_used(tmp_path, caplog, key, value):
    save(tmp_path, 10, 20)
    change = {key: value}
    forge(
        tmp_path / "step-20", state=lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    )
    with caplog.at_level(logging.WARNING, "mtkit"):
        checkpoint = Checkpoints(tmp_path).newest()
    assert checkpoint is not None
    assert checkpoint.state.step == 10
    assert re.search(rf"step-20/state\.json: .*{key}.*another checkpoint", caplog.text)


@pytest.mark.parametrize("content", [b"[" * 200_000, b"\xff", b"[1]", b"", b'{"step": 1'])
def test_a_state_that_is_no_state_is_refused(tmp_path, content):
    save(tmp_path, 10)
    forge(tmp_path / "step-10", state=lambda path: path.write_bytes(content))
    with pytest.raises(CheckpointError, match=r"step-10/state\.json: "):
        Checkpoints(tmp_path).newest()


def test_a_file_that_disappears_while_a_run_resumes_is_named(tmp_path):
    save(tmp_path, 10)
    checkpoint = Checkpoints(tmp_path).newest()
    assert checkpoint is not None
    shutil.rmtree(tmp_path / "step-10")
    with pytest.raises(CheckpointError, match=r"step-10/model\.safetensors: missing"):
        checkpoint.weights()
    with pytest.raises(CheckpointError, match=r"step-10/optimizer\.pt: missing"):
        checkpoint.optimizer_state()


@pytest.mark.parametrize(
    ("forged", "message"),
    [
        (lambda state: state["state"][0].update(exp_avg=torch.zeros(7)), "exp_avg of weight 0"),
        (lambda state: state["state"][1].update(exp_avg_sq="text"), "exp_avg_sq of weight 1"),
        (lambda state: state["param_groups"][0].update(betas=3), "betas is int, not tuple"),
        (lambda state: state["param_groups"][0].update(params=[0, 1, 2, 9]), "another model"),
        (lambda state: state["param_groups"].append({}), "another model"),
        (lambda state: state["state"].update({4: {}}), "no weight 4"),
    ],
)
def test_a_forged_state_of_the_optimizer_does_not_fit(tmp_path, forged, message):
    _, optimizer = save(tmp_path, 10)
    state = read_optimizer_state(tmp_path / "step-10" / "optimizer.pt")
    check_fits(state, optimizer)
    forged(state)
    with pytest.raises(ValueError, match=message):
        check_fits(state, optimizer)


def sums(folder):
    return {path.name: sha256_file(path) for path in folder.iterdir()}


class Trap:
    """Unpickling it would create a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_no_code_in_a_checkpoint_is_executed(tmp_path):
    save(tmp_path, 10)
    path, manifest = tmp_path / "step-10" / "optimizer.pt", tmp_path / "step-10" / "manifest.json"
    torch.save(Trap(tmp_path / "sprung"), path)
    manifest.write_text(json.dumps({"sha256": sums(tmp_path / "step-10")}))
    checkpoint = Checkpoints(tmp_path).newest()
    assert checkpoint is not None
    with pytest.raises(CheckpointError, match=r"optimizer\.pt: refused") as caught:
        checkpoint.optimizer_state()
    assert "weights_only" not in str(caught.value), "torch's advice"
    assert not (tmp_path / "sprung").exists()
