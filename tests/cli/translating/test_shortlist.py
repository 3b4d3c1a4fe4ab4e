"""Run `mtkit shortlist` as a user does: it adds a lexicon to the bundle, and translate uses it."""

import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mtkit.bundle import add_to_bundle, read_bundle
from mtkit.cli import app
from mtkit.engines.shortlist import SHORTLIST, Shortlist, shortlist_of

ENGLISH = ["the cat sleeps", "the dog sleeps", "a cat", "a dog", "the dog", "the cat"] * 3
FRENCH = ["le chat dort", "le chien dort", "un chat", "un chien", "le chien", "le chat"] * 3


@pytest.fixture
def bundle(shared_bundle: Path, tmp_path: Path) -> Path:
    """Return a copy of the shared bundle, to add to."""
    shutil.copytree(shared_bundle, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def text(tmp_path: Path) -> list[str]:
    for name, lines in (("train.en", ENGLISH), ("train.fr", FRENCH)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["--src", str(tmp_path / "train.en"), "--tgt", str(tmp_path / "train.fr")]


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [*args], input=stdin)


def test_a_lexicon_learnt_from_text_is_used_by_translate(bundle: Path, text: list[str]) -> None:
    result = run("shortlist", "--model", str(bundle), "--first", "3", "--best", "4", *text)
    assert result.exit_code == 0, result.output
    files = read_bundle(bundle)
    shortlist = shortlist_of(files)
    src, tgt = files.src_tokenizer, files.tgt_tokenizer
    allowed = set(shortlist.ids_of(src.encode("the dog")).tolist())
    assert set(tgt.encode("chien")) <= allowed
    assert set(tgt.byte_ids()) <= allowed  # whatever the source holds can be spelt
    translated = run("translate", "--model", str(bundle), "--set", "decode.shortlist=true", "the dog")
    assert translated.exit_code == 0, translated.output
    assert set(tgt.encode(translated.stdout.strip())) <= allowed


def test_pairs_with_an_empty_side_are_skipped(bundle: Path, text: list[str]) -> None:
    Path(text[3]).write_text("\n".join(["", *FRENCH[1:]]) + "\n", encoding="utf-8")
    result = run("shortlist", "--model", str(bundle), *text)
    assert result.exit_code == 0, result.output


def test_a_pipe_is_refused_because_it_can_be_read_only_once(bundle: Path, text: list[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = sorted(bundle.iterdir())
    result = run("shortlist", "--model", str(bundle), "--src", str(tmp_path / "pipe"), *text[2:])
    assert result.exit_code == 1
    assert f"{tmp_path / 'pipe'}: " in result.stderr
    assert sorted(bundle.iterdir()) == before


def test_a_bundle_without_a_lexicon_is_refused_with_the_remedy(bundle: Path) -> None:
    result = run("translate", "--model", str(bundle), "--set", "decode.shortlist=true", "the dog")
    assert result.exit_code == 1
    assert all(fact in result.stderr for fact in ("decode.shortlist=true", SHORTLIST, "mtkit shortlist"))


def test_a_lexicon_of_another_vocabulary_is_refused(bundle: Path, text: list[str]) -> None:
    add_to_bundle(bundle, SHORTLIST, Shortlist.from_lexicon([[4], [5]], [6], 9).save)
    result = run("translate", "--model", str(bundle), "--set", "decode.shortlist=true", "the dog")
    assert result.exit_code == 1
    assert all(fact in result.stderr for fact in (SHORTLIST, "2 and 9 tokens", "mtkit shortlist"))


def test_missing_text_is_named(bundle: Path, text: list[str], tmp_path: Path) -> None:
    result = run("shortlist", "--model", str(bundle), "--src", text[1])
    assert (result.exit_code, "give both --src and --tgt" in result.stderr) == (2, True)
    (tmp_path / "train.fr").unlink()
    result = run("shortlist", "--model", str(bundle), *text)
    assert result.exit_code == 1
    assert "train.fr" in result.stderr
    assert not (bundle / SHORTLIST).exists()
