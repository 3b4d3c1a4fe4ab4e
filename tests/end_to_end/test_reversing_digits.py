"""The whole road through the real commands: two text files, a model that learns to reverse digits, its score."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mtkit.cli import app
from mtkit.console import log

CONFIG = """
run_dir: runs/digits
data:
  train: [{src: train.src, tgt: train.tgt}]
  dev: {src: dev.src, tgt: dev.tgt}
  test: {src: test.src, tgt: test.tgt}
tokenizer:
  src: {type: char, vocab_size: 300, normalization: identity}
  tgt: {type: char, vocab_size: 300, normalization: identity}
model: {d_model: 64, d_ff: 128, n_heads: 4, n_encoder_layers: 1, n_decoder_layers: 1, residual_dropout: 0,
        embedding_dropout: 0}
train:
  {max_steps: 400, lr: 4.0e-3, schedule: cosine, warmup_steps: 30, batch_tokens: 512, validate_every: 200,
   log_every: 50, label_smoothing: 0, precision: fp32, threads: 1, validate_sentences: 50}
decode: {beam_size: 2}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    rng = random.Random(1)
    numbers = {"".join(rng.choices("0123456789", k=rng.randint(2, 4))): None for _ in range(6000)}
    parts = {"dev": list(numbers)[:100], "test": list(numbers)[100:300], "train": list(numbers)[300:]}
    for part, lines in parts.items():
        (folder / f"{part}.src").write_text("".join(f"{' '.join(line)}\n" for line in lines))
        (folder / f"{part}.tgt").write_text("".join(f"{' '.join(reversed(line))}\n" for line in lines))
    (folder / "digits.yaml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(log, "handlers", [])  # those of the commands write to their own stderr
        for command in ("train-tokenizer", "train"):  # one after the other, as a user starts them
            done = CliRunner().invoke(app, [command, "--config", "digits.yaml"])
            assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def mtkit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Call it with arguments of the command line; it runs in the folder, in this process, which has torch already."""
    monkeypatch.chdir(folder)

    def run(*arguments: str, stdin: str = "") -> Result:
        done = CliRunner().invoke(app, arguments, input=stdin)
        assert done.exit_code == 0, done.output
        return done

    return run


def test_the_model_reverses_numbers_that_it_never_saw(mtkit: Callable[..., Result]) -> None:
    result = json.loads(mtkit("evaluate", "--json").stdout)
    scores = {score["name"]: score["score"] for score in result["scores"]}
    assert result["n_sentences"] == 200
    assert scores["TER"] < 10  # one digit in ten wrong at most


def test_lines_come_back_in_order_and_number(mtkit: Callable[..., Result]) -> None:
    lines = ["1 2 3", "", "4 5", "9 8 7 6"]
    out = mtkit("translate", stdin="\n".join(lines) + "\n").stdout
    assert out.split("\n") == [" ".join(reversed(line.split())) for line in lines] + [""]


def test_a_finished_run_says_so_and_stays_as_it_is(folder: Path, mtkit: Callable[..., Result]) -> None:
    before = (folder / "runs/digits/model/model.safetensors").read_bytes()
    done = mtkit("train", "--config", "digits.yaml")
    assert "already finished" in done.stderr
    assert "train.max_steps" in done.stderr
    assert (folder / "runs/digits/model/model.safetensors").read_bytes() == before
