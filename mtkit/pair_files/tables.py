"""CSV, with quotes where needed and with or without a header; and TSV: source, tab, target on each line."""

import csv
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, TextIO

from mtkit.console import counted
from mtkit.errors import DataError
from mtkit.pair_files.lines import lines_of, max_line_bytes
from mtkit.pair_files.pairs import Languages, Pair, Tally
from mtkit.pair_files.units import Unit, header_of, is_like_header, names_of_columns
from mtkit.text.addresses import addresses_in

_TAB = "\t"
_DELIMITERS = ",;\t|"
_LOOKED_AT = 100  # rows, to recognise the delimiter
_MOST_LINES = 1000  # of these rows
_MOST_CHARACTERS = 1_000_000  # of these rows
_EXCEL = re.compile(r"sep=(.)[\r\n]*")  # a first line that gives Excel the delimiter


@dataclass(frozen=True)
class Dialect:
    """The delimiter and quoting of a table."""

    delimiter: str
    has_quotes: bool = True  # else a quote is a character as any other
    n_lines_before: int = 0  # lines before the first row


@dataclass(slots=True)
class Row:
    """A row of a table."""

    line: int  # number of its first line
    start: int  # character of the table at which it begins
    texts: list[str]  # what its cells hold


def csv_units(file: BinaryIO, name: str, _tally: Tally) -> Iterator[Unit]:
    """Yield the texts of each row by language; a unit's number is the line on which its row begins.

    If columns of the first row name two or more languages, or source and target, it is a header; without one, the two
    columns are source and target. Raises DataError, with the line, if there are more, if the first row looks like a
    header of something else, or if a row's number of columns differs from the first one's: usually a quote is missing.
    """
    lines = (f"{line}\n" for line in lines_of(file, name))
    sample = sample_of(lines)
    dialect = dialect_of(sample)
    table = rows(itertools.chain(sample, lines), dialect, name)
    first = next(table, None)
    if first is None:
        return
    codes = header_of(first.texts)
    if codes is None:
        _check_without_header(first.texts, f"{name}: line {first.line}", dialect.delimiter)
        codes = ["src", "tgt"]
        table = itertools.chain([first], table)
    n_columns = len(first.texts)
    for row in table:
        texts = row.texts
        if len(texts) != n_columns:
            raise DataError(
                f"{name}: line {row.line}: {counted(len(texts), 'column')}, but the first row has {n_columns:,}; put "
                f"quotes around a text that contains {dialect.delimiter!r} or a line break"
            )
        yield Unit(row.line, [(code, text) for code, text in zip(codes, texts, strict=False) if code])


def sample_of(lines: Iterable[str]) -> list[str]:
    """Return the first lines of a table, which show its dialect."""
    sample: list[str] = []
    n_characters = 0
    for line in itertools.islice(lines, _MOST_LINES):
        sample.append(line)
        n_characters += len(line)
        if n_characters > _MOST_CHARACTERS:
            break
    return sample


def dialect_of(sample: Sequence[str]) -> Dialect:
    """Detect the dialect of a table that begins with these lines.

    The delimiter is the one with which the first row names languages, or most rows have the same number of cells.
    """
    if sample and (excel := _EXCEL.fullmatch(sample[0])):
        return Dialect(excel[1], n_lines_before=1)
    return max((Dialect(each) for each in _DELIMITERS), key=lambda dialect: fit_of(sample, dialect))


class Fit(NamedTuple):
    """The fit of a dialect to a table; the greatest is the best. A number of cells counts if it is more than one."""

    has_languages: bool = False  # the first row names two languages, or source and target
    as_first: float = 0.0  # share of rows with as many cells as the first one
    as_most: float = 0.0  # share of rows with the most frequent number of cells
    without_space: float = 0.0  # share of cells behind a delimiter that do not begin with a space, as after a comma
    n_cells: int = 1


def fit_of(sample: Sequence[str], dialect: Dialect) -> Fit:
    """Return the fit of a dialect to a table that begins with these lines."""
    some: list[list[str]] = []
    with suppress(DataError):  # reported when the table is read
        for row in itertools.islice(rows(sample, dialect), _LOOKED_AT):
            some.append(row.texts)  # what comes before an error counts
    several = Counter(len(texts) for texts in some if len(texts) > 1)
    if not several:
        return Fit()
    n_cells, n_rows = max(several.items(), key=lambda item: (item[1], item[0]))
    behind = [text for texts in some for text in texts[1:]]
    without_space = sum(not text.startswith(" ") for text in behind) / len(behind)
    has_languages = header_of(some[0]) is not None
    return Fit(has_languages, several[len(some[0])] / len(some), n_rows / len(some), without_space, n_cells)


def rows(lines: Iterable[str], dialect: Dialect, name: str = "") -> Iterator[Row]:
    """Yield the rows of a table that are not blank. name: of its file, for messages.

    lines: of the table, with their line breaks. Raises DataError, with the line, for a quote out of place.
    """
    most = max_line_bytes()
    csv.field_size_limit(max(csv.field_size_limit(), most + 1))
    where = f"{name}: line" if name else "line"
    taken: list[str] = []  # lines of the row
    n_characters = 0

    def taking() -> Iterator[str]:
        nonlocal n_characters
        for line in remaining:
            n_characters += len(line)
            if n_characters > most:
                what = f"a row of more than {most:,} characters; is a quote missing?"
                raise DataError(f"{where} {number}: {what}")
            taken.append(line)
            yield line

    remaining = iter(lines)
    start = sum(map(len, itertools.islice(remaining, dialect.n_lines_before)))
    number = 1 + dialect.n_lines_before
    if dialect.has_quotes:
        reader = csv.reader(taking(), delimiter=dialect.delimiter, strict=True)
    else:
        reader = csv.reader(taking(), delimiter=dialect.delimiter, strict=True, quoting=csv.QUOTE_NONE)
    while True:
        try:
            texts = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{where} {number}: not a row of CSV: {_fault(str(error), taken)}") from None
        if texts is None:
            return
        if texts:
            yield Row(number, start, texts)
        start += n_characters
        number += len(taken)
        n_characters = 0
        taken.clear()


def _fault(error: str, lines: Sequence[str]) -> str:
    """Return the problem with a row of these lines, and the remedy."""
    if "new-line" in error:
        return (
            "a CR outside quotes; only LF ends lines: if CR should, too, convert the file: "
            "sed 's/\\r$//' FILE | tr '\\r' '\\n'"
        )
    shown = repr(lines[0][:30].rstrip("\r\n")) if lines else ""
    if "unexpected end" in error:
        return f"a quote is never closed in {shown}; close it, or write a quote in quotes twice"
    if "expected after" in error:
        return f"text behind a closing quote in {shown}; write a quote in quotes twice"
    return f"{error} in {shown}"


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


@contextmanager
def csv_writing(file: TextIO, langs: Languages) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that writes a pair as a row; the header has the languages, or src and tgt."""
    table = csv.writer(file, lineterminator="\n")
    table.writerow(names_of_columns(langs))
    yield lambda src, tgt: table.writerow((src, tgt)) and None


def tsv_pairs(file: BinaryIO, name: str, tally: Tally) -> Iterator[Pair]:
    """Yield the first two columns of each line of TSV, which has neither a header nor quotes, and count the lines.

    Raises DataError, with the line, if it has no tab, is a header, or if CR separates it from a second pair, and if
    the first line has more columns, and an address, or a number beside text, as source or target.
    """
    for number, line in enumerate(lines_of(file, name), start=1):
        columns = line.split(_TAB, 2)
        if len(columns) < 2:
            raise DataError(f"{name}: line {number}: no tab; write each line as source, tab, target")
        if number == 1 and header_of(line.split(_TAB)):
            raise DataError(
                f"{name}: line 1: a header ({', '.join(line.split(_TAB)[:10])}), which a .tsv does not have; rename "
                "the file to .csv, where a header names the columns, or remove the line if the first two columns are "
                "source and target; if it is a pair, move it further down"
            )
        if len(columns) > 2:
            if number == 1:
                _check_columns(line.split(_TAB), f"{name}: line 1")
            tally.n_with_more += 1
        if "\r" in line and any(_TAB in part for part in line.split("\r")[1:]):
            raise DataError(
                f"{name}: line {number}: a CR, then a tab, as if a second pair began there; only LF ends lines: if CR "
                "should, too, convert the file: sed 's/\\r$//' FILE | tr '\\r' '\\n'"
            )
        tally.n_units += 1
        yield Pair(columns[0], columns[1], name, number)


def _check_columns(columns: list[str], place: str) -> None:
    """Raise DataError if the first two of many columns are not source and target, but addresses, scores or ids."""
    src, tgt = columns[:2]
    kinds = [
        "address" if addresses_in(text) == [text] else "number" if _NUMBER.fullmatch(text) else "text"
        for text in (src.strip(), tgt.strip())
    ]
    if "address" in kinds or kinds.count("number") == 1:
        raise DataError(
            f"{place}: {len(columns)} columns, and the first two, which mtkit takes as source and target, are "
            f"{kinds[0]} and {kinds[1]}: {src[:40]!r}, {tgt[:40]!r}; choose the columns of the pair first, for example "
            "with cut -f3,4, or rename the file to .csv and give it a header such as url,url,en,de"
        )


_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?")


@contextmanager
def tsv_writing(file: TextIO, _langs: Languages) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that writes a pair as a line of TSV."""
    yield lambda src, tgt: print(src, tgt, sep="\t", file=file)
