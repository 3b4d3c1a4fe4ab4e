"""`mtkit data doctor` as a user runs it."""

import json
import random
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mtkit.cli import app
from mtkit.corpora.alignment.slip_report import TwoFiles, describe
from mtkit.corpora.alignment.slips import Slip
from mtkit.data.sample import read_sample


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Two files of which the second lacks line 101."""
    pairs = random.Random(3).sample(read_sample()["train"], 400)
    src, tgt = tmp_path / "text.en", tmp_path / "text.fr"
    src.write_text("".join(f"{pair[0]}\n" for pair in pairs), encoding="utf-8")
    tgt.write_text("".join(f"{pair[1]}\n" for pair in pairs[:100] + pairs[101:]), encoding="utf-8")
    return src, tgt


def run(*args: object) -> Result:
    return CliRunner().invoke(app, ["--quiet", "data", "doctor", *map(str, args)])


def test_a_slip_is_shown_with_its_lines(files: tuple[Path, Path]) -> None:
    result = run(*files)
    lines = files[0].read_text(encoding="utf-8").splitlines()
    assert result.exit_code == 1
    assert "1 missing" in result.stdout.splitlines()[0]
    assert f"> text.en:101 | {lines[100]}" in result.stdout
    assert "text.fr:100 |" in result.stdout and "text.fr:101 |" in result.stdout
    [slip] = json.loads(run(*files, "--json").stdout)["slips"]
    assert (slip["kind"], slip["src"]["first"], slip["src"]["last"], slip["tgt"]) == ("missing", 101, 101, None)
    assert slip["src"]["text"] == lines[100]


def test_few_slips_of_a_kind_are_shown_in_full_and_the_rest_as_line_numbers(tmp_path: Path) -> None:
    long = [list(pair) for pair in read_sample()["train"] if min(map(len, pair)) > 25]
    pairs = random.Random(3).sample(long, 400)
    for index in range(9, 400, 40):  # lines 10, 50, ..., 370
        pairs[index].reverse()
    files = tmp_path / "text.en", tmp_path / "text.fr"
    for side, path in enumerate(files):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    default, three, every = (run(*files, *args).stdout for args in ((), ("--show", 3), ("--show", 100)))
    assert "slips: 10 swapped" in default
    assert [text.count("\nswapped: ") for text in (default, three, every)] == [5, 3, 10]
    assert re.search("another 5 swapped.* 210=210, 250=250, 290=290, 330=330, 370=370", default)
    assert "another 7 swapped" in three and "another" not in every


def test_lines_without_a_match_have_the_name_that_they_are_counted_by(tmp_path: Path) -> None:
    files = TwoFiles((tmp_path / "a.en", tmp_path / "a.fr"), (["One"] * 9, ["Un"] * 9))
    assert next(describe(Slip("missing", (2, 3), (2, 4)), files)).startswith("missing: a.en:3 and a.fr:3-4 ")


def test_fix_writes_pairs_and_puts_the_rest_aside(files: tuple[Path, Path], tmp_path: Path) -> None:
    outputs = tmp_path / "fixed.en", tmp_path / "fixed.fr.gz"
    result = run(*files, "--fix", "-o", outputs[0], "-o", outputs[1])
    assert result.exit_code == 0
    lines = files[0].read_text(encoding="utf-8").splitlines()
    assert outputs[0].read_text(encoding="utf-8").splitlines() == lines[:100] + lines[101:]
    assert (tmp_path / "fixed.en.aside.tsv").read_text(encoding="utf-8") == f"{files[0]}\t101\t{lines[100]}\n"
    again = run(*outputs)
    assert (again.exit_code, again.stdout.strip().endswith("no slips")) == (0, True)


def test_unrelated_files_are_refused_and_nothing_is_written(files: tuple[Path, Path], tmp_path: Path) -> None:
    lines = files[1].read_text(encoding="utf-8").splitlines()
    random.Random(1).shuffle(lines)
    other = tmp_path / "other.fr"
    other.write_text("\n".join(lines), encoding="utf-8")
    result = run(files[0], other, "--fix", "-o", tmp_path / "a.en", "-o", tmp_path / "a.fr")
    assert result.exit_code == 1
    assert "do not look like translations" in result.stderr and str(other) in result.stderr
    assert not (tmp_path / "a.en").exists()


def test_wrong_use_and_bad_files_are_named(files: tuple[Path, Path], tmp_path: Path) -> None:
    empty, binary = tmp_path / "empty.fr", tmp_path / "binary.fr"
    empty.touch()
    binary.write_bytes(bytes(range(256)) * 20)
    one = tmp_path / "one.fr"
    one.write_text("Une seule ligne.\n", encoding="utf-8")
    cases = [
        (1, "empty.fr: no lines", (files[0], empty)),
        (1, "binary.fr", (files[0], binary)),
        (1, "do not look like translations", (files[0], one)),
        (2, "--fix and --output", (*files, "--fix")),
        (2, "--fix and --output", (*files, "-o", tmp_path / "x", "-o", tmp_path / "y")),
        (2, "--aside", (*files, "--aside", tmp_path / "rest.tsv")),
        (2, "give one file", (*files, "--fix", "-o", tmp_path / "x")),
        (2, "--aside", (*files, "--fix", "-o", tmp_path / "y.tsv", "--aside", files[0])),
        (2, "--aside", (*files, "--fix", "-o", tmp_path / "y.tsv", "--aside", tmp_path / "y.tsv")),
        (2, "the same file as the input", (*files, "--fix", "-o", files[0], "-o", tmp_path / "y")),
        (2, "no-folder", (*files, "--fix", "-o", tmp_path / "no-folder" / "x", "-o", tmp_path / "y")),
    ]
    for code, message, args in cases:
        result = run(*args)
        assert (result.exit_code, message in result.stderr) == (code, True), result.output


def test_a_corpus_of_unequal_files_is_refused_with_the_command_that_helps(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    config = tmp_path / "c.yaml"
    corpus = f"{{src: {files[0]}, tgt: {files[1]}}}"
    config.write_text(
        f"data: {{src_lang: en, tgt_lang: fr, train: [{corpus}], dev: {corpus}}}\ntrain: {{max_steps: 2}}\n",
        encoding="utf-8",
    )
    result = CliRunner().invoke(app, ["train", str(config)])
    assert result.exit_code == 1
    assert f"mtkit data doctor {files[0]} {files[1]}" in result.stderr


@pytest.mark.parametrize(
    "names", [("m.tmx", "a.de"), ("a.en", "a.tsv.gz"), ("a.zip", "b.zip"), ("m.tmx",), ("a.en", "a.en")]
)
def test_what_is_not_two_files_of_plain_text_is_refused(tmp_path, names):
    paths = [str(tmp_path / name) for name in names]
    for path in paths:
        Path(path).write_text("one\n")
    result = CliRunner().invoke(app, ["data", "doctor", *paths])
    assert result.exit_code == 2
    assert "mtkit data convert" in result.stderr or "a.en: named twice" in result.stderr
