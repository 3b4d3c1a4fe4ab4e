"""`mtkit check` as a user meets it: exit codes, table, JSON, JUnit, given translations and mistakes."""

import json
import os
import subprocess
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from mtkit.bundle import load_bundle, save_bundle
from mtkit.cli import app
from mtkit.cli.judging.check import _robust_suite
from mtkit.config.data import DevCorpus
from mtkit.translation.translator import Translator

SUITE = """
src_lang: en
tgt_lang: fr
checks:
  - check: blank
  - check: numbers
    sentences: [I have 3 cats., I have 15 dogs.]
  - check: expected
    translations: [{src: It rains., one_of: Il pleut.}]
"""
SOURCES = ["", "  ", "\t", "I have 3 cats.", "I have 15 dogs.", "It rains."]
GOOD = ["", "", "", "J'ai trois chats.", "J'ai 15 chiens.", "Il pleut."]

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


@pytest.fixture
def run(tmp_path):
    """run(*args) checks the suite suite.yaml of the current folder."""
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    return lambda *args: CliRunner().invoke(app, ["--quiet", "check", "suite.yaml", *args])


def write_translations(tmp_path, texts: list[str]) -> None:
    (tmp_path / "hyp.fr").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def test_given_translations_pass_with_exit_code_0(run, tmp_path):
    write_translations(tmp_path, GOOD)
    result = run("--hyp", "hyp.fr")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "checks: all 3 passed; cases: 0 of 6 failed"


def test_a_failing_check_gives_exit_code_1(run, tmp_path):
    write_translations(tmp_path, [*GOOD[:4], "J'ai des chiens.", GOOD[5]])
    result = run("--hyp", "hyp.fr")
    assert (result.exit_code, result.stderr) == (1, "")
    lines = [line.strip() for line in result.stdout.splitlines()]
    at = lines.index("I have 15 dogs.")
    assert lines[at - 1].endswith("1 of 2  FAILED")
    assert lines[at : at + 3] == ["I have 15 dogs.", "-> J'ai des chiens.", "15 is lost"]


def test_json_is_one_object_and_keeps_the_exit_code(run, tmp_path):
    write_translations(tmp_path, [*GOOD[:5], "Il neige."])
    result = run("--hyp", "hyp.fr", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert {key: value for key, value in found.items() if key != "checks"} == {
        **{"suite": "suite.yaml", "hyp": "hyp.fr"},
        **{"passed": False, "n_checks": 3, "n_failed": 1},
    }
    assert found["checks"][2]["cases"] == [
        {"sources": ["It rains."], "translations": ["Il neige."], "problem": "not “Il pleut.”"}
    ]


def test_junit_goes_to_a_file(run, tmp_path):
    write_translations(tmp_path, GOOD)
    assert run("--hyp", "hyp.fr", "--junit", "result.xml").exit_code == 0
    assert ET.parse(tmp_path / "result.xml").getroot().attrib["tests"] == "3"


def test_junit_goes_through_a_pipe_that_stays_one(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    write_translations(tmp_path, GOOD)
    assert run("--hyp", "hyp.fr", "--junit", "pipe").exit_code == 0
    assert ET.fromstring(reader.communicate(timeout=300)[0]).attrib["tests"] == "3"
    assert (tmp_path / "pipe").is_fifo()


def test_sources_are_what_another_system_has_to_translate(run):
    result = run("--sources")
    assert (result.exit_code, result.stdout.split("\n")) == (0, [*SOURCES, ""])


def test_a_model_is_checked_on_what_it_gives_to_users(run, shared_bundle):
    result = run("--model", str(shared_bundle), "--json", "--set", "decode.on_suspect=off")
    found = json.loads(result.stdout)
    translations = dict(zip(SOURCES, Translator.load(shared_bundle).translate(SOURCES), strict=True))
    for check in found["checks"]:
        for case in check["cases"]:
            assert case["translations"] == [translations[source] for source in case["sources"]]
    assert found["model"] == str(shared_bundle)
    assert (result.exit_code, found["passed"]) == (1, False)  # the tiny model's words are random
    # its tokenizer knows no digits, so numbers are kept
    assert [check["passed"] for check in found["checks"]] == [True, True, False]


def test_progress_and_the_model_go_to_stderr_only(run, shared_bundle):
    result = CliRunner().invoke(app, ["check", "suite.yaml", "--model", str(shared_bundle)])
    assert str(shared_bundle) in result.stderr
    assert str(shared_bundle) not in result.stdout
    assert "the suite is for" not in result.stderr  # its config does not say what the bundle translates


def test_a_model_of_other_languages_gives_a_warning(run, shared_bundle, tmp_path):
    bundle = load_bundle(shared_bundle)
    data = bundle.config.data.model_copy(update={"src_lang": "en", "tgt_lang": "de"})
    cfg = bundle.config.model_copy(update={"data": data})
    spm = shared_bundle / "src.spm", shared_bundle / "tgt.spm"
    save_bundle(tmp_path / "german", bundle.model.state_dict(), cfg, *spm, training={})
    message = "warning: german: translates en to de (see its config), but the suite is for en to fr"
    assert message in run("--model", "german").stderr


def test_without_a_suite_the_dev_sets_of_one_tag_are_read_with_it(shared_bundle, tmp_path, log_text):
    dev = []
    for tag, line in (("<2de>", "First one.\tErste."), ("<2fr>", "Second one.\tDeux.")):
        path = tmp_path / f"{tag[2:4]}.tsv"
        path.write_text(f"{line}\n")
        dev.append(DevCorpus(tsv=path, tag=tag, name=tag[2:4]))
    bundle = load_bundle(shared_bundle)
    cfg = bundle.config.model_copy(update={"data": bundle.config.data.model_copy(update={"dev": dev})})
    spm = shared_bundle / "src.spm", shared_bundle / "tgt.spm"
    save_bundle(tmp_path / "tagged", bundle.model.state_dict(), cfg, *spm, training={})
    suite, settings = _robust_suite([tmp_path / "tagged"])
    assert settings == ["decode.tag=<2de>"]
    assert "FIRST ONE." in suite.sources
    assert not any("econd" in line for line in suite.sources)
    assert "the tag <2de>" in log_text()


@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        (["--hyp", "hyp.fr", "--model", "runs/any"], 2, "--sources and --hyp do not use a model"),
        (["--sources", "--beam-size", "2"], 2, "--sources and --hyp do not use a model"),
        (["--hyp", "hyp.fr"], 1, "hyp.fr has 1 line, but the suite has 6 to translate; "),
        (["--hyp", "none.fr"], 1, "none.fr: no such file"),
        (["--model", "nowhere"], 1, "nowhere"),
        (["--hyp", "hyp.fr", "--junit", "hyp.fr"], 2, "--junit hyp.fr: the same file as the input hyp.fr"),
        (["--hyp", "hyp.fr", "--junit", "suite.yaml"], 2, "--junit suite.yaml: the same file as the input suite.yaml"),
        (["--hyp", "hyp.fr", "--junit", "."], 2, "--junit .: this is a folder; name a file in it"),
    ],
)
def test_mistakes_have_one_message_and_no_result(run, tmp_path, args, exit_code, message):
    write_translations(tmp_path, ["a"])
    result = run(*args)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert result.stderr.startswith(f"mtkit: {message}")


def test_a_suite_with_an_unknown_check_is_refused_before_a_model_is_looked_for(run, tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE.replace("check: blank", "check: blnk"), encoding="utf-8")
    result = run("--model", "nowhere")
    message = "mtkit: suite.yaml: 1 problem\n  line 5: checks.0.check=blnk: unknown check; did you mean blank?\n"
    assert (result.exit_code, result.stderr) == (1, message)
