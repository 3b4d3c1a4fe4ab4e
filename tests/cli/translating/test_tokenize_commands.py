"""`mtkit train-tokenizer`, `tokenize` and `detokenize` as a user meets them."""

import gzip
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.tokens.tokenizer import Tokenizer

CONFIG = """\
run_dir: run
data:
  src_lang: en
  train: [{src: train.en, tgt: train.fr}]
  dev: {src: dev.en, tgt: dev.fr}
tokenizer:
  src: {type: char, vocab_size: 300}
  tgt: {type: bpe, vocab_size: 290}
train: {max_steps: 1, warmup_steps: 0}
"""
LINES = ["the cat", "", "the dog\u2028sees <s> 10\xa0000 \u2603", "  "]


@pytest.fixture(autouse=True)
def _log_as_before():
    log = logging.getLogger("mtkit")
    before = (log.handlers, log.propagate, log.level)
    yield
    log.handlers, log.propagate = before[:2]
    log.setLevel(before[2])


def mtkit(*args: str, stdin: str = ""):
    return CliRunner().invoke(app, args, input=stdin.encode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A config with its corpus and, in run/, its tokenizers."""
    folder = tmp_path_factory.mktemp("tokenize")
    (folder / "config.yaml").write_text(CONFIG)
    for name, n in (("train", 60), ("dev", 2)):
        (folder / f"{name}.en").write_text("the cat sees the dog\n" * n)
        (folder / f"{name}.fr").write_text("le chat voit le chien\n" * n)
    result = mtkit("train-tokenizer", "--config", str(folder / "config.yaml"))
    assert result.exit_code == 0, result.stderr
    return folder


def test_train_tokenizer_writes_two_models_and_prints_a_table(folder):
    result = mtkit("train-tokenizer", "--config", str(folder / "config.yaml"))
    cells = [line.rsplit(maxsplit=2) for line in result.stdout.splitlines()[1:]]
    rows = {name: values for name, *values in cells}
    src, tgt = (Tokenizer.load(folder / "run" / f"{side}.spm") for side in ("src", "tgt"))
    assert rows["vocabulary size"] == [str(src.vocab_size), str(tgt.vocab_size)]
    # Five words; source pieces are characters: 16 letters and a space before each word.
    assert rows["tokens per word"][0] == f"{21 / 5:.2f}"
    assert rows["tokens in the longest sentence"][0] == "21"
    assert rows["unknown tokens"] == ["0", "0"]
    assert result.stdout.splitlines()[0].split()[-4:] == ["src:", "en", "tgt:", "fr"]
    assert "src.spm and tgt.spm" in result.stderr
    assert "learning" not in result.stderr  # the run has trained them


def test_the_report_can_be_json(folder):
    result = mtkit("train-tokenizer", "--config", str(folder / "config.yaml"), "--json")
    report = json.loads(result.stdout)
    assert report["src"]["n_sentences"] == 2
    assert report["src"]["longest"] == 21
    assert report["src"].keys() == report["tgt"].keys()


def test_settings_come_from_the_command_line_too(folder, tmp_path):
    changes = ["--set", f"run_dir={tmp_path / 'other'}", "--set", "tokenizer.tgt.type=char"]
    result = mtkit("train-tokenizer", "--config", str(folder / "config.yaml"), *changes)
    assert re.search(r"tgt\.spm: .*290 char pieces.* 60 of 60 lines", result.stderr)
    assert (tmp_path / "other" / "tgt.spm").exists()


def test_a_missing_corpus_is_one_clear_line(folder, tmp_path):
    (tmp_path / "config.yaml").write_text(CONFIG)
    result = mtkit("train-tokenizer", "--config", str(tmp_path / "config.yaml"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"mtkit: {tmp_path / 'train.en'}: no such file")
    assert "data.train" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("side", ["src", "tgt"])
def test_tokenize_and_detokenize_are_inverse_up_to_normalisation(folder, side):
    model = ("--model", str(folder / "run"), "--side", side)
    pieces = mtkit("tokenize", *model, stdin="".join(line + "\n" for line in LINES))
    text = mtkit("detokenize", *model, stdin=pieces.stdout)
    assert text.stdout.split("\n") == ["the cat", "", "the dog sees <s> 10 000 \u2603", "", ""]
    assert pieces.stdout.count("\n") == 4
    assert pieces.stderr == text.stderr == ""


def test_both_work_in_a_pipeline_of_the_shell(folder):
    script = '"$@" tokenize --model run | "$@" detokenize --model run --side src'
    command = ["bash", "-o", "pipefail", "-c", script, "bash", sys.executable, "-m", "mtkit"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        command, cwd=folder, env=env, input="".join(f"{line}\n" for line in LINES).encode(), capture_output=True
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout.decode().split("\n") == ["the cat", "", "the dog sees <s> 10 000 \u2603", "", ""]


def test_line_breaks_that_pieces_spell_do_not_break_the_line(folder):
    for piece in ("<0x0A>", "<0x0D>", "<0x0B>", "<0xE2> <0x80> <0xA8>"):
        result = mtkit("detokenize", "--model", str(folder / "run"), "--side", "src", stdin=f"▁ c {piece} a\n▁ d\n")
        assert result.stdout == "c a\nd\n"


def test_pieces_are_separated_by_single_spaces(folder):
    result = mtkit("tokenize", "--model", str(folder / "run"), stdin="the cat\n")
    assert result.stdout == "▁ t h e ▁ c a t\n"


def test_files_are_read_and_written_compressed_too(folder, tmp_path):
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"the cat\r\n\r\n"))
    options = ("--model", str(folder / "run"), "--side", "tgt")
    for command, source, target in (("tokenize", "in.gz", "pieces.gz"), ("detokenize", "pieces.gz", "out")):
        result = mtkit(command, *options, "-i", str(tmp_path / source), "-o", str(tmp_path / target))
        assert (result.exit_code, result.stdout) == (0, "")
    assert (tmp_path / "out").read_bytes() == b"the cat\n\n"


@pytest.mark.parametrize("command", ["tokenize", "detokenize"])
def test_the_input_is_not_overwritten(folder, tmp_path, command):
    path = tmp_path / "in.txt"
    path.write_text("▁ t h e\n", encoding="utf-8")
    result = mtkit(command, "--model", str(folder / "run"), "-i", str(path), "-o", str(path))
    assert (result.exit_code, path.read_text(encoding="utf-8")) == (2, "▁ t h e\n")
    assert f"--output {path}: the same file as the input" in result.stderr


def test_the_model_may_be_a_file_or_a_folder_of_a_finished_run(folder, tmp_path):
    (tmp_path / "model").mkdir()
    model = tmp_path / "model" / "src.spm"
    model.write_bytes((folder / "run" / "src.spm").read_bytes())
    found = [mtkit("tokenize", "--model", str(path), stdin="cat\n").stdout for path in (tmp_path, model)]
    assert found == ["▁ c a t\n"] * 2


def test_a_folder_without_the_model_is_named(tmp_path):
    result = mtkit("tokenize", "--model", str(tmp_path), "--side", "tgt", stdin="cat\n")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"mtkit: {tmp_path}: contains no tgt.spm; ")


def test_the_error_for_a_word_that_is_not_a_piece_names_its_line(folder):
    result = mtkit("detokenize", "--model", str(folder / "run"), "--side", "src", stdin="▁ c\ncat\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("mtkit: standard input: line 2: 'cat' ")
