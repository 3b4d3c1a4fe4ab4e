"""The forecast of BLEU: its shares counted by hand, its curve, and the runs for which there is none."""

import csv
import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config.data import TrainCorpus
from mtkit.config.distillation import DistillConfig
from mtkit.config.schema import Config
from mtkit.config.tokenizer import TokenizersConfig
from mtkit.data.encoded import EncodedSide, starts_of
from mtkit.training.preparation import learning_curve as curves
from mtkit.training.preparation.learning_curve import LearningCurve, learning_curve
from mtkit.training.preparation.pace import expectation
from mtkit.training.preparation.parallel_text import ParallelText

ROOT = Path(__file__).parents[3]


def corpus(*sentences, n_pairs=None):
    """The parts of an EncodedCorpus that the forecast uses."""
    lengths = np.array([len(ids) for ids in sentences], np.int32)
    ids = np.array([token for ids in sentences for token in ids], np.uint16)
    return SimpleNamespace(
        tgt=EncodedSide(ids, starts_of(lengths), lengths), n_pairs=n_pairs or len(sentences), release=lambda: None
    )


def budgeted(config_of, tmp_path, model=(), **train) -> Config:
    cfg = config_of(tmp_path / "run")
    changes = {"schedule": "schedule_free", "budget": "6m", **train}
    wide = {"d_model": 256, "n_encoder_layers": 2, "n_decoder_layers": 1, **dict(model)}
    sections = {"train": cfg.train.model_copy(update=changes), "model": cfg.model.model_copy(update=wide)}
    return cfg.model_copy(update={**sections, "tokenizer": TokenizersConfig()})


def test_the_share_of_known_trigrams_is_as_counted_by_hand(config_of, tmp_path):
    train = corpus([5, 6, 7], [8, 9], n_pairs=10_000)
    # With two PADs around it, 5 6 9 has (0 0 5), (0 5 6) and (9 0 0), which are known, and (5 6 9) and (6 9 0).
    found = learning_curve(budgeted(config_of, tmp_path), train, [corpus([5, 6, 9])])
    assert found == LearningCurve(10_000, round(3 / 5, 4))


def test_sentences_that_meet_make_no_trigram(config_of, tmp_path):
    train = corpus([5, 6], [7, 8], n_pairs=10_000)  # (5 6 7) and (6 7 8) would be across them
    found = learning_curve(budgeted(config_of, tmp_path), train, [corpus([5, 6, 7, 8])])
    assert found == LearningCurve(10_000, round(4 / 6, 4))  # 0 0 5, 0 5 6, 7 8 0 and 8 0 0


def test_the_dev_set_that_ranks_the_model_is_the_one_that_counts(config_of, tmp_path):
    cfg = budgeted(config_of, tmp_path, metric_on="other")
    sets = [cfg.data.dev[0].model_copy(update={"name": name}) for name in ("news", "other")]
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update={"dev": sets})})
    dev = [corpus([5, 6, 7]), corpus([5, 6, 9])]
    unused: Any = None
    text = ParallelText(cfg, unused, corpus([5, 6, 7], n_pairs=10_000), dev, [], None)
    assert text.learning_curve(cfg) == LearningCurve(10_000, 2 / 5)  # (0 0 5) and (0 5 6) of five


def test_half_of_the_ceiling_is_reached_after_the_tokens_named():
    expected = LearningCurve(10_000, 1.0).after(curves.NUMBERS.half * 1e6)
    assert expected and expected.middle == pytest.approx(curves.NUMBERS.ceiling / 2)


def test_a_narrow_model_needs_more_tokens(config_of, tmp_path):
    cfg, text = budgeted(config_of, tmp_path, {"d_model": 128}), corpus([5, 6, 7], n_pairs=10_000)
    narrow = learning_curve(cfg, text, [text])
    assert narrow == LearningCurve(10_000, 1.0, d_model=128)
    slower, usual = narrow.after(curves.NUMBERS.narrow * 1e6), LearningCurve(10_000, 1.0).after(1e6)
    assert slower and usual and slower.middle == pytest.approx(usual.middle)
    assert curves.NUMBERS.narrow > 1


def test_a_run_that_begins_with_the_lexicon_is_ahead_by_the_tokens_that_it_is_worth(config_of, tmp_path):
    text = corpus([5, 6, 7], n_pairs=10_000)
    found = learning_curve(budgeted(config_of, tmp_path, guided_alignment=0.1), text, [text])
    assert found == LearningCurve(10_000, 1.0, has_lexicon=True)
    worth = curves.NUMBERS.head_start * curves.NUMBERS.half * 1e6  # at 10,000 pairs
    ahead, later = found.after(300_000), LearningCurve(10_000, 1.0).after(300_000 + worth)
    assert ahead and later and ahead.middle == pytest.approx(later.middle) and worth > 50_000


@given(st.integers(3_000, 300_000), st.floats(0.05, 1), st.floats(0.15e6, 9e6), st.floats(1.01, 1.1))
def test_more_training_and_more_known_text_lead_to_more(n_pairs, share, n_tokens, more):
    def middle(share, n_tokens):
        expected = LearningCurve(n_pairs, share).after(n_tokens)
        assert expected and expected.low < expected.middle < expected.high <= 100
        return expected.middle

    assert middle(share, n_tokens * more) > middle(share, n_tokens)
    assert middle(min(1.0, share * more), n_tokens) >= middle(share, n_tokens)


@pytest.mark.parametrize("n_tokens", [1_000, 100_000_000])
def test_there_is_no_forecast_for_runs_shorter_or_longer_than_those_measured(n_tokens):
    assert LearningCurve(10_000, 0.5).after(n_tokens) is None


@pytest.mark.parametrize(
    ("model", "train", "n_pairs", "reason"),
    [
        ({"d_model": 192}, {}, 10_000, "128 or 256 wide"),
        ({"n_encoder_layers": 6}, {}, 10_000, "3 layers"),
        ({"decoder": "ssru"}, {}, 10_000, "attention"),
        ({}, {"schedule": "cosine"}, 10_000, "train.budget"),
        ({}, {"init_from": Path("old")}, 10_000, "train.init_from"),
        ({"d_model": 128}, {}, 2_999, "3,000 to 300,000 pairs"),
    ],
)
def test_there_is_no_forecast_but_a_reason_for_runs_unlike_those_measured(
    config_of, tmp_path, model, train, n_pairs, reason
):
    text = corpus([5, 6, 7], n_pairs=n_pairs)
    assert learning_curve(budgeted(config_of, tmp_path), corpus([5, 6, 7], n_pairs=10_000), [text])
    cfg = budgeted(config_of, tmp_path, model, **train)
    assert learning_curve(cfg, text, [text]) is None
    assert reason in curves.unlike_measured(cfg, n_pairs)


@pytest.mark.parametrize(
    ("tokenizer", "is_unlike"),
    [
        ({"src": {"type": "char"}}, True),
        ({"tgt": {"type": "char"}}, True),
        ({"tgt": {"type": "char"}, "shared": True}, False),
        ({"src": {"type": "bpe"}}, False),
    ],
)
def test_there_is_no_forecast_for_characters_because_the_measured_runs_had_pieces(
    config_of, tmp_path, tokenizer, is_unlike
):
    cfg = budgeted(config_of, tmp_path)
    cfg = cfg.model_copy(update={"tokenizer": TokenizersConfig.model_validate(tokenizer)})
    assert ("type=char" in curves.unlike_measured(cfg, 10_000)) == is_unlike


@pytest.mark.parametrize(("millions", "is_unlike"), [(0.14, True), (0.16, False), (9.9, False), (10.1, True)])
def test_a_run_outside_the_measured_lengths_has_a_reason_too(config_of, tmp_path, millions, is_unlike):
    reason = curves.unlike_measured(budgeted(config_of, tmp_path), 10_000, 1e6 * millions)
    assert reason == ("their batches have 0.15 to 10 million tokens in all" if is_unlike else "")


def test_there_is_no_forecast_for_what_teachers_have_translated(config_of, tmp_path):
    cfg, text = budgeted(config_of, tmp_path), corpus([5, 6, 7], n_pairs=10_000)
    made = TrainCorpus(tsv=tmp_path / "run" / "distilled" / "1.tsv")
    for change in (
        {"data": cfg.data.model_copy(update={"train": [*cfg.data.train, made]})},
        {"distill": DistillConfig(teachers=[tmp_path / "teacher"])},
    ):
        assert learning_curve(cfg.model_copy(update=change), text, [text]) is None


def test_the_expected_bleu_stands_beside_the_length_of_the_run():
    bleu = LearningCurve(10_000, 0.58).after(1_400 * 1024)
    said = expectation(1400, 12.8, bleu=bleu)
    assert (
        bleu and said.startswith("about 1,400 updates, 12.8 epochs") and f"{bleu.middle:.0f} ({bleu.low:.0f} to" in said
    )


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts" / "bench"))
        yield importlib.import_module("learning_curve")


@pytest.fixture(scope="module")
def measured(bench):
    with (ROOT / "scripts" / "results" / "curves.tsv").open(encoding="utf-8", newline="") as file:
        return bench.read(csv.DictReader(file, delimiter="\t"))


def test_the_numbers_are_those_of_the_measured_runs(bench, measured):
    found = bench.fit([point for point in measured if point.role == "fit"])
    assert tuple(found) == pytest.approx(tuple(curves.NUMBERS), abs=0.006)


def test_four_of_five_runs_made_after_the_fit_are_inside_the_interval(bench, measured):
    checks = bench.ends([point for point in measured if point.role == "check"])
    curve_of = [LearningCurve(run.pairs, run.trigrams, run.d_model, run.has_lexicon) for run in checks]
    expected = [curve.after(run.millions * 1e6) for curve, run in zip(curve_of, checks, strict=True)]
    inside = [one and one.low <= run.bleu <= one.high for one, run in zip(expected, checks, strict=True)]
    assert len(checks) >= 5 and sum(map(bool, inside)) >= 0.8 * len(checks)
