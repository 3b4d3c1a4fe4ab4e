"""Runs on several corpora whose mix changes: planned, resumed, replayed, reported."""

import json
import os
import re
import signal

import pytest
from safetensors.torch import load_file
from tiny_corpus import write_corpus
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.config.reading.loading import dump_config, load_config
from mtkit.errors import ConfigError, DataError
from mtkit.runs.plan import make_plan
from mtkit.runs.replay import replay
from mtkit.runs.report import write_report
from mtkit.runs.train import train
from mtkit.training.metrics_log import read_metrics
from mtkit.training.trainer import Trainer

PROBE_S = 0.05


@pytest.fixture
def mixed(corpus, tmp_path):
    """A data section: 120 pairs of which the better half comes first, and 10 more that come often at the end."""
    scores = tmp_path / "train.scores"
    scores.write_text("".join(f"{i % 2}\tof line {i + 1}\n" for i in range(120)), encoding="utf-8")
    [large] = corpus["train"]
    return {
        **corpus,
        "train": [
            {**large, "scores": str(scores), "min_score": {0: 1, 0.4: None}},
            {**write_corpus(tmp_path, "small", 10, seed=5), "weight": {0: 1, 0.7: 6}},
        ],
    }


def test_a_run_interrupted_in_any_stage_ends_with_the_same_weights(
    make_config, config_of, mixed, tmp_path, monkeypatch
):
    whole = train(config_of(tmp_path / "whole", data=mixed))
    update, stops = Trainer.update, {5, 9, 15}  # stages begin at 8 and 14 of 20

    def interrupted(self):
        if self.state.step in stops:
            stops.remove(self.state.step)
            os.kill(os.getpid(), signal.SIGINT)
        return update(self)

    monkeypatch.setattr(Trainer, "update", interrupted)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            train(make_config(data=mixed))
    resumed = train(make_config(data=mixed))
    assert not stops
    weights, again = (load_file(run.bundle / "model.safetensors") for run in (whole, resumed))
    assert all(again[name].equal(weight) for name, weight in weights.items())
    stages = [entry["stage"] for entry in read_metrics(tmp_path / "run" / "metrics.jsonl") if entry["kind"] == "train"]
    assert stages == [0, 0, 1, 2, 2], "after 4, 8, 12, 16 and 20 steps"


def test_a_replay_over_the_change_of_stage_is_equal(make_config, mixed):
    cfg = make_config(data=mixed)
    train(cfg)
    assert replay(cfg.run_dir).is_equal


def test_the_plan_and_the_report_count_the_passes_over_each_corpus(make_config, mixed, corpus, tmp_path):
    [large] = corpus["train"]
    small = {**write_corpus(tmp_path, "small", 10, seed=5), "weight": 6.0}
    cfg = make_config(data={**corpus, "train": [large, small]}, max_steps=None, max_epochs=3)
    plan = make_plan(cfg, PROBE_S)
    assert [use.passes for use in plan.corpora] == pytest.approx([3, 18])
    assert sum(use.batch_share for use in plan.corpora) == pytest.approx(1)
    train(cfg)
    page = re.sub(r"<[^>]*>", " ", write_report(cfg.run_dir).read_text(encoding="utf-8"))
    name = re.escape(str(small["src"]))
    [row] = re.findall(rf"{name}\s+10\s+6\s+all\s+(\d+\.\d)\S*%\s+18\.0\s", page)
    assert float(row) == pytest.approx(100 * plan.corpora[1].batch_share, abs=0.06)


def test_the_plan_has_a_row_for_each_corpus_and_stage(make_config, mixed, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "mixed.yaml"
    path.write_text(dump_config(make_config(data=mixed)), encoding="utf-8")
    result = CliRunner().invoke(app, ["plan", str(path), "--seconds", "1"])
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    begin = next(i for i, line in enumerate(lines) if line[:1] == ["mix"])
    stages = [" ".join(lines[begin + row][:5]) for row in (2, 4, 6)]
    assert stages == ["0 % to 40 %", "40 % to 70 %", "70 % to 100 %"]
    assert "60 pairs," in " ".join(lines[begin + 2]), "the better half"
    assert "120 pairs," in " ".join(lines[begin + 4])


def test_other_scores_or_limits_start_another_run(make_config, mixed, tmp_path):
    cfg = make_config(data=mixed, max_steps=6)
    train(cfg)
    large, small = mixed["train"]
    (tmp_path / "train.scores").write_text("1\n" * 120, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"data\.train"):
        train(make_config(data=mixed, max_steps=12))
    lower = {**mixed, "train": [{**large, "min_score": 0.5}, small]}
    with pytest.raises(ConfigError, match=r"data\.train\[\]\.min_score: .*null|data\.train\[\]\.min_score: .*None"):
        train(make_config(data=lower, max_steps=12))


def test_a_missing_file_of_scores_is_named_with_its_key(make_config, mixed, tmp_path):
    (tmp_path / "train.scores").unlink()
    with pytest.raises(DataError, match=r"train\.scores: no such file, .*data\.train\.0\.scores"):
        train(make_config(data=mixed))


@pytest.mark.parametrize(("line", "what"), [(None, "119 lines for 120 pairs"), ("nan", r"line 3: 'nan' is .* -inf")])
def test_scores_are_checked_before_tokenizers_take_their_time(make_config, mixed, tmp_path, line, what):
    scores = tmp_path / "train.scores"
    lines = scores.read_text(encoding="utf-8").splitlines()
    lines[2:3] = [] if line is None else [line]
    scores.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=what):
        train(make_config(data=mixed))
    assert list((tmp_path / "run").rglob("*.spm")) == []


def test_the_config_of_a_mixed_run_is_read_as_it_was_written(make_config, mixed, tmp_path):
    cfg = make_config(data=mixed)
    (tmp_path / "written.yaml").write_text(dump_config(cfg), encoding="utf-8")
    assert load_config(tmp_path / "written.yaml") == cfg
    assert json.loads(json.dumps(cfg.model_dump(mode="json")))
