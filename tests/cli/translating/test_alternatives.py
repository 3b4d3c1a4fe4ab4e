"""Run `mtkit alternatives` as a user does."""

import json

import pytest
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.config.reading.loading import load_written_config
from mtkit.scoring.alternatives import find_alternatives
from mtkit.translation.translator import Translator


@pytest.fixture
def run(shared_bundle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(app, ["alternatives", "--model", str(shared_bundle), *args])


@pytest.fixture(scope="module")
def expected(shared_bundle):
    translator = Translator.load(shared_bundle, engine="native", threads=1)
    return find_alternatives(translator, "the cat", 2, n=3, translation="it rains")


def test_a_line_for_each_word(run, expected):
    result = run("the cat", "--position", "2", "--n", "3", "--translation", "it rains")
    assert result.exit_code == 0
    text, current, *others = result.stdout.splitlines()
    assert text == "it rains"
    assert current.split() == ["2.", "rains", f"{expected.probability:.4f}"]
    for line, other in zip(others, expected.others, strict=True):
        assert line.split() == [other.word or "<end>", f"{other.probability:.4f}", *other.text.split()]


def test_json(run, expected):
    result = json.loads(run("the cat", "--position", "2", "--n", "3", "--translation", "it rains", "--json").stdout)
    assert (result["src"], result["text"], result["position"], result["word"]) == ("the cat", "it rains", 2, "rains")
    assert [other["word"] for other in result["others"]] == [other.word for other in expected.others]


def test_workers_of_the_config_do_not_stand_in_the_way(run, expected, monkeypatch):
    monkeypatch.setattr(
        "mtkit.bundle.load_written_config",
        lambda path, overrides=(): load_written_config(path, ["decode.workers=2", *overrides]),
    )
    assert run("the cat", "--position", "2", "--translation", "it rains").stdout.startswith("it rains\n2. rains")


@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        (["the cat", "--position", "3", "--translation", "it rains"], 1, "position 3: the translation has 2 words"),
        (["  ", "--position", "1"], 1, "the text is blank"),
        (["a", "--position", "1", "--set", "decode.engine=ctranslate2"], 1, "decode.engine=ctranslate2: "),
    ],
)
def test_mistakes_are_explained(run, args, exit_code, message):
    result = run(*args)
    assert result.exit_code == exit_code
    assert f"mtkit: {message}" in result.stderr
    assert result.stdout == ""
