"""CSV: rows of columns between commas, semicolons or tabs, quoted where needed, with or without a header."""

import csv
import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from mtkit.console import counted
from mtkit.errors import DataError
from mtkit.pair_files.lines import lines_of, max_line_bytes
from mtkit.pair_files.pairs import Languages, Tally
from mtkit.pair_files.units import Unit, header_of, is_like_header, names_of_columns

_DELIMITERS = ",;\t"


def units(file: BinaryIO, name: str, _tally: Tally) -> Iterator[Unit]:
    """Yield the texts of each row by language; a unit's number is the line on which its row begins.

    If columns of the first row name two or more languages, or source and target, it is a header; without one, the two
    columns are source and target. Raises DataError, with the line, if there are more, if the first row looks like a
    header of something else, or if a row's number of columns differs from the first one's: usually a quote is missing.
    """
    csv.field_size_limit(max_line_bytes() + 1)
    lines = lines_of(file, name)
    if (first := next(lines, None)) is None:
        return
    if re.fullmatch("sep=.", first):
        raise DataError(f"{name}: line 1: {first!r} is for Excel alone; remove the line")
    delimiter = _delimiter(first)
    rows = _rows(itertools.chain([first], lines), name, delimiter)
    number, row = next(rows, (1, []))
    codes = header_of(row)
    if codes is None:
        _check_without_header(row, f"{name}: line {number}", delimiter)
        codes = ["src", "tgt"]
        rows = itertools.chain([(number, row)], rows)
    n_columns = len(row)
    for number, row in rows:
        if len(row) != n_columns:
            raise DataError(
                f"{name}: line {number}: {counted(len(row), 'column')}, but the first row has {n_columns:,}; put "
                f"quotes around a text that contains {delimiter!r} or a line break"
            )
        yield Unit(number, [(code, text) for code, text in zip(codes, row, strict=False) if code])


def _check_without_header(row: list[str], place: str, delimiter: str) -> None:
    """Raise DataError if the first row is not a pair."""
    if len(row) < 2:
        raise DataError(f"{place}: one column; write source, comma, target, or a header that names them")
    if is_like_header(row):
        raise DataError(
            f"{place}: a header that does not name two languages: {', '.join(row[:10])}; call the columns of the pair "
            "en and de, say, or src and tgt; if this is a pair, put the header src,tgt above it"
        )
    if len(row) > 2:
        raise DataError(
            f"{place}: {counted(len(row), 'column')}, and no header that names two languages; write one above, such as "
            f"en,de,score; if a text contains {delimiter!r}, put quotes around it"
        )


def _delimiter(first_line: str) -> str:
    """Return what separates the columns of the first line: the one with which it is a header, or has two columns."""
    split = {delimiter: _split(first_line, delimiter) for delimiter in _DELIMITERS}
    headers = [delimiter for delimiter, row in split.items() if header_of(row)]
    in_two = [delimiter for delimiter, row in split.items() if len(row) == 2 and row[1][:1] != " "]
    several = [delimiter for delimiter, row in split.items() if len(row) > 1]
    return [*headers, *in_two, *several, ","][0]


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # which `_rows` reports with its place
        return []


def _rows(lines: Iterator[str], name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with the number of its first line."""
    begin, n_characters, most = 1, 0, max_line_bytes()

    def rows_counted() -> Iterator[str]:
        nonlocal n_characters
        for line in lines:
            n_characters += len(line) + 1
            if n_characters > most:
                raise DataError(f"{name}: line {begin}: a row of more than {most:,} characters; is a quote missing?")
            yield f"{line}\n"

    reader = csv.reader(rows_counted(), delimiter=delimiter, strict=True)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            if "new-line" in str(error):
                raise DataError(
                    f"{name}: line {begin}: not a row of CSV: a CR outside quotes; only LF ends lines: if CR "
                    "should, too, convert the file: sed 's/\\r$//' FILE | tr '\\r' '\\n'"
                ) from None
            raise DataError(
                f"{name}: line {begin}: not a row of CSV ({error}); write a quote inside a quoted text twice"
            ) from None
        if row is None:
            return
        if row:
            yield begin, row
        begin, n_characters = reader.line_num + 1, 0


@contextmanager
def writing(file: TextIO, langs: Languages) -> Iterator[Callable[[str, str], None]]:
    """Give a function that writes a pair as a row; the header has the languages, or src and tgt."""
    table = csv.writer(file, lineterminator="\n")
    table.writerow(names_of_columns(langs))
    yield lambda src, tgt: table.writerow((src, tgt)) and None
