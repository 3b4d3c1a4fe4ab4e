"""What the subcommands of `mtkit inspect` have in common: text that is no text, files that cannot be written."""

import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.cli import app

NO_UTF8 = "a \udc8b"  # how Python shows the byte 8B of an argument
ARGUMENTS = {
    "steps": ["one cat"],
    "attention": ["one cat"],
    "embeddings": ["one", "two", "cat"],
    "positions": [],
    "masks": ["one cat", "one red cat"],
    "saliency": ["one cat"],
}


@pytest.fixture
def run(bundle_of_a_run, tmp_path, monkeypatch):
    """Runs a subcommand on a model, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(app, ["inspect", *args, "--model", str(bundle_of_a_run)])


@pytest.mark.parametrize(
    ("args", "place"),
    [
        (["steps", NO_UTF8], "argument 1"),
        (["steps", "cat", "--target", NO_UTF8], "--target"),
        (["attention", NO_UTF8], "argument 1"),
        (["embeddings", "cat", NO_UTF8], "argument 2"),
        (["masks", "cat", "dog", NO_UTF8], "argument 3"),
        (["masks", "cat", "--target", NO_UTF8], "--target"),
        (["model", NO_UTF8], "argument 1"),
        (["model", "cat", "--target", NO_UTF8], "--target"),
        (["saliency", NO_UTF8], "argument 1"),
        (["errors", "--near", NO_UTF8], "--near"),
    ],
)
def test_text_that_is_not_utf8_is_refused(run, args, place):
    result = run(*args)
    assert result.exit_code == 1
    assert result.stderr == f"mtkit: {place}: 'a \\udc8b' is not valid UTF-8; convert it first\n"


@pytest.mark.parametrize("command", ARGUMENTS)
def test_the_suffix_says_what_is_drawn_in_capitals_too(run, command):
    result = run(command, *ARGUMENTS[command], "-o", "page.HTML")
    assert result.exit_code == 0, result.stderr
    assert "written: page.HTML" in result.stderr and result.stdout
    assert Path("page.HTML").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("command", ARGUMENTS)
@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("page.pdf", "the name must end in"),
        ("page", "the name must end in"),
        ("folder.html", "this is a folder; name a file in it"),
        ("file/page.html", "file is a file"),
        ("no/page.html", "the folder no does not exist"),
    ],
)
def test_an_unwritable_file_is_refused_before_any_work(run, command, output, message):
    Path("folder.html").mkdir()
    Path("file").touch()
    result = run(command, *ARGUMENTS[command], "-o", output)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith(f"mtkit: --output {output}: ") and message in result.stderr
    assert len(list(Path().iterdir())) == 2


def test_a_folder_that_may_not_be_written_to_is_named(run, monkeypatch):
    Path("theirs").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != Path("theirs"))  # root may write everywhere
    result = run("positions", "-o", "theirs/page.html")
    assert result.exit_code == 2
    assert re.search(r"--output theirs/page\.html: no permission .* another folder", result.stderr)
