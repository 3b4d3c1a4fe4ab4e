"""Calibration against results worked out by hand, by brute force, and on data drawn from a known curve."""

import itertools
import json
import math
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from mtkit.config.decoding import DecodeConfig
from mtkit.errors import BundleError, DataError
from mtkit.translation.candidates import Candidate
from mtkit.translation.confidence import (
    Bin,
    Calibration,
    Reliability,
    calibrate,
    calibrate_translations,
    fit_logistic,
    reliability,
)


def drawn(n: int, slope: float, intercept: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean log-probabilities, and whether a translation was good, drawn with the curve's probability."""
    rng = np.random.default_rng(3)
    x = -rng.gamma(2.0, 0.3, n)
    return x, rng.random(n) < 1 / (1 + np.exp(-(slope * x + intercept)))


def calibration(slope: float = 3.0, intercept: float = 1.5) -> Calibration:
    nothing = Reliability(1, 1.0, 0.0, 0.0, 0.0, None, [Bin(0.0, 0.1, 0, None, None)])
    return Calibration(slope, intercept, 60.0, 10, {"beam_size": 2}, nothing)


def test_one_good_and_one_bad_are_told_apart_as_platts_targets_say():
    # targets (1 + 1) / (1 + 2) = 2/3 at x = 1 and 1/3 at x = -1, met exactly by slope ln 2 and intercept 0
    slope, intercept = fit_logistic(np.array([1.0, -1.0]), np.array([True, False]))
    assert slope == pytest.approx(math.log(2))
    assert intercept == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_no_other_curve_is_likelier(seed):
    rng = np.random.default_rng(seed)
    x, good = rng.normal(-1, 0.5, 40), rng.random(40) < 0.6
    n1, n0 = int(good.sum()), int((~good).sum())

    def loss(slope: float, intercept: float) -> float:
        total = 0.0
        for value, is_good in zip(x, good, strict=True):
            target = (n1 + 1) / (n1 + 2) if is_good else 1 / (n0 + 2)
            p = 1 / (1 + math.exp(-(slope * value + intercept)))
            total -= target * math.log(p) + (1 - target) * math.log(1 - p)
        return total

    slope, intercept = fit_logistic(x, good)
    best = loss(slope, intercept)
    steps = [-1.0, -0.1, -0.001, 0.0, 0.001, 0.1, 1.0]
    assert all(loss(slope + a, intercept + b) >= best - 1e-12 for a, b in itertools.product(steps, steps))


def test_a_known_curve_is_recovered():
    x, good = drawn(20_000, slope=4.0, intercept=2.0)
    slope, intercept = fit_logistic(x, good)
    assert slope == pytest.approx(4.0, rel=0.05)
    assert intercept == pytest.approx(2.0, rel=0.05)


def test_a_clean_cut_stays_finite():
    slope, intercept = fit_logistic(np.linspace(-5, -1, 50), np.arange(50) >= 25)
    assert 0 < slope < 100
    assert math.isfinite(intercept)


def test_calibrated_confidences_hold_on_sentences_that_they_were_not_fitted_on():
    x, good = drawn(8000, slope=4.0, intercept=2.0)
    fitted = calibrate(x.tolist(), np.where(good, 80.0, 20.0).tolist(), threshold=60, decode={})
    assert (fitted.n_fitted, fitted.held_out.n) == (4000, 4000)
    assert fitted.held_out.calibration_error < 0.03
    shifted = np.array([fitted.confidence(value * 10, 10) for value in x[1::2]]) - 0.2
    assert reliability(np.clip(shifted, 0, 1), good[1::2]).calibration_error > 0.15  # it can tell


def test_it_is_fitted_on_every_other_sentence_only():
    x, good = drawn(200, slope=4.0, intercept=2.0)
    chrf = np.where(good, 80.0, 20.0)
    one = calibrate(x.tolist(), chrf.tolist(), threshold=60, decode={})
    chrf[1::2] = 100 - chrf[1::2]
    other = calibrate(x.tolist(), chrf.tolist(), threshold=60, decode={})
    assert (one.slope, one.intercept) == (other.slope, other.intercept)
    assert one.held_out.brier < other.held_out.brier


def test_good_means_the_threshold_or_more():
    x = np.linspace(-2, -0.1, 40).tolist()
    chrf = [60.0] * 20 + [60.001] * 20
    with pytest.raises(DataError, match=r"40 translations: 20 of the 20 to fit on .* 60;"):
        calibrate(x, chrf, threshold=60, decode={})
    assert calibrate(x, chrf, threshold=60.001, decode={}).held_out.good == 0.5


def test_the_report_by_hand():
    report = reliability(np.array([0.05, 0.15, 0.15, 0.95, 1.0]), np.array([False, False, True, True, True]), n_bins=2)
    assert report.bins == [
        Bin(0.0, 0.5, 3, cast(float, pytest.approx(0.35 / 3)), cast(float, pytest.approx(1 / 3))),
        Bin(0.5, 1.0, 2, 0.975, 1.0),
    ]
    assert report.calibration_error == pytest.approx(3 / 5 * (1 / 3 - 0.35 / 3) + 2 / 5 * 0.025)
    assert report.brier == pytest.approx((0.05**2 + 0.15**2 + 0.85**2 + 0.05**2 + 0) / 5)
    assert report.auc == pytest.approx((0.5 + 1 + 2 + 2) / 6)  # good above bad, a tie counting half
    assert report.good == 0.6


def test_the_error_of_perfect_confidences_by_chance():
    rng = np.random.default_rng(1)
    perfect = rng.random(250)
    drawn_errors = [reliability(perfect, rng.random(250) < perfect).calibration_error for _ in range(300)]
    assert reliability(perfect, perfect > 0.5).by_chance == pytest.approx(np.mean(drawn_errors), rel=0.05)


def test_an_empty_bin_and_a_single_kind():
    report = reliability(np.array([0.9]), np.array([True]), n_bins=2)
    assert report.bins[0] == Bin(0.0, 0.5, 0, None, None)
    assert report.auc is None


def test_a_more_likely_translation_has_more_confidence():
    values = []
    for log_prob in (-30, -10, -5, -1, 0):
        value = calibration().confidence(log_prob, 10)
        assert value is not None
        values.append(value)
    assert values == sorted(values)
    assert values[2] == pytest.approx(0.5)  # 3 x -0.5 + 1.5 = 0
    assert 0 <= values[0] < values[-1] <= 1


def test_rounding_of_another_batch_does_not_show():
    assert calibration().confidence(-5.0, 10) == calibration().confidence(-5.00001, 10)


@pytest.mark.parametrize(("n_tokens", "finished"), [(1, True), (10, False)])
def test_what_the_fit_leaves_out_has_no_confidence(n_tokens, finished):
    assert calibration().confidence(-5.0, n_tokens, finished=finished) is None


@pytest.mark.parametrize(
    ("x", "chrf", "message"),
    [
        ([-1.0] * 10, [0.0, 100.0] * 5, "10 translations"),
        ([-1.0, -0.5] * 20, [70.0] * 40, r"40 translations: 20 of the 20 to fit on .* 60;.*--threshold"),
        ([-1.0, -1.0, -0.1, -0.1] * 10, [90.0, 90.0, 10.0, 10.0] * 10, r"40 translations.*\(slope -"),
    ],
)
def test_translations_that_cannot_be_calibrated_are_refused(x, chrf, message):
    with pytest.raises(DataError, match=message):
        calibrate(x, chrf, threshold=60, decode={})


def test_translations_are_compared_with_their_references(caplog):
    good = Candidate("a house by the sea", [7, 8, 9], -0.4, -0.4, True)  # four tokens with the end
    bad = Candidate("nothing", [7], -4.0, -4.0, True)
    unfinished = Candidate("x", [7], -1.0, -1.0, False)
    candidates = [good, good, bad, bad] * 10 + [unfinished, Candidate("", [], -1.0, -1.0, True)]
    calibrated = calibrate_translations(
        candidates, ["a house by the sea"] * 42, threshold=60, decode=DecodeConfig(beam_size=7)
    )
    fitted = fit_logistic(np.array([-0.1, -2.0] * 10), np.array([True, False] * 10))
    assert (calibrated.slope, calibrated.intercept) == pytest.approx(fitted)
    assert calibrated.decode == {"beam_size": 7}
    [message] = caplog.messages
    assert message.startswith("2 of 42 ")


@pytest.mark.parametrize(
    ("settings", "change"),
    [
        ({"beam_size": 2}, None),
        ({"beam_size": 2, "workers": 3, "batch_sentences": 1, "on_suspect": "off"}, None),
        ({"beam_size": 2, "sampling": True}, "decode.sampling=False, now True"),
        ({}, "decode.beam_size=2, now 4"),
    ],
)
def test_another_search_than_the_calibrated_one_is_warned_of(caplog, settings, change):
    calibration().warn_of_other_search(DecodeConfig(**settings))
    assert len(caplog.messages) == (change is not None)
    assert all(change in message and "--set" in message for message in caplog.messages)


def test_a_calibration_is_kept_as_json(tmp_path):
    path = tmp_path / "confidence.json"
    calibration().dump(path)
    assert Calibration.load(path) == calibration()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-20], "run mtkit calibrate"),
        (lambda text: "[]", "run mtkit calibrate"),
        (lambda text: json.dumps({**json.loads(text), "format_version": 9}), "format 9.* format 1;"),
        (lambda text: json.dumps({**json.loads(text), "surprise": 1}), "surprise"),
    ],
)
def test_a_damaged_calibration_is_explained(tmp_path, change, message):
    path = tmp_path / "confidence.json"
    calibration().dump(path)
    path.write_text(change(path.read_text()))
    with pytest.raises(BundleError, match=message):
        Calibration.load(path)


@pytest.mark.parametrize(("tag", "warns"), [("<2de>", False), ("<2fr>", False), ("<2es>", True)])
def test_a_calibration_on_several_tags_holds_for_each_of_them(caplog, tag, warns):
    several = replace(calibration(), decode={"beam_size": 2, "tag": ["<2de>", "<2fr>"]})
    several.warn_of_other_search(DecodeConfig(beam_size=2, tag=tag))
    assert ("decode.tag" in caplog.text) == warns
