"""Several dev sets: each has scores of its own; their mean, or one of them, ranks the checkpoints."""

import json
import re
from dataclasses import replace
from statistics import fmean

import pytest
from tiny_corpus import write_corpus

from mtkit.bundle import read_bundle
from mtkit.config.schema import Config
from mtkit.data.dev_text import shared
from mtkit.errors import ConfigError, DataError, UsageError
from mtkit.evaluation.labelled import labelled_corpus
from mtkit.runs.plan import make_plan
from mtkit.runs.report import write_report
from mtkit.runs.train import train
from mtkit.training.metrics_log import read_metrics
from mtkit.training.preparation.prepare import check_early, prepare
from mtkit.training.trainer import Trainer
from mtkit.training.update.budget import Budget
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.training.validation.dev_sets import SeveralDevSets, parts_of


@pytest.fixture
def several(corpus, tmp_path):
    """A data section with two dev sets: the 8 pairs of the usual one, and 5 more."""
    return {**corpus, "dev": [corpus["dev"], {**write_corpus(tmp_path, "web", 5, seed=7), "tag": None}]}


def prepared(cfg):
    return prepare(cfg, cfg.run_dir, Checkpoints(cfg.run_dir / "checkpoints"))


def validations(cfg):
    return [entry for entry in read_metrics(cfg.run_dir / "metrics.jsonl") if entry["kind"] == "validation"]


def test_each_set_gets_the_scores_that_it_gets_alone(make_config, several):
    cfg = make_config(data=several, validate_sentences=None)
    run = prepared(cfg)
    found = run.validator.run(run.updater.model).figures()
    for name, files in zip(("dev", "web"), several["dev"], strict=True):
        alone = prepared(make_config(data={**several, "dev": files}, validate_sentences=None))
        figures = alone.validator.run(alone.updater.model).figures()
        assert {key: found[f"dev.{name}.{key}"] for key in figures} == figures
    for key in ("loss", "bleu", "chrf"):
        assert found[key] == fmean([found[f"dev.dev.{key}"], found[f"dev.web.{key}"]])


@pytest.mark.parametrize(("metric", "metric_on"), [("loss", None), ("loss", "web"), ("chrf", "dev"), ("chrf", None)])
def test_the_mean_or_one_set_ranks_the_checkpoints(make_config, several, metric, metric_on):
    cfg = make_config(data=several, metric=metric, metric_on=metric_on, lr=0.05)
    trainer = Trainer(prepared(cfg))
    trainer.fit()
    sets = [metric_on] if metric_on else ["dev", "web"]
    by_step = {entry["step"]: fmean([entry[f"dev.{name}.{metric}"] for name in sets]) for entry in validations(cfg)}
    assert len(by_step) == 4
    assert {one.step: one.value for one in trainer.state.best}.items() <= by_step.items()
    best = (min if metric == "loss" else max)(by_step.values())
    assert trainer.state.best[0].value == best


@pytest.mark.parametrize(("n_translated", "where"), [(3, " on 3 of 8 sentences"), (None, "")])
def test_the_end_of_a_run_says_how_sure_its_score_is(make_config, caplog, n_translated, where):
    caplog.set_level("INFO")
    result = train(make_config(validate_sentences=n_translated))
    main = json.loads((result.bundle / "manifest.json").read_text(encoding="utf-8"))["training"]["dev_metrics"][0]
    last = caplog.text[caplog.text.index("finished after") :]
    assert f"(BLEU{where}: 95 % from {main['low']:.2f} to {main['high']:.2f}; nrefs:" in last


def test_a_run_names_the_sets_wherever_it_names_dev(make_config, several, caplog):
    caplog.set_level("INFO")
    cfg = make_config(data=several)
    result = train(cfg)
    last = caplog.text[caplog.text.index("finished after") :]
    assert "(dev) loss " in last and "(web) loss " in last and "BLEU on average " in last
    assert "(BLEU on dev (dev): 95 % from " in last
    assert {"dev.dev.bleu", "dev.web.bleu", "bleu"} <= result.dev_scores.keys()
    training = json.loads((result.bundle / "manifest.json").read_text(encoding="utf-8"))["training"]
    of_sets = {label: scores[0]["score"] for label, scores in training["dev_metrics_of"].items()}
    assert of_sets == {"dev (dev)": result.dev_scores["dev.dev.bleu"], "dev (web)": result.dev_scores["dev.web.bleu"]}
    page = write_report(cfg.run_dir).read_text(encoding="utf-8")
    assert all(words in page for words in ("BLEU, web", "BLEU, dev (web)", "web.en (dev (web))", "dev text, web"))
    assert "and " + f"{of_sets['dev (web)']:.1f} on dev (web)." in page


def test_the_sets_share_the_sentences_of_a_validation(make_config, several):
    cfg = make_config(data=several, validate_sentences=7)
    validator = prepared(cfg).validator
    assert [part.n_sentences for part in parts_of(validator)] == [4, 3]
    assert (validator.n_sentences, validator.n_pairs) == (7, 13)
    assert shared(100, [8, 500, 30]) == [8, 62, 30]
    assert shared(2, [9, 9, 9]) == [1, 1, 1], "no set goes without"
    assert shared(1000, [8, 5]) == [8, 5]


def test_a_run_interrupted_between_validations_ends_with_the_same_figures(make_config, config_of, several, tmp_path):
    whole = config_of(tmp_path / "whole", data=several)
    train(whole)
    train(make_config(data=several, max_steps=8))
    cfg = make_config(data=several)
    train(cfg)
    at = {6, 12, 18, 20}
    assert [entry for entry in validations(cfg) if entry["step"] in at] == validations(whole)


def test_a_run_with_one_dev_set_goes_on_with_it_as_a_list_of_one(make_config, corpus):
    train(make_config(max_steps=6))
    cfg = make_config(data={**corpus, "dev": [corpus["dev"]]}, max_steps=12)
    assert train(cfg).steps == 12
    assert all(not key.startswith("dev.") for entry in validations(cfg) for key in entry)


def test_a_run_does_not_go_on_with_other_dev_sets(make_config, several):
    train(make_config(max_steps=6))
    with pytest.raises(ConfigError, match=r"data\.dev: 1 dev set there, 2 dev sets now"):
        train(make_config(data=several, max_steps=12))


def test_a_forecast_counts_every_set(make_config, several, monkeypatch):
    calls = []

    def forecast(validator, model, limit_s):
        from mtkit.training.validation.forecast import ValidationCost

        calls.append(limit_s)
        return ValidationCost(float(validator.n_pairs), 0.5)

    monkeypatch.setattr("mtkit.training.preparation.parallel_text.forecast_validation", forecast)
    assert make_plan(make_config(data=several), 0.2).time.validation == 8 + 5 + 0.5 * 3
    assert calls == [0.05, 0.05]


def test_a_budget_leaves_every_set_enough_sentences(make_config, corpus, tmp_path, monkeypatch):
    sets = [write_corpus(tmp_path, name, 300, seed=8) for name in ("a", "b")]
    monkeypatch.setattr(Budget, "begin", lambda *args: None)
    cfg = make_config(
        data={**corpus, "dev": sets}, budget="1s", max_steps=None, validate_sentences=None, batch_tokens=300
    )
    assert prepared(cfg).cfg.train.validate_sentences == 400


def test_overlaps_and_missing_files_name_the_set(make_config, several, corpus, tmp_path, caplog):
    copied = {**several, "dev": [several["dev"][0], {**corpus["train"][0], "name": "seen"}]}
    run = prepared(make_config(data=copied))
    assert run.overlaps["dev (seen)"].counts["pair"] == 120
    assert re.search(r"120 of the 120 pairs of data\.dev \(seen\) \(100\.0%\)", caplog.text)
    gone = {**several, "dev": [several["dev"][0], {"src": str(tmp_path / "no.en"), "tgt": str(tmp_path / "no.fr")}]}
    with pytest.raises(DataError, match=r"no\.en: no such file.* data\.dev \(no\)"):
        check_early(make_config(data=gone))


def test_the_suite_runs_once_a_validation(make_config, several, tmp_path):
    suite = tmp_path / "suite.yaml"
    suite.write_text("src_lang: en\ntgt_lang: fr\nchecks: [{check: blank}]\n", encoding="utf-8")
    run = prepared(make_config(data=several, suite=str(suite)))
    assert isinstance(run.validator, SeveralDevSets)
    figures = run.validator.run(run.updater.model).figures()
    assert [key for key in figures if "suite" in key] == ["suite", "suite.blank"]


def test_a_classifier_is_calibrated_on_all_sets_together(tmp_path):
    rows = [f"{'good' if i % 2 else 'bad'} word{i % 7}\t{'yes' if i % 2 else 'no'}\n" for i in range(80)]
    for name, part in (("train", rows), ("near", rows[:12]), ("far", rows[:10])):
        (tmp_path / f"{name}.tsv").write_text("".join(part), encoding="utf-8")
    side = {"type": "char", "vocab_size": 300}
    cfg = Config.model_validate(
        {
            "task": "classify",
            "run_dir": str(tmp_path / "run"),
            "data": {
                "train": [{"tsv": str(tmp_path / "train.tsv")}],
                "dev": [{"tsv": str(tmp_path / f"{name}.tsv")} for name in ("near", "far")],
            },
            "tokenizer": {"src": side},
            "model": {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1},
            "train": {"max_steps": 6, "warmup_steps": 1, "threads": 1, "batch_tokens": 300, "device": "cpu"},
        }
    )
    scores = train(cfg).dev_scores
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert "accuracy, dev (near)" in page and "accuracy, far" in page
    bundle = read_bundle(tmp_path / "run" / "model", task="any")
    with pytest.raises(UsageError, match=r"2 dev sets .*--dev-set: near, far"):
        labelled_corpus(bundle, None, "dev")
    assert labelled_corpus(bundle, None, "dev", "far").tsv == tmp_path / "far.tsv"
    one = bundle.config.model_copy(update={"data": bundle.config.data.model_copy(update={"dev": cfg.data.dev[:1]})})
    assert labelled_corpus(replace(bundle, config=one), None, "dev").tsv == tmp_path / "near.tsv"
    assert scores["accuracy"] == pytest.approx(fmean([scores["dev.near.accuracy"], scores["dev.far.accuracy"]]))
