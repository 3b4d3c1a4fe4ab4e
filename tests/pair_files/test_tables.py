"""CSV, JSONL and TSV."""

import json

import pytest

from mtkit.errors import DataError
from mtkit.pair_files.corpus_files import own_languages, read_one_file, read_two_files
from mtkit.pair_files.pairs import Pair, Tally


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def texts(path, langs=None, tally=None):
    return [pair[:2] for pair in read_one_file(path, langs, tally)]


@pytest.mark.parametrize(
    ("text", "langs", "expected"),
    [
        ("a,b\nc,d\n", None, [("a", "b"), ("c", "d")]),
        ("a,b\r\n\r\nc,d", ("en", "de"), [("a", "b"), ("c", "d")]),
        ("source,target\na,b\n", None, [("a", "b")]),
        ("id,de,en\n1,b,a\n", ("en", "de"), [("a", "b")]),
        ("tgt;src\nb;a\n", None, [("a", "b")]),
        ("EN\tde-AT\na\tb\n", ("en", "de"), [("a", "b")]),
        ("Hallo, Welt;Hello\n", None, [("Hallo, Welt", "Hello")]),
        ('"a ""b"", c","d\ne"\nf,g\n', None, [('a "b", c', "d e"), ("f", "g")]),
        ("\ufeffen,de\na,b\n", None, [("a", "b")]),
        ("", None, []),
        ("eng,deu\na,b\n", ("en", "de"), [("a", "b")]),
        ("en_US,de_DE\na,b\n", ("en", "de"), [("a", "b")]),
        ("English,German\na,b\n", ("de", "en"), [("b", "a")]),
        ("English (United States);Deutsch\na;b\n", ("en", "de"), [("a", "b")]),
        ("sentence_eng_Latn,sentence_deu_Latn\na,b\n", ("en", "de"), [("a", "b")]),
        ("Source text,Target text\na,b\n", ("en", "de"), [("a", "b")]),
        ("id,English,Deutsch\nx1,a,b\n", None, [("a", "b")]),  # not Indonesian
        ("id,en,score\nsatu,one,0.5\n", None, [("satu", "one")]),  # Indonesian
        ("sep=;\r\nen;de\r\na;b\r\n", None, [("a", "b")]),  # as Excel writes it
        ("sep=|\na, or b|c\n", None, [("a, or b", "c")]),
        ("en|de\na, or b|c; d\n", None, [("a, or b", "c; d")]),
        ("Yes, I do;Ja, ja\nNo, thanks;Nein, danke\n", None, [("Yes, I do", "Ja, ja"), ("No, thanks", "Nein, danke")]),
        ("Yes,I do,too;Ja\nNo;Nein\n", None, [("Yes,I do,too", "Ja"), ("No", "Nein")]),
        ("no,nein\nyes,ja\n", None, [("no", "nein"), ("yes", "ja")]),  # not Norwegian
    ],
)
def test_columns_of_a_csv_are_found_by_the_header_or_are_the_first_two(tmp_path, text, langs, expected):
    assert texts(write(tmp_path, "a.csv", text), langs) == expected


def test_a_row_of_a_csv_has_the_number_of_its_first_line_and_empty_sides_are_counted(tmp_path):
    path, tally = write(tmp_path, "a.csv", 'en,de\n"a\nb",c\nd,\ne,f\n'), Tally()
    assert list(read_one_file(path, None, tally)) == [Pair("a b", "c", str(path), 2), Pair("e", "f", str(path), 5)]
    assert tally.left_out == {"with empty de": 1}
    assert own_languages(path) == ("en", "de")
    [pair] = read_one_file(write(tmp_path, "b.csv", "sep=,\nen,de\na,b\n"), None)
    assert pair.line == 3


@pytest.mark.parametrize(
    ("text", "langs", "message"),
    [
        ("a,b\nc,d,e\n", None, "line 2: 3 columns, but the first row has 2"),
        ('a,b\n"c,d\ne,f\n', None, "line 2: not a row of CSV"),
        ('a,b\n"c"x,d\n', None, "line 2: not a row of CSV"),
        ("a\nb\n", None, "line 1: one column"),
        ("Hello, you,Hallo\nIf, so,ja\n", None, "line 1: 3 columns, and no header.* such as en,de,.*quotes"),
        ("id,comment\n1,good\n", None, "line 1: a header that .*id, comment.*src,tgt"),
        ("id,en\n1,good\n", None, r"which two.*"),
        ("English,Elbisch\na,b\n", ("en", "de"), "line 1: a header that .*English, Elbisch"),
        ("source,comment\na,b\n", None, "line 1: a header that .*source, comment"),
        ("a,b\nc,d\re,f\n", None, "line 2: not a row of CSV: a CR outside quotes"),
        ("en,fr\na,b\n", ("en", "de"), r"en and de; .*en \(1\), fr \(1\)"),
        ("en,fr,de\na,b,c\n", None, r"which two.*en \(1\), fr \(1\), de \(1\)"),
        ('a,b\n"c' + "\nd" * 2000, None, "line 2: a row of more than 1,000 characters"),
        ("x" * 2000, None, "line 1 has more than 1,000 bytes"),
    ],
)
def test_a_csv_that_cannot_be_read_is_refused_with_its_line(tmp_path, monkeypatch, text, langs, message):
    monkeypatch.setenv("MTKIT_MAX_LINE_BYTES", "1000")
    path = write(tmp_path, "a.csv", text)
    with pytest.raises(DataError, match=message) as error:
        texts(path, langs)
    assert str(error.value).startswith(f"{path}: ")


def test_a_text_of_csv_may_be_longer_than_pythons_limit(tmp_path):
    assert texts(write(tmp_path, "a.csv", f"{'x' * 200_000},b\n")) == [("x" * 200_000, "b")]


@pytest.mark.parametrize(
    ("values", "langs"),
    [
        ({"src": "a", "tgt": "b"}, None),
        ({"source": "a", "target": "b", "score": 0.5}, ("en", "de")),
        ({"de": "b", "en": "a", "id": 7}, ("en", "de")),
        ({"en": "a", "de": "b"}, None),
        ({"translation": {"en": "a", "de": "b"}, "id": "1"}, ("en", "de")),
        ({"source": "Europarl", "en": "a", "de": "b"}, ("en", "de")),
        ({"de_DE": "b", "eng_Latn": "a"}, ("eng_Latn", "de")),
    ],
)
def test_keys_of_jsonl_are_sides_or_languages(tmp_path, values, langs):
    assert texts(write(tmp_path, "a.jsonl", json.dumps(values) + "\n\n"), langs) == [("a", "b")]


def test_a_line_of_jsonl_without_a_text_is_counted(tmp_path):
    lines = ['{"en": "a", "de": "b"}', '{"en": "c"}', '{"en": "d", "de": null}', '{"en": "", "de": "e"}']
    path, tally = write(tmp_path, "a.jsonl", "\n".join(lines)), Tally()
    assert list(read_one_file(path, ("en", "de"), tally)) == [Pair("a", "b", str(path), 1)]
    assert tally.left_out == {"without de": 2, "with empty en": 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "line 2: not JSON"),
        ('{"en": "a", "de', "line 2: not JSON"),
        ('["a", "b"]', "line 2: an array instead of an object"),
        ('[{"en": "a", "de": "b"}]', r"line 2: an array of objects.*jq -c '\.\[\]'"),
        ("[", "line 2: not JSON.*jq -c"),
        ('{"en": "a", "de": "b", "en": "c"}', "line 2: the key 'en' comes twice"),
        ('{"en": {"text": "a"}, "de": null}', r"line 2: no text .*'en' \(an object\), 'de' \(null\)"),
        ('{"text": "a"}', "line 2: no text under src and tgt.*'text'"),
        ("[" * 100_000, "line 2: not JSON: .*nested"),
        ('{"en": "\\ud83d", "de": "b"}', "line 2: en has half of a surrogate pair"),
    ],
)
def test_a_line_of_jsonl_that_cannot_be_read_is_refused(tmp_path, line, message):
    path = write(tmp_path, "a.jsonl", f'{{"en": "a", "de": "b"}}\n{line}\n')
    with pytest.raises(DataError, match=message) as error:
        texts(path, ("en", "de"))
    assert str(error.value).startswith(f"{path}: ")


@pytest.mark.parametrize("value", ["9" * 5000, "NaN", "-Infinity", "1e999"])
def test_numbers_of_any_size_beside_the_text_are_no_matter(tmp_path, value):
    assert texts(write(tmp_path, "a.jsonl", f'{{"en": "a", "de": "b", "score": {value}}}\n')) == [("a", "b")]


def test_files_with_a_bom_may_be_joined(tmp_path):
    line = '\ufeff{"en": "a", "de": "b"}\n'
    assert texts(write(tmp_path, "a.jsonl", line * 2)) == [("a", "b")] * 2


def test_escaped_pairs_of_surrogates_are_characters(tmp_path):
    assert texts(write(tmp_path, "a.jsonl", '{"en": "\\ud83d\\ude00", "de": "b"}\n')) == [("😀", "b")]


def test_a_tsv_keeps_every_line(tmp_path):
    path, tally = write(tmp_path, "a.TSV", "a\tb\tc\n\t\nd\te\n"), Tally()
    assert texts(path, ("en", "de"), tally) == [("a", "b"), ("", ""), ("d", "e")]
    assert tally.n_units == 3


def test_further_columns_of_a_tsv_are_counted(tmp_path):
    path, tally = write(tmp_path, "a.tsv", "a\tb\tnote\nc\td\ne\tf\t0.5\t7\n"), Tally()
    assert [pair[:2] for pair in read_one_file(path, None, tally)] == [("a", "b"), ("c", "d"), ("e", "f")]
    assert "columns after the second, in 2 lines" in tally.remark()


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("http://a.example/x\thttps://b.example/y\tHello.\tHallo.\t0.9", "address and address"),
        ("0.93\tHello.\tHallo.", "number and text"),
        ("1276\tHello.\t77\tHallo.", "number and text"),
    ],
)
def test_addresses_scores_and_ids_are_not_taken_for_pairs(tmp_path, line, kinds):
    with pytest.raises(DataError, match=rf"a\.tsv: line 1: \d columns, .*{kinds}.*cut -f") as error:
        texts(write(tmp_path, "a.tsv", f"{line}\n"))
    assert ".csv" in str(error.value)


@pytest.mark.parametrize(
    "line", ["12\t12\tnote", "Hello.\tHallo.\thttp://a.example", "http://a.example\thttp://a.example"]
)
def test_a_pair_may_be_of_numbers_or_addresses_alone(tmp_path, line):
    assert texts(write(tmp_path, "a.tsv", f"{line}\n")) == [tuple(line.split("\t")[:2])]


@pytest.mark.parametrize("header", ["en\tde", "source\ttarget", "id\tEnglish\tGerman"])
def test_a_header_of_a_tsv_is_not_taken_for_a_pair(tmp_path, header):
    with pytest.raises(DataError, match=r"a\.tsv: line 1: a header .*\.csv"):
        texts(write(tmp_path, "a.tsv", f"{header}\na\tb\tc\n"))


def test_a_pair_that_only_cr_separates_from_the_one_before_is_not_lost(tmp_path):
    with pytest.raises(DataError, match=r"a\.tsv: line 2: .*CR"):
        texts(write(tmp_path, "a.tsv", "a\tb\r\nc\td\re\tf\n"))
    assert texts(write(tmp_path, "a.tsv", "a\tb\r\nc\td\re\n")) == [("a", "b"), ("c", "d\re")]


def test_pairs_of_lines_that_cr_may_join_are_counted(tmp_path):
    src, tgt = write(tmp_path, "a.en", "a\rb\nc\n\re\r\n"), write(tmp_path, "a.de", "A\rB\nC\rD\nE\n")
    tally = Tally()
    assert [pair.src for pair in read_two_files(src, tgt, tally)] == ["a\rb", "c", "\re"]
    assert tally.n_with_cr == 1
    assert "CR inside both lines of 1 pair" in tally.remark()


def test_an_unknown_file_extension_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"a\.txt: unknown file extension '\.txt'.*\.tmx.*\.zip"):
        texts(write(tmp_path, "a.txt", ""))
