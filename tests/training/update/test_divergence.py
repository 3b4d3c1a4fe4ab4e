"""A run that diverges goes back once with a lower rate, and stops the second time."""

import json
import logging
import math
import re
from dataclasses import replace

import pytest

from mtkit.errors import TrainingError
from mtkit.runs.train import train
from mtkit.training.metrics_log import MetricsLog, read_metrics
from mtkit.training.update import divergence
from mtkit.training.update.divergence import Divergence, DivergenceDetector, Recovery
from mtkit.training.update.optimizer_step import Updater

GUESSING = math.log(1000)


@pytest.fixture(autouse=True)
def info_logs(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "mtkit")


def diverged_after(losses):
    """Return after how many of the losses the detector reports a divergence; None if it never does."""
    detector = DivergenceDetector()
    return next((n for n, loss in enumerate(losses, start=1) if detector.add(loss, 1000)), None)


def noisy(level, n, amplitude=0.4):
    return [level + amplitude * math.sin(7 * i) for i in range(n)]


@pytest.mark.parametrize(
    "losses",
    [
        [GUESSING + 0.6 - 0.002 * i for i in range(2500)],  # a slow warm-up
        [GUESSING + 3] * 500,  # an unhappy start, which a warm-up of many steps does not change soon
        noisy(6, 300) + noisy(3, 300, amplitude=0.9),
        noisy(3, 300) + [8.0] * 19 + noisy(3, 300) + [8.0] * 19 + noisy(3, 50),  # spikes that come back
        noisy(2, 300) + noisy(3.5, 300),  # harder text: above the mean, yet nearer to it than to guessing
        [1.5, *noisy(3.5, 300)],  # a model that was trained before, on easier text
    ],
    ids=["warm-up", "unhappy start", "noise", "spikes", "harder text", "another domain"],
)
def test_ordinary_runs_do_not_count_as_divergence(losses):
    assert diverged_after(losses) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (noisy(2, 300), [6.0] * 50),
        (noisy(6, 300), [GUESSING + 1] * 50),
        ([GUESSING], [GUESSING + 1.1] * 50),
        (noisy(1.5, 5), [6.5] * 50),
    ],
    ids=["collapse to word frequencies", "worse than guessing", "from the start", "a trained model is lost at once"],
)
def test_a_loss_that_stays_high_is_a_divergence(before, after):
    assert diverged_after(before + after) == len(before) + 20


def test_a_far_too_high_learning_rate_is_halved_once_and_then_named(config_of, tmp_path, caplog):
    cfg = config_of(tmp_path / "run", schedule="constant", warmup_steps=0, lr=100.0, max_steps=60, validate_every=1000)
    finding = r"step 21: .* \d+\.\d\d nats per token.* step 2, .*\d\.\d\d"
    with pytest.raises(TrainingError, match=finding + r"\n.*lower train\.lr \(it is 50 at this step\)"):
        train(cfg)
    assert re.search(finding + r"\n.* back to step 0 .* learning rate x 0\.5", caplog.text)
    entries = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [(entry["kind"], entry["step"], entry.get("lr")) for entry in entries] == [
        ("recovery", 0, None),
        *(("train", step, 50.0) for step in (4, 8, 12, 16, 20)),
    ]


@pytest.fixture
def fail_at(monkeypatch):
    """Call it to have update number `step` diverge the first n times it is made; returns the rates of all updates."""

    def arrange(step, n_times):
        def update(self, batches, number, lr, *rest):
            rates.append((number, lr))
            if number == step and sum(made == step for made, _ in rates) <= n_times:
                raise Divergence(f"step {step}: the loss is nan. The batch:\n  train.en:7", "lower train.lr")
            return original(self, batches, number, lr, *rest)

        original = Updater.update
        rates: list[tuple[int, float]] = []
        monkeypatch.setattr(Updater, "update", update)
        return rates

    return arrange


@pytest.mark.parametrize(("failing", "back_to"), [(16, 12), (14, 12), (13, 6), (3, 0)])
def test_the_run_goes_back_with_half_the_rate_and_ends(config_of, tmp_path, fail_at, failing, back_to, caplog):
    rates = fail_at(failing, 1)
    cfg = config_of(tmp_path / "run", schedule="constant", warmup_steps=0, lr=0.01)
    assert train(cfg).steps == 20
    assert [number for number, _ in rates] == [*range(1, failing + 1), *range(back_to + 1, 21)]
    assert {lr for _, lr in rates[:failing]} == {0.01}
    assert {lr for _, lr in rates[failing:]} == {0.005}
    assert f"train.en:7\nThe run went back to step {back_to} " in caplog.text
    entries = read_metrics(tmp_path / "run" / "metrics.jsonl")
    [note] = [entry for entry in entries if entry["kind"] == "recovery"]
    assert (note["step"], note["failed_step"], note["lr_factor"]) == (back_to, failing - 1, 0.5)
    assert [entry["step"] for entry in entries if entry["kind"] == "train"] == [4, 8, 12, 16, 20]
    assert [entry["step"] for entry in entries] == sorted(entry["step"] for entry in entries)


@pytest.mark.parametrize(("every", "last_good", "back_to"), [(3, 8, 6), (6, 12, 6)])  # 12: whose next update is bad
def test_a_run_that_validates_while_the_loss_is_high_goes_back_to_before_it_rose(
    config_of, tmp_path, monkeypatch, caplog, every, last_good, back_to
):
    n_high = divergence._N_HIGH
    original, made = Updater.update, []

    def update(self, batches, number, lr, *rest):
        stats = original(self, batches, number, lr, *rest)
        made.append(number)
        exploded = last_good < number <= last_good + n_high and made.count(number) == 1
        return replace(stats, nll_sum=100.0 * stats.n_tgt_tokens) if exploded else stats

    monkeypatch.setattr(Updater, "update", update)
    run_dir = tmp_path / "run"
    cfg = config_of(run_dir, schedule="constant", warmup_steps=0, lr=0.001, validate_every=every, max_steps=40)
    assert train(cfg).steps == 40
    assert made == [*range(1, last_good + n_high + 1), *range(back_to + 1, 41)]
    assert f"The run went back to step {back_to} " in caplog.text
    assert len(list((run_dir / "checkpoints").glob("step-*"))) == 2


def test_the_second_time_the_run_stops(config_of, tmp_path, fail_at):
    fail_at(16, 2)
    with pytest.raises(TrainingError, match=r"(?s)step 16: .*\bnan\b.*train\.en:7\n.*lower train\.lr"):
        train(config_of(tmp_path / "run"))


def test_a_run_stopped_after_going_back_ends_like_one_that_was_never_stopped(config_of, tmp_path, fail_at, monkeypatch):
    runs = []
    for name in ("through", "stopped"):
        run_dir = tmp_path / name
        with monkeypatch.context():
            fail_at(16, 1)
            if name == "stopped":
                train(config_of(run_dir, max_steps=17))
            train(config_of(run_dir, max_steps=24))
        monkeypatch.undo()
        times = {"tokens_per_s", "run_s"}
        entries = read_metrics(run_dir / "metrics.jsonl")
        metrics = [
            {key: value for key, value in entry.items() if key not in times} for entry in entries if entry["step"] != 17
        ]
        state = json.loads((run_dir / "checkpoints" / "step-24" / "state.json").read_text())
        runs.append((metrics, state["recovery"], (run_dir / "checkpoints/step-24/model.safetensors").read_bytes()))
    assert runs[0] == runs[1]
    assert runs[0][1]["step"] == 12


def test_going_back_drops_later_lines_and_its_record_survives_a_restart(tmp_path):
    recovery = Recovery(step=6, failed_step=15, reason="nan")
    with MetricsLog(tmp_path, 0) as metrics:
        for step in (4, 6, 8, 12):
            metrics.write("train", step, {})
        metrics.go_back(recovery, 6)
        metrics.write("train", 8, {})
    expected = [("train", 4), ("train", 6), ("recovery", 6), ("train", 8)]
    for _ in range(2):
        entries = read_metrics(tmp_path / "metrics.jsonl")
        assert [(entry["kind"], entry["step"]) for entry in entries] == expected
        MetricsLog(tmp_path, 8, recovery).__exit__(None, None, None)
