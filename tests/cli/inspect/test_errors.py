"""`mtkit inspect errors` as a user meets it: against `mtkit score`, files, forms and mistakes."""

import csv
import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.inspection import corpus_choice


@pytest.fixture
def run(bundle_of_a_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*args: str):
        return CliRunner().invoke(app, ["inspect", "errors", "--model", str(bundle_of_a_run), *args])

    return run


@pytest.fixture
def dev(config_of_a_run):
    return config_of_a_run.data.dev[0]


def test_figures_are_those_of_the_score_command(run, bundle_of_a_run, dev):
    command = ["score", "--model", str(bundle_of_a_run), "--src", str(dev.src), "--tgt", str(dev.tgt), "--json"]
    scores = [json.loads(line) for line in CliRunner().invoke(app, command).stdout.splitlines()]
    scores.sort(key=lambda score: score["per_token"])
    result = run("--corpus", "dev", "--json", "--top", "6")
    found = json.loads(result.stdout)
    assert [pair["line"] for pair in found["pairs"]] == [score["line"] for score in scores[:6]]
    for pair, score in zip(found["pairs"], scores, strict=False):
        assert pair["nats_per_token"] == pytest.approx(-score["per_token"], abs=1e-3)
        assert pair["file"] == str(dev.src)
    total = -sum(score["log_prob"] for score in scores) / sum(score["n_tokens"] for score in scores)
    assert found["nats_per_token"] == pytest.approx(total, abs=1e-3)
    assert (found["n_pairs"], found["n_scored"], found["left_out"]) == (8, 8, {})
    assert "8 of 8 pairs scored: " in result.stderr


def test_text_names_file_and_line_and_shows_the_own_translation_on_demand(run, dev):
    lines = run("--corpus", "dev", "-n", "2", "--translate").stdout.splitlines()
    assert len(lines) == 8
    assert lines[0].startswith("   1. ") and f"{dev.src}:" in lines[0] and "nats a token" in lines[0]
    number = int(lines[0].rsplit(":", 1)[1])
    assert lines[1].strip() == dev.src.read_text().splitlines()[number - 1]
    assert lines[2].strip() == dev.tgt.read_text().splitlines()[number - 1]
    assert lines[3].startswith("      own: ")
    assert len(run("--corpus", "dev", "-n", "2").stdout.splitlines()) == 6


def test_files_have_the_same_content_as_json(run):
    shown = json.loads(run("--corpus", "dev", "--translate", "--json").stdout)
    for suffix in ("tsv", "json"):
        result = run("--corpus", "dev", "--translate", "-o", f"hard.{suffix}")
        assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads(Path("hard.json").read_text()) == shown
    with Path("hard.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert rows == [{key: str(value) for key, value in pair.items()} for pair in shown["pairs"]]
    assert list(rows[0])[-2:] == ["own_nats_per_token", "own_translation"]


def test_tabs_and_odd_line_breaks_in_text_stay_inside_their_column(run):
    Path("a.en").write_text("cat\tdog\n")
    Path("a.fr").write_text("chat\x0cchien\n")
    assert run("--src", "a.en", "--tgt", "a.fr", "-o", "a.tsv").exit_code == 0
    head, row = Path("a.tsv").read_text().split("\n")[:-1]
    assert row.split("\t")[-2:] == ["cat dog", "chat chien"] and head.count("\t") == row.count("\t")


def test_near_sentences_in_every_form(run, config_of_a_run):
    [files] = config_of_a_run.data.train
    sentence = files.src.read_text().splitlines()[4]
    found = json.loads(run("--near", sentence, "--json", "--top", "3").stdout)
    assert found["sentence"] == sentence and found["n_pairs"] == 120
    assert [near["rank"] for near in found["nearest"]] == [1, 2, 3]
    assert found["nearest"][0]["src"] == sentence and found["nearest"][0]["cosine"] == pytest.approx(1.0, abs=1e-5)
    assert {"file": str(files.src), "line": 5, "tgt": files.tgt.read_text().splitlines()[4]} in found["nearest"][0][
        "pairs"
    ]
    text = run("--near", sentence, "--top", "3").stdout
    assert text.startswith(f"   1. 1.0000  {sentence}\n") and f"{files.src}:5" in text
    assert run("--near", sentence, "--top", "3", "-o", "near.tsv").exit_code == 0
    head, *rows = Path("near.tsv").read_text().splitlines()
    assert head.split("\t") == ["rank", "cosine", "n_pairs", "file", "line", "src", "tgt"]
    assert len(rows) == sum(len(near["pairs"]) for near in found["nearest"])


@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        (["--src", "a.en"], 2, "give both --src and --tgt, or neither"),
        (["--src", "a.en", "--tgt", "none.fr"], 1, "none.fr: no such file"),
        (["--src", "a.en", "--tgt", "long.fr"], 1, "a.en has 1 line, long.fr has 2; line n of one must"),
        (["--corpus", "test"], 1, "config.yaml: no test set (data.test); give --src and --tgt"),
        (["--src", "a.tsv", "--tgt", "a.tsv", "-o", "a.tsv"], 2, "--output a.tsv: the same file as the input"),
        (["--corpus", "dev", "-o", "x.txt"], 2, "--output x.txt: the name must end in .tsv or .json"),
        (["--near", "cat", "--translate"], 2, "leave out --near"),
        (["--corpus", "dev", "-o", "x.tsv", "--json"], 2, "--json and --output x.tsv: name a .json file"),
        (["--near", " "], 2, "--near ' ': the source is blank"),
        (["--set", "train.lr=1"], 2, "--set train.lr=1: only keys of the decode section"),
    ],
)
def test_mistakes_are_explained(run, args, exit_code, message):
    Path("a.en").write_text("cat\n")
    Path("long.fr").write_text("chat\nchien\n")
    Path("a.tsv").write_text("cat\n")
    result = run(*args)
    assert result.exit_code == exit_code
    assert message in result.stderr
    assert result.stdout == ""


def test_a_missing_corpus_is_named(run, dev):
    away = dev.src.with_name("moved.en")
    dev.src.rename(away)
    try:
        result = run("--corpus", "dev")
    finally:
        away.rename(dev.src)
    assert result.exit_code == 1
    assert f"{dev.src}: no such file, though" in result.stderr and "names it as data.dev: give --src" in result.stderr


def test_a_large_text_is_sampled_unless_all_of_it_is_asked_for(run, monkeypatch):
    monkeypatch.setattr(corpus_choice, "SAMPLE", 3)
    sampled, everything = run("--corpus", "dev", "--json"), run("--corpus", "dev", "--json", "--all")
    assert re.search(r"3 of 8 pairs, evenly spaced; --all .*\n", sampled.stderr)
    assert sorted(pair["line"] for pair in json.loads(sampled.stdout)["pairs"]) == [3, 6, 8]
    assert json.loads(everything.stdout)["n_pairs"] == 8
    assert "evenly spaced" not in everything.stderr
    assert json.loads(run("--corpus", "dev", "--json", "--near", "a cat").stdout)["n_pairs"] == 8
    both = run("--sample", "3", "--all")
    assert both.exit_code == 2 and "--sample 3 and --all exclude each other" in both.stderr


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="needs /dev/fd")
def test_pipes_are_read_once_and_refuse_a_sample(run, dev):
    options = []
    for side in ("src", "tgt"):
        reading, writing = os.pipe()
        os.write(writing, getattr(dev, side).read_bytes())
        os.close(writing)
        options += [f"--{side}", f"/dev/fd/{reading}"]
    result = run(*options, "--sample", "3")
    assert result.exit_code == 2 and "--sample 3: mtkit cannot sample a pipe" in result.stderr
    piped = json.loads(run(*options, "--json").stdout)
    expected = json.loads(run("--corpus", "dev", "--json").stdout)
    assert [pair["line"] for pair in piped["pairs"]] == [pair["line"] for pair in expected["pairs"]]


def test_a_mistake_leaves_the_file_that_was_there(run):
    Path("a.en").write_text("cat\n")
    Path("long.fr").write_text("chat\nchien\n")
    Path("hard.tsv").write_text("precious\n")
    assert run("--src", "a.en", "--tgt", "long.fr", "-o", "hard.tsv").exit_code == 1
    assert Path("hard.tsv").read_text() == "precious\n"
