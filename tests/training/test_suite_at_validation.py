"""train.suite: behaviour checks at each validation, which are logged and do not affect training."""

import logging
import re

import pytest
from safetensors.torch import load_file

from mtkit.bundle import load_bundle
from mtkit.engines.native import NativeEngine
from mtkit.errors import ConfigError
from mtkit.evaluation.behaviour.report import run_suite
from mtkit.evaluation.behaviour.suite import load_suite
from mtkit.model.transformer import Transformer
from mtkit.runs.train import train
from mtkit.training.metrics_log import read_metrics
from mtkit.training.preparation.prepare import prepare
from mtkit.training.trainer import Trainer
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.training.validation import forecast
from mtkit.training.validation.translation import TranslationValidator
from mtkit.translation.translator import Translator

SUITE = """
src_lang: en
tgt_lang: fr
checks:
  - check: blank
  - check: numbers
    sentences: [one 3 dog, two 15 cat]
  - check: expected
    name: word for word
    translations:
      - {src: red cat, one_of: rouge chat}
      - {src: any, one_of: ["%s"]}
"""


@pytest.fixture
def write_suite(tmp_path):
    def write(expected: str = "no such word") -> str:
        (tmp_path / "suite.yaml").write_text(SUITE % expected, encoding="utf-8")
        return str(tmp_path / "suite.yaml")

    return write


def validations(run_dir):
    return [entry for entry in read_metrics(run_dir / "metrics.jsonl") if entry["kind"] == "validation"]


def test_the_figures_are_those_of_the_suite_with_the_models_own_translations(make_config, write_suite):
    cfg = make_config(suite=write_suite())
    trainer = Trainer(prepare(cfg, cfg.run_dir, Checkpoints(cfg.run_dir / "checkpoints")))
    assert isinstance(trainer.validator, TranslationValidator)
    found = trainer.validator.run(trainer.updater.model)
    decode = cfg.decode.model_copy(update={"on_suspect": "off"})
    model = trainer.updater.model
    assert isinstance(model, Transformer)
    translator = Translator(NativeEngine([model]), *trainer.validator.tokenizers, decode)

    def own_translations(texts):
        """Without what `translate` keeps unchanged, because training measures the model alone."""
        return [row[0].text for row in translator.search(texts)]

    assert found.suite == run_suite(load_suite(cfg.train.suite), own_translations)
    shares = {key: value for key, value in found.figures().items() if "suite" in key}
    assert list(shares) == ["suite", "suite.blank", "suite.numbers", "suite.word_for_word"]
    assert shares["suite"] < shares["suite.blank"] == 1.0


def test_checks_are_logged_and_do_not_affect_training(make_config, config_of, write_suite, tmp_path, caplog):
    caplog.set_level(logging.INFO, "mtkit")
    with_suite = train(make_config(suite=write_suite(), max_steps=8))
    without = train(config_of(tmp_path / "without", max_steps=8))
    checked, plain = validations(tmp_path / "run"), validations(tmp_path / "without")
    assert len(checked) == len(plain) > 1
    assert [{key: value for key, value in entry.items() if "suite" not in key} for entry in checked] == plain
    assert all(entry["suite.blank"] == 1.0 and entry["suite"] < 1 for entry in checked)
    weights, others = (load_file(folder / "model.safetensors") for folder in (with_suite.bundle, without.bundle))
    assert all((weights[name] == others[name]).all() for name in others)
    assert with_suite.dev_scores["suite.blank"] == 1.0
    assert load_bundle(with_suite.bundle).manifest["training"]["dev"] == with_suite.dev_scores
    assert "word for word 0/2" in caplog.text


def test_a_started_run_may_get_a_suite(make_config, write_suite, tmp_path):
    train(make_config(max_steps=6))
    train(make_config(suite=write_suite("another"), max_steps=8))
    assert ["suite" in entry for entry in validations(tmp_path / "run")] == [False, True]


@pytest.mark.parametrize("missing", [True, False])
def test_a_missing_or_wrong_suite_is_refused_before_any_work(make_config, tmp_path, missing):
    path = tmp_path / "suite.yaml"
    if not missing:
        path.write_text("src_lang: en\ntgt_lang: fr\nchecks: [{check: blnk}]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no such file" if missing else "line 3: .*did you mean blank"):
        train(make_config(suite=str(path)))
    assert [file.name for file in (tmp_path / "run").rglob("*.spm")] == []
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_the_forecast_of_a_validation_includes_the_suite(make_config, write_suite, monkeypatch):
    cfg = make_config(suite=write_suite())
    trainer = Trainer(prepare(cfg, cfg.run_dir, Checkpoints(cfg.run_dir / "checkpoints")))
    counted = []
    batches = forecast._batches
    monkeypatch.setattr(
        forecast, "_batches", lambda segments, cfg: counted.append(len(segments)) or batches(segments, cfg)
    )
    assert isinstance(trainer.validator, TranslationValidator)
    assert forecast.forecast_validation(trainer.validator, trainer.updater.model, 0.1).fixed > 0
    assert counted == [3 + 4]  # dev sentences and lines of the suite, of which the blank ones take no time


def test_a_suite_for_other_languages_gets_a_warning(make_config, write_suite, corpus, caplog):
    cfg = make_config(suite=write_suite(), data={**corpus, "src_lang": "en", "tgt_lang": "de"})
    prepare(cfg, cfg.run_dir, Checkpoints(cfg.run_dir / "checkpoints"))
    assert re.search("en to de .*suite is for en to fr", caplog.text)
