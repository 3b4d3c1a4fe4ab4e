"""The CTranslate2 export that a finished run adds to its model."""

import json
import logging

import pytest
import sacrebleu
import torch

from mtkit import Translator
from mtkit.bundle import bundle_file, load_model, read_bundle
from mtkit.data.corpus import evenly_spaced, read_pairs
from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.model import ops
from mtkit.runs import export
from mtkit.runs.averaging import average_checkpoints
from mtkit.runs.train import train
from mtkit.scoring.scoring import Scorer
from mtkit.training.update.budget import Budget

pytest.importorskip("ctranslate2")
REAL = export.wants_export  # which other tests do without
SHORT = {"max_steps": 3, "warmup_steps": 1, "validate_every": 3, "average_best": 1}


WANTS_INT8 = export.wants_int8


@pytest.fixture(autouse=True)
def with_exports(monkeypatch):
    monkeypatch.setattr(export, "wants_export", REAL)


def test_a_run_ends_with_an_export_and_its_certificate(make_config, monkeypatch):
    cfg = make_config(**SHORT)
    bundle = train(cfg).bundle
    folder = bundle_file(read_bundle(bundle), "ctranslate2")
    assert folder is not None
    certificate = json.loads((folder / "parity.json").read_text(encoding="utf-8"))
    assert (certificate["quantization"], certificate["n_lines"]) == ("float32", 3), "train.validate_sentences"
    assert certificate["score_difference_mean"] < 1e-4
    translator = Translator.load(bundle, engine="ctranslate2")
    lines = ["a b c", "d e"]
    assert translator.translate(lines) == Translator.load(bundle, engine="native").translate(lines)

    # a run that goes on replaces it, and a mean of other weights has none
    before = (folder / "model.bin").read_bytes()
    train(make_config(**{**SHORT, "max_steps": 6}))
    assert (folder / "model.bin").read_bytes() != before
    monkeypatch.setattr(export, "wants_export", lambda *args: False)
    train(make_config(**{**SHORT, "max_steps": 9}))
    assert bundle_file(read_bundle(bundle), "ctranslate2") is None
    out = bundle.parent / "mean"
    average_checkpoints(bundle.parent, [], out)
    assert not (out / "ctranslate2").exists()


def test_a_run_measures_what_int8_costs_on_each_dev_set(make_config, monkeypatch):
    if not ops.has_faster_decoder(make_config().model, "int8"):
        pytest.skip("this processor lacks the instructions")
    monkeypatch.setattr(export, "wants_export", lambda *args: False)
    monkeypatch.setattr(export, "wants_int8", WANTS_INT8)
    precisions: list[str] = []

    class Noted(NativeEngine):
        def __init__(self, models, device="cpu", precision="fp32"):
            super().__init__(models, device, precision)
            precisions.append(self.precision)

    monkeypatch.setattr("mtkit.training.validation.translation.NativeEngine", Noted)
    monkeypatch.setattr(Budget, "left_for_export", lambda self: -1.0)  # even if the budget is used up
    bundle = train(make_config(**SHORT)).bundle
    assert (set(precisions), precisions[-1], precisions.count("int8")) == ({"fp32", "int8"}, "int8", 1)
    files = read_bundle(bundle)
    stored = json.loads((bundle / "int8.json").read_text(encoding="utf-8"))
    assert stored["bleu"].keys() == stored["loss"].keys() == {"dev"}
    scorer = Scorer(load_model(files), files.src_tokenizer, files.tgt_tokenizer)
    scored = evenly_spaced(list(read_pairs(files.config.data.dev)), 3)  # train.validate_sentences
    scores = scorer.score([(pair.src, pair.tgt) for pair in scored])
    exact = -sum(score.log_prob for score in scores) / sum(score.n_tokens for score in scores)
    assert stored["loss"]["dev"]["fp32"] == pytest.approx(exact, abs=1e-6)
    assert 0 < abs(stored["loss"]["dev"]["int8"] - exact) < 0.1
    pairs = list(read_pairs(files.config.data.dev))
    for precision, bleu in stored["bleu"]["dev"].items():
        translator = Translator.load(bundle, engine="native", precision=precision, on_suspect="off")
        translations = translator.translate([pair.src for pair in pairs])
        assert bleu == pytest.approx(sacrebleu.corpus_bleu(translations, [[pair.tgt for pair in pairs]]).score)
    assert bundle_file(files, "int8.json") is not None


def test_a_model_that_no_run_wrote_gets_what_a_run_adds(make_config, monkeypatch, tmp_path):
    monkeypatch.setattr(export, "wants_int8", WANTS_INT8)
    average_checkpoints(train(make_config(**SHORT)).bundle.parent, [], tmp_path / "mean")
    export.add_fast_forms(tmp_path / "mean", torch.device("cpu"))
    files = read_bundle(tmp_path / "mean")
    assert bundle_file(files, "ctranslate2") is not None
    if ops.has_faster_decoder(files.config.model, "int8"):
        scores = json.loads((tmp_path / "mean" / "int8.json").read_text(encoding="utf-8"))["bleu"]
        assert scores["dev"].keys() == {"fp32", "int8"}


@pytest.mark.parametrize(
    "decode", [{"engine": "native"}, {"engine": "ctranslate2"}, {"precision": "fp32"}, {"precision": "int8"}], ids=str
)
def test_a_run_whose_config_names_the_engine_or_the_precision_measures_nothing(make_config, decode, monkeypatch):
    monkeypatch.setattr(ops, "has_faster_decoder", lambda cfg, precision: True)
    assert WANTS_INT8(make_config())
    assert not WANTS_INT8(make_config(decode=decode))


@pytest.mark.parametrize(
    ("error", "reason"), [(MtkitError("it differs too much"), "differs too much"), (MemoryError(), "not enough memory")]
)
def test_an_export_that_fails_leaves_the_run_finished(make_config, monkeypatch, caplog, error, reason):
    def failing(*args):
        raise error

    monkeypatch.setattr(export, "export_bundle", failing)
    with caplog.at_level(logging.WARNING):
        result = train(make_config(**SHORT))
    [warning] = [record for record in caplog.records if "CTranslate2" in record.getMessage()]
    assert warning.levelno == logging.WARNING
    assert reason in warning.getMessage()
    assert "mtkit export --to ctranslate2" in warning.getMessage()
    assert Translator.load(result.bundle).engine.name == "native"


def test_an_export_waits_if_the_budget_is_used_up(make_config, monkeypatch, caplog):
    run = type("Run", (), {"cfg": make_config(), "run_dir": make_config().run_dir})()
    monkeypatch.setattr(export, "wants_export", lambda *args: True)
    run.updater = type("Updater", (), {"device": torch.device("cpu")})()
    with caplog.at_level(logging.INFO):
        export.add_export(run, seconds=-0.1)
    assert "the budget is used up" in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {"decode": {"engine": "native"}},
        {"decode": {"sampling": True}},
        {"decode": {"coverage_penalty": 0.2}},
        {"model": {"decoder": "ssru"}},
    ],
)
def test_a_run_that_would_not_use_it_has_none(make_config, changes):
    assert REAL(make_config(), torch.device("cpu"))
    assert not REAL(make_config(**changes), torch.device("cpu"))
    assert not REAL(make_config(), torch.device("cuda"))
