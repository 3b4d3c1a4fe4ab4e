"""Tables: which columns are text, how cells are quoted, and that all else stays."""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_documents import loud, same, translated

from mtkit.documents.reading import Options, document_of
from mtkit.errors import DataError

TABLE = """id,Name,description,url,price,date
1,Blue Chair,"A ""nice"" chair, with four legs.",https://example.org/1,"12,50",2024-01-02
2,Red Table,an old table,https://example.org/2,20,2024-01-03
3,"Green Sofa","<p>It is <b>soft</b>.</p><p>Buy
it.</p>",x,7,
4,Lamp

"""


def _rows(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_table_that_is_translated_into_itself_has_the_same_bytes(newline, bom):
    raw = (bom + TABLE).replace("\n", newline).encode()
    assert translated(raw, "csv", same).raw == raw


def test_the_column_of_sentences_is_translated_and_nothing_else():
    found = translated(TABLE.encode(), "csv", loud).raw.decode()
    expected = TABLE.replace('"A ""nice"" chair, with four legs."', '"A ""NICE"" CHAIR, WITH FOUR LEGS."')
    expected = expected.replace("an old table", "AN OLD TABLE")
    expected = expected.replace("It is <b>soft</b>.</p><p>Buy\nit.", "IT IS <b>SOFT</b>.</p><p>BUY\nIT.")
    assert found == expected


def test_columns_are_chosen_by_name_or_number_and_said():
    for columns in (("Name",), ("name",), ("2",)):
        document = document_of(TABLE.encode(), "csv", Options(columns=columns))
        assert "column 2 Name of 6" in document.remarks[0]
        found = translated(TABLE.encode(), "csv", loud, columns=columns).raw.decode()
        assert [row[1] for row in _rows(found) if row] == ["Name", "BLUE CHAIR", "RED TABLE", "GREEN SOFA", "LAMP"]
        assert found.replace("BLUE CHAIR", "Blue Chair").count("chair, with four legs") == 1
    document = document_of(TABLE.encode(), "csv", Options())
    assert "column 3 description of 6" in document.remarks[0] and "--columns" in document.remarks[0]


def test_an_unknown_column_is_refused_with_those_that_there_are():
    for column in ("text", "0", "7"):
        with pytest.raises(DataError, match=rf"--columns {column}: .*1 id, 2 Name, 3 description"):
            document_of(TABLE.encode(), "csv", Options(columns=(column,)))


def test_a_table_without_text_is_refused_with_its_columns():
    with pytest.raises(DataError, match=r"--columns.*1 id, 2 code"):
        document_of(b"id,code\n1,AB_2\n2,CD_3\n", "csv", Options())


@pytest.mark.parametrize(
    ("name", "cells", "is_text"),
    [
        ("note", ["this is a note", "and another one"], True),
        ("Notiz", ["Das ist ein Satz.", "x"], False),
        ("name", ["Anna Meier", "John Smith", "Ole Olsen"], False),
        ("url", ["https://example.org/a b", "http://example.org"], False),
        ("date", ["2 Jan 2024", "3 Feb 2024"], False),
        ("sku", ["AB-12 x3", "CD-13 x4"], False),
        ("text", ["这是一个句子。", "另外一个句子。"], True),
        ("text", ["это предложение", "и это тоже"], True),
        ("format", ["%s of %d", "{a} {b}"], False),
    ],
)
def test_a_column_is_text_if_most_of_its_cells_are(name, cells, is_text):
    table = f"{name},other\n" + "".join(f'"{cell}",a real sentence here\n' for cell in cells)
    document = document_of(table.encode(), "csv", Options())
    assert (f"column 1 {name}, 2 other" in document.remarks[0]) == is_text


def test_of_columns_in_several_languages_the_source_is_translated():
    table = b"key,en,fr\na,I love tea.,J'aime le the.\nb,a small house,une petite maison\n"
    assert "column 2 en of 3" in document_of(table, "csv", Options(src_lang="en")).remarks[0]


@pytest.mark.parametrize("first", ["Hello, my friend.", "12", "https://example.org"])
def test_a_first_row_that_names_no_columns_is_text(first):
    table = f'"{first}",a first row\nx,and another one\n'
    assert (
        translated(table.encode(), "csv", loud, columns=("2",)).raw.decode().split("\n")[0] == f'"{first}",A FIRST ROW'
    )


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_recognised(delimiter):
    table = delimiter.join(["id", "text", "n"]) + "\n"
    table += delimiter.join(["1", '"a sentence, and; more"', "2"]) + "\n"
    table += delimiter.join(["2", "another sentence here", "3"]) + "\n"
    expected = table.replace("another sentence here", "ANOTHER SENTENCE HERE").replace(
        "a sentence, and; more", "A SENTENCE, AND; MORE"
    )
    assert translated(table.encode(), "csv", loud).raw.decode() == expected


def test_the_line_for_excel_stays():
    table = "sep=;\r\nid;text\r\n1;a small house\r\n"
    assert translated(table.encode(), "csv", loud).raw.decode() == table.replace("a small house", "A SMALL HOUSE")


def test_quotes_are_characters_in_a_tsv_where_they_divide_nothing():
    table = 'id\ttext\n1\t"quoted" words here\n2\ta 6" nail\n3\tsome more words\n'
    expected = table.replace("words here", "WORDS HERE").replace("quoted", "QUOTED").replace("a 6", "A 6")
    expected = expected.replace("nail", "NAIL").replace("some more words", "SOME MORE WORDS")
    assert translated(table.encode(), "csv", loud).raw.decode() == expected
    found = translated(table.encode(), "csv", lambda text: f"{text}\tx" if "more" in text else text)
    assert found.raw.decode() == table and "quotes" in found.notes[0].reason


@pytest.mark.parametrize("new", ["with, comma here", 'with "quotes" here', '"quoted" start here', "plain words here"])
def test_a_cell_gets_quotes_if_its_translation_needs_them(new):
    table = 'id,text\n1,three small words\n2,"three small birds"\n'
    found = translated(table.encode(), "csv", lambda text: new).raw.decode()
    assert _rows(found) == [["id", "text"], ["1", new], ["2", new]]
    needs = "," in new or new.startswith('"')
    assert found.split("\n")[1].startswith('1,"') == needs and found.split("\n")[2].startswith('2,"')


@pytest.mark.parametrize("mark", "=+-@")
def test_a_translation_that_a_spreadsheet_would_take_for_a_formula_is_left_out(mark):
    table = b"id,text\n1,a small word\n2,- a small word\n"
    found = translated(table, "csv", lambda text: f"{mark}cmd|A1 x")
    kept = found.raw.decode().split("\n")
    assert kept[1] == "1,a small word" and "formula" in found.notes[0].reason
    assert found.notes[0].place == "line 2, column text"
    assert (kept[2] == f"2,{mark}cmd|A1 x") == (mark == "-") or kept[2].startswith("2,- ")


@pytest.mark.parametrize(
    ("table", "facts"),
    [
        ('id,text\n1,"never closed\n', "line 2.*never closed.*twice"),
        ('id,text\n1,"a "word" here"\n', "line 2.*behind a closing quote.*twice"),
    ],
)
def test_a_quote_out_of_place_is_refused_with_its_line(table, facts):
    with pytest.raises(DataError, match=facts):
        document_of(table.encode(), "csv", Options())


def test_another_encoding_is_refused_and_an_empty_table_stays():
    with pytest.raises(DataError, match=r"line 2.*0xe9"):
        document_of("id,text\n1,é\n".encode("latin-1"), "csv", Options())
    for raw in (b"", b"\n\n", b"id,text\n", b"\xef\xbb\xbf"):
        assert translated(raw, "csv", loud, columns=()).raw in (raw, raw.upper())


_CELLS = ["", "a word or two", "12", '"quoted words, here"', '"a ""b"" c"', '""', " ", "x;y", "=1", "é", "two\tcells",
          '"two\nlines of text"', "<b>bold</b> text here", "%s", "a'b", '"\r\n"', '6" nail']  # fmt: skip


def _cut(table: str) -> list[list[str]]:
    """Return the rows as Python's reader sees them, without the second column."""
    sniffed = max(",;\t", key=table.partition("text")[0].count)
    return [[*row[:1], *row[2:]] for row in _rows(table, sniffed)]


@given(
    st.lists(st.lists(st.sampled_from(_CELLS), min_size=1, max_size=4), max_size=6),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_table_comes_back_and_keeps_its_rows(rows, delimiter, newline):
    table = "id" + delimiter + "text" + newline + newline.join(delimiter.join(row) for row in rows)
    try:
        found = translated(table.encode(), "csv", same, columns=("2",)).raw.decode()
    except DataError as error:
        assert re.search("line|--columns", str(error))
        return
    assert found == table
    changed = translated(table.encode(), "csv", loud, columns=("2",)).raw.decode()
    before, after = (_cut(text) for text in (table, changed))
    assert before == after


@given(st.integers(0, len(TABLE)), st.sampled_from(["", '"', ",", "\n", "\r", '""', ";;;"]))
def test_a_damaged_table_is_refused_or_keeps_its_other_cells(at, piece):
    for damaged in (TABLE[:at] + piece + TABLE[at:], TABLE[:at] + piece):
        try:
            found = translated(damaged.encode(), "csv", loud, columns=("3",)).raw.decode()
        except DataError as error:
            assert re.search("line|--columns", str(error))
            continue
        before, after = _rows(damaged), _rows(found)
        assert [[*row[:2], *row[3:]] for row in before] == [[*row[:2], *row[3:]] for row in after]
