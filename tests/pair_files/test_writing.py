import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from mtkit.errors import UsageError
from mtkit.pair_files.corpus_files import (
    check_distinct,
    check_outputs,
    own_languages,
    read_one_file,
    read_two_files,
    writing,
)
from mtkit.pair_files.pairs import Tally, segment

# Without what XML cannot hold, what ends a line or a column, and U+FEFF, which at the beginning of a file is a BOM.
TEXT = st.text(
    st.characters(codec="utf-8", categories=["L", "M", "N", "P", "S", "Zs", "Cf"], exclude_characters="\ufeff")
).filter(str.strip)
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=5)


@given(pairs=PAIRS)
@pytest.mark.parametrize("name", ["x.tmx", "x.jsonl", "x.csv", "x.tsv", "x.tmx.gz", "x.csv.zst"])
def test_what_is_written_is_what_is_read(tmp_path_factory, name, pairs):
    path = tmp_path_factory.mktemp("out") / name
    with writing([path], ("en", "pt_BR")) as write:
        for pair in pairs:
            write(*pair)
    assert [pair[:2] for pair in read_one_file(path, ("en", "pt-BR"))] == pairs


@given(pairs=PAIRS)
def test_two_text_files_are_read_as_they_were_written(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("out")
    with writing([folder / "x.en", folder / "x.de.gz"], ("en", "de")) as write:
        for pair in pairs:
            write(*pair)
    assert [pair[:2] for pair in read_two_files(folder / "x.en", folder / "x.de.gz", Tally())] == pairs


@given(st.text())
def test_a_segment_is_one_line_without_tabs_for_every_program(text):
    assert len(segment(text).splitlines()) <= 1
    assert "\t" not in segment(text)
    assert segment(text).split() == text.split()
    assert segment(segment(text)) == segment(text)


@pytest.mark.parametrize("langs", [("gsw", "deu"), ("en", "tlh"), ("source", "en"), ("x", "y")])
@pytest.mark.parametrize("name", ["x.jsonl", "x.csv"])
def test_codes_that_do_not_look_like_languages_are_written_as_src_and_tgt(tmp_path, name, langs):
    with writing([tmp_path / name], langs) as write:
        write("a", "b")
    assert own_languages(tmp_path / name) == ("src", "tgt")
    for read_as in (langs, None):
        assert [pair[:2] for pair in read_one_file(tmp_path / name, read_as)] == [("a", "b")]


@pytest.mark.parametrize("langs", [("src", "de"), ("en", "tgt"), ("src", "tgt")])
def test_a_tmx_needs_both_languages(tmp_path, langs):
    with pytest.raises(UsageError, match=r"out\.tmx: TMX .*--langs"), writing([tmp_path / "out.tmx"], langs):
        pass


@pytest.mark.parametrize("langs", [("src", "de"), ("en", "tgt"), ("src", "id"), ("id", "en")])
@pytest.mark.parametrize("name", ["x.jsonl", "x.csv"])
def test_what_one_side_is_called_is_read_again(tmp_path, name, langs):
    with writing([tmp_path / name], langs) as write:
        write("a", "b")
    assert [pair[:2] for pair in read_one_file(tmp_path / name, None)] == [("a", "b")]


def test_a_segment_without_line_breaks_and_tabs_stays_as_it_is():
    assert segment("  a\u00a0b  c\u202f! ") == "  a\u00a0b  c\u202f! "
    assert segment(" a \r\n b\t\tc\n") == "a b c"


def test_a_tmx_is_valid_xml_whatever_the_text(tmp_path, log_text):
    path = tmp_path / "x.tmx"
    with writing([path], ("en", "de")) as write:
        write("a\0b\x1fc\ufffe<&>\"'", "]]>")
    units = etree.parse(path).findall(".//seg")
    assert [unit.text for unit in units] == ["abc<&>\"'", "]]>"]
    assert "3 control characters" in log_text()
    assert etree.parse(path).getroot().get("version") == "1.4"
    assert own_languages(path) == ("en", "de")


def test_nothing_appears_if_writing_fails(tmp_path):
    with pytest.raises(RuntimeError), writing([tmp_path / "x.en", tmp_path / "x.de"], ("en", "de")) as write:
        write("a", "b")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "names",
    [[], ["x.txt"], ["x.po"], ["x.zip"], ["x.tsv", "y.tsv"], ["x.en", "x.tmx"], ["x.en", "x.en"], ["a", "b", "c"]],
)
def test_outputs_are_one_file_of_a_format_or_two_text_files(tmp_path, names):
    with pytest.raises(UsageError, match="--output"):
        check_outputs([tmp_path / name for name in names], ("en", "de"))


def test_a_tmx_needs_languages(tmp_path):
    with pytest.raises(UsageError, match="--langs"):
        check_outputs([tmp_path / "x.tmx.gz"], ("src", "tgt"))
    check_outputs([tmp_path / "x.jsonl"], ("src", "tgt"))


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        (["x.de", "x.en"], "x.de: the text for it would be in en"),
        (["x.de.gz", "x"], "x.de.gz: the text for it would be in en"),
        (["x", "x.en"], "x.en: the text for it would be in de"),
    ],
)
def test_text_files_with_the_languages_the_other_way_round_are_refused(tmp_path, names, wrong):
    outputs = [tmp_path / name for name in names]
    with pytest.raises(UsageError, match=wrong):
        check_outputs(outputs, ("en-US", "de"))
    check_outputs(outputs[::-1], ("en-US", "de"))
    check_outputs(outputs, ("src", "tgt"))


def test_two_kinds_of_one_language_may_have_its_bare_code(tmp_path):
    check_outputs([tmp_path / "x.pt", tmp_path / "y.pt"], ("pt-BR", "pt-PT"))


@pytest.mark.parametrize("n_synced", range(5))
def test_an_interruption_never_leaves_a_new_side_next_to_an_old_one(tmp_path, monkeypatch, n_synced):
    sides = [tmp_path / "x.en", tmp_path / "x.de"]

    def write(version):
        with writing(sides, ("en", "de")) as write_pair:
            write_pair(version, version)

    def interrupted(_descriptor):
        nonlocal n_synced
        n_synced -= 1
        if n_synced < 0:
            raise KeyboardInterrupt

    write("old")
    monkeypatch.setattr(os, "fsync", interrupted)
    with suppress(KeyboardInterrupt):
        write("new")
    assert [side.read_text() for side in sides] in (["old\n"] * 2, ["new\n"] * 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.de", "x.en"]


def test_a_terminal_may_be_read_and_written_but_a_file_may_not(tmp_path):
    check_distinct([("--output", Path("/dev/null"))], [Path("/dev/null")])
    for path in (tmp_path / "a", tmp_path / "b" / ".." / "a"):
        with pytest.raises(UsageError, match=r"--output .*: the same file as the input"):
            check_distinct([("--output", path)], [tmp_path / "a"])
