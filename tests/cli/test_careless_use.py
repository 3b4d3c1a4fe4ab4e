"""What a hurried user types: a file's name as text, words without quotes, a config without --config."""

import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.cli import app, options

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def run(*args: str):
    return CliRunner().invoke(app, list(args))


@pytest.fixture
def translate(shared_bundle):
    return lambda *args: run("translate", "--model", str(shared_bundle), *args)


def test_a_file_given_as_text_is_translated_as_text_with_a_warning(translate):
    plain = translate("f.en")
    Path("f.en").write_text("a cat\n", encoding="utf-8")
    warned = translate("f.en")
    assert warned.stdout == plain.stdout
    assert "mtkit translate --input f.en" in warned.stderr
    assert "--input" not in plain.stderr


def test_words_without_quotes_are_translated_one_by_one_with_a_warning(translate):
    result = translate("where", "are", "my", "keys")
    assert len(result.stdout.splitlines()) == 4
    assert 'mtkit translate "where are my keys"' in result.stderr


@pytest.mark.parametrize("texts", [["a cat sleeps", "a dog"], ["cat"], ["a cat", "dog"]])
def test_sentences_in_quotes_give_no_warning(translate, texts):
    assert "quotes" not in translate(*texts).stderr


@pytest.mark.parametrize("args", [["translate", "-o"], ["tokenize", "-o"], ["back-translate", "-i", "f.en", "-o"]])
def test_a_folder_that_does_not_exist_is_not_made_for_an_output(shared_bundle, args):
    Path("f.en").write_text("a cat\n", encoding="utf-8")
    result = run(args[0], "--model", str(shared_bundle), *args[1:], "nodir/x")
    assert result.exit_code in (1, 2)
    assert "nodir/x: the folder nodir does not exist" in result.stderr
    assert not Path("nodir").exists()


@pytest.mark.parametrize("inside", ["file.txt/x", "file.txt/x/y"])
@pytest.mark.parametrize(
    "args",
    [
        *(["adapt", "MODEL", "p.tsv", "--out"], ["make-student", "--teacher", "MODEL", "--budget", "1m", "--out"]),
        *(["average", "MODEL", "--out"], ["import", "MODEL", "--out"], ["diversify", "my.yaml", "-o"]),
        *(["export", "--model", "MODEL", "--to", to, "--out"] for to in ("ctranslate2", "bergamot")),
        *(["data", command, "p.tsv", "-o"] for command in ("split", "train-filter")),
        *(["data", "clean", corpus, "-o"] for corpus in ("p.tsv", "my.yaml")),
        *(["train", "my.yaml", "--set"], ["train-tokenizer", "my.yaml", "--set"]),
        *(["translate", "a", "--model", "MODEL", "-o"], ["memory", "build", "p.tsv", "-o"]),
        ["keys", "add", "me", "--file"],  # whose folder is the file
    ],
    ids=" ".join,
)
def test_an_output_inside_a_file_is_refused_with_the_part_that_is_a_file(shared_bundle, args, inside):
    for name in ("p.tsv", "a", "b", "c", "d", "file.txt"):
        Path(name).write_text("a cat\tune chat\n", encoding="utf-8")
    Path("my.yaml").write_text(CONFIG, encoding="utf-8")
    place = f"run_dir={inside}" if args[-1] == "--set" else inside + ".tsv" * (args[:3] == ["data", "clean", "p.tsv"])
    result = run(*(str(shared_bundle) if arg == "MODEL" else arg for arg in args), place)
    assert result.exit_code in (1, 2)
    assert re.search(r"file\.txt.*: (this|(/.*/)?file\.txt) is a file.*choose another", result.stderr), result.stderr
    assert Path("file.txt").read_text(encoding="utf-8") == "a cat\tune chat\n"


@pytest.mark.parametrize("name", ["finetune", "fine-tune", "tune"])
def test_other_names_of_fine_tuning_lead_to_adapt(name):
    result = run(name, "runs/base", "memory.tmx")
    assert result.exit_code == 2 and "mtkit adapt MODEL" in result.stderr and name in result.stderr


@pytest.mark.parametrize("name", ["memory.tmx", "memory.tsv.gz", "memory.PO"])
def test_training_on_a_memory_instead_of_a_config_leads_to_adapt(name):
    result = run("train", name)
    assert result.exit_code == 2 and f"mtkit adapt MODEL {name}" in result.stderr


CONFIG = "data:\n  train: [{src: a, tgt: b}]\n  dev: {src: c, tgt: d}\ntrain: {max_epochs: 1}\n"


@pytest.mark.parametrize("given", [["my.yaml"], ["--config", "my.yaml"], ["-c", "my.yaml"]])
def test_a_config_is_an_argument_or_an_option(given):
    Path("my.yaml").write_text(CONFIG, encoding="utf-8")
    result = run("config", *given, "--set", "seed=7")
    assert result.exit_code == 0, result.stderr
    assert "seed: 7" in result.stdout


@pytest.mark.parametrize("command", ["train", "plan", "train-tokenizer", "distill"])
def test_every_command_with_a_config_takes_it_as_an_argument(command):
    result = run(command, "missing.yaml")
    assert result.exit_code == 1
    assert "missing.yaml: no such file" in result.stderr
    assert "CONFIG" in run(command, "--help").stdout
    assert run(command, "one.yaml", "two.yaml").exit_code == 2


def test_a_command_with_a_sentence_takes_its_config_only_as_an_option():
    assert " inspect model [OPTIONS] [SENTENCE]\n" in run("inspect", "model", "--help").stdout
    result = run("inspect", "model", "a cat", "a dog")
    assert result.exit_code == 2
    assert "a dog" in result.stderr
    assert " config [OPTIONS] [CONFIG]\n" in run("config", "--help").stdout


@pytest.mark.parametrize(
    ("args", "facts"),
    [
        (["train"], ["one YAML file", " train CONFIG"]),
        (["plan", "x.yaml", "--seconds", "soon"], ["--seconds soon: ", "a number", "1 to 3600"]),
        (["plan", "x.yaml", "--seconds", "inf"], ["--seconds inf: ", "1 to 3600"]),
        (["translate", "--beam-size", "x", "a"], ["--beam-size x: ", "a whole number", "1 to 1000"]),
        (["translate", "--beam-size", "1.5", "a"], ["--beam-size 1.5: ", "a whole number"]),
        (["translate", "--engine", "fast", "a"], ["--engine fast: ", "auto, native, ctranslate2"]),
        (["evaluate", "--split", "train"], ["--split train: ", "test, dev"]),
        (["evaluate", "--seed", "-1"], ["--seed -1: ", "at least 0"]),
        (["inspect", "steps"], ["SENTENCE", "missing"]),
        (["average", "run"], ["--out FOLDER", "required"]),
    ],
)
def test_a_wrong_or_missing_value_is_explained_in_plain_words(args, facts):
    result = run(*args)
    assert result.exit_code == 2
    assert all(fact in result.stderr for fact in facts), result.stderr
    assert not re.search(r"integer|valid int|Missing|string|<class|RANGE", result.stderr)


@pytest.mark.parametrize(
    "args",
    [
        ["translate", "-o", "-", "a"],
        ["tokenize", "-o", "-"],
        ["back-translate", "-i", "f.en", "-o", "-"],
        ["back-translate", "-i", "f.en", "--out-src", "-", "--out-tgt", "t"],
        ["score", "-o", "-"],
        ["check", "suite.yaml", "--junit", "-"],
        ["translate", "-i", "-"],
        ["average", "run", "--out", "-"],
    ],
)
def test_a_dash_is_no_file_name(args):
    result = run(*args)
    assert result.exit_code == 2
    assert " -: not a f" in result.stderr
    assert not Path("-").exists()


@pytest.fixture
def forbid(monkeypatch):
    """forbid(path) takes the permissions of a file or folder; root, as whom tests may run, has them all."""
    forbidden, may = [], os.access

    def access(path, mode, **options):
        return Path(path).absolute() not in forbidden and may(path, mode, **options)

    monkeypatch.setattr(os, "access", access)
    return lambda path: forbidden.append(Path(path).absolute())


def test_a_file_that_may_not_be_read_is_named(forbid):
    for name in ("a.tmx", "b.tmx"):
        Path(name).touch()
    forbid("b.tmx")
    refused = run("memory", "build", "a.tmx", "b.tmx", "-o", "m.sqlite")
    assert refused.exit_code == 2
    assert "CORPUS... b.tmx: no permission to read this" in refused.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("import", "model", "--out", "kept/new/model"),
        ("export", "--to", "hf", "--out", "kept/new"),
        ("export", "--to", "argos", "--out", "kept/new.argosmodel"),
        ("export", "--to", "ctranslate2", "--out", "kept/new"),
        ("memory", "build", "m.tmx", "--output", "kept/new"),
    ],
)
def test_a_folder_that_may_not_be_written_to_is_named_before_the_work(shared_bundle, forbid, args):
    Path("kept").mkdir()
    Path("model").mkdir()
    forbid("kept")
    model = ["--model", str(shared_bundle)] if args[0] == "export" else []
    refused = run(*args, *model)
    assert refused.exit_code == 2
    assert f"{args[-2]} {args[-1]}: no permission to write to kept; choose another" in refused.stderr


def test_a_folder_is_used_though_its_parent_may_not_be_written_to(forbid):
    Path("kept/mine").mkdir(parents=True)
    forbid("kept")
    options.check_writable(Path("kept/mine"))
    options.check_writable(Path("kept/mine/new/file"))


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (["train", "my.yaml", "--budget", "5m"], "train.budget"),
        (["plan", "my.yaml", "--epochs=3"], "train.max_epochs"),  # its name in other toolkits
        (["translate", "--length-penalty", "1", "hello"], "decode.length_penalty"),
        (["translate", "--lr", "1", "hello"], None),  # a key that this command cannot change
        (["train", "my.yaml", "--src", "a.en"], None),  # a key of several corpora
        (["train", "my.yaml", "--nonsense"], None),
        (["data", "split", "--budget", "5m"], None),  # which has no --set
    ],
)
def test_an_option_named_as_a_key_of_the_config_leads_to_set(command, key):
    result = run(*command)
    assert result.exit_code == 2
    hint = f"--set {key}=VALUE" if key else "=VALUE"
    assert (hint in result.stderr) == (key is not None)
    assert "no such option" in result.stderr.lower()


def test_the_budget_of_a_config_is_not_an_option_of_plan():
    result = run("plan", "my.yaml", "--budget", "5m")
    assert result.exit_code == 2
    assert "--set train.budget=" in " ".join(result.stderr.split())
