"""The running mean of the weights, and that of schedule_free: runs validate, keep, bundle and resume them."""

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import tiny_transformer
from torch import Tensor

from mtkit.runs.train import train
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.training.update.optimizer_step import MovingAverage, Updater
from mtkit.training.update.state import Scored, TrainState
from mtkit.training.validation.translation import TranslationValidator


def tiny_model():
    return tiny_transformer(9, d_model=8, d_ff=8, n_heads=1).train()


def set_all(model, value):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)


def test_the_mean_follows_closely_at_first_and_then_with_its_decay():
    model = tiny_model()
    set_all(model, 1.0)
    average = MovingAverage(model, decay=0.25)
    # by hand: decays 2/11 = 0.1818 and 3/12 = 0.25, then 4/13 = 0.31 is above the 0.25 that is wanted
    for n, (value, expected) in enumerate([(12.0, 10.0), (2.0, 4.0), (0.0, 1.0), (5.0, 4.0)], start=1):
        set_all(model, value)
        average.update(n)
        for mean in average.model.parameters():
            torch.testing.assert_close(mean, torch.full_like(mean, expected))


def test_tied_weights_are_averaged_once_and_stay_tied():
    average = MovingAverage(tiny_model(), decay=0.9)
    assert average.model.output.weight is average.model.get_parameter("tgt_embedding.weight")
    assert len(list(average.model.parameters())) == len(list(tiny_model().parameters()))


def test_the_mean_does_not_affect_training(config_of, tmp_path):
    train(config_of(tmp_path / "plain"))
    train(config_of(tmp_path / "averaged", ema=0.9))
    plain, averaged = (
        load_file(tmp_path / run / "checkpoints" / "step-20" / "model.safetensors") for run in ("plain", "averaged")
    )
    assert all(torch.equal(plain[name], weight) for name, weight in averaged.items())


@pytest.fixture
def seen(monkeypatch):
    """The weights at each validation, by name."""
    seen: list[dict[str, Tensor]] = []

    def run(self, model):
        seen.append({name: weight.detach().clone() for name, weight in model.named_parameters()})
        return original(self, model)

    original = TranslationValidator.run
    monkeypatch.setattr(TranslationValidator, "run", run)
    return seen


def test_a_run_validates_and_bundles_the_mean(config_of, tmp_path, monkeypatch, seen):
    weights: list[dict[str, Tensor]] = []
    mean: dict[str, Tensor] = {}

    def update(self, batches, step, *rest):
        if not mean:
            mean.update({name: weight.double() for name, weight in self.model.named_parameters()})
        stats = original_update(self, batches, step, *rest)
        decay = min(0.95, (1 + step) / (10 + step))
        for name, weight in self.model.named_parameters():
            mean[name] = decay * mean[name] + (1 - decay) * weight.detach().double()
        weights.append(dict(mean))
        return stats

    original_update = Updater.update
    monkeypatch.setattr(Updater, "update", update)
    result = train(config_of(tmp_path / "run", ema=0.95, average_best=1, metric="loss"))
    for step, model in zip((6, 12, 18, 20), seen, strict=False):
        for name, weight in model.items():
            torch.testing.assert_close(weight.double(), weights[step - 1][name], rtol=1e-5, atol=1e-6)
    bundle, [best] = load_file(result.bundle / "model.safetensors"), result.averaged_steps
    for name, weight in bundle.items():
        torch.testing.assert_close(weight.double(), weights[best - 1][name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [{"ema": 0.95}, {"schedule": "schedule_free"}], ids=["running", "schedule-free"])
def test_a_resumed_run_continues_its_mean(kind, config_of, tmp_path):
    train(config_of(tmp_path / "whole", **kind))
    train(config_of(tmp_path / "parts", max_steps=8, **kind))
    train(config_of(tmp_path / "parts", **kind))
    for name in ("checkpoints/step-20/ema.safetensors", "checkpoints/step-20/model.safetensors"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_without_a_schedule_validates_and_bundles_the_mean(config_of, tmp_path, seen):
    result = train(config_of(tmp_path / "run", schedule="schedule_free", average_best=1, metric="loss"))
    assert len({weight.sum().item() for each in seen for weight in list(each.values())[:1]}) > 1
    [best], bundle = result.averaged_steps, load_file(result.bundle / "model.safetensors")
    validated = seen[(6, 12, 18, 20).index(best)]
    trained = load_file(tmp_path / "run" / "checkpoints" / "step-20" / "model.safetensors")
    assert all(torch.equal(weight, validated[name]) for name, weight in bundle.items())
    assert best != 20 or not all(torch.equal(weight, trained[name]) for name, weight in bundle.items())


def test_only_the_mean_is_kept_of_the_best_and_a_damaged_one_is_named(tmp_path, caplog):
    model = tiny_model()
    optimizer = torch.optim.AdamW(model.parameters())
    average = MovingAverage(model, decay=0.9)
    checkpoints = Checkpoints(tmp_path)
    for step in (10, 20, 30):
        set_all(average.model, float(step))
        weights, means = (dict(each.named_parameters()) for each in (model, average.model))
        checkpoints.save(TrainState(step=step, best=[Scored(10, 1.0, 2.0)]), weights, optimizer.state_dict(), means)
    assert sorted(path.name for path in (tmp_path / "best-10").iterdir()) == [
        "ema.safetensors",
        "manifest.json",
        "state.json",
    ]
    averaged = checkpoints.mean_weights([10, 30]).values()
    assert all(torch.equal(weight, torch.full_like(weight, 20.0)) for weight in averaged)
    path = tmp_path / "step-30" / "ema.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    newest = checkpoints.newest()
    assert newest is not None and newest.state.step == 20
    assert checkpoints.usable([10, 30]) == [10]
    assert caplog.text.count(f"{path}: damaged") == 2
