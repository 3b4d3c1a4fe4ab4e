"""Which weights the bundle of a run gets: the mean of checkpoints, or a single one."""

import math
import re
import shutil
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from mtkit.runs.train import train
from mtkit.training import trainer
from mtkit.training.update.optimizer_step import Updater
from mtkit.training.validation.translation import TranslationScores, TranslationValidator


@pytest.fixture
def dev_losses(monkeypatch):
    """Call it to prescribe what the validations of a run find."""

    def prescribe(*losses, bleu=lambda loss: 0.0):
        left = iter(losses)

        def run(*_):
            loss = next(left)
            return TranslationScores(loss, math.exp(loss), bleu(loss), 0.0, ("", "", ""))

        monkeypatch.setattr(TranslationValidator, "run", run)

    return prescribe


def bundle_and_checkpoints(result, *names):
    checkpoints = result.bundle.parent / "checkpoints"
    paths = [result.bundle, *(checkpoints / name for name in names)]
    return [load_file(path / "model.safetensors") for path in paths]


def test_the_bundle_is_the_mean_of_the_best_checkpoints(config_of, tmp_path, dev_losses):
    dev_losses(1.0, 4.0, 2.0, 3.0, 0.9)  # at steps 6, 12, 18, 20, then the mean's
    result = train(config_of(tmp_path / "run", metric="loss"))
    assert result.averaged_steps == (6, 18, 20)
    assert result.dev_scores["loss"] == 0.9
    bundle, *others = bundle_and_checkpoints(result, "best-6", "step-18", "step-20")
    for name, weight in bundle.items():
        torch.testing.assert_close(weight, sum(other[name] for other in others) / 3, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("damage", ["truncated", "deleted"])
def test_the_mean_is_made_without_damaged_weights(config_of, tmp_path, dev_losses, damage, caplog):
    dev_losses(1.0, 4.0, 2.0, 3.0, 0.9, 0.8)  # at steps 6, 12, 18, 20, then the means'
    cfg = config_of(tmp_path / "run", metric="loss")
    shutil.rmtree(train(cfg).bundle)
    path = cfg.run_dir / "checkpoints" / "best-6" / "model.safetensors"
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:100])
    else:
        path.unlink()
    result = train(cfg)
    assert result.averaged_steps == (18, 20)
    assert str(path) in caplog.text
    bundle, *others = bundle_and_checkpoints(result, "step-18", "step-20")
    for name, weight in bundle.items():
        torch.testing.assert_close(weight, sum(other[name] for other in others) / 2, rtol=1e-5, atol=1e-7)


def test_the_best_checkpoint_is_taken_alone_if_the_mean_is_worse(config_of, tmp_path, dev_losses, caplog):
    caplog.set_level("INFO", logger="mtkit")
    dev_losses(3.0, 1.0, 2.0, 2.5, 1.5, 1.0)  # at steps 6, 12, 18, 20, then the mean's, then the best again
    result = train(config_of(tmp_path / "run", metric="loss"))
    assert result.averaged_steps == (12,)
    assert "loss 1.000 against 1.500" in caplog.text
    bundle, best = bundle_and_checkpoints(result, "best-12")
    assert all(torch.equal(bundle[name], weight) for name, weight in best.items())


@pytest.mark.parametrize(
    ("written", "loss", "share", "steps"),
    [
        ({"metric": "bleu"}, 2.2, 0.5, (12,)),  # the user has named what decides
        ({}, 2.2, 0.899, (12, 18, 20)),  # a better loss, and a difference in BLEU that may be chance
        ({}, 2.2, 0.9, (12,)),
        ({}, 3.2, 0.5, (12,)),  # a worse loss, too
    ],
)
def test_a_checkpoint_with_a_better_bleu_replaces_the_mean_if_its_loss_or_enough_evidence_supports_it(
    config_of, tmp_path, dev_losses, monkeypatch, written, loss, share, steps, caplog
):
    caplog.set_level("INFO", logger="mtkit")
    bleu = {4.0: 10.0, 3.0: 40.0, 2.9: 30.0, 2.5: 35.0, 2.2: 38.0, 3.2: 38.0}
    dev_losses(4.0, 3.0, 2.9, 2.5, loss, 3.0, bleu=bleu.__getitem__)  # at steps 6, 12, 18, 20, the mean's, the best's
    monkeypatch.setattr(TranslationValidator, "share_better", lambda *_: share)
    result = train(config_of(tmp_path / "run", average_last=3, **written))
    assert result.averaged_steps == steps
    assert result.dev_scores["bleu"] == (40.0 if steps == (12,) else 38.0)
    assert re.search(rf"step 12 alone .*bleu.* 40\.00 .* 38\.00.* 3\.000 .* {loss:.3f}", caplog.text)
    bundle, *others = bundle_and_checkpoints(result, *["best-12", "step-18", "step-20"][: len(steps)])
    for name, weight in bundle.items():
        torch.testing.assert_close(weight, sum(other[name] for other in others) / len(steps), rtol=1e-5, atol=1e-7)


def test_the_last_checkpoints_can_be_averaged_instead(config_of, tmp_path, dev_losses):
    dev_losses(1.0, 4.0, 2.0, 3.0, 0.9)  # at steps 6, 12, 18, 20, then the mean's
    result = train(config_of(tmp_path / "run", metric="loss", average_last=3))
    assert result.averaged_steps == (12, 18, 20)
    bundle, *others = bundle_and_checkpoints(result, "best-12", "step-18", "step-20")
    for name, weight in bundle.items():
        torch.testing.assert_close(weight, sum(other[name] for other in others) / 3, rtol=1e-5, atol=1e-7)


def test_the_mean_of_the_last_gives_way_to_a_better_single_one(config_of, tmp_path, dev_losses):
    dev_losses(1.0, 4.0, 2.0, 3.0, 1.1, 1.0)  # at steps 6, 12, 18, 20, then the mean's, then the best again
    result = train(config_of(tmp_path / "run", metric="loss", average_last=2))
    assert result.averaged_steps == (6,)
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert kept == ["best-12", "best-6", "step-18", "step-20"], "12 is one of the last two of the checkpoint before"


@pytest.mark.parametrize(("last", "best_loss", "chosen"), [(0.9, 1.0, (20,)), (1.1, 1.0, (12,))])
def test_the_last_step_gives_way_to_a_better_one_only_if_the_loss_agrees(
    config_of, tmp_path, dev_losses, last, best_loss, chosen
):
    bleu = {4.0: 10.0, best_loss: 30.0, 2.0: 20.0, last: 29.0}  # at steps 6, 12, 18 and 20
    dev_losses(*bleu, last, best_loss, bleu=bleu.__getitem__)
    cfg = config_of(tmp_path / "run", average_last=1)
    cfg.train.model_fields_set.discard("metric")
    assert train(cfg).averaged_steps == chosen


def test_equal_scores_are_told_apart_by_the_loss(config_of, tmp_path, dev_losses):
    dev_losses(4.0, 1.0, 3.0, 2.0, 0.9)
    assert train(config_of(tmp_path / "run", metric="bleu", average_best=2)).averaged_steps == (12, 20)


@pytest.mark.parametrize("metric", ["loss", "bleu"])
def test_patience_counts_validations_since_the_best(config_of, tmp_path, dev_losses, metric):
    dev_losses(5.0, 4.0, 4.5, 4.0, 4.2, 9.0, 4.0, bleu=lambda loss: -loss)
    result = train(config_of(tmp_path / "run", max_steps=100, metric=metric, patience=3, validate_every=2))
    assert (result.steps, result.stopped_by) == (5 * 2, "patience")


@pytest.mark.parametrize(("every", "told"), [(30, ["the next 40 updates take 6m40s"]), (10, [])])
def test_a_run_that_only_patience_ends_says_how_long_it_takes_at_least(
    config_of, tmp_path, dev_losses, monkeypatch, caplog, every, told
):
    dev_losses(4.0, 4.1, 4.0)
    update, made = Updater.update, []  # each update takes ten seconds
    monkeypatch.setattr(Updater, "update", lambda *args, **keys: made.append(1) or update(*args, **keys))
    monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=lambda: 10.0 * len(made)))
    caplog.set_level("INFO", "mtkit")
    train(config_of(tmp_path / "run", max_steps=None, patience=1, validate_every=every, warmup_steps=2))
    assert f"at least {2 * every} updates" in caplog.text
    assert re.findall(r"the next \d+ updates take \w+", caplog.text) == told


def test_a_run_that_time_also_ends_does_not_say_that_only_patience_does(config_of, tmp_path, dev_losses, caplog):
    dev_losses(4.0, 4.1, 4.0)
    caplog.set_level("INFO", "mtkit")
    train(config_of(tmp_path / "run", max_steps=None, max_minutes=9, patience=1, validate_every=30, warmup_steps=2))
    assert "this run ends after" not in caplog.text
