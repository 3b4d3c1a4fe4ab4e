"""A classifier through the real commands: trained on questions and statements, it knows which is which."""

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.cli import app

WORDS = ["the", "cat", "dog", "house", "tree", "sees", "likes", "finds", "big", "small", "old", "red"]
CONFIG = """
task: classify
data: {train: [{tsv: train.tsv}], dev: {tsv: dev.tsv}}
tokenizer: {src: {type: char, vocab_size: 300}}
model: {d_model: 16, d_ff: 32, n_heads: 2, n_encoder_layers: 1}
train: {max_steps: 40, batch_tokens: 512, lr: 0.02, warmup_steps: 5, validate_every: 20, threads: 1, precision: fp32}
"""


def sentences(n: int, seed: int) -> list[tuple[str, str]]:
    chance = random.Random(seed)
    rows = []
    for i in range(n):
        words = " ".join(chance.choices(WORDS, k=chance.randint(2, 6)))
        rows.append((f"does {words}?", "question") if i % 2 else (f"{words}.", "statement"))
    return rows


def write(path: Path, rows: list[tuple[str, ...]]) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(*arguments: object, stdin: str = "") -> tuple[str, str, int]:
    result = CliRunner().invoke(app, list(map(str, arguments)), input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout, result.stderr, result.exit_code


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("classifier")
    write(folder / "train.tsv", [*sentences(300, seed=1)])
    write(folder / "dev.tsv", [*sentences(60, seed=2)])
    (folder / "q.yaml").write_text(CONFIG, encoding="utf-8")
    stdout, stderr, code = run("train", folder / "q.yaml", "--set", f"run_dir={folder / 'run'}")
    assert code == 0, stderr
    assert stdout.strip() == str(folder / "run" / "model")
    return folder / "run"


def test_a_task_that_can_be_learnt_is_learnt(run_dir):
    test = sentences(50, seed=3)
    stdout, _, _ = run("classify", "--model", run_dir, stdin="".join(f"{text}\n" for text, _ in test))
    found = [line.split("\t") for line in stdout.splitlines()]
    assert [label for label, _ in found] == [label for _, label in test]
    assert all(0.9 < float(probability) <= 1 for _, probability in found)


def test_every_line_has_its_line_and_a_blank_one_stays_blank(run_dir, tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("does the cat see?\n\n   \nthe dog.\n", encoding="utf-8")
    assert run("classify", "--model", run_dir, "-i", source, "-o", out)[2] == 0
    lines = out.read_text(encoding="utf-8").split("\n")
    assert [line.partition("\t")[0] for line in lines] == ["question", "", "", "statement", ""]


def test_json_has_the_probability_of_every_label(run_dir):
    stdout, _, _ = run("classify", "--model", run_dir, "--json", "does the cat see?", " ")
    first, blank = map(json.loads, stdout.splitlines())
    assert first["label"] == "question"
    assert first["probability"] == first["probabilities"]["question"]
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=1e-4)
    assert blank == {"line": 2, "label": None, "probability": None, "probabilities": {}}


def test_a_classifier_is_no_translator(run_dir):
    for arguments in (["translate", "a"], ["export", "--to", "ctranslate2"], ["score"]):
        _, stderr, code = run(*arguments, "--model", run_dir)
        assert code == 1
        assert "a classifier, not a translator" in stderr
        assert "mtkit classify" in stderr


def test_a_row_with_a_label_is_not_a_text(run_dir):
    _, stderr, code = run("classify", "--model", run_dir, stdin="the cat\nthe dog\tstatement\n")
    assert code == 1
    assert "standard input: line 2" in stderr
    assert "cut -f1" in stderr


def test_the_run_leaves_a_report_in_a_classifiers_words(run_dir):
    page = (run_dir / "report.html").read_text(encoding="utf-8")
    assert "it gives each text one of 2 labels (question, statement)" in page
    assert "It learned from 300 examples" in page
    assert "mtkit classify --model" in page
    for foreign in ("BLEU", "translation", "sentence pairs"):
        assert foreign not in page.partition("The whole config")[0]
