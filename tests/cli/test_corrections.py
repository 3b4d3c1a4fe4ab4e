"""`mtkit corrections`: listed, decided on, and made a corpus."""

import asyncio

import pytest
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.serving.corrections import Corrections
from mtkit.serving.service import Caller


def run(*words):
    return CliRunner().invoke(app, ["corrections", *map(str, words)])


@pytest.fixture
def path(tmp_path):
    """A file with a correction that passed the checks, and one that did not."""
    corrections = Corrections(tmp_path / "corrections", acts=True, anonymous_acts=True)
    for text, suggestion in (("Yes.", "Oui."), ("It costs 12 euros.", "Cela coûte\ncher.")):
        asyncio.run(corrections.suggest("en", "fr", text, suggestion, Caller("ann")))
    corrections.close()
    return tmp_path / "corrections"


def test_a_correction_is_listed_accepted_and_exported(path, tmp_path):
    header, good, bad = (line.split("\t") for line in run("list", "--file", path).stdout.splitlines())
    assert header[:5] == ["id", "state", "languages", "text", "suggestion"]
    assert good[:6] == ["1", "vetted", "en-fr", "Yes.", "Oui.", "ann"]
    assert bad[:5] == ["2", "held", "en-fr", "It costs 12 euros.", "Cela coûte\\ncher."]
    assert "it loses a number: 12" in bad[-1]

    assert run("accept", 2, "--file", path).exit_code == 0
    assert run("reject", 1, "--file", path).exit_code == 0
    made = run("export", "--file", path, "--src", "en", "--tgt", "fr", "-o", tmp_path / "new.tsv")
    assert made.exit_code == 0
    assert (tmp_path / "new.tsv").read_text() == "It costs 12 euros.\tCela coûte cher.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["accept", "9"], "no correction 9; see `mtkit corrections list`"),
        (["export", "--src", "en", "--tgt", "de", "-o", "new.tsv"], "has no accepted corrections of en-de"),
    ],
)
def test_what_is_wrong_is_said(path, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    failed = run(*words, "--file", path)
    assert failed.exit_code == 2
    assert message in failed.stderr
    assert not (tmp_path / "new.tsv").exists()


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    failed = run("list", "--file", tmp_path / "none")
    assert (failed.exit_code, failed.stdout) == (2, "")
    assert "no such file" in failed.stderr
    assert not (tmp_path / "none").exists()
