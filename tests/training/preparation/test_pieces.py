"""How many pieces a run with a budget gets, and that the run keeps them."""

import re
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.config.reading.loading import load_config
from mtkit.config.schema import Config
from mtkit.distributed.communicator import ALONE
from mtkit.model.networks import new_network
from mtkit.runs.folder import with_its_choices
from mtkit.runs.train import train
from mtkit.training.preparation import choices, pace
from mtkit.training.preparation.choices import choose_pieces
from mtkit.training.preparation.rule import should_have_few_pieces
from mtkit.training.update.optimizer_step import Updater

FEW = {"src": 4000, "tgt": 4000}


@pytest.fixture
def budgeted(make_config):
    """Call it with changes of sections: a config with a budget and without sizes of tokenizers."""

    def make(**changes: Any) -> Config:
        train = {"max_steps": None, "budget": "6m", **changes.pop("train", {})}
        return make_config(**{"tokenizer": {}, **changes}, **train)

    return make


@pytest.fixture
def measured(monkeypatch):
    """Call it with the updates that the next measurements find; returns the seconds that were measured for."""
    asked: list[float] = []

    def pretend(n_updates: int) -> list[float]:
        def updates(make_updater, cfg, training_s, size, n_batches):
            asked.append(training_s)
            return n_updates

        monkeypatch.setattr(choices, "updates_without_text", updates)
        return asked

    return pretend


def chosen(cfg: Config, reasons: dict[str, str] | None = None) -> dict[str, int]:
    assert cfg.run_dir is not None
    sides = choose_pieces(cfg, cfg.run_dir, time.monotonic(), ALONE, {} if reasons is None else reasons)
    return {"src": sides.tokenizer.src.vocab_size, "tgt": sides.tokenizer.tgt.vocab_size}


@pytest.mark.parametrize(("n_updates", "size"), [(0, 4000), (1999, 4000), (2000, 8000), (9000, 8000)])
def test_a_run_with_few_updates_gets_fewer_pieces_and_says_why(budgeted, measured, n_updates, size):
    asked, reasons = measured(n_updates), dict[str, str]()
    assert chosen(budgeted(), reasons) == {"src": size, "tgt": size}
    assert asked == [pytest.approx(0.8 * 360, abs=1)]
    why = f"4000, because 8000 with 1 + 1 layers would leave about {n_updates:,} updates"
    assert reasons == ({f"tokenizer.{side}.vocab_size": why for side in FEW} if size == 4000 else {})


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        ({"tokenizer": {"src": {"type": "bpe"}}}, (4000, 4000)),
        ({"tokenizer": {"src": {"vocab_size": 900}}}, (900, 4000)),
        ({"tokenizer": {"tgt": {"vocab_size": 8000}}}, (4000, 8000)),
        ({"tokenizer": {"tgt": {"type": "char"}}}, (4000, 8000)),
        ({"tokenizer": {"shared": True}}, (8000, 8000)),
        ({"train": {"budget": None, "max_steps": 10}}, (8000, 8000)),
        ({"train": {"init_from": "start"}}, (8000, 8000)),
    ],
)
def test_written_sizes_and_other_kinds_of_runs_keep_theirs(budgeted, measured, changes, sizes):
    asked = measured(10)
    assert tuple(chosen(budgeted(**changes)).values()) == sizes
    assert bool(asked) == (4000 in sizes), "nothing is measured in vain"


@pytest.mark.parametrize(("n_characters", "size"), [(996, 4000), (997, 8000)])
def test_a_side_with_the_characters_of_chinese_keeps_the_usual_number(
    budgeted, measured, corpus, tmp_path, n_characters, size
):
    measured(10)
    for name in ("fr", "en"):
        (tmp_path / name).write_text("a b c\n" * 30_000)  # four characters, before all others
    (tmp_path / "zh").write_text("".join(chr(0x4E00 + i) for i in range(n_characters)) + "\n", "utf-8")
    (tmp_path / "en-of-zh").write_text("a b c\n")
    names = (("fr", "en"), ("zh", "en-of-zh"))
    train = [{"src": str(tmp_path / src), "tgt": str(tmp_path / tgt)} for src, tgt in names]
    assert chosen(budgeted(data={**corpus, "train": train})) == {"src": size, "tgt": 4000}


@pytest.mark.parametrize(
    ("n_updates", "has_few", "gets_few"),
    [
        (1999, None, True),
        (2000, None, False),
        (3999, True, True),
        (4000, True, False),
        (999, False, True),
        (1000, False, False),
    ],
)
def test_tokenizers_that_a_run_has_stay_unless_the_difference_is_clear(n_updates, has_few, gets_few):
    assert should_have_few_pieces(n_updates, has_few) == gets_few


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        ({}, [1017, 1014, 1008]),  # sentences of 8, 12 and 20 tokens with their ends: 113 x 9, 78 x 13, 48 x 21
        ({"batch_tokens": 300}, [297, 299, 294]),
        ({"batch_tokens": "auto"}, [1017, 1014, 1008]),
        ({"model": {"positions": "learned", "max_positions": 10}}, [1017, 1020, 1020]),  # at most 9 tokens
    ],
)
def test_updates_are_measured_before_there_is_a_tokenizer(budgeted, monkeypatch, changes, sizes):
    train = {"guided_alignment": 0.1, "batch_tokens": None} | {
        key: value for key, value in changes.items() if key != "model"
    }
    cfg, made = budgeted(train=train, **{key: value for key, value in changes.items() if key == "model"}), []

    def trial(cfg: Config) -> Updater:
        updater = Updater(new_network(cfg, 300, 300), cfg.train, cfg.seed, "fp32")
        update = updater.update

        def counted(batches, *rest, **options):
            made.append(batches)
            return update(batches, *rest, **options)

        monkeypatch.setattr(updater, "update", counted)
        return updater

    clock = iter(range(10**6))
    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: next(clock) / 10)
        n_updates = pace.updates_without_text(trial, cfg, 100.0, 300, 2)
    # After the first three, three updates for each look at the clock, which moves by a tenth of a second
    assert n_updates == pytest.approx(100 * (len(made) - 3) / 1.1, rel=0.02)
    assert all(len(batches) == 2 for batches in made[3:]), "each update accumulates two batches"
    assert [batch.src.numel() for [batch] in made[:3]] == sizes
    for [batch] in made[:3]:
        assert batch.src[:, :-1].min() >= 4 and batch.src.max() < 300, "no special ids inside a sentence"


def test_a_model_that_does_not_fit_into_memory_is_not_measured(budgeted, monkeypatch):
    monkeypatch.setattr(choices, "available_memory", lambda: 1000.0)
    monkeypatch.setattr(choices, "new_network", Mock(side_effect=AssertionError))
    assert chosen(budgeted()) == {"src": 8000, "tgt": 8000}, "preparation explains what is too large"


def test_a_gpu_keeps_the_usual_number_on_a_machine_without_one_too(budgeted, measured):
    asked = measured(10)
    assert chosen(budgeted(train={"device": "cuda"})) == {"src": 8000, "tgt": 8000} and not asked


def test_the_choice_is_recorded_and_kept_with_another_budget(budgeted, measured):
    measured(10)
    cfg = budgeted(train={"budget": "20s", "batch_tokens": 300, "threads": 1})
    train(cfg)
    assert cfg.run_dir is not None
    recorded = load_config(cfg.run_dir / "config.yaml")
    assert {side: getattr(recorded.tokenizer, side).vocab_size for side in FEW} == FEW
    head = (cfg.run_dir / "config.yaml").read_text("utf-8")
    assert re.search(r"src.vocab_size: \d+ of 4000: the text has no more pieces; 4000, because 8000 with 1", head)
    longer = cfg.model_copy(update={"train": cfg.train.model_copy(update={"budget": "25s"})})
    kept = with_its_choices(longer, started=True).tokenizer
    assert (kept.src.vocab_size, kept.tgt.vocab_size) == (4000, 4000)
    measured(10**6)
    assert train(longer).steps > 0, "nothing has changed, so the run goes on"


def written(cfg: Config, path: Path, **train: Any) -> str:
    """Write a config, with these keys of train, and return its name."""
    values = cfg.model_dump(mode="json", exclude_unset=True)
    values["train"] = {key: value for key, value in (values["train"] | train).items() if value is not None}
    path.write_text(yaml.safe_dump(values))
    return str(path)


def test_a_run_keeps_the_tokenizers_that_were_trained_before_it(budgeted, measured, tmp_path):
    def train_tokenizer(**changes):
        result = CliRunner().invoke(app, ["train-tokenizer", written(cfg, tmp_path / "my.yaml", **changes)])
        assert result.exit_code == 0, result.output
        return result.stderr

    cfg = budgeted(train={"budget": "20s", "batch_tokens": 300, "threads": 1})
    measured(10)
    said = train_tokenizer()
    assert "tokenizer.src.vocab_size: 4000, because 8000 with 1 + 1 layers would leave about 10 updates" in said
    assert "learning 4,000 unigram pieces" in said
    measured(3000)
    assert chosen(cfg) == FEW and "up to date" in train_tokenizer()
    train(cfg)
    assert "up to date" in train_tokenizer(budget=None, max_steps=5000), "a started run keeps them in any case"
    measured(10**6)
    assert "up to date" in train_tokenizer(budget="10h")


def test_tokenizers_of_a_much_shorter_budget_are_trained_again(budgeted, measured, tmp_path):
    cfg = budgeted()
    measured(10)
    CliRunner().invoke(app, ["train-tokenizer", written(cfg, tmp_path / "my.yaml")])
    measured(10**6)
    assert chosen(cfg) == {"src": 8000, "tgt": 8000}


def test_tokenizers_of_the_user_are_not_chosen(budgeted, measured, tmp_path):
    cfg = budgeted()
    measured(10)
    CliRunner().invoke(app, ["train-tokenizer", written(cfg, tmp_path / "my.yaml")])
    assert cfg.run_dir is not None
    (cfg.run_dir / "tokenizers.json").unlink()
    asked = measured(10)
    asked.clear()
    assert chosen(cfg) == {"src": 8000, "tgt": 8000} and not asked
