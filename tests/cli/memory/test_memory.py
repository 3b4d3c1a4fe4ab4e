"""`mtkit memory` builds a memory from corpora, and prints the units that are most like a text."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.cli import app

UNITS = [("Open the file.", "Ouvrez le fichier."), ("Close the door now.", "Fermez la porte."), ("Yes.", "")]
TUV = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'
TMX = "".join(f"<tu>{TUV.format('en', src)}{TUV.format('fr', tgt)}</tu>" for src, tgt in UNITS)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("m.tmx").write_text(f"<tmx>{TMX}</tmx>")
    Path("n.tsv").write_text("Open the files.\tOuvrez les fichiers.\n")


def memory(*arguments):
    return CliRunner().invoke(app, ["memory", *arguments])


def test_a_memory_of_several_files_shows_its_matches_with_scores_and_places():
    result = memory("build", "m.tmx", "n.tsv", "-o", "m.sqlite")
    assert result.exit_code == 0, result.stderr
    assert "3 units, en-fr" in result.stderr
    result = memory("search", "m.sqlite", "Open the files.")
    assert result.stdout.splitlines() == [
        "100\tOpen the files.\tOuvrez les fichiers.\tn.tsv:1",
        "75\tOpen the file.\tOuvrez le fichier.\tm.tmx: unit 1",  # one of four tokens differs
    ]
    result = memory("search", "m.sqlite", "Open the files.", "-n", "1", "--json")
    first = {"score": 100, "source": "Open the files.", "target": "Ouvrez les fichiers.", "place": "n.tsv:1"}
    assert json.loads(result.stdout) == first
    assert memory("search", "m.sqlite", "Close it.").stdout == ""


def test_files_of_different_languages_are_refused():
    Path("o.tmx").write_text(f"<tmx>{TMX}</tmx>".replace('"fr"', '"de"'))
    result = memory("build", "m.tmx", "o.tmx", "-o", "m.sqlite")
    assert result.exit_code == 2
    assert "en-fr and en-de" in result.stderr
    assert not Path("m.sqlite").exists()


@pytest.mark.parametrize("output", ["m.tmx", "./n.tsv"])
def test_a_memory_does_not_replace_a_file_that_it_is_built_from(output):
    before = Path(output).read_text()
    result = memory("build", "m.tmx", "n.tsv", "--langs", "en-fr", "-o", output)
    assert result.exit_code == 2
    assert output.removeprefix("./") in result.stderr
    assert Path(output).read_text() == before


def test_a_search_names_the_command_that_builds_a_memory():
    for name, problem in (("m.tmx", "not a memory"), ("missing", "no such file")):
        result = memory("search", name, "Yes.")
        assert (result.exit_code, result.stdout) == (1, "")
        assert problem in result.stderr and "mtkit memory build" in result.stderr
