"""`mtkit translate --document`: files, reports and mistakes."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.translation.translator import Translator

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")
PAGE = "<title>the cat</title><p>I see <b>two</b> dogs.<br>The cat sleeps.</p>\n"


@pytest.fixture
def run(shared_bundle):
    def run(*args: str):
        return CliRunner().invoke(app, ["translate", "--model", str(shared_bundle), *args])

    return run


@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_a_page_is_translated_with_its_tags(run, shared_bundle, workers):
    Path("a.html").write_text(PAGE)
    result = run("--document", "a.html", "-o", "b.html", *workers)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "3 segments, 3 sentences, 1 tag" in result.stderr
    found = Path("b.html").read_text()
    plain = Translator.load(shared_bundle, threads=1).translate(["the cat", "I see two dogs.", "The cat sleeps."])
    assert re.sub(r"</?b>", "", found) == f"<title>{plain[0]}</title><p>{plain[1]}<br>{plain[2]}</p>\n"


def test_a_report_lists_what_to_look_at(run):
    Path("a.txt").write_text("I see {name} and {a} {b} {c}.\n")
    assert run("--document", "a.txt", "-o", "b.txt", "--report", "r.jsonl").exit_code == 0
    notes = [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()]
    assert {note["place"] for note in notes} == {"line 1"}
    assert sorted(re.findall(r"\{\w+\}", Path("b.txt").read_text())) == ["{a}", "{b}", "{c}", "{name}"]


@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        (["--document", "a.txt"], 2, "--document needs --output"),
        (["--document", "none.txt", "-o", "b.txt"], 1, r"none\.txt: no such file"),
        (["--document", "a.txt", "-o", "a.txt"], 2, r"a\.txt is the document itself"),
        (
            ["--document", "a.txt", "-o", "b.txt", "--report", "b.txt"],
            2,
            r"b\.txt: given for both --output and --report",
        ),
        (["--document", "a.txt", "-o", "none/b.txt"], 2, "--output none/b.txt: the folder none does not exist"),
        (["--document", "a.zzz", "-o", "b.txt"], 2, r"a\.zzz: .*'\.zzz'.*--format"),
        (["--document", "a.txt", "-o", "b.txt", "--format", "word"], 2, "--format word: .*html"),
        (["--document", "a.txt", "-o", "b.txt", "a sentence"], 2, ".*leave out TEXT"),
        (["--document", "a.txt", "-o", "b.txt", "--n-best", "2"], 2, ".*leave out --n-best"),
        (["--document", "latin1.html", "-o", "b.html"], 1, r"latin1\.html: line 2: byte 0xe9 is not utf-8"),
        (["--document", "latin1.html", "-o", "b.html", "--encoding", "ascii"], 1, r"latin1\.html: .*--encoding"),
        (["--format", "html", "a"], 2, "--format: needs a document"),
        (
            ["--document", "a.txt", "-o", "b.docx"],
            2,
            "--output b.docx: .*docx, but the document is text",
        ),
        (["--document", "a.txt", "-o", "b.txt", "--columns", "1"], 2, "--columns applies to tables"),
        (["--document", "a.txt", "-o", "b.txt", "--report", "none/r.html"], 2, "--report none/r.html: .*folder"),
    ],
)
def test_mistakes_are_explained_and_nothing_is_written(run, args, exit_code, message):
    Path("a.txt").write_text("one cat\n")
    Path("a.zzz").write_text("one cat\n")
    Path("latin1.html").write_bytes(b"<p>\ncaf\xe9\n")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    result = run(*args)
    assert result.exit_code == exit_code
    assert re.search(f"mtkit: {message}", result.stderr)
    assert {path: path.read_bytes() for path in Path().iterdir()} == before
