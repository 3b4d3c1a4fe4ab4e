"""The cells of a table in CSV or TSV: where they stand in its text, how they are quoted, and what they hold."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice

from mtkit.documents.reading import line_of
from mtkit.errors import DataError

_DELIMITERS = ",;\t|"
_LOOKED_AT = 100  # rows, to recognise the delimiter
_MOST_CHARACTERS = 1_000_000  # of these rows
_EXCEL = re.compile(r"sep=(.)(?:\r\n|\r|\n)")  # a first line that is for Excel alone


@dataclass(frozen=True, slots=True)
class Cell:
    """Characters start to end of a table, with the quotes if it has any."""

    start: int
    end: int
    text: str  # what it holds
    is_quoted: bool


@dataclass(frozen=True)
class Dialect:
    """How the cells of a table are divided."""

    delimiter: str
    has_quotes: bool  # else a quote is a character as any other
    start: int = 0  # of the first row

    def rows(self, text: str) -> Iterator[list[Cell]]:
        """Yield the rows that are not blank. Raises DataError, with the line, for a quote that is out of place."""
        delimiter = re.escape(self.delimiter)
        quoted = r'"(?P<quoted>(?:[^"]++|"")*+)"|(?!")' if self.has_quotes else "(?P<quoted>(?!))|"
        cell = re.compile(rf"(?:{quoted}(?P<plain>[^{delimiter}\r\n]*+))(?P<end>{delimiter}|\r\n|\r|\n|\Z)")
        row: list[Cell] = []
        at = self.start
        while at < len(text) or row:
            found = cell.match(text, at)
            if found is None:
                raise DataError(_quote_out_of_place(text, at))
            quoted_text = found["quoted"]
            content = found["plain"] if quoted_text is None else quoted_text.replace('""', '"')
            row.append(Cell(at, found.start("end"), content, quoted_text is not None))
            at = found.end()
            if found["end"] != self.delimiter:
                if len(row) > 1 or row[0].end > row[0].start:
                    yield row
                row = []

    def write(self, text: str, was: Cell) -> str:
        """Return a text as a cell: in quotes if that was so or if it needs them."""
        if was.is_quoted or (self.has_quotes and self._needs_quotes(text)):
            return '"{}"'.format(text.replace('"', '""'))
        return text

    def refuses(self, text: str) -> str:
        """Return why no cell can hold a text; "" if one can."""
        if not self.has_quotes and any(mark in text for mark in (self.delimiter, "\n", "\r")):
            return "its translation has a tab or a line break, for which the table has no quotes"
        return ""

    def _needs_quotes(self, text: str) -> bool:
        return text.startswith('"') or any(mark in text for mark in (self.delimiter, "\n", "\r"))

    def contents(self, text: str) -> list[list[str]]:
        """Return what the cells of all rows hold, as Python's own reader sees them. Raises DataError if it fails."""
        csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
        lines = io.StringIO(text[self.start :], newline="")
        if self.has_quotes:
            reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        else:
            reader = csv.reader(lines, delimiter=self.delimiter, strict=True, quoting=csv.QUOTE_NONE)
        try:
            return [row for row in reader if row]
        except csv.Error as error:
            raise DataError(
                f"line {reader.line_num}: not a row of CSV ({error}); write a quote in quotes twice"
            ) from None


def _quote_out_of_place(text: str, at: int) -> str:
    closed = re.compile(r'"(?:[^"]++|"")*+"').match(text, at)
    place = line_of(text)(at)
    shown = repr(text[at : at + 30])
    if closed is None:
        return f"{place}: a quote is never closed: {shown}; close it, or write a quote in quotes twice"
    return f"{place}: text behind a closing quote: {shown}; write a quote in quotes twice"


def dialect_of(text: str) -> Dialect:
    """Return how the rows of a table are divided: by the delimiter that gives most rows the same number of cells."""
    if excel := _EXCEL.match(text):
        return Dialect(excel[1], has_quotes=True, start=excel.end())
    sample = text[:_MOST_CHARACTERS]
    found = max((Dialect(each, has_quotes=True) for each in _DELIMITERS), key=partial(_evenness, sample))
    by_tabs = Dialect("\t", has_quotes=False)
    try:
        for _ in found.rows(text):
            pass
    except DataError:
        if _evenness(sample, by_tabs) > (0.9,):  # where a quote is a character as any other, as in 6" nails
            return by_tabs
    return found


def _evenness(sample: str, dialect: Dialect) -> tuple[float, float, int]:
    """Return the share of rows with as many cells as the first, with the most frequent number of cells, and this.

    A number counts if it is more than one.
    """
    counts: list[int] = []
    with suppress(DataError):  # reported when the table is read
        for row in islice(dialect.rows(sample), _LOOKED_AT):
            counts.append(len(row))  # what comes before an error counts
    several = Counter(n for n in counts if n > 1)
    if not several:
        return 0.0, 0.0, 1
    n_cells, n_rows = max(several.items(), key=lambda item: (item[1], item[0]))
    return several[counts[0]] / len(counts), n_rows / len(counts), n_cells


def column_names(header: Sequence[Cell]) -> str:
    """Return the names and numbers of all columns, for a message."""
    return ", ".join(f"{number} {cell.text.strip()[:40]}".strip() for number, cell in enumerate(header[:50], start=1))
