"""How many updates fit into a budget, of which size, and what mtkit says of them."""

import logging
import time
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from mtkit.config.model import ModelConfig
from mtkit.config.reading.loading import load_config
from mtkit.config.schema import Config
from mtkit.config.training import TrainConfig
from mtkit.data.mixture import uniform
from mtkit.runs.train import train
from mtkit.training.preparation import choices, pace, rule
from mtkit.training.preparation.choices import choose_learning
from mtkit.training.preparation.pace import Outlook, expectation, fit_batches, worth_by_updates

# Ten pairs of 2 and 9 tokens: 100 slots an epoch, the ends counted
TEN_PAIRS = cast(
    Any,
    SimpleNamespace(
        sizes=[8, 2],
        src_lengths=np.full(10, 2, np.int32),
        tgt_lengths=np.full(10, 9, np.int32),
        release=lambda: None,
    ),
)


@pytest.fixture
def fitted(make_config, monkeypatch):
    """Call it with updates a second by batch size, and the seconds for them; returns size and number of updates."""

    def fit(per_second: dict[int, float], training_s: float, **train: Any) -> tuple[int | str | None, int]:
        def seconds(updater, corpus, n_tokens, n_batches, training_s):
            return n_batches / per_second[n_tokens]

        monkeypatch.setattr(pace, "_seconds_per_update", seconds)
        cfg = make_config(max_steps=None, budget="6m", **{"batch_tokens": None, "accumulate": 1, **train})
        cfg, n_updates = fit_batches(cfg, TEN_PAIRS, cast(Any, lambda cfg: None), training_s, n_processes=1)
        return cfg.train.batch_tokens, n_updates

    return fit


@pytest.mark.parametrize(
    ("minutes", "size", "n_updates"),
    [
        (4, 1024, 1200),  # 5 a second for 240 seconds
        (40, 1024, 12_000),  # of the next size 7,200
        (60, 2048, 10_800),
        (600, 4096, 57_600),  # never more than the default
    ],
)
def test_a_budget_takes_the_largest_batches_that_leave_eight_thousand_updates(fitted, minutes, size, n_updates):
    assert fitted({1024: 5.0, 2048: 3.0, 4096: 1.6}, 60 * minutes) == (size, n_updates)


def test_a_written_size_stands(fitted):
    assert fitted({300: 10.0}, 60, batch_tokens=300, accumulate=2) == (300, 300)


@pytest.mark.parametrize(
    ("schedule", "train", "n_updates", "model", "rate"),
    [
        ("cosine", {}, 1999, {"d_model": 256}, "0.002, because the budget"),
        ("cosine", {}, 2000, {"d_model": 256}, None),
        ("cosine", {}, 1999, {"d_model": 512}, None),
        ("cosine", {"guided_alignment": 0.1}, 1999, {"d_model": 256}, "0.002, because the budget"),
        ("schedule_free", {}, 1000, {"d_model": 256}, "0.002, with schedule_free"),
        ("schedule_free", {"guided_alignment": 0.1}, 4000, {"d_model": 256}, "0.002, with schedule_free"),
        ("schedule_free", {"guided_alignment": 0.1}, 3999, {"d_model": 256}, "0.004, because the budget"),
        ("schedule_free", {"guided_alignment": 0.1, "r_drop": 3.0}, 999, {"d_model": 256}, "0.002, with schedule_free"),
        ("schedule_free", {"guided_alignment": 0.1}, 1999, {"d_model": 512}, None),
        ("schedule_free", {"guided_alignment": 0.1}, 1999, {"n_encoder_layers": 2}, "0.004, because the budget"),
        ("schedule_free", {"guided_alignment": 0.1}, 1999, {"n_encoder_layers": 3}, "0.002, with schedule_free"),
        ("schedule_free", {"guided_alignment": 0.1}, 1999, {"n_decoder_layers": 3}, "0.002, with schedule_free"),
    ],
)
def test_a_narrow_model_learns_faster_with_few_updates_or_no_schedule(
    make_config, monkeypatch, schedule, train, n_updates, model, rate
):
    monkeypatch.setattr(pace, "_seconds_per_update", lambda *args: 1.0)
    cfg = make_config(model=model, max_steps=None, budget="2h", schedule=schedule, **{"r_drop": 0.0, **train})
    given, _ = fit_batches(cfg, TEN_PAIRS, cast(Any, lambda cfg: None), n_updates, n_processes=1)
    assert given.train.lr == 0.01, "a written rate stands"
    values = cfg.model_dump(mode="json", exclude_unset=True)
    del values["train"]["lr"]
    reasons: dict[str, str] = {}
    cfg, _ = fit_batches(
        Config.model_validate(values), TEN_PAIRS, cast(Any, lambda cfg: None), n_updates, 1, reasons=reasons
    )
    assert cfg.train.lr == float(rate.split(",")[0] if rate else 1e-3)
    assert reasons["train.lr"].startswith(rate) if rate else "train.lr" not in reasons


def test_a_run_that_gets_r_drop_learns_at_the_slower_rate(make_config, monkeypatch):
    monkeypatch.setattr(pace, "_seconds_per_update", lambda *args: 1.0)
    cfg = make_config(max_steps=None, budget="2h", schedule="schedule_free", guided_alignment=0.1, batch_tokens=100)
    values = cfg.model_dump(mode="json", exclude_unset=True)
    del values["train"]["lr"]
    cfg = Config.model_validate(values)
    for n_updates, rate in (8, 4e-3), (200, 2e-3):
        fitted, _ = fit_batches(cfg, TEN_PAIRS, cast(Any, lambda cfg: None), n_updates, n_processes=1)
        assert (fitted.train.lr, fitted.train.r_drop > 0) == (rate, rate == 2e-3)


@pytest.fixture
def shaped(make_config, monkeypatch):
    """Fits a config with these keys of the model; seconds: of an update of a model."""

    def fit(seconds, training_s, written, size=None, text_times=1.0):
        monkeypatch.setattr(pace, "_seconds_per_update", lambda updater, *_: seconds(updater.model))
        cfg = make_config(max_steps=None, budget="6m", batch_tokens=size, accumulate=2)
        values = cfg.model_dump(mode="json", exclude_unset=True)
        values["model"] = written
        reasons: dict[str, str] = {}
        cfg, n_updates = fit_batches(
            Config.model_validate(values),
            TEN_PAIRS,
            lambda cfg: cast(Any, cfg),
            training_s,
            1,
            reasons=reasons,
            text_times=text_times,
        )
        return cfg.model, n_updates, reasons

    return fit


@pytest.mark.parametrize(
    ("training_s", "written", "d_model", "n_updates"),
    [
        (149, {}, 128, 993),  # 496 updates of 0.3 seconds at 256 wide, so narrow ones of 0.15 seconds
        (150, {}, 256, 500),
        (149, {"d_ff": 512}, 256, 496),  # a written shape stands
        (149, {"residual_dropout": 0.2}, 128, 993),
    ],
)
def test_a_model_with_time_for_too_few_updates_becomes_narrow(shaped, training_s, written, d_model, n_updates):
    model, n_fitting, reasons = shaped(lambda model: 0.3 if model.d_model == 256 else 0.15, training_s, written)
    assert (model.d_model, n_fitting) == (d_model, n_updates)
    assert ("496 updates" in reasons.get("model.d_model", "")) == (d_model == 128)


@pytest.mark.parametrize(
    ("training_s", "size", "text_times", "narrow_s", "d_model"),
    [
        (439.2, 512, 7500, 0.15, 128),  # 1,464 updates of 2 x 512 of the 750,000 tokens
        (439.8, 512, 7600, 0.15, 256),  # 1,466: more than 1.5 million
        (439.2, 1024, 15_000, 0.15, 256),  # larger updates
        (439.2, 512, 7490, 0.15, 256),  # more than two epochs
        (439.2, 512, 7500, 0.16, 256),  # fewer than two updates for one
    ],
)
def test_a_model_without_time_to_read_its_text_twice_becomes_narrow_sooner(
    shaped, training_s, size, text_times, narrow_s, d_model
):
    model, _, reasons = shaped(
        lambda model: 0.3 if model.d_model == 256 else narrow_s, training_s, {}, size=size, text_times=text_times
    )
    assert model.d_model == d_model
    is_narrow = d_model == 128
    assert ("1,464 updates, which read the text 2.0 times" in reasons.get("model.d_model", "")) == is_narrow


@pytest.mark.parametrize(
    ("section", "key", "limit"),
    [
        (ModelConfig, "d_model", f"fewer than {rule._TOO_FEW_UPDATES} updates"),
        (ModelConfig, "d_model", f"or fewer than {rule._TOO_FEW_TOKENS / 1e6:g} million tokens that"),
        (TrainConfig, "batch_tokens", f"fewer than {rule.ENOUGH_UPDATES:,} updates"),
        (TrainConfig, "lr", f"fewer than {rule._FEW_UPDATES:,} updates"),
        (TrainConfig, "r_drop", f"is 3 if the run makes at least {rule._MANY_EPOCHS} epochs"),
        (TrainConfig, "validate_sentences", f"{100 * choices._FOR_VALIDATION:g} % of it"),
    ],
)
def test_the_reference_gives_the_limits_of_the_rule(section, key, limit):
    assert limit in section.model_fields[key].description


@pytest.mark.parametrize(
    ("training_s", "written", "layers", "n_updates"),
    [
        (1199, {}, (2, 2), 5995),  # 3996 updates of 0.3 seconds with 3 + 3 layers, so shallow ones of 0.2 seconds
        (1200, {}, (3, 3), 4000),
        (1199, {"n_encoder_layers": 3}, (3, 3), 3996),  # a written depth stands
    ],
)
def test_a_model_with_time_for_too_few_updates_becomes_shallow(shaped, training_s, written, layers, n_updates):
    model, n_fitting, reasons = shaped(lambda model: 0.3 if model.n_decoder_layers == 3 else 0.2, training_s, written)
    assert (model.n_encoder_layers, model.n_decoder_layers, n_fitting) == (*layers, n_updates)
    assert ("3996 updates" in reasons.get("model.n_encoder_layers", "").replace(",", "")) == (layers == (2, 2))


@pytest.mark.parametrize(
    ("training_s", "size", "written", "layers"),
    [
        (3.99, 20, {}, (2, 1)),  # with 2 + 2 layers 19 updates of 2 x 20 of the 100 tokens
        (4.0, 20, {}, (2, 2)),  # 20: eight epochs
        (3.99, 20, {"n_decoder_layers": 2}, (3, 2)),  # a written depth stands
    ],
)
def test_a_shallow_model_with_time_for_few_epochs_gets_one_decoder_layer(shaped, training_s, size, written, layers):
    seconds = {3: 0.3, 2: 0.2, 1: 0.1}
    model, n_updates, reasons = shaped(lambda model: seconds[model.n_decoder_layers], training_s, written, size)
    assert (model.n_encoder_layers, model.n_decoder_layers) == layers
    assert ("7.6 times" in reasons.get("model.n_decoder_layers", "")) == (layers == (2, 1))
    assert n_updates == round(training_s / seconds[layers[1]] - 0.5)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("schedule_free", 0.1)),
        ({"schedule": "schedule_free"}, ("schedule_free", 0.1)),
        ({"schedule": "cosine"}, ("cosine", 0.1)),
        ({"guided_alignment": 0.0}, ("schedule_free", 0.0)),
        ({"ema": 0.9}, ("cosine", 0.0)),
        ({"average_best": 2}, ("schedule_free", 0.1)),
        ({"lr_floor": 0.1}, ("cosine", 0.1)),
        ({"adam_betas": (0.0, 0.98)}, ("cosine", 0.1)),
        ({"budget": None, "max_steps": 100}, ("inverse_sqrt", 0.0)),
    ],
)
def test_a_budget_chooses_how_a_translator_learns(make_config, changes, expected):
    reasons: dict[str, str] = {}
    cfg = make_config(**{"max_steps": None, "budget": "6m", **changes})
    if "average_best" not in changes:
        cfg.train.model_fields_set.discard("average_best")
    cfg = choose_learning(cfg, reasons)
    assert (cfg.train.schedule, cfg.train.guided_alignment) == expected
    is_mean = expected[0] == "schedule_free"
    assert ("train.schedule" in reasons) == (is_mean and "schedule" not in changes)
    assert cfg.train.average_last == (1 if is_mean and "average_best" not in changes else None)


@pytest.mark.parametrize(
    ("changes", "learning"),
    [
        ({}, ("schedule_free", 0.1, 2e-3)),
        ({"schedule": "schedule_free"}, ("schedule_free", 0.1, 2e-3)),
        ({"schedule": "schedule_free", "max_epochs": 3}, ("schedule_free", 0.0, 1e-3)),
        ({"model": {"d_model": 512, "n_heads": 8}}, ("schedule_free", 0.1, 1e-3)),
        ({"lr": 3e-4}, ("schedule_free", 0.1, 3e-4)),
        ({"max_epochs": 3}, ("inverse_sqrt", 0.0, 1e-3)),
        ({"init_from": "start"}, ("inverse_sqrt", 0.0, 1e-3)),
    ],
)
def test_a_run_without_a_limit_learns_so_that_it_may_end_at_any_time(make_config, changes, learning):
    train = {key: value for key, value in changes.items() if key != "model"}
    values = make_config(max_steps=None, **train).model_dump(mode="json", exclude_unset=True)
    values["model"] = changes.get("model", {"d_model": 256, "n_heads": 4})
    if "lr" not in changes:
        del values["train"]["lr"]
    chosen = choose_learning(Config.model_validate(values), {}).train
    assert (chosen.schedule, chosen.guided_alignment, chosen.lr) == learning
    assert chosen.average_last is None, "dev chooses the checkpoints, because the run ends long after its best one"


@pytest.mark.parametrize(("training_s", "reason"), [(50, "about 5,"), (110, None)])
def test_a_warm_up_that_the_budget_shortens_is_told(make_config, monkeypatch, training_s, reason):
    monkeypatch.setattr(pace, "_seconds_per_update", lambda *args: 1.0)
    cfg = make_config(max_steps=None, budget="2h", batch_tokens=20, warmup_steps=10)
    reasons: dict[str, str] = {}
    fit_batches(cfg, TEN_PAIRS, cast(Any, lambda cfg: None), training_s, 1, reasons=reasons)
    assert reasons.get("train.warmup_steps", "")[: len(reason or "x")] == (reason or "")


@pytest.mark.parametrize(
    ("n_updates", "model", "train", "dropouts"),
    [
        (24, {}, {}, (0.0, 0.0)),  # 24 x 20 of 100 slots
        (25, {}, {}, (0.1, 0.1)),  # exactly five epochs
        (4, {"residual_dropout": 0.3}, {}, (0.3, 0.0)),  # a written value stands
        (13, {}, {"accumulate": 2}, (0.1, 0.1)),  # 520 slots
        (4, {}, {"r_drop": 1.0}, (0.1, 0.1)),  # which needs dropout
    ],
)
def test_less_than_five_epochs_have_no_dropout(make_config, monkeypatch, n_updates, model, train, dropouts):
    monkeypatch.setattr(pace, "_seconds_per_update", lambda *args: 1.0)
    cfg = make_config(max_steps=None, budget="2h", batch_tokens=20, model=model, **{"accumulate": 1, **train})
    values = cfg.model_dump(mode="json", exclude_unset=True)
    values["model"] = {"d_model": 16, "d_ff": 16, "n_heads": 2, **model}
    cfg, _ = fit_batches(Config.model_validate(values), TEN_PAIRS, cast(Any, lambda cfg: None), n_updates, 1)
    assert (cfg.model.residual_dropout, cfg.model.embedding_dropout) == dropouts


@pytest.mark.parametrize(
    ("training_s", "changes", "n_updates", "weight"),
    [
        (59, {}, 59, 0.0),  # 59 x 20 of the 100 slots
        (60.5, {}, 39, 3.0),  # twelve epochs: 18 updates, and 21 of two seconds
        (100, {"r_drop": 0.0}, 100, 0.0),  # a written value stands
        (100, {"patience": 4}, 100, 0.0),  # the run could stop before R-Drop begins
        (100, {"init_from": "start"}, 100, 0.0),
    ],
)
def test_a_run_that_sees_its_pairs_often_gets_r_drop(make_config, monkeypatch, training_s, changes, n_updates, weight):
    class Machine:
        def __init__(self, cfg):
            self.cfg = cfg.train

        def update(self, batches, step, lr, r_drop):
            clock[0] += len(batches) * (2.0 if r_drop else 1.0)

    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(pace, "make_batch", lambda *args: None)
    monkeypatch.setattr(pace, "pairs_of_length", lambda *args: None)
    cfg = make_config(max_steps=None, budget="2h", batch_tokens=20, accumulate=1, **changes)
    values = cfg.model_dump(mode="json", exclude_unset=True) | {"model": {"d_model": 16, "d_ff": 16, "n_heads": 2}}
    reasons: dict[str, str] = {}
    cfg, fitting = fit_batches(
        Config.model_validate(values), TEN_PAIRS, lambda cfg: cast(Any, Machine(cfg)), training_s, 1, reasons=reasons
    )
    assert (fitting, cfg.train.r_drop, cfg.train.r_drop_from) == (n_updates, weight, 0.3 if weight else 0.0)
    assert ("12 times" in reasons.get("train.r_drop", "")) == bool(weight)
    kept = {f"train.{key}" for key in (*rule.KEYS_OF_TRAIN, "batch_tokens")}
    assert {key for key in reasons if key.startswith("train.")} <= kept, "a resumed run needs them"


@pytest.mark.parametrize(
    ("weights", "text_times", "n_updates", "r_drop"),
    [
        ([[1.0, 1.0]], 1.0, 59, 0.0),  # 59 x 20 of 100 slots
        ([[1.0, 1.0]], 1.0, 60, 3.0),
        ([[1.0, 20.0]], 1.0, 59, 0.0),  # the mean of both corpora, although one of them comes more often
        ([[0.5, 0.5]], 1.0, 59, 0.0),  # an epoch draws half of the pairs, but each pair is not read more often
        ([[0.5, 0.5]], 1.0, 60, 3.0),
        ([[1.0, 0.0]], 1.0, 48, 3.0),  # 80 slots take part
        ([[1.0, 0.0], [0.0, 1.0]], 1.0, 59, 0.0),  # all do, in one of two stages
        ([[1.0, 1.0]], 3.0, 179, 0.0),  # three times as much text as was measured
        ([[1.0, 1.0]], 3.0, 180, 3.0),
    ],
)
def test_r_drop_counts_how_often_the_run_reads_its_text(
    make_config, monkeypatch, weights, text_times, n_updates, r_drop
):
    monkeypatch.setattr(pace, "_seconds_per_update", lambda *args: 1.0)
    cfg = make_config(max_steps=None, budget="2h", batch_tokens=20, accumulate=1)
    values = cfg.model_dump(mode="json", exclude_unset=True) | {"model": {"d_model": 16, "d_ff": 16, "n_heads": 2}}
    mixtures = [uniform([8, 2], passes) for passes in weights]
    updater = cast(Any, lambda cfg: None)
    cfg, _ = fit_batches(
        Config.model_validate(values), TEN_PAIRS, updater, n_updates, 1, mixtures, text_times=text_times
    )
    assert cfg.train.r_drop == r_drop


@pytest.mark.parametrize(("task", "dropout"), [("translate", 0.0), ("classify", 0.1)])
def test_a_classifier_keeps_its_dropout(make_config, monkeypatch, task, dropout):
    monkeypatch.setattr(pace, "_seconds_per_update", lambda *args: 1.0)
    cfg = make_config(max_steps=None, budget="2h", batch_tokens=20, accumulate=1).model_copy(update={"task": task})
    cfg = cfg.model_copy(update={"model": ModelConfig(d_model=16, d_ff=16, n_heads=2)})
    chosen, _ = fit_batches(cfg, TEN_PAIRS, cast(Any, lambda cfg: None), 4, 1)
    assert chosen.model.residual_dropout == dropout


@pytest.mark.parametrize(("n_updates", "dropout"), [(9, 0.0), (10, 0.1)])
def test_a_small_corpus_that_repeats_often_keeps_dropout(make_config, monkeypatch, n_updates, dropout):
    monkeypatch.setattr(pace, "_seconds_per_update", lambda *args: 1.0)
    cfg = make_config(max_steps=None, budget="2h", batch_tokens=20, accumulate=1)
    values = cfg.model_dump(mode="json", exclude_unset=True)
    values["model"] = {"d_model": 16, "d_ff": 16, "n_heads": 2}
    # 8 pairs once and 2 four times: 160 slots an epoch, the small ones again after 40 of them
    mixture = uniform([8, 2], [1.0, 4.0])
    cfg, _ = fit_batches(Config.model_validate(values), TEN_PAIRS, cast(Any, lambda cfg: None), n_updates, 1, [mixture])
    assert cfg.model.residual_dropout == dropout


def test_without_a_budget_the_size_is_the_default_and_recorded(make_config):
    cfg: Config = make_config(batch_tokens=None, validate_sentences=None, max_steps=1, warmup_steps=0)
    train(cfg)
    assert cfg.run_dir is not None
    recorded = load_config(cfg.run_dir / "config.yaml").train
    assert (recorded.batch_tokens, recorded.validate_sentences) == (4096, None)


def test_the_words_name_updates_epochs_and_worth():
    assert expectation(66, 0.17).startswith("about 66 updates, 0.2 epochs: expect nothing")
    assert "rough" in expectation(900, 0.6)
    assert expectation(1300, 0.8) == "about 1,300 updates, 0.8 epochs"


@pytest.mark.parametrize(("n_pairs", "is_little"), [(300, True), (1999, True), (2000, False)])
def test_too_little_text_is_worth_nothing_however_often_it_is_seen(n_pairs, is_little):
    words = expectation(50_000, 900.0, worth_by_updates(n_pairs))
    assert (f"{n_pairs:,} pairs are too few to learn from, but `mtkit adapt`" in words) == is_little


def looks(caplog: pytest.LogCaptureFixture, n_expected: int, course: list[tuple[int, float]]) -> list[str]:
    """The warnings of a run of 1,000 updates an epoch: each step with the share of the run that is over then."""
    outlook = Outlook(updates_per_epoch=1000)
    with caplog.at_level(logging.INFO):
        outlook.begin(n_expected)
        for step, fraction in course:
            outlook.look(step, fraction)
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_run_that_turns_out_slower_says_so_once(caplog):
    steady = [(step, step / 1300) for step in range(0, 1300, 10)]
    assert looks(caplog, 1300, steady) == []
    slow = [(step, step / 200) for step in range(0, 200, 10)]
    [warning] = looks(caplog, 1300, slow)
    assert "about 200 updates, 0.2 epochs: expect nothing" in warning


def test_a_forecast_that_the_real_updates_contradict_is_given_again(caplog):
    # Half as fast as expected, with enough updates all the same; and a tenth slower, which is near enough
    for n_real, n_forecasts in ((6500, 1), (12_000, 0)):
        caplog.clear()
        assert looks(caplog, 13_000, [(step, step / n_real) for step in range(0, n_real, 10)]) == []
        assert sum("at this speed" in record.getMessage() for record in caplog.records) == n_forecasts
        assert ("about 6,500 updates, 6.5 epochs" in caplog.text) == bool(n_forecasts)


def test_slow_first_updates_are_no_sign(caplog):
    course = [(step, 0.02 + step / 1300) for step in range(0, 1270, 10)]
    assert looks(caplog, 1300, course) == []


def test_a_run_that_goes_back_is_forecast_from_there(caplog):
    # Updates take equally long, but at step 990 the run goes back to step 0 (or 500), and the clock goes on.
    for back in (0, 500):
        course = [(step, step / 10_000) for step in range(0, 1000, 10)]
        course += [(step, (990 - back + step) / 10_000) for step in range(back, 9010 + back, 10)]
        caplog.clear()
        assert looks(caplog, 10_000, course) == []
        assert "at this speed" not in caplog.text


def test_a_short_run_is_a_warning_before_its_first_update(caplog):
    assert "nothing usable" in looks(caplog, 90, [])[0]
