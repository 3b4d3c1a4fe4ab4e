"""`mtkit data split` through the command line: files that a config can use, and mistakes explained."""

import json

import pytest
from tiny_corpus import write_corpus
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.config.reading.loading import load_config


def run(*args):
    return CliRunner().invoke(app, ["--quiet", "data", "split", *map(str, args)])


def write_texts(folder, n=60):
    for lang, word in (("en", "sentence"), ("fr", "phrase")):
        lines = [f"{word} {chr(97 + i % 26) * 9} {chr(97 + i // 26) * 9} {lang}\n" for i in range(n)]
        (folder / f"all.{lang}").write_text("".join(lines), encoding="utf-8")
    return folder / "all.en", folder / "all.fr"


def test_the_folder_has_a_config_that_loads_and_names_its_files(tmp_path):
    done = run(*write_texts(tmp_path), "-o", tmp_path / "parts", "--dev", 5, "--test", "10%")
    assert done.exit_code == 0, done.output
    config = load_config(tmp_path / "parts" / "parts.yaml")
    assert (config.data.src_lang, config.data.tgt_lang) == ("en", "fr")
    sizes = {}
    assert config.data.test is not None
    for name, corpus in (("train", config.data.train[0]), ("dev", config.data.dev[0]), ("test", config.data.test)):
        lines = [path.read_text(encoding="utf-8").count("\n") for path in corpus.paths]
        assert lines[0] == lines[1]
        sizes[name] = lines[0]
    assert (sizes["dev"], sizes["test"]) == (5, 6)
    assert f"mtkit train {tmp_path / 'parts' / 'parts.yaml'}" in done.stdout
    report = json.loads((tmp_path / "parts" / "split.json").read_text(encoding="utf-8"))
    assert sizes["train"] == report["train"] == 60 - 5 - 6 - sum(report["left_out"].values())


def test_a_small_corpus_gives_a_share(tmp_path):
    done = run(*write_texts(tmp_path), "-o", tmp_path / "parts", "--json")
    assert json.loads(done.stdout)["dev"] == json.loads(done.stdout)["test"] == 3


def test_without_known_languages_a_warning_says_how_the_files_are_called(tmp_path):
    en, fr = write_texts(tmp_path)
    named = run(en, fr, "-o", tmp_path / "named")
    assert "warning" not in named.stderr
    unnamed = run(en.rename(tmp_path / "a.txt"), fr.rename(tmp_path / "b.txt"), "-o", tmp_path / "parts")
    assert unnamed.stderr.count("warning") == 1
    assert "train.src" in unnamed.stderr and "--langs en-de" in unnamed.stderr
    assert (tmp_path / "parts" / "train.src").exists()


def test_the_config_says_how_to_try_it_for_a_short_time(tmp_path):
    run(*write_texts(tmp_path), "-o", tmp_path / "parts")
    path = tmp_path / "parts" / "parts.yaml"
    override = "train.budget=1m"
    assert f"--set {override}" in path.read_text(encoding="utf-8")
    assert load_config(path, [override]).train.budget == "1m"


def test_documents_are_held_out_whole(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("".join(f"d{i // 6}\n" for i in range(60)), encoding="utf-8")
    files = write_texts(tmp_path)
    done = run(*files, "-o", tmp_path / "parts", "--documents", names, "--dev", 6, "--test", 6, "--json")
    report = json.loads(done.stdout)
    assert (report["test"], report["by_document"]) == (6, True)
    names.write_text("d1\nd2\n", encoding="utf-8")
    done = run(*files, "-o", tmp_path / "other", "--documents", names)
    assert done.exit_code == 1 and "60 pairs, but 2 document names" in done.stderr


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--dev", "0"], 2, "--dev 0"),
        (["--test", "100%"], 2, "--test 100%"),
        (["--dev", "-5"], 2, "--dev -5"),
        (["--dev", "many"], 2, "--dev many"),
        (["--dev", "50", "--test", "50"], 1, "need 100"),
        (["--langs", "../x-fr"], 2, "../x"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(tmp_path, args, code, words):
    done = run(*write_texts(tmp_path), "-o", tmp_path / "parts", *args)
    assert done.exit_code == code and words in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.en", "all.fr"]


def test_an_existing_folder_is_not_replaced(tmp_path):
    corpus = write_corpus(tmp_path, "all", 20, seed=1)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "mine.txt").write_text("mine", encoding="utf-8")
    done = run(corpus["src"], corpus["tgt"], "-o", tmp_path / "parts")
    assert done.exit_code == 2 and "parts: already exists and is not empty" in done.stderr
    assert (tmp_path / "parts" / "mine.txt").exists()
