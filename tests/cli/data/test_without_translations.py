"""Corpora of a config that have no translations (tgt: null), which only teachers translate."""

import gzip
import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from mtkit.cli import app

MONO = [
    "Good morning.",  # the pairs have it with a translation
    "I have 12 apples, see www.apples.org and {name}.",  # which no target has
    "",
    "???",
    "See you at our new house soon.",
    "See you at our new house soon.",
    "see you at our new house soon!",  # nearly the same
    "CafÃ©s are open today.",
    "Wir sehen uns heute Abend in unserem neuen Haus am Rande der Stadt.",
]
KEPT = [*MONO[:2], MONO[4], "Cafés are open today."]


@pytest.fixture(autouse=True)
def _texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.en").write_text("Good morning.\nSee you soon.\n")
    Path("a.de").write_text("Guten Morgen.\nBis bald.\n")
    Path("mono.en").write_text("".join(f"{line}\n" for line in MONO))
    Path("mono.en.gz").write_bytes(gzip.compress(Path("mono.en").read_bytes()))


def config_with(mono: str) -> Path:
    values = {
        "data": {
            "train": [{"src": "a.en", "tgt": "a.de"}, {"src": mono, "tgt": None, "weight": 2.0}],
            "dev": {"src": "a.en", "tgt": "a.de"},
        },
        "distill": {"teachers": ["teacher"]},
        "train": {"max_steps": 1},
        "clean": {"translations": "first", "near_duplicates": True},
    }
    Path("my.yaml").write_text(yaml.safe_dump(values))
    return Path("my.yaml")


def run(*args: object):
    return CliRunner().invoke(app, [*map(str, args)])


@pytest.mark.parametrize(("mono", "read"), [("mono.en", open), ("mono.en.gz", gzip.open)])
def test_cleaning_judges_the_source_side_alone(mono, read):
    result = run("data", "clean", config_with(mono), "-o", "out", "--workers", 1)
    assert result.exit_code == 0, result.stderr
    with read(Path("out") / mono, "rt", encoding="utf-8") as file:
        assert file.read().splitlines() == KEPT
    assert Path("out/a.en").read_text() == Path("a.en").read_text(), "other text has no say in their translations"
    assert "repaired the text of 1" in result.stderr
    rows = gzip.decompress(next(Path("out").glob("mono*.rejected.tsv.gz")).read_bytes()).decode().splitlines()[1:]
    assert [row.split("\t")[1:3] for row in rows] == [
        *(["3", "empty"], ["4", "empty"], ["6", "duplicates"], ["7", "near_duplicates"], ["9", "language"])
    ]
    entries = yaml.safe_load(result.stdout)
    assert entries[1] == {"src": f"out/{mono}", "tgt": None, "weight": 2.0}
    values = yaml.safe_load(Path("my.yaml").read_text())
    values["data"]["train"] = entries
    Path("new.yaml").write_text(yaml.safe_dump(values))
    assert run("config", "new.yaml").exit_code == 0


def test_a_dry_run_judges_the_source_side_alone():
    result = run("data", "clean", config_with("mono.en"), "--dry-run", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["dropped"] == {"empty": 2, "language": 1}


@pytest.mark.parametrize(
    ("command", "output"),
    [
        *(("data report", []), ("data split", ["-o", "x"]), ("data convert", ["-o", "x.tsv"])),
        *(("data train-filter", ["-o", "x"]), ("memory build", ["-o", "x"])),
    ],
)
def test_what_needs_translations_refuses_text_without(command, output):
    config = config_with("mono.en")
    before = sorted(Path().iterdir())
    result = run(*command.split(), config, *output)
    assert result.exit_code == 2, result.stderr
    assert all(fact in result.stderr for fact in ("my.yaml", "mono.en", "tgt: null", "a.en", "a.de")), result.stderr
    assert sorted(Path().iterdir()) == before
