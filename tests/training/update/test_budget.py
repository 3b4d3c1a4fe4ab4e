"""train.budget: simulated runs end in time, on a clock that only they advance; so does a real run."""

import json
import os
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from mtkit.config.durations import seconds_of
from mtkit.config.reading.loading import load_config
from mtkit.config.schema import Config
from mtkit.config.training import TrainConfig
from mtkit.errors import TrainingError
from mtkit.runs.train import train
from mtkit.training import trainer
from mtkit.training.metrics_log import read_metrics
from mtkit.training.preparation import pace, parallel_text, prepare, rule
from mtkit.training.update.budget import (
    Budget,
    BudgetError,
    Timing,
    expected_ending,
    expected_updates,
    least_updates,
    share_used,
)
from mtkit.training.update.optimizer_step import Updater
from mtkit.training.update.schedule import Progress, fraction_done, learning_rate, limits_reached
from mtkit.training.validation.forecast import ValidationCost
from mtkit.training.validation.translation import TranslationValidator


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def config(**values):
    return TrainConfig.model_validate({"budget": "100s", **values})


def simulate(cfg, preparing, update, validation, save, report):
    """The seconds that a run under a budget takes, the times at which it validates, and the time of the last update.

    update: a function from the step to its seconds. The end is what the trainer does there.
    """
    clock = Clock()
    budget, began, step = Budget(cfg, clock=clock), clock.now, 0
    clock.now += preparing
    budget.begin(validation)
    validated = []

    def validate():
        validated.append(clock.now - began)
        with budget.measuring("validation"):
            clock.now += validation
        with budget.measuring("save"):
            clock.now += save
        if budget.wants_report():
            with budget.measuring("report"):
                clock.now += report

    while True:
        if step and budget.validation_due(step):
            validate()
        budget.tick()
        if limits_reached(cfg, Progress(step, 0.0, 0.0, timing=budget.timing)):
            break
        clock.now += update(step)
        budget.updated(update(step))
        step += 1
    last_update = clock.now - began
    validate()
    clock.now += validation + save / 3 + report  # the mean's validation, the bundle, the report
    return clock.now - began, validated, last_update


RUNS = {
    "half an hour": ("30m", 20, 0.3, 10, 1, 4),
    "two minutes": ("2m", 5, 0.1, 1.5, 0.1, 1),
    "a day with long updates": ("24h", 900, 20, 120, 30, 10),
    "slow to prepare": ("10m", 200, 0.2, 3, 0.3, 2),
    "slow to validate": ("30m", 20, 0.3, 40, 1, 10),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_run_ends_within_its_budget(run):
    budget, preparing, update, *costs = run
    took, _, _ = simulate(config(budget=budget), preparing, lambda step: update, *costs)
    seconds = {"2m": 120, "10m": 600, "30m": 1800, "24h": 86400}[budget]
    assert 0.95 * seconds <= took <= seconds


def test_a_run_meets_its_budget_on_a_machine_that_slows_down():
    took, _, _ = simulate(config(budget="30m"), 20, lambda step: 0.2 if step < 2000 else 0.9, 10, 1, 4)
    assert 0.95 * 1800 <= took <= 1800


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_it_validates_ten_to_twenty_times_unless_that_takes_too_long(run):
    budget, preparing, update, validation, save, report = run
    _, validated, last_update = simulate(
        config(budget=budget), preparing, lambda step: update, validation, save, report
    )
    training = last_update - preparing
    share = (len(validated) - 1) * (validation + save) / training
    assert share <= 0.05
    assert 10 <= len(validated) <= 20 or share > 0.02
    if len(validated) >= 10:
        middle = preparing + training / 2
        early, late = (sum(time <= middle for time in validated), sum(time > middle for time in validated))
        assert late > 1.5 * early


def test_the_parts_of_the_time_add_up_over_all_starts():
    clock = Clock()
    first = Budget(config(), clock=clock)
    clock.now += 9.4
    first.begin(validation_s=1.0)
    for seconds in (20.3, 20.3):
        clock.now += seconds
        first.updated(seconds)
    with first.measuring("save"):
        clock.now += 1.2
    in_checkpoint = replace(first.timing)  # the times before it is written
    with first.measuring("save"):
        clock.now += 1.2
    second = Budget(config(), clock=clock)
    second.resume(in_checkpoint)
    clock.now += 3.0
    second.begin(validation_s=1.0)
    with second.measuring("validation"):
        clock.now += 4.6
    clock.now += 7.0
    # 9.4 + 3.0, 40.6, 4.6, 2.4 and 7.0 seconds: 67 in all
    assert second.account() == (
        "1m7s: 12s preparation, 41s updates, 5s validation, 2s checkpoints, 7s averaging, report and model"
    )


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_the_forecast_of_updates_counts_what_preparation_validations_and_the_end_leave(run):
    budget, preparing, update, validation, save, report = run
    steps = 0

    def seconds(step):
        nonlocal steps
        steps = step + 1
        return update

    simulate(config(budget=budget), preparing, seconds, validation, save, report)
    timing = Timing(prepared=preparing, validation=validation, save=save)
    n_updates, _ = expected_updates(config(budget=budget), timing, update)
    assert n_updates == pytest.approx(steps, rel=0.1)


def test_a_budget_is_kept_over_several_stops():
    clock, step, timing, cfg = Clock(), 0, Timing(), config(budget="110s")

    def save(budget):
        with budget.measuring("save"):
            clock.now += 1.5

    for n_updates in (40, 60, 10**9):  # two stops
        budget = Budget(cfg, since=clock.now, clock=clock)
        clock.now += 4  # imports, text and model
        if step:
            budget.resume(timing)
        budget.begin(2.0)
        first = step
        while step < first + n_updates and not limits_reached(cfg, Progress(step, 0.0, 0.0, timing=budget.timing)):
            clock.now += 0.5
            budget.updated(0.5)
            step += 1
            budget.tick()
            if step == 20:
                save(budget)
        timing = replace(budget.timing)  # a checkpoint holds the times before it is written
        save(budget)
    with budget.measuring("validation"):
        clock.now += 2
    clock.now += 2 + 0.5 + 1  # of the mean, the bundle, the report
    assert 104 <= clock.now - 1000 <= 110


def test_the_export_counts_as_part_of_the_end():
    timing = Timing(validation=4.0, save=1.0, report=2.0)
    without = expected_ending(config(), timing)
    timing.export = 0.5
    assert expected_ending(config(), timing) == pytest.approx(without + 0.5 * 4.0 + 1.0)
    clock = Clock()
    budget = Budget(config(), clock=clock)
    budget.timing.export, budget.timing.validation = 0.5, 4.0
    clock.now += 95
    assert budget.left_for_export() == pytest.approx(100 - 95 - 3)
    assert Budget(TrainConfig(max_steps=2000)).left_for_export() is None


def test_a_given_interval_is_kept():
    budget = Budget(config(validate_every=7))
    assert [step for step in range(1, 22) if budget.validation_due(step)] == [7, 14, 21]


def test_without_a_budget_auto_is_every_five_hundred_steps():
    budget = Budget(TrainConfig(max_epochs=3))
    assert [step for step in range(1, 1600) if budget.validation_due(step)] == [500, 1000, 1500]


def test_the_share_counts_from_the_first_update_to_the_last():
    timing = Timing(spent=45.0, prepared=10.0, ending=20.0)  # 35 of 70 seconds
    assert share_used(config(), timing) == pytest.approx(0.5)
    progress = Progress(100, 1.0, 1.0, timing=timing)
    assert fraction_done(config(), progress) == pytest.approx(0.5)
    assert limits_reached(config(), progress) == []
    cosine = config(schedule="cosine", warmup_steps=10, lr=0.8)
    fraction = fraction_done(cosine, progress)
    assert fraction is not None and learning_rate(cosine, 100, fraction) == pytest.approx(0.4)
    timing.spent = 80.0
    assert limits_reached(config(), progress) == ["budget"]
    assert share_used(TrainConfig(max_steps=2000), timing) is None


def test_time_spent_in_earlier_starts_counts():
    clock = Clock()
    budget = Budget(config(), clock=clock)
    budget.resume(Timing(spent=30.0, prepared=10.0, update=0.5, validation=2.0))
    clock.now += 6
    budget.begin(validation_s=99.0)
    assert (budget.timing.spent, budget.timing.prepared, budget.timing.validation) == (36.0, 10.0, 2.0)


@pytest.mark.parametrize("validation_s", [14.5, 20.0])
def test_a_budget_that_leaves_no_time_for_training_is_refused(validation_s):
    clock = Clock()
    budget = Budget(config(budget="1m", average_best=4), clock=clock)
    clock.now += 5
    # the last validation, that of the mean and half of the time a second one, and half as long for the report:
    # of 60 s at least 5 + 3 x 14.5 are gone, and of the rest a fifth is not left
    with pytest.raises(BudgetError, match=r"train\.budget=1m .*\b5s\b.*train\.validate_sentences") as error:
        budget.begin(validation_s)
    to_user = error.value.shortage.message("--budget 1m")
    assert re.fullmatch(r"--budget 1m .*\b5s\b.*; raise the budget to \S+", to_user)


@pytest.mark.parametrize(("text_s", "again"), [(0.0, False), (5.0, False), (40.0, True)])
def test_a_budget_used_up_by_preparing_text_names_the_way_that_works(text_s, again):
    clock = Clock()
    budget = Budget(config(budget="1m"), clock=clock)
    clock.now += 50
    # 60 - 50 - 7 < 12; with 40 s less there is enough, with 5 less there is not
    with pytest.raises(TrainingError, match=r"train\.budget=1m .*\b50s\b") as error:
        budget.begin(2.0, text_s)
    assert ("same command again" in str(error.value)) == again
    [advised] = re.findall(r"to (\S+\ds?|\d+m)\b", str(error.value))
    clock.now -= 50
    enough = Budget(config(budget=advised), clock=clock)
    clock.now += 50
    enough.begin(2.0)
    assert seconds_of(advised) < 100


def test_a_resumed_run_with_little_time_left_is_not_refused():
    budget = Budget(config(budget="100s"), clock=Clock())
    budget.resume(Timing(spent=95.0, prepared=10.0, update=0.5, validation=30.0))
    budget.begin(validation_s=0.0)
    assert limits_reached(budget.cfg, Progress(100, 1.0, 1.0, timing=budget.timing)) == ["budget"]


def test_a_fifth_of_the_budget_is_enough_for_training():
    clock = Clock()
    budget = Budget(config(budget="1m", average_best=4), clock=clock)
    clock.now += 5
    budget.begin(validation_s=12.0)  # 5 + 3 x 12 + margins of 0.8


def test_the_report_is_measured_once_in_the_second_half():
    clock = Clock()
    budget = Budget(config(budget="100s"), clock=clock)
    budget.begin(validation_s=1.0)
    clock.now += 30
    budget.tick()
    assert not budget.wants_report()
    clock.now += 30
    budget.tick()
    assert budget.wants_report()
    with budget.measuring("report"):
        clock.now += 2
    assert not budget.wants_report()


def test_a_measured_validation_replaces_the_expected_time():
    clock = Clock()
    budget = Budget(config(budget="100s"), clock=clock)
    budget.resume(Timing(spent=5.0, prepared=5.0, validation=3.0))
    budget.begin(validation_s=9.0)
    assert budget.timing.validation == 3.0


@pytest.mark.parametrize("limit", [{"max_steps": 9999}, {"max_epochs": 3}, {"max_minutes": 5.0}])
def test_a_budget_and_another_limit_are_refused(limit):
    [(key, value)] = limit.items()
    with pytest.raises(ValidationError, match=f"budget=100s and {key}={value} "):
        config(**limit)


@pytest.mark.parametrize("budget", ["30", 30, 1.5, "half an hour"])
def test_the_config_refuses_a_budget_that_is_not_a_duration(budget):
    with pytest.raises(ValidationError, match=f"budget={budget} "):
        config(budget=budget)


def test_a_budget_sets_the_end_of_the_cosine():
    assert config(schedule="cosine").schedule == "cosine"


@pytest.fixture
def clock(monkeypatch):
    """A clock that an update moves by a second, a validation by two; the trainer goes by it."""
    clock = Clock()

    def slow(method, seconds):
        def slowed(self, *args):
            clock.now += seconds
            return method(self, *args)

        return slowed

    monkeypatch.setattr(Updater, "update", slow(Updater.update, 1.0))
    monkeypatch.setattr(TranslationValidator, "run", slow(TranslationValidator.run, 2.0))
    monkeypatch.setattr(trainer, "Budget", partial(Budget, clock=clock))
    monkeypatch.setattr(prepare, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(pace, "_seconds_per_update", lambda *args: 1.0)
    monkeypatch.setattr(parallel_text, "forecast_validation", lambda *args: ValidationCost(2.0, 0.0))
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return clock


def test_a_real_run_validates_averages_and_writes_its_model_in_time(make_config, clock):
    cfg = make_config(max_steps=None, budget="100s", validate_every="auto", schedule="cosine", average_best=3)
    result = train(cfg, since=clock.now - 5)
    assert 94 <= clock.now - 1000 + 5 <= 100
    manifest = json.loads((result.bundle / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["training"]["stopped_by"] == result.stopped_by == "budget"
    entries = read_metrics(cfg.run_dir / "metrics.jsonl")
    # each takes two seconds, and at most 5 % of the time may go into them: one in 40 seconds, and that at the end
    assert 2 <= sum(entry["kind"] == "validation" for entry in entries) <= 4
    assert [entry for entry in entries if entry["kind"] == "train"][-1]["lr"] < 0.1 * cfg.train.lr


def test_a_run_ended_by_its_budget_stays_finished_after_a_quick_last_validation(make_config, clock, monkeypatch):
    monkeypatch.setattr(parallel_text, "forecast_validation", lambda *args: ValidationCost(6.0, 0.0))
    cfg = make_config(max_steps=None, budget="60s", validate_every=1000)
    first = train(cfg, since=clock.now)
    ended = clock.now
    assert train(cfg, since=clock.now) == first
    assert clock.now == ended


def test_a_run_goes_on_when_its_budget_is_raised(make_config, clock, caplog):
    caplog.set_level("INFO", "mtkit")
    first = train(make_config(max_steps=None, budget="50s", validate_every="auto"), since=clock.now)
    again = train(make_config(max_steps=None, budget="50s", validate_every="auto"), since=clock.now)
    assert (again.steps, again.stopped_by) == (first.steps, "budget")
    assert "longer budget" in caplog.text and "raise train.budget" not in caplog.text, "the user may have set --budget"
    longer = train(make_config(max_steps=None, budget="100s", validate_every="auto"), since=clock.now)
    assert longer.steps > 1.5 * first.steps
    assert 94 <= clock.now - 1000 <= 106, "what the first start spent after its last checkpoint is not known"


def test_a_run_with_a_budget_records_its_choices_and_keeps_them(make_config, clock, monkeypatch):
    choices = {"batch_tokens": None, "validate_sentences": None, "max_steps": None}
    cfg = make_config(budget="50s", **choices)
    train(cfg, since=clock.now)
    recorded = load_config(cfg.run_dir / "config.yaml").train
    assert (recorded.batch_tokens, recorded.validate_sentences) == (1024, 8), "all eight pairs of dev"
    assert "train.validate_sentences: 8, because data.dev has no more" in (cfg.run_dir / "config.yaml").read_text()

    def must_not_be_asked(*args):
        raise AssertionError("measured again")

    monkeypatch.setattr(pace, "_seconds_per_update", must_not_be_asked)
    monkeypatch.setattr(parallel_text, "forecast_validation", must_not_be_asked)
    assert train(make_config(budget="60s", **choices), since=clock.now).stopped_by == "budget"
    assert load_config(cfg.run_dir / "config.yaml").train.batch_tokens == 1024


def test_a_run_without_dropout_stays_so_when_its_budget_is_raised(make_config, clock, monkeypatch):
    monkeypatch.setattr(pace, "_seconds_per_update", lambda *args: 60.0)  # no update fits
    cfg = make_config(budget="50s", max_steps=None, model={"word_dropout": 0.0})
    values = cfg.model_dump(mode="json", exclude_unset=True)
    for key in rule.DROPOUTS:
        values["model"].pop(key, None)
    train(Config.model_validate(values), since=clock.now)
    values["train"]["budget"] = "60s"
    train(Config.model_validate(values), since=clock.now)
    recorded = load_config(cfg.run_dir / "config.yaml").model
    assert [getattr(recorded, key) for key in rule.DROPOUTS] == [0, 0, 0, 0]


@pytest.mark.parametrize(("start", "least"), [(None, 40), (Path("runs/base"), 30)])
def test_the_model_that_a_run_starts_from_is_its_first_validation(start, least):
    assert least_updates(TrainConfig(patience=3, validate_every=10, init_from=start)) == least
