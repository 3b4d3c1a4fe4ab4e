"""`mtkit data report` through the command line: a table, a page, JSON, and what a config compares."""

import json

from tiny_corpus import write_corpus
from typer.testing import CliRunner

from mtkit.cli import app


def run(*args):
    return CliRunner().invoke(app, ["--quiet", "data", "report", *map(str, args)])


def test_the_table_and_the_page_name_what_is_wrong(tmp_path):
    corpus = write_corpus(tmp_path, "all", 50, seed=1)
    done = run(corpus["src"], corpus["tgt"], "-o", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("50 pairs, en ") and "repeated pairs" in done.stdout
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "mtkit data clean" in page and "all.en:" in page


def test_the_commands_on_the_page_name_the_languages_given(tmp_path):
    pairs = "".join(f"A cat sits here {i}.\tEine Katze sitzt hier {i + 1}.\n" for i in range(20))
    (tmp_path / "all.tsv").write_text(pairs, encoding="utf-8")
    done = run(tmp_path / "all.tsv", "--langs", "en-de", "-o", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"mtkit data clean {tmp_path}/all.tsv --langs en-de --output clean.tsv" in page
    assert f"mtkit data doctor {tmp_path}" not in page  # it reads two text files


def test_for_swapped_sides_the_page_names_the_doctor_of_two_text_files(tmp_path):
    en, ru = "The weather is nice today, my friend.", "Сегодня хорошая погода, мой друг."
    (tmp_path / "a.en").write_text(f"{en}\n{ru}\n", encoding="utf-8")
    (tmp_path / "a.ru").write_text(f"{ru}\n{en}\n", encoding="utf-8")
    assert run(tmp_path / "a.en", tmp_path / "a.ru", "-o", tmp_path / "report.html").exit_code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"mtkit data doctor {tmp_path}/a.en {tmp_path}/a.ru" in page


def test_the_table_and_the_page_say_what_rules_cannot_see(tmp_path):
    corpus = write_corpus(tmp_path, "all", 20, seed=1)
    done = run(corpus["src"], corpus["tgt"], "-o", tmp_path / "report.html")
    for text in (done.stdout, (tmp_path / "report.html").read_text(encoding="utf-8")):
        assert "fluent translation of another sentence" in text and "mtkit inspect errors" in text


def test_a_config_compares_dev_and_test_with_train(tmp_path):
    train = write_corpus(tmp_path, "train", 40, seed=1)
    dev = write_corpus(tmp_path, "dev", 10, seed=1)  # the first ten of train
    config = {
        "data": {"train": [train], "dev": dev, "test": write_corpus(tmp_path, "test", 5, seed=2)},
        "train": {"max_steps": 5},
    }
    (tmp_path / "c.yaml").write_text(json.dumps(config), encoding="utf-8")
    done = run(tmp_path / "c.yaml", "--json")
    assert done.exit_code == 0, done.output
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["dev: pair"]["share"]["n"] == found["dev: pair"]["share"]["of"] == 10
    assert found["dev: pair"]["is_unusual"] and found["test: pair"]["share"]["of"] == 5


def test_no_pairs_and_wrong_names_are_errors(tmp_path):
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("", encoding="utf-8")
    done = run(tmp_path / "a.en", tmp_path / "a.de")
    assert done.exit_code == 1 and "no pairs" in done.stderr
    done = run("/dev/null", "/dev/zero")
    assert done.exit_code == 1 and "not a regular file" in done.stderr
    done = run(tmp_path / "a.en", tmp_path / "a.de", "-o", tmp_path / "report.pdf")
    assert done.exit_code == 2 and ".html" in done.stderr
