"""What a run warns about or refuses at its start."""

import os
from pathlib import Path

import pytest

from mtkit.errors import ConfigError, DataError, MtkitError, TrainingError
from mtkit.files import locked
from mtkit.runs.train import train
from mtkit.training.preparation.prepare import check_early


def test_r_drop_without_dropout_gets_a_warning(config_of, tmp_path, caplog):
    without = dict.fromkeys((f"{place}_dropout" for place in ("embedding", "residual", "attention", "ffn")), 0.0)
    train(config_of(tmp_path / "run", max_steps=5, r_drop=2.0, model=without))
    assert "train.r_drop=2.0 " in caplog.text


def test_a_compiled_run_without_a_compiler_ends_before_it_begins(config_of, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "no-compiler"))
    with pytest.raises(MtkitError, match=r"train\.compile needs a C\+\+ compiler, and there is no .*no-compiler: inst"):
        train(config_of(tmp_path / "run", compile=True))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(MtkitError, match="compiler"):
        check_early(config_of(tmp_path / "run", compile=True))


def test_a_run_is_a_folder(config_of, tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(ConfigError, match=r"run_dir=.*/run: .* file"):
        train(config_of(tmp_path / "run"))


def test_a_start_that_fails_leaves_no_folder(config_of, tmp_path):
    missing = {"src": str(tmp_path / "no.en"), "tgt": str(tmp_path / "no.fr")}
    with pytest.raises(DataError, match=r"no\.en"):
        train(config_of(tmp_path / "run", data={"train": [missing], "dev": missing}))
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_locked_while_a_process_works_in_it(config_of, tmp_path):
    run_dir = tmp_path / "run"
    with locked(run_dir):
        with pytest.raises(MtkitError, match=rf"another mtkit .*\(pid {os.getpid()}\)"):
            train(config_of(run_dir))
        assert [path.name for path in run_dir.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((1, 2), r"other\.en has 1 line, .*other\.fr has 2"),
        ((0, 0), r"data\.dev: .*\b0 lines in .*other\.en, .*other\.fr\b"),
    ],
)
def test_dev_text_that_cannot_be_used_is_found_before_anything_is_learnt(config_of, tmp_path, corpus, lines, message):
    files = {side: str(tmp_path / f"other.{side}") for side in ("en", "fr")}
    for path, n in zip(files.values(), lines, strict=True):
        Path(path).write_text("word\n" * n)
    with pytest.raises(DataError, match=message):
        train(config_of(tmp_path / "run", data={**corpus, "dev": {"src": files["en"], "tgt": files["fr"]}}))
    assert not (tmp_path / "run" / "src.spm").exists()


@pytest.mark.parametrize(("text", "n"), [("", 0), ("\n \n", 2)])
def test_training_text_without_any_text_is_named(config_of, tmp_path, corpus, text, n):
    empty = tmp_path / "empty.en"
    empty.write_text(text)
    with pytest.raises(DataError, match=rf"data\.train: .*\b{n} lines in {empty}, {empty}\b"):
        train(config_of(tmp_path / "run", data={**corpus, "train": [{"src": str(empty), "tgt": str(empty)}]}))


def test_a_loss_that_is_not_finite_names_lines_of_the_corpus(config_of, tmp_path, corpus):
    cfg = config_of(tmp_path / "run", max_grad_norm=1e30, warmup_steps=0, schedule="constant", lr=1e30)
    with pytest.raises(TrainingError, match=r"(?s)step \d+: .*\bnan\b.*train\.en:\d+\n.*lower train\.lr"):
        train(cfg)
