from pathlib import Path

import pytest

from mtkit.errors import DataError, UsageError
from mtkit.languages import language_in_name
from mtkit.pair_files.compression import pack
from mtkit.pair_files.corpus_files import read_one_file, read_two_files
from mtkit.pair_files.encodings import check_encodings, encoding_of_zeros, likely_encoding
from mtkit.pair_files.lines import read_lines
from mtkit.pair_files.pairs import Tally


@pytest.mark.parametrize(
    ("text", "file", "encoding"),
    [
        ("Le café coûte 5 €", "a.fr", "cp1252"),
        ("Le café", "a", "cp1252"),
        ("Привет, мир! Как дела?", "a", "cp1251"),
        ("Это тест", "a.ru.gz", "cp1251"),
        ("Zażółć gęślą jaźń", "a.pl", "cp1250"),
        ("Καλημέρα", "a.el", "cp1253"),
        ("これはテストです", "a.ja", "cp932"),
        ("これはテストです", "a.ja", "euc_jp"),
        ("这是一个测试", "a.zh", "gb18030"),
        ("İstanbul'da yağmur", "a.tr", "cp1254"),
    ],
)
def test_the_encoding_is_guessed_from_bytes_and_the_language_in_the_name(text, file, encoding):
    assert likely_encoding(text.encode(encoding), language_in_name(Path(file))) == encoding


def test_a_byte_that_no_guess_has_is_latin1():
    assert likely_encoding(b"caf\x81", None) == "iso8859-1"


@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"])
@pytest.mark.parametrize(
    "text", ["The café is closed.\n", "Привет, мир. Это «дом».\nИ всё, что в нём есть — наше.\n" * 20]
)
def test_zero_bytes_show_an_encoding_of_two_or_four_bytes(text, encoding):
    has_zeros = text.isascii() or "é" in text or "32" in encoding
    assert encoding_of_zeros(text.encode(encoding)) == (encoding if has_zeros else "")
    assert encoding_of_zeros(b"a\0b" + text.encode()) == ""


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-be", "utf-8-sig", "iso8859-15"])
@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_text_in_a_named_encoding_is_read(tmp_path, encoding, name):
    lines = [f"née {i} €\tgroß" for i in range(5000)]  # more than one chunk
    (tmp_path / name).write_bytes(pack("".join(f"{line}\r\n" for line in lines).encode(encoding), name[5:]))
    pairs = list(read_one_file(tmp_path / name, None, encodings=[encoding]))
    assert [f"{pair.src}\t{pair.tgt}" for pair in pairs] == lines


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_byte_order_mark_counts_more_than_the_option(tmp_path, encoding):
    (tmp_path / "a.txt").write_bytes("\ufeffcafé\nЁж\n".encode(encoding))
    assert list(read_lines(tmp_path / "a.txt", "cp1252")) == ["café", "Ёж"]


def test_several_encodings_are_tried_on_each_line(tmp_path):
    (tmp_path / "a.en").write_bytes("café\n".encode() + "naïve\n".encode("cp1252") + b"x" * 200_000 + "é".encode())
    (tmp_path / "a.de").write_bytes("größer\n".encode("cp1252") + "süß\n".encode() + b"y")
    pairs = list(read_two_files(tmp_path / "a.en", tmp_path / "a.de", Tally(), ["utf-8", "cp1252"]))
    assert [pair[:2] for pair in pairs] == [("café", "größer"), ("naïve", "süß"), ("x" * 200_000 + "é", "y")]


def test_a_byte_that_is_in_none_of_them_is_told_with_its_line(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"a\tb\n" * 20_000 + b"c\x81\td\n")
    for encodings, named in ((["cp1252"], "cp1252"), (["utf-8", "cp1252"], "utf-8 or cp1252")):
        with pytest.raises(DataError, match=rf"a\.tsv: line 20001: byte 0x81 is not {named}"):
            list(read_one_file(tmp_path / "a.tsv", None, encodings=encodings))


def test_utf16_without_its_mark_is_told(tmp_path):
    (tmp_path / "a.tsv").write_bytes("a\tb\n".encode("utf-16-le"))
    with pytest.raises(DataError, match=r"a\.tsv: .*BOM.*--encoding, such as utf-16-le"):
        list(read_one_file(tmp_path / "a.tsv", None, encodings=["utf-16"]))


@pytest.mark.parametrize("encoding", ["utf-32", "UTF-32LE", "UTF-32BE", "UTF-16LE"])
def test_the_encodings_that_messages_name_are_read(tmp_path, encoding):
    (tmp_path / "a.tsv").write_bytes("née\tgroß\n".encode(encoding))
    assert [pair[:2] for pair in read_one_file(tmp_path / "a.tsv", None, encodings=[encoding])] == [("née", "groß")]


def test_the_lines_in_each_of_several_encodings_are_counted(tmp_path, caplog):
    (tmp_path / "a.tsv").write_bytes("né\tb\n".encode("cp1252") + "né\tb\nné\tb\na\tb\n".encode())
    with caplog.at_level("INFO"):
        list(read_one_file(tmp_path / "a.tsv", None, encodings=["utf-8", "cp1252"]))
    assert "a.tsv: 2 lines in utf-8, 1 line in cp1252" in caplog.text


def test_utf8_lines_after_the_one_that_is_not_are_seen(tmp_path):
    (tmp_path / "mixed").write_bytes(b"caf\xe9\nplain\n" + "café\n".encode())
    with pytest.raises(DataError, match=r"mixed: line 1, byte 4: .*lines after it are UTF-8.*--encoding utf-8,cp1252"):
        list(read_lines(tmp_path / "mixed"))
    (tmp_path / "other").write_bytes(b"caf\xe9\nplain\ncaf\xe9\n")
    with pytest.raises(DataError, match=r"other: line 1, byte 4: .*--encoding cp1252"):
        list(read_lines(tmp_path / "other"))


def test_a_file_that_mixes_encodings_is_told_from_one_in_another(tmp_path):
    (tmp_path / "mixed").write_bytes("café\nplain\n".encode() + b"caf\xe9\n")
    with pytest.raises(DataError, match=r"mixed: line 3, byte 4: .*lines before it are UTF-8.*--encoding utf-8,cp1252"):
        list(read_lines(tmp_path / "mixed"))


@pytest.mark.parametrize("names", [["nonsense"], ["rot13"], ["utf-8", "utf-16"], ["hex"], [""]])
def test_what_is_not_a_text_encoding_is_refused(names):
    with pytest.raises(UsageError, match="--encoding"):
        check_encodings(names)


def test_a_format_that_states_its_encoding_takes_no_other(tmp_path):
    (tmp_path / "a.tmx").write_text("<tmx/>")
    with pytest.raises(UsageError, match=r"--encoding: .*a\.tmx"):
        list(read_one_file(tmp_path / "a.tmx", None, encodings=["cp1252"]))


def test_a_line_without_end_is_refused_in_an_encoding_too(tmp_path, monkeypatch):
    monkeypatch.setenv("MTKIT_MAX_LINE_BYTES", "1_000_000")
    (tmp_path / "a.tsv").write_bytes(b"x" * 30_000_000)
    for encodings in (["cp1252"], ["utf-8", "cp1252"], ["utf-16-le"]):
        with pytest.raises(DataError, match=r"line 1 has more than 1,000,000 bytes"):
            list(read_one_file(tmp_path / "a.tsv", None, encodings=encodings))
