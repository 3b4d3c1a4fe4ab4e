"""mtkit plan forecasts what a run then does, and leaves the run's folder unchanged."""

import json
import math
import re
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.config.reading.loading import dump_config
from mtkit.config.schema import Config
from mtkit.errors import BundleError, DataError
from mtkit.model.transformer import Transformer
from mtkit.runs import plan as planning
from mtkit.runs import probe
from mtkit.runs.plan import make_plan
from mtkit.runs.train import train
from mtkit.training.preparation.learning_curve import ExpectedBleu
from mtkit.training.preparation.parallel_text import ParallelText
from mtkit.training.update.optimizer_step import Updater
from mtkit.training.validation import forecast
from mtkit.training.validation.forecast import ValidationCost

PROBE_S = 0.05


def folder_size(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_steps_parameters_and_disk_are_those_of_the_run(make_config):
    cfg = make_config(max_steps=None, max_epochs=6, validate_every=5, model={"d_model": 64})
    plan = make_plan(cfg, PROBE_S)
    assert not cfg.run_dir.exists()
    result = train(cfg)
    assert plan.steps == result.steps == 6 * plan.steps_per_epoch
    assert plan.ends == {"max_epochs": result.steps}
    assert plan.time.n_validations == math.ceil(result.steps / 5)
    weights = load_file(result.bundle / "model.safetensors")
    assert plan.parameters["total"] == sum(weight.numel() for weight in weights.values())
    assert sum(plan.parameters.values()) == 2 * plan.parameters["total"]
    happened = folder_size(cfg.run_dir)
    assert 0.8 * happened <= plan.disk.total <= 1.2 * happened
    assert plan.disk.peak > plan.disk.total


def test_the_run_s_folder_is_used_and_left_as_it_is(make_config, caplog):
    cfg = make_config(max_steps=4, validate_every=4, warmup_steps=1)
    train(cfg)
    before = {path: path.stat().st_mtime_ns for path in cfg.run_dir.rglob("*")}
    caplog.clear()
    with caplog.at_level("INFO", "mtkit"):
        plan = make_plan(cfg, PROBE_S)
    assert "learning" not in caplog.text  # of tokenizers
    assert caplog.text.count("from the cache") == 2
    assert {path: path.stat().st_mtime_ns for path in cfg.run_dir.rglob("*")} == before
    assert plan.steps == 4


@pytest.mark.parametrize("damage", ["src.ids", "manifest.json"])
def test_text_encoded_by_an_older_version_is_encoded_again_for_the_plan_alone(make_config, caplog, damage):
    cfg = make_config(max_steps=4, validate_every=4, warmup_steps=1)
    train(cfg)
    for folder in (cfg.run_dir / "cache").iterdir():
        (folder / damage).write_bytes(b"{}") if folder.is_dir() else None
    before = {path: path.read_bytes() for path in cfg.run_dir.rglob("*") if path.is_file()}
    with caplog.at_level("INFO", "mtkit"):
        make_plan(cfg, PROBE_S)
    assert "encoding the text again" in caplog.text
    assert {path: path.read_bytes() for path in cfg.run_dir.rglob("*") if path.is_file()} == before


def test_the_model_of_init_from_is_the_one_planned(make_config, config_of, tmp_path):
    first = make_config(max_steps=2, validate_every=2, warmup_steps=1, average_best=1)
    bundle = train(first).bundle
    values = config_of(tmp_path / "next", init_from=str(bundle)).model_dump(mode="json")
    corpus = values["data"]["train"][0]
    for side in ("src", "tgt"):  # of so little text, own tokenizers would have fewer pieces
        few = Path(corpus[side]).read_text().splitlines()[:5]
        (tmp_path / f"few.{side}").write_text("".join(f"{line}\n" for line in few))
        corpus[side] = str(tmp_path / f"few.{side}")
    later = Config.model_validate({key: value for key, value in values.items() if key not in ("model", "tokenizer")})
    plan = make_plan(later, PROBE_S)
    assert plan.parameters["total"] == sum(w.numel() for w in load_file(bundle / "model.safetensors").values())
    assert later.run_dir is not None and not later.run_dir.exists()
    shutil.move(bundle, tmp_path / "elsewhere")
    with pytest.raises(BundleError):
        make_plan(later, PROBE_S)
    shutil.move(tmp_path / "elsewhere", bundle)
    train(later)
    shutil.rmtree(bundle)
    again = make_plan(later, PROBE_S)
    assert (again.parameters, again.expect) == (plan.parameters, "") == (plan.parameters, plan.expect)


def test_distillation_brings_as_much_text_as_it_makes_of_which_no_bleu_is_known(make_config, tmp_path, monkeypatch):
    curve = SimpleNamespace(after=lambda n: ExpectedBleu(8, 20, 30))
    monkeypatch.setattr(ParallelText, "learning_curve", lambda self, cfg: curve)
    distill = {"teachers": [str(tmp_path / "teacher")], "n_best": 2, "original_weight": 1.0}
    own = make_config(accumulate=1, tokenizer={})  # characters have no forecast
    cfg = Config.model_validate({**own.model_dump(mode="json"), "distill": distill})
    plan, plain = make_plan(cfg, PROBE_S), make_plan(own, PROBE_S)
    assert 2.5 <= plan.steps_per_epoch / plain.steps_per_epoch <= 3.5, "two translations and the text itself"
    [left_out] = plan.left_out
    assert "teachers" in left_out and plan.bleu is None and plan.bleu_of_longer == {} and "references" in plan.no_bleu
    assert plain.left_out == [] and plain.bleu is not None and plain.no_bleu == ""


def test_text_that_only_teachers_translate_counts_as_its_translations(make_config, tmp_path):
    cfg = make_config(accumulate=1)
    data = cfg.data.model_dump(mode="json")
    [corpus] = data["train"]
    data["train"].append({"src": corpus["src"], "tgt": None})
    distill = {"teachers": [str(tmp_path / "teacher")]}
    both = Config.model_validate({**cfg.model_dump(mode="json"), "data": data, "distill": distill})
    ratio = make_plan(both, PROBE_S).steps_per_epoch / make_plan(cfg, PROBE_S).steps_per_epoch
    assert 1.5 <= ratio <= 2.5, "twice as many sentences"


def test_a_running_mean_of_the_weights_takes_disk_and_memory(make_config):
    plain, ema = (make_plan(make_config(ema=decay), PROBE_S) for decay in (0.0, 0.9))
    weights = 4 * plain.parameters["total"]
    assert ema.disk.checkpoint - plain.disk.checkpoint == pytest.approx(weights, rel=0.1)
    assert ema.disk.best == plain.disk.best
    assert ema.memory.estimated - plain.memory.estimated == weights


def test_two_passes_are_two_passes_in_the_probe(make_config, monkeypatch):
    passed = []
    forward = Transformer.hidden
    monkeypatch.setattr(
        Transformer, "hidden", lambda model, src, tgt: passed.append(len(src)) or forward(model, src, tgt)
    )
    monkeypatch.setattr(
        "mtkit.training.preparation.parallel_text.forecast_validation", lambda *args: ValidationCost(1.0, 0.0)
    )
    make_plan(make_config(), PROBE_S)
    once = passed[0]
    passed.clear()
    make_plan(make_config(r_drop=1.0), PROBE_S)
    assert passed[0] == 2 * once, "the first is that with the longest sentences"


@pytest.mark.parametrize(
    ("limit", "by_clock"),
    [({}, False), ({"max_steps": None, "max_minutes": 5.0}, True), ({"max_minutes": 99.0}, False)],
)
def test_the_updates_before_r_drop_are_timed_too(make_config, monkeypatch, limit, by_clock):
    seconds = {0.0: 0.02, 2.0: 0.05}  # what an update takes here without and with R-Drop
    now = 0.0  # on a clock that only updates move

    def update(self, *args, r_drop=2.0, **kwargs):
        nonlocal now
        now += seconds[r_drop]
        return original(self, *args, r_drop=r_drop, **kwargs)

    original: Any = Updater.update
    monkeypatch.setattr(Updater, "update", update)
    for module in (planning, probe):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(
        "mtkit.training.preparation.parallel_text.forecast_validation", lambda *args: ValidationCost(1.0, 0.0)
    )
    plain, twice, mixed = (
        make_plan(make_config(**limit, r_drop=r_drop, r_drop_from=start), 0.2).time.update
        for r_drop, start in ((0.0, 0.0), (2.0, 0.0), (2.0, 0.4))
    )
    # of 1,000 updates 400 without; or of 1,000 seconds 400
    expected = 1000 / (400 / plain + 600 / twice) if by_clock else (400 * plain + 600 * twice) / 1000
    assert (plain, twice, mixed) == pytest.approx((0.02, 0.05, expected))


def test_memory_is_the_peak_that_the_probe_measured(make_config, monkeypatch):
    monkeypatch.setattr(planning, "resident_memory", lambda: 5e8)
    assert make_plan(make_config(), PROBE_S).memory.peak == 500_000_000


def test_time_to_the_end_is_the_sum_of_its_parts(make_config):
    time = make_plan(make_config(max_steps=1000, validate_every=300), PROBE_S).time
    assert time.n_validations == 4, "after 300, 600, 900 and 1000 steps"
    steps = 1000 * time.update + 4 * (time.validation + time.saving)
    assert time.total == pytest.approx(time.preparing + steps + time.ending)


def test_a_limit_in_minutes_gives_the_steps_that_fit(make_config):
    plan = make_plan(make_config(max_steps=None, max_minutes=10.0, validate_every=100), PROBE_S)
    per_step = plan.time.update + (plan.time.validation + plan.time.saving) / 100
    assert plan.steps == plan.ends["max_minutes"] == int(600 / per_step)


def test_a_budget_is_the_time_and_gives_the_steps_that_fit(make_config):
    plan = make_plan(make_config(max_steps=None, budget="10m", validate_every="auto"), PROBE_S)
    assert plan.ends == {"budget": plan.steps}
    assert plan.time.total == pytest.approx(600, rel=0.02)
    assert plan.time.n_validations is not None
    assert 10 <= plan.time.n_validations <= 20


def test_a_budget_that_training_would_refuse_is_a_problem_of_the_plan(make_config):
    cfg = make_config(max_steps=None, budget="2s", validate_every="auto")
    plan = make_plan(cfg, PROBE_S, since=time.monotonic() - 60)
    assert re.search(r"train\.budget=2s .*\b1m(\d+s)?\b", plan.problem)
    assert plan.steps == 0
    assert plan.time.total is not None and plan.time.total > 60


def test_the_command_prints_the_plan_and_fails_if_the_budget_is_too_short(make_config, tmp_path, monkeypatch):
    monkeypatch.setattr("mtkit.console.set_up_logging", lambda quiet: None)  # other tests watch the log
    cfg = make_config(max_steps=None, budget="5s", validate_every="auto")
    monkeypatch.setattr(
        "mtkit.training.preparation.parallel_text.forecast_validation", lambda *args: ValidationCost(10.0, 0.0)
    )
    (tmp_path / "c.yaml").write_text(dump_config(cfg), encoding="utf-8")
    result = CliRunner().invoke(app, ["--quiet", "plan", str(tmp_path / "c.yaml"), "--seconds", "1"])
    assert result.exit_code == 1
    assert "0 in all" in result.stdout
    assert "train.budget=5s" in result.stderr


def test_a_run_limited_only_by_patience_has_no_total(make_config):
    plan = make_plan(make_config(max_steps=None, patience=3, validate_every=20), PROBE_S)
    assert (plan.steps, plan.ends, plan.time.total) == (None, {"patience": None}, None)
    took = plan.time  # the first validation, and three more that are no better
    training = 4 * (20 * took.update + took.validation + took.saving)
    assert took.at_least == pytest.approx(took.preparing + training + took.ending)


def test_what_the_filters_drop_is_counted_by_reason(make_config, corpus, tmp_path):
    extra = {"src": tmp_path / "extra.en", "tgt": tmp_path / "extra.fr"}
    extra["src"].write_text("\n" + "red " * 60 + "\n" + "red\n", encoding="utf-8")
    extra["tgt"].write_text("un\n" + "rouge\n" + "rouge " * 9 + "\n", encoding="utf-8")
    data = {**corpus, "train": [*corpus["train"], {side: str(path) for side, path in extra.items()}]}
    plan = make_plan(make_config(data={**data, "max_tokens": 100, "max_length_ratio": 6.0}), PROBE_S)
    counts = {"read": 123, "blank": 1, "too_long": 1, "ratio": 1, "kept": 120, "placeholders": 0}
    assert plan.pairs == counts


def test_missing_text_is_the_error_that_training_gives(make_config, corpus, tmp_path):
    data = {**corpus, "dev": {"tsv": str(tmp_path / "none.tsv")}}
    with pytest.raises(DataError, match=r"none\.tsv: .*data\.dev"):
        make_plan(make_config(data=data), PROBE_S)


def test_the_command_prints_the_figures(make_config, tmp_path, monkeypatch):
    monkeypatch.setattr("mtkit.console.set_up_logging", lambda quiet: None)  # other tests watch the log
    cfg: Config = make_config()
    (tmp_path / "c.yaml").write_text(dump_config(cfg), encoding="utf-8")
    call = ["plan", "--config", str(tmp_path / "c.yaml"), "--seconds", "1"]
    result = CliRunner().invoke(app, ["--quiet", *call, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["steps"] == 20
    assert (found["bleu"], found["bleu_of_longer"]) == (None, {})  # a tiny model, unlike those measured
    assert found["exports"]["ctranslate2"] == []
    [problem] = found["exports"]["marian"]
    assert re.search(r"Marian .*model\.positions=sinusoidal; only marian", problem)
    monkeypatch.setattr(planning, "use_of_others", lambda _since: "1.4 of 2 cores")
    result = CliRunner().invoke(app, ["--quiet", *call])
    assert "20 in all" in result.stdout
    assert re.search(r"dev BLEU +no forecast.* 3,000 to 300,000 pairs", result.stdout), "the text has fewer"
    assert "other programs used 1.4 of 2 cores" in result.stdout
    assert "export to ctranslate2" in result.stdout


def test_the_bleu_to_expect_stands_in_the_plan_also_of_longer_runs(make_config, tmp_path, monkeypatch):
    monkeypatch.setattr("mtkit.console.set_up_logging", lambda quiet: None)  # other tests watch the log
    cfg: Config = make_config()
    n_tokens = cfg.train.n_batch_tokens * cfg.train.accumulate * 20  # of the run; the curve below ends at 5 times that
    curve = SimpleNamespace(after=lambda n: ExpectedBleu(8, n / n_tokens, 30) if n <= 5 * n_tokens else None)
    monkeypatch.setattr(ParallelText, "learning_curve", lambda self, cfg: curve)
    (tmp_path / "c.yaml").write_text(dump_config(cfg), encoding="utf-8")
    shown = CliRunner().invoke(app, ["--quiet", "plan", str(tmp_path / "c.yaml"), "--seconds", "1"]).stdout
    assert "English, German and French" in shown, "on which the curve was measured"
    assert "1 (8 to 30)" in shown and "2 times: 2 (8 to 30), 4 times: 4 (8 to 30)" in shown and "8 times" not in shown


@pytest.mark.parametrize("used", ["1.4 of 2 cores", None])
def test_training_says_at_its_start_what_other_programs_use(make_config, monkeypatch, caplog, used):
    monkeypatch.setattr("mtkit.runs.train.use_of_others", lambda _since: used)
    caplog.set_level("INFO", logger="mtkit")
    train(make_config(max_steps=8))
    assert ("other programs use 1.4 of 2 cores" in caplog.text) == (used is not None)


@pytest.mark.parametrize("limit_s", [0.0, 1.5, 100.0])
def test_a_sample_of_the_work_predicts_the_time_of_all(monkeypatch, limit_s):
    sizes, now = [1, 5, 2, 4], [0.0]

    def run(number):
        now[0] += sizes[number] / 2  # half a second for each unit

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    assert forecast._extrapolated(run, sizes, limit_s) == pytest.approx(6.0)
    assert now[0] <= limit_s + 2 * 2.5 + 6 * (limit_s == 100.0), "the largest first, then until the time is up"
