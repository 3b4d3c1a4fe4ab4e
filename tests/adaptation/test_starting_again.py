"""A second start in the folder of an adaptation: what it continues, does again, and refuses."""

import json
import shutil
from unittest.mock import Mock

import pytest
from tiny_models import save_tiny_bundle, write_lines
from typer.testing import CliRunner

from mtkit.adaptation import adapt as adapting
from mtkit.adaptation import general as general_text
from mtkit.cli import app
from mtkit.config.durations import seconds_of
from mtkit.errors import DataError
from mtkit.files import parse_json
from mtkit.training.update.budget import BudgetError, Shortage
from mtkit.training.update.checkpoint import Checkpoints

pytestmark = pytest.mark.usefixtures("few_draws")


def mtkit(*args):
    return CliRunner().invoke(app, ["adapt", *map(str, args)])


def test_a_longer_budget_gives_more_time_to_a_run_that_could_not_start(base, memory, tmp_path, stand_ins, monkeypatch):
    def too_short(cfg):
        left = seconds_of(cfg.train.budget)  # of 600 s; judging and the other text get 35 % of what is added
        raise BudgetError(Shortage(cfg.train.budget, 400.0, 200.0, 20.0, 0.0, enough=left + 0.65 * 595))

    trained = stand_ins(0.0, lambda share: 0.3)
    with monkeypatch.context() as patch:
        patch.setattr(adapting, "train", too_short)
        refused = mtkit(base, memory, "--out", tmp_path / "out").stderr
        assert "leaves too little" in refused and "take 10m" in refused and "train.budget" not in refused
        assert "--budget 20m" in refused
    mtkit(base, memory, "--out", tmp_path / "out", "--budget", "20m")
    [cfg] = trained
    assert seconds_of(cfg.train.budget) > seconds_of("10m")


def test_a_longer_budget_continues_an_adaptation_that_has_ended(base, memory, tmp_path, stand_ins, monkeypatch):
    trained = stand_ins(0.0, lambda share: 0.3)
    monkeypatch.setattr(Checkpoints, "exist", lambda self: bool(trained))
    for budget in ("10m", "10m", "30m", "30m"):
        mtkit(base, memory, "--out", tmp_path / "out", "--budget", budget)
    first, second = (seconds_of(cfg.train.budget) for cfg in trained)
    assert second - first == 20 * 60


def test_the_folder_of_a_run_or_bundle_is_refused_and_stays_as_it_is(base, memory, tmp_path, stand_ins):
    def files():
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    trained, run = stand_ins(1.0, lambda share: 0.5 * share), tmp_path / "run"
    shutil.copytree(base, run / "model")
    (run / "config.yaml").write_text("task: translate\n")
    before = files()
    for out in (run, run / "model", base):
        result = mtkit(run, memory, "--out", out)
        assert result.exit_code != 0 and f"{out} is a run or bundle" in result.stderr
    assert files() == before and not trained
    assert mtkit(run, memory, "--out", run / "adapted").exit_code == 0


def test_a_memory_that_has_grown_starts_again_from_the_base(base, memory, tmp_path, stand_ins):
    trained = stand_ins(1.0, lambda share: 0.5 * share)
    mtkit(base, memory, "--out", tmp_path / "out")
    lines = memory.read_text(encoding="utf-8").splitlines()
    (tmp_path / "out" / "run" / "of-the-first").write_text("")
    write_lines(memory, [*lines[20:], *(f"{line[::-1]}" for line in lines[:40])])
    result = mtkit(base, memory, "--out", tmp_path / "out")
    assert result.exit_code == 0 and "the memory has changed" in result.stderr
    assert json.loads((tmp_path / "out" / "judgement.json").read_text())["n_read"] == 220
    assert len(trained) == 2 and not (tmp_path / "out" / "run" / "of-the-first").exists()
    mtkit(base, memory, "--out", tmp_path / "out")
    assert len(trained) == 2, "it has ended"


def test_what_the_base_has_translated_is_not_translated_again(base, memory, general, tmp_path, stand_ins, monkeypatch):
    stand_ins(0.0, lambda share: 0.3)
    translate, searched = adapting._Adaptation._translate, dict[str, list[str]]()

    def listed(self, model, text, what, files=None):
        searched[what] = text.sources
        return translate(self, model, text, what)

    def again():
        (tmp_path / "out" / "judgement.json").unlink()
        searched.clear()
        mtkit(base, memory, "--out", tmp_path / "out", "--general", general)
        return {what: sources for what, sources in searched.items() if "before" in what or "first" in what}

    monkeypatch.setattr(adapting._Adaptation, "_translate", listed)
    mtkit(base, memory, "--out", tmp_path / "out", "--general", general)
    assert {"memory's test, before", "general test, before", "general dev, before"} < {*searched}
    first = searched["memory's test, before"]
    assert again() == {}, "it resumes"
    lines = memory.read_text(encoding="utf-8").splitlines()
    write_lines(memory, [*lines, *(f"{line[::-1]}" for line in lines[:40])])
    grown = again()
    assert grown.keys() <= {"first sentence", "memory's test, before"}, "the general text has not changed"
    assert not {*grown.get("memory's test, before", [])} & {*first}


def test_a_folder_of_another_adaptation_is_refused(base, memory, tmp_path, stand_ins):
    stand_ins(0.0, lambda share: 0.3)
    mtkit(base, memory, "--out", tmp_path / "out")
    other = write_lines(tmp_path / "other.tsv", ["a\tb"])
    result = mtkit(base, other, "--out", tmp_path / "out")
    assert result.exit_code == 1 and "another memory" in result.stderr and "--out" in result.stderr


def test_a_memory_that_cannot_be_read_leaves_the_folder_to_another(base, memory, tmp_path, stand_ins):
    stand_ins(0.0, lambda share: 0.3)
    wrong = write_lines(tmp_path / "notes.txt", ["one side"])
    assert mtkit(base, wrong, "--out", tmp_path / "out", "--new-pieces", 40).exit_code == 2
    assert "not significantly better" in mtkit(base, memory, "--out", tmp_path / "out").stdout


def test_a_memory_that_is_refused_leaves_no_folder(base, memory, tmp_path):
    small = write_lines(tmp_path / "small.tsv", memory.read_text(encoding="utf-8").splitlines()[:10])
    result = mtkit(base, small, "--out", tmp_path / "out")
    assert result.exit_code == 1 and "only 10 pairs" in result.stderr and not (tmp_path / "out").exists()


def test_a_memory_that_cannot_be_read_again_keeps_the_folder(base, memory, tmp_path, stand_ins, monkeypatch):
    trained, out = stand_ins(0.0, lambda share: 0.3), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(adapting._Adaptation, "_tune", Mock(side_effect=KeyboardInterrupt))
        assert mtkit(base, memory, "--out", out).exit_code == 130
    lines = memory.read_text(encoding="utf-8").splitlines()
    assert mtkit(base, write_lines(tmp_path / "notes.txt", lines), "--out", out).exit_code == 2
    other = write_lines(tmp_path / "other.tsv", [line[::-1] for line in lines])
    refused = mtkit(base, other, "--out", out)
    assert refused.exit_code == 1 and "another memory" in refused.stderr and not trained
    assert "not significantly better" in mtkit(base, memory, "--out", out).stdout


def test_the_translations_of_another_base_are_not_used(base, memory, tmp_path, stand_ins, monkeypatch):
    stand_ins(0.0, lambda share: 0.3)
    translate, searched, out = adapting._Adaptation._translate, list[str](), tmp_path / "out"

    def listed(self, model, text, what, files=None):
        searched.append(what)
        return translate(self, model, text, what)

    monkeypatch.setattr(adapting._Adaptation, "_translate", listed)
    monkeypatch.setattr(general_text, "_translated", lambda sources, *_: [(src, src.upper()) for src in sources])
    mtkit(base, memory, "--out", out)
    first = {path: parse_json(path.read_text("utf-8"))["search"] for path in out.glob("*-translations.json")}
    with monkeypatch.context() as patch:
        patch.setattr(adapting, "as_read", Mock(side_effect=DataError("nothing to learn")))
        write_lines(memory, [*memory.read_text(encoding="utf-8").splitlines(), "one more\tun de plus"])
        assert "nothing to learn" in mtkit(base, memory, "--out", out).stderr
    searched.clear()
    other = tmp_path / "other"
    save_tiny_bundle(other, None, d_ff=48)
    mtkit(other, memory, "--out", out)
    assert "memory's test, before" in searched
    assert {path.name for path in first} == {"base-translations.json", "own-translations.json"}
    assert all(parse_json(path.read_text("utf-8"))["search"]["model"] != of["model"] for path, of in first.items())


def test_a_memory_that_cannot_be_learned_leaves_the_folder_to_another(base, memory, tmp_path, stand_ins, monkeypatch):
    stand_ins(0.0, lambda share: 0.3)
    pairs = [line.split("\t") for line in memory.read_text(encoding="utf-8").splitlines()]
    other = write_lines(tmp_path / "other.tsv", [f"{src[::-1]}\t{tgt[::-1]}" for src, tgt in pairs])
    out = tmp_path / "out"

    def nothing(one, model, folder, name):
        raise DataError(f"{name}: nothing to learn")

    with monkeypatch.context() as patched:
        patched.setattr(adapting, "as_read", nothing)
        assert "nothing to learn" in mtkit(base, memory, "--out", out).stderr
    assert not (out / "adaptation.json").exists() and not (out / "memory").exists()
    assert "not significantly better" in mtkit(base, other, "--out", out).stdout
