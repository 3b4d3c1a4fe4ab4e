"""Learning rate and limits; the expected values were worked out by hand from the cited formulas."""

import pytest

from mtkit.config.training import TrainConfig
from mtkit.training.update.schedule import (
    Progress,
    fraction_done,
    learning_rate,
    limits_reached,
    r_drop_shares,
    r_drop_weight,
    share_of_updates,
)


def config(**values):
    return TrainConfig.model_validate({"max_steps": 100, "warmup_steps": 4, "lr": 0.8, **values})


@pytest.mark.parametrize(("step", "rate"), [(1, 0.2), (2, 0.4), (4, 0.8), (5, 0.8 * 0.8**0.5), (16, 0.4), (64, 0.2)])
def test_inverse_sqrt_rises_linearly_then_falls_with_the_root_of_the_step(step, rate):
    assert learning_rate(config(schedule="inverse_sqrt"), step, fraction=0.0) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(("step", "rate"), [(1, 0.2), (4, 0.8), (5, 0.8), (99, 0.8)])
def test_constant_stays_after_the_warm_up(step, rate):
    assert learning_rate(config(schedule="constant"), step, fraction=0.9) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    ("fraction", "share"),
    [(0.0, 1.0), (1 / 3, 0.775), (0.5, 0.55), (2 / 3, 0.325), (1.0, 0.1), (1.2, 0.1)],  # 0.1 + 0.9 (1 + cos(pi f)) / 2
)
def test_cosine_falls_over_the_whole_run_to_its_floor(fraction, share):
    cfg = config(schedule="cosine", lr_floor=0.1)
    assert learning_rate(cfg, 50, fraction) == pytest.approx(0.8 * share, rel=1e-12)
    assert learning_rate(cfg, 2, fraction) == pytest.approx(0.8 * share / 2, rel=1e-12), "half of the warm-up"


@pytest.mark.parametrize(("end", "schedule"), [({}, "inverse_sqrt"), ({"max_steps": None, "budget": "30m"}, "cosine")])
@pytest.mark.parametrize(("step", "fraction"), [(2, 0.0), (5, 0.05), (50, 0.5), (99, 1.0)])
def test_auto_falls_to_nothing_where_the_end_is_that_of_a_budget(end, schedule, step, fraction):
    expected = learning_rate(config(schedule=schedule, **end), step, fraction)
    assert learning_rate(config(**end), step, fraction) == expected
    assert (expected == 0) == (schedule == "cosine" and fraction == 1)


@pytest.mark.parametrize(("fraction", "share"), [(0.05, 0.5), (0.1, 1.0), (0.4, 0.5), (0.9, 1 / 3)])  # 1 / sqrt(4), ...
def test_inverse_sqrt_falls_from_where_a_budget_ends_its_warm_up(fraction, share):
    cfg = config(max_steps=None, budget="30m", schedule="inverse_sqrt", warmup_steps=10**6)
    assert learning_rate(cfg, 40, fraction) == pytest.approx(0.8 * share, rel=1e-12)


@pytest.mark.parametrize(
    ("step", "fraction", "share"),
    [(1, 0.0, 0.25), (1, 0.05, 0.5), (1, 0.1, 1.0), (3, 0.001, 0.75), (4, 0.001, 1.0), (4, 0.9, 1.0)],  # of 4 updates
)
def test_the_warm_up_takes_no_more_than_a_tenth_of_a_budget(step, fraction, share):
    cfg = config(max_steps=None, budget="30m", schedule="constant")
    assert learning_rate(cfg, step, fraction) == pytest.approx(0.8 * share, rel=1e-12)


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "constant"])
def test_without_warm_up_the_first_update_has_the_full_rate(schedule):
    cfg = config(schedule=schedule, warmup_steps=0)
    assert learning_rate(cfg, 1, 0.0) == 0.8
    assert learning_rate(cfg, 4, 0.0) == (0.4 if schedule == "inverse_sqrt" else 0.8)


@pytest.mark.parametrize(("fraction", "weight"), [(0.0, 0), (0.29, 0), (0.3, 4), (1.0, 4)])
def test_r_drop_begins_after_its_share_of_the_run(fraction, weight):
    assert r_drop_weight(config(r_drop=4, r_drop_from=0.3), fraction) == weight
    assert r_drop_weight(config(r_drop=4), fraction) == 4


def test_the_shares_of_a_run_with_and_without_r_drop():
    assert r_drop_shares(config()) == {0: 1}
    assert r_drop_shares(config(r_drop=4)) == {4: 1}
    assert r_drop_shares(config(r_drop=4, r_drop_from=0.3)) == {0: 0.3, 4: pytest.approx(0.7)}


@pytest.mark.parametrize(("minutes", "share"), [(2.0, 2 / 7), (4.0, 4 / 7), (7.0, 5.5 / 7), (10.0, 1.0)])
def test_updates_with_r_drop_count_double_where_the_clock_ends_the_run(minutes, share):
    timed = config(max_steps=None, max_minutes=10, r_drop=3, r_drop_from=0.4)  # four minutes and twice three
    assert share_of_updates(timed, Progress(7, 0.5, minutes)) == pytest.approx(share)
    assert share_of_updates(config(r_drop=3, r_drop_from=0.4), Progress(70, 0.5, minutes)) == pytest.approx(0.7)
    assert share_of_updates(config(max_steps=None, patience=3), Progress(7, 0.5, minutes)) is None
    both = config(max_minutes=100, r_drop=3, r_drop_from=0.4)
    assert share_of_updates(both, Progress(70, 0.5, minutes)) == pytest.approx(0.7), "max_steps is nearer"


def test_the_nearest_limit_counts():
    cfg = config(max_steps=100, max_epochs=4, max_minutes=10.0)
    assert fraction_done(cfg, Progress(step=30, epochs=1.0, minutes=2.0)) == pytest.approx(0.3)
    assert fraction_done(cfg, Progress(step=30, epochs=2.5, minutes=2.0)) == pytest.approx(0.625)
    assert fraction_done(cfg, Progress(step=30, epochs=2.5, minutes=9.0)) == pytest.approx(0.9)
    assert fraction_done(config(max_steps=None, patience=3), Progress(30, 2.5, 9.0)) is None


@pytest.mark.parametrize(
    ("progress", "limits"),
    [
        (Progress(99, 3.99, 9.9, 2), []),
        (Progress(100, 1.0, 1.0), ["max_steps"]),
        (Progress(9, 4.0, 1.0), ["max_epochs"]),
        (Progress(9, 1.0, 10.0), ["max_minutes"]),
        (Progress(9, 1.0, 1.0, 3), ["patience"]),
        (Progress(100, 4.0, 1.0), ["max_steps", "max_epochs"]),
    ],
)
def test_a_run_stops_at_the_first_limit_it_reaches(progress, limits):
    assert limits_reached(config(max_epochs=4, max_minutes=10, patience=3), progress) == limits
