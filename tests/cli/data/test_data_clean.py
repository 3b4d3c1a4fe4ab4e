import gzip
import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from typer.testing import CliRunner

from mtkit.cli import app

EN = ["Good morning.", "I have 12 apples.", "See you soon.", "The weather is nice today."] * 2
DE = ["Guten Morgen.", "Ich habe 13 Äpfel.", "Bis bald.", "Das Wetter ist heute schön."] * 2


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.en").write_text("\n".join(EN) + "\n")
    Path("a.de").write_text("\n".join(DE) + "\n")


def clean(*arguments):
    return CliRunner().invoke(app, ["data", "clean", *arguments, "--workers", "1"])


def test_two_files_are_cleaned_without_a_config():
    result = clean("a.en", "a.de", "-o", "b.en", "-o", "b.de")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert Path("b.en").read_text().splitlines() == [EN[0], EN[2], EN[3]]
    assert "kept 3 of 8 pairs (37.50%)" in result.stderr
    assert "b.rejected.tsv.gz" in result.stderr
    assert "warning: duplicates drops 37.50%" in result.stderr
    rejected = gzip.decompress(Path("b.rejected.tsv.gz").read_bytes()).decode()
    assert rejected.splitlines()[1].split("\t")[:3] == ["a.en", "2", "numbers"]


@pytest.mark.parametrize("name", ["b.tmx", "b.tmx.gz"])
def test_the_kept_pairs_can_be_a_tmx(name):
    result = clean("a.en", "a.de", "-o", name)
    assert result.exit_code == 0, result.stderr
    content = Path(name).read_bytes()
    root = ElementTree.fromstring(gzip.decompress(content) if name.endswith(".gz") else content)
    assert [seg.text for seg in root.iter("seg")] == [side for i in (0, 2, 3) for side in (EN[i], DE[i])]
    assert Path("b.rejected.tsv.gz").exists()


def test_a_tmx_needs_both_languages():
    Path("a.en").rename("one.txt")
    Path("a.de").rename("two.txt")
    result = clean("one.txt", "two.txt", "-o", "b.tmx")
    assert result.exit_code == 2 and "--langs" in result.stderr and not Path("b.tmx").exists()


def test_outputs_with_the_languages_the_other_way_round_are_refused():
    result = clean("a.en", "a.de", "-o", "b.de", "-o", "b.en")
    assert result.exit_code == 2
    assert "give the file of the source first: -o b.en -o b.de" in result.stderr
    assert sorted(path.name for path in Path().iterdir()) == ["a.de", "a.en"]


def test_rules_are_switched_off_by_set_and_json_has_the_counts():
    result = clean("a.en", "a.de", "-o", "b.tsv", "--set", "clean.numbers=false", "--rejected", "r.tsv", "--json")
    record = json.loads(result.stdout)
    assert record["n_kept"] == 4
    assert record["dropped"]["duplicates"] == 4
    assert "numbers" not in record["alone"]
    assert record["outputs"] == [{"kept": ["b.tsv"], "rejected": "r.tsv"}]
    assert len(Path("r.tsv").read_text().splitlines()) == 5


def test_a_dry_run_shows_examples_and_time_and_writes_nothing():
    before = sorted(Path().iterdir())
    result = clean("a.en", "a.de", "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "8 of 8 pairs judged" in result.stdout
    assert "a.en:2: source only: 12; target only: 13" in result.stdout
    assert "will take" in result.stdout
    assert sorted(Path().iterdir()) == before
    assert json.loads(clean("a.en", "a.de", "--dry-run", "--json").stdout)["dropped"] == {"numbers": 2}


def test_the_corpora_of_a_config_go_to_a_folder_and_stdout_has_their_entries(tmp_path):
    config: dict[str, Any] = {
        "data": {
            "train": [{"src": "a.en", "tgt": "a.de", "tag": "<x>", "weight": 2.0}, {"tsv": "t.tsv"}],
            "dev": {"src": "a.en", "tgt": "a.de"},
        },
        "train": {"max_steps": 1},
        "clean": {"numbers": False},
    }
    Path("my.yaml").write_text(yaml.safe_dump(config))
    Path("t.tsv").write_text("Good morning.\tGuten Morgen.\nGood evening.\tGuten Abend.\n")
    result = clean("my.yaml", "-o", "cleaned")
    assert result.exit_code == 0, result.stderr
    assert len(Path("cleaned/a.en").read_text().splitlines()) == 4
    assert Path("cleaned/t.tsv").read_text() == "Good evening.\tGuten Abend.\n"
    assert Path("cleaned/a.en.rejected.tsv.gz").exists() and Path("cleaned/t.tsv.rejected.tsv.gz").exists()
    config["data"]["train"] = yaml.safe_load(result.stdout)
    assert [entry.get("weight", 1.0) for entry in yaml.safe_load(result.stdout)] == [2.0, 1.0]
    Path("new.yaml").write_text(yaml.safe_dump(config))
    checked = CliRunner().invoke(app, ["config", "new.yaml"])
    assert checked.exit_code == 0, checked.stderr
    assert "tag: <x>" in checked.stdout


SCORES = ["--set", "clean.score=s.txt", "--set", "clean.min_score=0.5"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.en", "a.de"], "--output"),
        ([], "nothing to clean"),
        (["a.en", "a.de", "-o", "b.xlsx"], ".tsv"),
        (["a.en", "a.de", "-o", "a.en", "-o", "b.de"], "one of the corpora"),
        (["a.en", "a.de", "-o", "b.en", "-o", "b.en"], "named twice"),
        (
            ["a.en", "a.de", "-c", "my.yaml", "-o", "b.tsv", "--rejected", "my.yaml"],
            "the same file as the input my.yaml",
        ),
        (
            ["a.en", "a.de", "-o", "b.tsv", "--rejected", "s.txt", *SCORES],
            "--rejected s.txt: the same file as the input",
        ),
        (["a.en", "a.de", "-o", "no/b.tsv"], "no folder"),
        (["a.en", "a.de", "-o", "b.tsv", "--set", "clean.number=false"], "did you mean numbers"),
        (["a.en", "a.de", "-o", "b.tsv", "--set", "train.lr=1"], "only keys of clean"),
        (["a.en", "a.de", "-o", "b.tsv", "--set", "clean.min_score=1"], "set both"),
        (["a.en", "missing.de", "-o", "b.tsv"], "no such file"),
        (["pipe.en", "a.de", "-o", "b.tsv"], "pipe.en: not a regular file"),
    ],
)
def test_a_mistake_is_explained_and_writes_nothing(arguments, message):
    os.mkfifo("pipe.en")
    Path("s.txt").write_text("1\n" * 8)
    Path("my.yaml").write_text("data: {train: [{src: a.en, tgt: a.de}], dev: {src: a.en, tgt: a.de}}\n")
    before = sorted(Path().iterdir())
    result = clean(*arguments)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.stderr.split())
    assert sorted(Path().iterdir()) == before


def test_unequal_files_are_refused_with_their_numbers_of_lines():
    Path("a.de").write_text("eins\n")
    result = clean("a.en", "a.de", "-o", "b.tsv")
    assert result.exit_code == 1
    assert "8 lines" in result.stderr and not Path("b.tsv").exists()


def test_what_a_reader_leaves_out_is_said():
    unit = "<tu>{}</tu>".format('<tuv xml:lang="en"><seg>Hello</seg></tuv>')
    pair = unit.replace("</tu>", '<tuv xml:lang="de"><seg>Hallo</seg></tuv></tu>')
    Path("m.tmx").write_text(f"<tmx>{unit}{pair}</tmx>")
    Path("nothing.tsv").touch()
    Path("m.en").write_text("Hello\rworld\n")
    Path("m.de").write_text("Hallo\rWelt\n")
    result = clean("m.tmx", "nothing.tsv", "m.en", "m.de", "-o", "clean.tsv", "--langs", "en-de")
    assert result.exit_code == 0, result.stderr
    assert "m.tmx: 1 pair of 2 units; left out: 1 without de" in result.stderr
    assert "warning: nothing.tsv: the corpus is empty" in result.stderr
    assert "m.en: 1 pair of 1 unit; CR inside" in result.stderr


def test_places_in_a_tmx_are_units():
    unit = '<tu><tuv xml:lang="en"><seg>Good morning</seg></tuv><tuv xml:lang="de"><seg>Guten Tag 5</seg></tuv></tu>'
    Path("m.tmx").write_text(f"<tmx>\n{unit.replace(' 5', '')}{unit}{unit.replace(' 5', '')}</tmx>")
    result = clean("m.tmx", "-o", "clean.tsv")
    assert result.exit_code == 0, result.stderr
    header, *rows = gzip.decompress(Path("clean.rejected.tsv.gz").read_bytes()).decode().splitlines()
    assert header.split("\t")[:3] == ["file", "line or unit", "rule"]
    assert [row.split("\t")[1:4] for row in rows] == [
        ["2", "numbers", "target only: 5"],
        ["3", "duplicates", "same as m.tmx: unit 1"],
    ]
    assert "m.tmx: unit 2: target only: 5" in clean("m.tmx", "--dry-run").stdout


def test_languages_that_nothing_names_are_said_to_be_unjudged():
    Path("a.en").rename("x.txt")
    Path("a.de").rename("y.txt")
    said = clean("x.txt", "y.txt", "-o", "b.tsv").stderr
    assert said.count("warning: the rule language") == 1
    assert "neither side" in said and "--langs en-de" in said


def test_a_language_that_is_not_known_is_said_with_its_side():
    said = clean("a.en", "a.de", "--langs", "en-xx", "-o", "b.tsv").stderr
    assert re.search(r"rule language .*target.* xx\n", said)
