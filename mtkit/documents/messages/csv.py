"""CSV and TSV: the cells of some columns are text; their names in the first row and all other cells stay."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from mtkit.documents.document import Document, Edit, Filled, Reading, Segment
from mtkit.documents.messages.message_text import Message, message_of
from mtkit.documents.messages.table_cells import Cell, column_names, dialect_of
from mtkit.documents.reading import Options, line_of, text_part
from mtkit.errors import DataError
from mtkit.languages import are_one_language
from mtkit.pair_files.units import language_of_column
from mtkit.quality.faults import CHARACTER_WORDS
from mtkit.text.placeholders import PLACEHOLDER, STRINGS

_LOOKED_AT = 1000  # rows, to see which columns hold text
_FORMULA = "=+-@\t\r"  # at the beginning of a cell: https://owasp.org/www-community/attacks/CSV_Injection
_TAG = re.compile(r"<[^<>]{1,1000}>")
_WORD = re.compile(r"[^\W\d_]{2,}")
_OF_CODE = re.compile(r"[_/\\@\d]")
_WITHOUT_SPACES = re.compile(rf"[{CHARACTER_WORDS}]{{4}}")  # in scripts that have none
_MOST_CHARACTERS = 2000  # of a cell, to see whether it is language
_NAME = re.compile(r"[^\W\d][^\n]{0,39}")  # of a column
_MOST_WORDS = 4
_ENDS_SENTENCE = (".", "!", "?", ",", "。")


def read(raw: bytes, options: Options) -> Document:
    """Read a table: the columns that the options name, else those whose cells are mostly language.

    The first row is not translated if it looks like the names of columns, or if the options name columns by it.
    """
    part = text_part(raw, lambda text: Reading(text, []), str, is_markup=False)
    table = _Table(part.text, options)
    part = replace(part, read=lambda _: table.reading(), structure=table.structure)
    return Document([part], placeholders=STRINGS, remarks=[table.remark] if table.columns else [])


class _Table:
    def __init__(self, text: str, options: Options) -> None:
        self._text = text
        self._place = line_of(text)
        self._dialect = dialect_of(text)
        self._sample = list(islice(self._dialect.rows(text), _LOOKED_AT))
        self._header = self._sample[0] if self._sample else []
        self._has_names = _is_header(self._sample)
        self.columns = self._columns(options) if self._header else []

    @property
    def remark(self) -> str:
        """What was taken as text."""
        named = ", ".join(f"{index + 1} {self._name(index)}".strip() for index in self.columns)
        of = f"of {max(map(len, self._sample))}"
        first = "the first row has their names" if self._has_names else "the first row is text, too, not names"
        return f"translating column {named} {of} (--columns chooses others); {first}"

    def _name(self, index: int) -> str:
        return self._header[index].text.strip() if self._has_names and index < len(self._header) else ""

    def _columns(self, options: Options) -> list[int]:
        if options.columns:
            return sorted({index for name in options.columns for index in self._columns_of(name)})
        rows = self._sample[self._has_names :]
        width = max(map(len, self._sample))
        found = [index for index in range(width) if _is_text([row[index].text for row in rows if index < len(row)])]
        if options.src_lang and self._has_names:
            languages = {index: language_of_column(self._name(index)) for index in found}
            found = [index for index in found if _is_one(languages[index], options.src_lang)] or found
        if width == 1:
            return [0]
        if not found and rows:
            raise DataError(
                f"no column looks like text; name those that are with --columns; there are {column_names(self._header)}"
            )
        return found

    def _columns_of(self, name: str) -> list[int]:
        """Return the columns that a name or number means."""
        names = [cell.text.strip() for cell in self._header]
        for fold in (str, str.casefold):
            found = [index for index, of_column in enumerate(names) if fold(of_column) == fold(name.strip())]
            if found:
                self._has_names = True
                return found
        if name.isascii() and name.isdigit() and 1 <= int(name[:9]) <= max(map(len, self._sample)):
            return [int(name) - 1]
        raise DataError(f"--columns {name}: no such column; there are {column_names(self._header)}")

    def reading(self) -> Reading:
        """Return the cells that are text."""
        segments = []
        for row in islice(self._dialect.rows(self._text), int(self._has_names), None):
            for index in self.columns:
                if index < len(row) and (message := message_of(row[index].text)) is not None:
                    name = self._name(index) or str(index + 1)
                    place = f"{self._place(row[index].start)}, column {name}"
                    put, refuse = self._put(message, row[index]), partial(self._refuse, message)
                    segments.append(Segment(message.inline, place, put, message.write, refuse))
        return Reading(self._text, segments)

    def _put(self, message: Message, cell: Cell) -> Callable[[Filled], list[Edit]]:
        def put(filled: Filled) -> list[Edit]:
            translation = message.translation(filled.text)
            if translation == cell.text:
                return []
            return [Edit(cell.start, cell.end, self._dialect.write(translation, cell))]

        return put

    def _refuse(self, message: Message, written: str) -> str:
        """Return why a translation cannot be in its cell."""
        was, translation = message.translation(message.inline.source), message.translation(written)
        if translation[:1] in _FORMULA and translation[:1] != was[:1]:
            return f"its translation begins with {translation[:1]!r}, which a spreadsheet would take for a formula"
        return self._dialect.refuses(translation)

    def structure(self, text: str) -> object:
        """Return what no translation may change: the cells of other columns, and the number of all."""
        rows = self._dialect.contents(text)
        columns = frozenset(self.columns)
        head = rows[: self._has_names]
        return head, [_without(row, columns) for row in rows[self._has_names :]]


def _without(row: Sequence[str], columns: frozenset[int]) -> list[str | None]:
    return [None if index in columns and cell else cell for index, cell in enumerate(row)]


def _is_header(rows: Sequence[Sequence[Cell]]) -> bool:
    """Return whether the first row looks like names of columns: different ones, short, without sentences or numbers."""
    if not rows:
        return False
    names = [cell.text.strip() for cell in rows[0]]
    if not all(names[1:]) or len({*names}) < len(names):
        return False
    return max(len(names), len(rows)) > 1 and all(map(_is_name, filter(None, names)))


def _is_name(cell: str) -> bool:
    is_short = bool(_NAME.fullmatch(cell)) and len(cell.split()) <= _MOST_WORDS
    return is_short and not cell.endswith(_ENDS_SENTENCE) and not PLACEHOLDER.search(cell)


def _is_one(language: str, wanted: str) -> bool:
    return language == "src" or bool(language and language != "tgt" and are_one_language(language, wanted))


def _is_text(cells: Sequence[str]) -> bool:
    """Return whether the cells of a column are mostly language: several words, not all of them names."""
    filled = [cell for cell in cells if cell.strip()]
    return bool(filled) and sum(map(_is_prose, filled)) * 2 > len(filled)


def _is_prose(cell: str) -> bool:
    text = PLACEHOLDER.sub(" ", _TAG.sub(" ", cell[:_MOST_CHARACTERS]))
    if _WITHOUT_SPACES.search(text):
        return True
    words = text.split()
    of_letters = [word for word in words if _WORD.search(word) and not _OF_CODE.search(word)]
    begins_small = any(word[0].isalpha() and not word[0].isupper() for word in of_letters)
    return len(of_letters) >= 2 and begins_small and len(of_letters) * 2 >= len(words)
