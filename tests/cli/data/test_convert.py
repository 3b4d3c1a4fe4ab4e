import gzip
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.cli import app

TMX = (
    '<tmx><tu><tuv xml:lang="en"><seg>a\nb</seg></tuv><tuv xml:lang="de"><seg>c</seg></tuv></tu>'
    '<tu><tuv xml:lang="en"><seg>x</seg></tuv></tu></tmx>'
)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("m.tmx").write_text(TMX)
    Path("t.en").write_text("one\n\n")
    Path("t.de").write_bytes("größer\n\n".encode("cp1252"))


def convert(*arguments):
    return CliRunner().invoke(app, ["data", "convert", *arguments])


def test_corpora_become_one_file_and_what_is_left_out_is_said():
    result = convert("m.tmx", "t.en", "t.en.copy", "--langs", "en-de", "-o", "out.tsv")
    assert result.exit_code == 1
    assert "t.en.copy: no such file" in result.stderr
    result = convert("m.tmx", "m.tmx", "-o", "out.tsv.gz")
    assert result.exit_code == 0, result.stderr
    assert re.search(r"out\.tsv\.gz: 2 pairs of 4 units.* 2 without de", result.stderr)
    result = convert("out.tsv.gz", "--langs", "en-de", "-o", "out.en", "-o", "out.de")
    assert Path("out.en").read_text() == "a b\na b\n"
    assert Path("out.de").read_text() == "c\nc\n"


def test_an_empty_corpus_is_told():
    Path("empty.tsv").touch()
    Path("empty.tsv.gz").touch()
    Path("nothing.tsv.gz").write_bytes(gzip.compress(b""))
    Path("pair.tsv").write_text("a\tb\n")
    for name in ("empty.tsv", "nothing.tsv.gz"):
        result = convert(name, "-o", "out.tsv")
        assert result.exit_code == 1 and f"{name}: empty" in result.stderr
    result = convert("empty.tsv.gz", "pair.tsv", "-o", "out.tsv")
    assert result.exit_code == 1 and "empty.tsv.gz: 0 bytes" in result.stderr
    assert not Path("out.tsv").exists()
    result = convert("empty.tsv", "pair.tsv", "-o", "out.tsv")
    assert result.exit_code == 0 and "warning: empty.tsv: the corpus is empty" in result.stderr
    assert Path("out.tsv").read_text() == "a\tb\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no file that is always full")
def test_a_full_disk_is_told_with_the_name_of_the_output():
    Path("full.tsv").symlink_to("/dev/full")
    result = convert("m.tmx", "-o", "full.tsv")
    assert result.exit_code == 1
    assert "mtkit: full.tsv: No space left" in result.stderr


def test_a_file_of_which_all_is_left_out_is_an_error():
    Path("old.po").write_text('#~ msgid "a"\n#~ msgstr "b"\n')
    result = convert("old.po", "-o", "out.tsv")
    assert result.exit_code == 1
    assert re.search(r"old\.po: 0 pairs of 1 unit.* 1 obsolete; nothing was written", result.stderr)
    assert not Path("out.tsv").exists()


def test_blank_lines_of_text_files_stay():
    assert convert("t.en", "t.de", "--encoding", "cp1252", "-o", "out.tsv").exit_code == 0
    assert Path("out.tsv").read_text() == "one\tgrößer\n\t\n"


def test_text_that_is_not_utf8_names_the_option_that_reads_it():
    result = convert("t.en", "t.de", "-o", "out.tsv")
    assert result.exit_code == 1
    assert "t.de: line 1, byte 3: 0xf6" in result.stderr and "--encoding cp1252" in result.stderr
    assert not Path("out.tsv").exists()


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8,cp1252"])
def test_a_table_of_excel_in_another_encoding_is_read(encoding):
    Path("t.csv").write_bytes("English;German\r\ntall;größer\r\nnice;schön\r\n".encode("cp1252"))
    result = convert("t.csv", "-o", "out.tsv", "--encoding", encoding)
    assert result.exit_code == 0, result.stderr
    assert Path("out.tsv").read_text() == "tall\tgrößer\nnice\tschön\n"
    assert result.stderr.count("2 lines in cp1252") == ("," in encoding)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m.tmx", "-o", "m.tmx"], "the same file as the input"),
        (["m.tmx", "-o", "out.txt"], "--output out.txt"),
        (["m.tmx", "-o", "no/folder/x.tsv"], "the folder no/folder does not exist"),
        (["m.tmx", "-o", "out.tsv", "--encoding", "xx"], "--encoding xx"),
        (["t.en", "t.de", "-o", "out.tmx", "--langs", "e"], "--langs e"),
        (["plain.tsv", "-o", "out.tmx"], "--langs"),
    ],
)
def test_arguments_that_do_not_fit_are_usage_errors(arguments, message):
    Path("plain.tsv").write_text("a\tb\n")
    result = convert(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert Path("m.tmx").read_text() == TMX
    assert not Path("out.tmx").exists()
