"""A classifier through the real commands: trained on questions and statements, it knows which is which."""

import json
import random
import re
from collections.abc import Sequence
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


def write(path: Path, rows: Sequence[tuple[str, ...]]) -> Path:
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


@pytest.mark.parametrize(
    ("dev", "metric_on", "keys"),
    [
        ("{tsv: ones.tsv}", "null", "data.dev"),
        ("[{tsv: ones.tsv}, {tsv: both.tsv}]", "ones", "data.dev (ones)"),
        ("[{tsv: ones.tsv}, {tsv: ones.tsv, name: more}]", "null", "data.dev (ones) and data.dev (more)"),
    ],
)
def test_auc_cannot_rank_by_examples_of_one_label(tmp_path, dev, metric_on, keys):
    rows = sentences(40, seed=4)
    write(tmp_path / "train.tsv", rows)
    write(tmp_path / "both.tsv", rows)
    write(tmp_path / "ones.tsv", rows[::2])
    (tmp_path / "q.yaml").write_text(CONFIG.replace("{tsv: dev.tsv}", dev), encoding="utf-8")
    metric = ["--set", "train.metric=auc", "--set", f"train.metric_on={metric_on}"]
    _, stderr, code = run("train", tmp_path / "q.yaml", "--set", f"run_dir={tmp_path / 'run'}", *metric)
    assert code == 1
    assert f"{keys}: train.metric=auc needs" in stderr and "question and statement" in stderr


def test_the_run_leaves_a_report_in_a_classifiers_words(run_dir):
    page = (run_dir / "report.html").read_text(encoding="utf-8")
    assert "one of 2 labels (question, statement)" in page
    assert "It learned from 300 examples" in page
    assert "mtkit classify --model" in page
    for foreign in ("BLEU", "translation", "sentence pairs"):
        assert foreign not in page.partition("The whole config")[0]


def test_the_logs_of_a_training_speak_of_examples_and_labels(run_dir, tmp_path):
    [(text, label), *others] = sentences(20, seed=1)
    other = "statement" if label == "question" else "question"
    write(tmp_path / "train.tsv", [(text, label), *others])
    write(tmp_path / "dev.tsv", [(text, label), (text, other), *sentences(20, seed=2)])
    (tmp_path / "q.yaml").write_text(CONFIG, encoding="utf-8")
    few = ("--set", "train.max_steps=2", "--set", "train.warmup_steps=1")
    _, stderr, code = run("train", tmp_path / "q.yaml", "--set", f"run_dir={tmp_path / 'run'}", *few)
    assert code == 0, stderr
    assert "train.tsv: 20 of 20 examples kept" in stderr
    assert "data: 20 examples;" in stderr
    assert "of the 22 texts of data.dev (4.5%)" in stderr
    assert "are in data.train with another label" in stderr
    assert f"(right label: {label})" in stderr
    for foreign in ("translat", "pair", "source", "reference"):
        assert foreign not in stderr


def test_labels_that_training_or_dev_lacks_are_warned_of(tmp_path):
    rows = sentences(20, seed=1)
    write(tmp_path / "train.tsv", rows)
    write(tmp_path / "dev.tsv", [row for row in sentences(20, seed=2) if row[1] == "question"])
    (tmp_path / "q.yaml").write_text(CONFIG, encoding="utf-8")
    labels = ("--set", "data.labels=[order, question, statement]")
    few = ("--set", "train.max_steps=1", "--set", "train.warmup_steps=0")
    _, stderr, code = run("train", tmp_path / "q.yaml", "--set", f"run_dir={tmp_path / 'run'}", *labels, *few)
    assert code == 0, stderr
    assert "data.labels: no example of data.train has 'order'" in stderr
    assert "data.dev: every example has the label 'question'" in stderr


def test_a_plan_speaks_of_examples_and_labels_and_of_no_exports(run_dir, tmp_path):
    rows = [*sentences(300, seed=1), *(("the cat.", "statement"),) * 100, ("", "question")]
    write(tmp_path / "train.tsv", rows)
    write(tmp_path / "dev.tsv", sentences(10, seed=2))
    (tmp_path / "q.yaml").write_text(CONFIG, encoding="utf-8")
    arguments = ("plan", tmp_path / "q.yaml", "--seconds", 1, "--set", f"run_dir={tmp_path / 'run'}")
    stdout, stderr, code = run(*arguments)
    assert code == 0, stderr
    lines = dict(line.split(maxsplit=1) for line in stdout.splitlines() if not line.startswith(" "))
    assert lines["examples"] == "400 of 401 kept; left out: 1 with a blank text"
    assert lines["labels"] == "2: statement 62.5%, question 37.5%"  # (150 + 100) and 150 of 400
    assert "examples a second" in lines["speed"]
    for foreign in ("export", "target", "pairs", "source"):
        assert foreign not in stdout
    record = json.loads(run(*arguments, "--json")[0])
    assert record["labels"] == {"question": 150, "statement": 250}
    assert (record["tgt"], record["exports"]) == (None, {})


def test_evaluate_counts_what_is_right(run_dir, tmp_path):
    rows = [*sentences(40, seed=4), ("does the cat see?", "statement"), ("", "question")]  # one wrong, one blank
    page = tmp_path / "page.html"
    arguments = ("evaluate", "--model", run_dir, "--tsv", write(tmp_path / "odd.tsv", rows), "-o", page)
    stdout, stderr, code = run(*arguments, "--json")
    assert code == 0, stderr
    record = json.loads(stdout)
    assert (record["n_examples"], record["n_blank"]) == (41, 1)
    assert record["scores"][0]["score"] == pytest.approx(40 / 41)
    assert record["confusion"] == [[20, 0], [1, 20]]
    question, statement = record["labels"]
    assert (question["precision"]["value"], statement["recall"]["value"]) == pytest.approx((20 / 21, 20 / 21))
    assert [mistake["texts"] for mistake in record["mistakes"]] == [["does the cat see?"]]
    assert "left out 1 of 42 rows" in stderr
    assert "line 41" in page.read_text(encoding="utf-8")
    table = run(*arguments)[0]
    assert "1  statement labelled question" in table
    assert "0.9756" in table


def test_evaluate_of_one_label_has_no_auc(run_dir, tmp_path):
    rows = [row for row in sentences(20, seed=4) if row[1] == "question"]
    stdout, _, _ = run("evaluate", "--model", run_dir, "--tsv", write(tmp_path / "one.tsv", rows), "--json")
    assert [label["auc"]["value"] for label in json.loads(stdout)["labels"]] == [None, None]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("the cat.", "Question"), "line 2: the label 'Question' is not one of the classifier's 2; did you mean"),
        (
            ("the cat.",),
            "line 2 has 1 column, not 2 (text, tab, label), which a classifier of single texts (data.pairs) reads",
        ),
        (
            ("the cat.", "der Kater.", "question"),
            "line 2 has 3 columns, not 2 (text, tab, label), which a classifier of single texts (data.pairs) reads",
        ),
        (("the cat.", ""), "line 2: the label, the last column, is empty"),
    ],
)
def test_evaluate_names_a_bad_row(run_dir, tmp_path, row, message):
    path = write(tmp_path / "bad.tsv", [("the dog.", "statement"), row])
    page = tmp_path / "page.html"
    _, stderr, code = run("evaluate", "--model", run_dir, "--tsv", path, "-o", page)
    assert code == 1
    assert f"{path}: {message}" in stderr
    assert not page.exists()


def test_evaluate_refuses_what_is_for_the_other_task(run_dir, tmp_path, bundle_of_a_run):
    path = write(tmp_path / "test.tsv", sentences(4, seed=4))
    for arguments, message in (
        (["--tsv", path, "--metric", "bleu", "--beam-size", 3], "--metric, --beam-size: only for translators"),
        (["--tsv", path, "-o", tmp_path / "out.txt"], "give a name that ends in .html"),
        (["--model", run_dir], "score one at a time"),
    ):
        _, stderr, code = run("evaluate", "--model", run_dir, *arguments)
        assert code == 2, arguments
        assert message in stderr
    _, stderr, code = run("evaluate", "--model", bundle_of_a_run, "--tsv", path)
    assert code == 2
    assert "is a translator; give --src and --ref" in stderr
    _, stderr, code = run("classify", "--model", bundle_of_a_run, "the cat.")
    assert code == 1
    assert "a translator, not a classifier" in stderr


def test_evaluate_without_a_test_set_says_what_to_give(run_dir):
    _, stderr, code = run("evaluate", "--model", run_dir)
    assert code == 1
    assert "no test set (data.test); use --tsv" in stderr


def test_inspect_attention_shows_the_row_that_decides_the_label(run_dir, tmp_path):
    page = tmp_path / "attention.html"
    arguments = ("inspect", "attention", "--model", run_dir, "does the cat see?")
    stdout, stderr, code = run(*arguments, "-o", page)
    assert code == 0, stderr
    assert stdout.startswith("does the cat see?\nquestion (")
    assert "layer 1 of 1, mean of 2 heads" in stdout
    assert re.search(r"^ *<start>  .* \d\.\d\d ", stdout, re.MULTILINE)
    assert "label (" in page.read_text(encoding="utf-8")
    [layer] = json.loads(run(*arguments, "--json")[0])["attention"]
    assert (layer["kind"], layer["queries"][0], layer["queries"][-1]) == ("encoder", "<start>", "<end>")
    for option, message in (
        (["--kind", "cross"], "a classifier has no cross-attention"),
        (["--target", "der Kater"], "this classifier reads single texts"),
    ):
        _, stderr, code = run(*arguments, *option)
        assert code == 2
        assert message in stderr
    _, stderr, code = run(*arguments[:-1], "cat " * 200)
    assert code == 1
    assert "decode.max_src_tokens" in stderr


def test_evaluate_scores_each_of_several_dev_sets(tmp_path):
    rows = sentences(60, seed=1)
    write(tmp_path / "train.tsv", rows)
    write(tmp_path / "near.tsv", rows[:20])
    write(tmp_path / "far.tsv", sentences(11, seed=9))
    (tmp_path / "q.yaml").write_text(CONFIG.replace("{tsv: dev.tsv}", "[{tsv: near.tsv}, {tsv: far.tsv}]"), "utf-8")
    few = ("--set", "train.max_steps=2", "--set", "train.warmup_steps=1")
    assert run("train", tmp_path / "q.yaml", "--set", f"run_dir={tmp_path / 'run'}", *few)[2] == 0
    arguments = ("evaluate", "--model", tmp_path / "run")
    found = json.loads(run(*arguments, "--split", "dev", "--json")[0])["dev_sets"]
    assert {name: record["n_examples"] for name, record in found.items()} == {"near": 20, "far": 11}
    for name, record in found.items():
        assert json.loads(run(*arguments, "--tsv", tmp_path / f"{name}.tsv", "--json")[0]) == record
        assert json.loads(run(*arguments, "--dev-set", name, "--json")[0]) == record
    stdout, _, _ = run(*arguments, "--split", "dev")
    assert [line for line in stdout.splitlines() if line.startswith("dev")] == ["dev (near)", "dev (far)"]
    _, stderr, code = run(*arguments, "--split", "dev", "-o", tmp_path / "page.html")
    assert (code, "choose it with --dev-set: near, far" in stderr) == (2, True)
