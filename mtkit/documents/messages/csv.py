"""CSV and TSV: mtkit translates the cells of some columns, and keeps the header and all other cells."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from mtkit.documents.document import Document, Part
from mtkit.documents.messages.message_text import Message, message_of
from mtkit.documents.places import line_of
from mtkit.documents.reading import Options, text_part
from mtkit.documents.skeleton import Edit, Filled, Reading, Segment
from mtkit.errors import DataError
from mtkit.languages import are_one_language
from mtkit.pair_files.tables import Dialect, Row, dialect_of, fit_of, rows, sample_of
from mtkit.pair_files.units import language_of_column
from mtkit.text.inline_tags import without_tags
from mtkit.text.placeholders import STRINGS, placeholder_pattern
from mtkit.text.words import UNSPACED

_LOOKED_AT = 1000  # rows, to see which columns hold text
_FORMULA = "=+-@\t\r"  # at the beginning of a cell: https://owasp.org/www-community/attacks/CSV_Injection
_WORD = re.compile(r"[^\W\d_]{2,}")
_OF_CODE = re.compile(r"[_/\\@\d]")
_WITHOUT_SPACES = re.compile(rf"[{UNSPACED}]{{4}}")  # in scripts that have none
_MOST_CHARACTERS = 2000  # of a cell, to see whether it is language
_NAME = re.compile(r"[^\W\d][^\n]{0,39}")  # of a column
_MOST_WORDS = 4
_ENDS_SENTENCE = (".", "!", "?", ",", "。")


def read(raw: bytes, options: Options) -> Document:
    """Read a table: the columns that the options name, else those whose cells are mostly language.

    The first row is not translated if it looks like the names of columns, or if the options name columns by it.
    """
    plain = text_part(raw, lambda text: Reading(text, []), str, options)
    table = _Table(plain.text, options)
    part = Part(plain.name, plain.text, table.rows_of, table.reading, table.structure, plain.encode)
    return Document([part], placeholders=STRINGS, remarks=[table.remark] if table.columns else [])


class _Cell(NamedTuple):
    """Characters start to end of a table, with the quotes if it has any."""

    start: int
    end: int
    text: str  # what it holds
    is_quoted: bool


def _lines(text: str) -> Iterator[str]:
    return io.StringIO(text, newline="")  # LF, CRLF or CR ends a line


def _read(text: str) -> tuple[Dialect, list[Row]]:
    """Return the dialect of a table, and its rows."""
    sample = sample_of(_lines(text))
    dialect, by_tabs = dialect_of(sample), Dialect("\t", has_quotes=False)
    try:
        return dialect, list(rows(_lines(text), dialect))
    except DataError:
        if fit_of(sample, by_tabs).as_first <= 0.9:
            raise
        return by_tabs, list(rows(_lines(text), by_tabs))  # a quote is a character as any other, as in 6" nails


class _Table:
    def __init__(self, text: str, options: Options) -> None:
        self._text = text
        self._place = line_of(text)
        self._dialect, self._rows = _read(text)
        self._sample = [row.texts for row in self._rows[:_LOOKED_AT]]
        self._header = self._sample[0] if self._sample else []
        self._has_names = _is_header(self._sample)
        self.columns = self._columns(options) if self._header else []

    @property
    def remark(self) -> str:
        """The note on the columns that mtkit translates."""
        named = ", ".join(f"{index + 1} {self._name(index)}".strip() for index in self.columns)
        of = f"of {max(map(len, self._sample))}"
        first = "the first row has their names" if self._has_names else "the first row is text, too, not names"
        return f"translating column {named} {of} (--columns chooses others); {first}"

    def _name(self, index: int) -> str:
        return self._header[index].strip() if self._has_names and index < len(self._header) else ""

    def _columns(self, options: Options) -> list[int]:
        if options.columns:
            return sorted({index for name in options.columns for index in self._columns_of(name)})
        some = self._sample[self._has_names :]
        width = max(map(len, self._sample))
        found = [index for index in range(width) if _is_text([row[index] for row in some if index < len(row)])]
        if options.src_lang and self._has_names:
            languages = {index: language_of_column(self._name(index)) for index in found}
            found = [index for index in found if _is_one(languages[index], options.src_lang)] or found
        if width == 1:
            return [0]
        if not found and some:
            there_are = _column_names(self._header)
            raise DataError(f"no column looks like text; choose columns with --columns; there are {there_are}")
        return found

    def _columns_of(self, name: str) -> list[int]:
        """Return the columns with a name or number."""
        names = [text.strip() for text in self._header]
        for fold in (str, str.casefold):
            found = [index for index, of_column in enumerate(names) if fold(of_column) == fold(name.strip())]
            if found:
                self._has_names = True
                return found
        if name.isascii() and name.isdigit() and 1 <= int(name[:9]) <= max(map(len, self._sample)):
            return [int(name) - 1]
        raise DataError(f"--columns {name}: no such column; there are {_column_names(self._header)}")

    def rows_of(self, text: str) -> list[Row]:
        """Return the rows of the table, or of a translation of it."""
        return self._rows if text is self._text else list(rows(_lines(text), self._dialect))

    def _cells(self, row: Row) -> list[_Cell]:
        """Return the cells of a row with their places, which follow from what they hold."""
        cells = []
        at = row.start
        for text in row.texts:
            is_quoted = self._dialect.has_quotes and self._text.startswith('"', at)
            end = at + len(text) + (text.count('"') + len('""') if is_quoted else 0)
            cells.append(_Cell(at, end, text, is_quoted))
            at = end + 1
        return cells

    def reading(self, found: Sequence[Row]) -> Reading:
        """Return the cells that are text."""
        segments = []
        for row in found[self._has_names :]:
            cells = self._cells(row)
            for index in self.columns:
                if index < len(cells) and (message := message_of(cells[index].text)) is not None:
                    name = self._name(index) or str(index + 1)
                    place = f"{self._place(cells[index].start)}, column {name}"
                    put, refuse = self._put(message, cells[index]), partial(self._refuse, message)
                    segments.append(Segment(message.inline, place, put=put, write=message.write, refuse=refuse))
        return Reading(self._text, segments)

    def _put(self, message: Message, cell: _Cell) -> Callable[[Filled], list[Edit]]:
        def put(filled: Filled) -> list[Edit]:
            translation = message.translation(filled.text)
            if translation == cell.text:
                return []
            return [Edit(cell.start, cell.end, self._written(translation, cell))]

        return put

    def _refuse(self, message: Message, written: str) -> str:
        """Return the reason why a cell cannot contain a translation."""
        was, translation = message.translation(message.inline.source), message.translation(written)
        if translation[:1] in _FORMULA and translation[:1] != was[:1]:
            return f"its translation begins with {translation[:1]!r}, which a spreadsheet would take for a formula"
        if not self._dialect.has_quotes and self._has_mark(translation):
            return "its translation has a tab or a line break, for which the table has no quotes"
        return ""

    def _written(self, text: str, was: _Cell) -> str:
        """Return a text as a cell, in quotes if the original had them or if it needs them."""
        needs_quotes = self._dialect.has_quotes and (text.startswith('"') or self._has_mark(text))
        return '"{}"'.format(text.replace('"', '""')) if was.is_quoted or needs_quotes else text

    def _has_mark(self, text: str) -> bool:
        return any(mark in text for mark in (self._dialect.delimiter, "\n", "\r"))

    def structure(self, found: Sequence[Row]) -> object:
        """Return the parts that no translation may change: the cells of other columns, and the number of all."""
        texts, columns = [row.texts for row in found], frozenset(self.columns)
        return texts[: self._has_names], [_without(row, columns) for row in texts[self._has_names :]]


def _without(row: Sequence[str], columns: frozenset[int]) -> list[str | None]:
    return [None if index in columns and cell else cell for index, cell in enumerate(row)]


def _column_names(header: Sequence[str]) -> str:
    """Return the names and numbers of all columns, for a message."""
    return ", ".join(f"{number} {text.strip()[:40]}".strip() for number, text in enumerate(header[:50], start=1))


def _is_header(some: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row looks like names of columns: different ones, short, without sentences or numbers."""
    if not some:
        return False
    names = [text.strip() for text in some[0]]
    if not all(names[1:]) or len({*names}) < len(names):
        return False
    return max(len(names), len(some)) > 1 and all(map(_is_name, filter(None, names)))


def _is_name(cell: str) -> bool:
    is_short = bool(_NAME.fullmatch(cell)) and len(cell.split()) <= _MOST_WORDS
    return is_short and not cell.endswith(_ENDS_SENTENCE) and not placeholder_pattern().search(cell)


def _is_one(language: str, wanted: str) -> bool:
    return language == "src" or bool(language and language != "tgt" and are_one_language(language, wanted))


def _is_text(cells: Sequence[str]) -> bool:
    """Return whether the cells of a column are mostly language: several words, not all of them names."""
    filled = [cell for cell in cells if cell.strip()]
    return bool(filled) and sum(map(_is_prose, filled)) * 2 > len(filled)


def _is_prose(cell: str) -> bool:
    text = placeholder_pattern().sub(" ", without_tags(cell[:_MOST_CHARACTERS]))
    if _WITHOUT_SPACES.search(text):
        return True
    words = text.split()
    of_letters = [word for word in words if _WORD.search(word) and not _OF_CODE.search(word)]
    begins_small = any(word[0].isalpha() and not word[0].isupper() for word in of_letters)
    return len(of_letters) >= 2 and begins_small and len(of_letters) * 2 >= len(words)
