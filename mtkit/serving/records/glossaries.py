"""Glossaries of callers in a SQLite file; each has a dictionary for one or more pairs of languages."""

import csv
import re
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from mtkit.languages import primary_code
from mtkit.search.phrases import chunks, folded
from mtkit.serving.caller import Caller
from mtkit.serving.records.database import Database, time_text
from mtkit.serving.refusals import BadRequest, NotFound, Refusal, TooLarge
from mtkit.serving.texts import TermLine
from mtkit.text.characters import tidied
from mtkit.text.lines import lines_in

EntriesFormat = Literal["tsv", "csv"]
Pair = tuple[str, str]  # codes of source and target, without script and region: a dictionary is for all variants

_MOST_GLOSSARIES = 1000  # of a caller, as DeepL has it
_MOST_BYTES = 1024  # of a name or term, as DeepL has it
_FULL_GLOSSARIES = 10  # what all entries of a caller may fill
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ALTERNATIVES = " | "  # what separates them in a terminology
_SCHEMA = (
    """
    CREATE TABLE glossary (
        id TEXT PRIMARY KEY,
        caller TEXT NOT NULL,
        name TEXT NOT NULL,
        created TEXT NOT NULL
    )
    """,
    "CREATE INDEX glossary_of_caller ON glossary (caller, created)",
    """
    CREATE TABLE entry (
        glossary TEXT NOT NULL REFERENCES glossary ON DELETE CASCADE,
        src TEXT NOT NULL,
        tgt TEXT NOT NULL,
        source TEXT NOT NULL,
        target TEXT NOT NULL,
        UNIQUE (glossary, src, tgt, source)
    )
    """,
)


class TooManyGlossaries(Refusal):
    """The caller has used up the space for glossaries."""

    status = 456  # DeepL's own: a quota is used up


@dataclass(frozen=True)
class Dictionary:
    """A glossary's dictionary for a pair of languages, without the entries."""

    pair: Pair
    n_entries: int


@dataclass(frozen=True)
class Glossary:
    """A glossary without its entries."""

    id: str
    name: str
    created: str  # time, as in 2026-11-25T04:43:13.000Z
    dictionaries: Sequence[Dictionary]


class Glossaries:
    """The glossaries of all callers. A caller cannot see the glossaries of others."""

    def __init__(self, path: Path, most_entries: int) -> None:
        """most_entries: of one glossary. Raises MtkitError if the file cannot be used."""
        self._database = Database(path, "glossaries", _SCHEMA)
        self._most_entries = most_entries

    async def create(self, caller: Caller, name: str, dictionaries: Mapping[Pair, Sequence[TermLine]]) -> Glossary:
        """Create a glossary. Raises Refusal."""
        _check_name(name)
        id = str(uuid.uuid4())
        created = time_text(datetime.now(UTC))

        def work(connection: sqlite3.Connection) -> Glossary:
            [n] = connection.execute("SELECT count(*) FROM glossary WHERE caller = ?", [caller.name]).fetchone()
            if n >= _MOST_GLOSSARIES:
                raise TooManyGlossaries(f"there are {n:,} glossaries already; delete one")
            connection.execute("INSERT INTO glossary VALUES (?, ?, ?, ?)", [id, caller.name, name.strip(), created])
            for pair, entries in dictionaries.items():
                self._add(connection, caller, id, pair, entries)
            return _glossary(connection, id, caller)

        return await self._database.run(work)

    async def get(self, id: str, caller: Caller) -> Glossary:
        """Return a glossary. Raises NotFound."""
        return await self._database.run(lambda connection: _glossary(connection, id, caller))

    async def all_of(self, caller: Caller) -> list[Glossary]:
        """Return all glossaries of a caller, the oldest first."""

        def work(connection: sqlite3.Connection) -> list[Glossary]:
            ids = connection.execute("SELECT id FROM glossary WHERE caller = ? ORDER BY created", [caller.name])
            return [_glossary(connection, id, caller) for (id,) in ids.fetchall()]

        return await self._database.run(work)

    async def entries(self, id: str, caller: Caller, pair: Pair) -> list[TermLine]:
        """Return the entries for a pair of languages, in order. Raises NotFound if there are none."""

        def work(connection: sqlite3.Connection) -> list[TermLine]:
            _glossary(connection, id, caller)
            query = "SELECT source, target FROM entry WHERE (glossary, src, tgt) = (?, ?, ?) ORDER BY rowid"
            entries: list[TermLine] = connection.execute(query, [id, *pair]).fetchall()
            return entries or _no_dictionary(pair)

        return await self._database.run(work)

    async def terms_in(self, sentences: Sequence[str], id: str, caller: Caller, pair: Pair) -> dict[str, str]:
        """Return the entries for a pair of languages that occur in sentences: targets by source.

        The cost depends on the sentences and their terms, not on the size of the glossary.
        Raises NotFound if there is no such glossary, or none for the pair.
        """

        def work(connection: sqlite3.Connection) -> dict[str, str]:
            _name_and_time(connection, id, caller)
            if _next_entry(connection, id, pair, "") is None:
                _no_dictionary(pair)
            return {
                source: target
                for sentence in sentences
                for source, target in _entries_in(connection, id, pair, sentence)
            }

        return await self._database.run(work)

    async def update(
        self, id: str, caller: Caller, *, name: str | None = None, entries: Mapping[Pair, Sequence[TermLine]] = {}
    ) -> Glossary:
        """Rename a glossary and add entries, which replace those with the same source. Raises Refusal."""
        if name is not None:
            _check_name(name)

        def work(connection: sqlite3.Connection) -> Glossary:
            _glossary(connection, id, caller)
            if name is not None:
                connection.execute("UPDATE glossary SET name = ? WHERE id = ?", [name.strip(), id])
            for pair, added in entries.items():
                self._add(connection, caller, id, pair, added)
            return _glossary(connection, id, caller)

        return await self._database.run(work)

    async def replace(self, id: str, caller: Caller, pair: Pair, entries: Sequence[TermLine]) -> Dictionary:
        """Replace all entries for a pair of languages. Raises Refusal."""

        def work(connection: sqlite3.Connection) -> Dictionary:
            _glossary(connection, id, caller)
            _delete(connection, id, pair)
            self._add(connection, caller, id, pair, entries)
            return Dictionary(pair, len(entries))

        return await self._database.run(work)

    async def remove_dictionary(self, id: str, caller: Caller, pair: Pair) -> None:
        """Delete the entries for a pair of languages. Raises NotFound."""

        def work(connection: sqlite3.Connection) -> None:
            _glossary(connection, id, caller)
            if not _delete(connection, id, pair):
                _no_dictionary(pair)

        await self._database.run(work)

    async def remove(self, id: str, caller: Caller) -> None:
        """Delete a glossary. Raises NotFound."""

        def work(connection: sqlite3.Connection) -> None:
            _glossary(connection, id, caller)
            connection.execute("DELETE FROM glossary WHERE id = ?", [id])

        await self._database.run(work)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _add(
        self, connection: sqlite3.Connection, caller: Caller, id: str, pair: Pair, entries: Sequence[TermLine]
    ) -> None:
        connection.executemany(
            "INSERT INTO entry VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (glossary, src, tgt, source) DO UPDATE SET target = excluded.target",
            [(id, *pair, *entry) for entry in entries],
        )
        [n] = connection.execute("SELECT count(*) FROM entry WHERE glossary = ?", [id]).fetchone()
        if n > self._most_entries:
            raise TooLarge(f"a glossary has at most {self._most_entries:,} entries; this one would have {n:,}")
        query = "SELECT count(*) FROM entry JOIN glossary ON glossary = id WHERE caller = ?"
        [n] = connection.execute(query, [caller.name]).fetchone()
        if n > _FULL_GLOSSARIES * self._most_entries:
            raise TooManyGlossaries(f"all of your glossaries together would have {n:,} entries; delete a glossary")


def _glossary(connection: sqlite3.Connection, id: str, caller: Caller) -> Glossary:
    name, created = _name_and_time(connection, id, caller)
    query = "SELECT src, tgt, count(*) FROM entry WHERE glossary = ? GROUP BY src, tgt ORDER BY min(rowid)"
    dictionaries = [Dictionary((src, tgt), n) for src, tgt, n in connection.execute(query, [id])]
    return Glossary(id, name, created, dictionaries)


def _name_and_time(connection: sqlite3.Connection, id: str, caller: Caller) -> tuple[str, str]:
    query = "SELECT name, created FROM glossary WHERE (id, caller) = (?, ?)"
    found: tuple[str, str] | None = connection.execute(query, [id, caller.name]).fetchone()
    if found is None:
        raise NotFound("no such glossary; list yours to see their ids")
    return found


def _entries_in(connection: sqlite3.Connection, id: str, pair: Pair, sentence: str) -> Iterator[TermLine]:
    """Yield the entries that can apply to a sentence, in the spellings that a terminology accepts.

    From each word on, it follows the sentence as long as an entry begins in the same way.
    """
    words = chunks(tidied(sentence))
    lower = list(map(folded, words))
    for start, word in enumerate(words):
        small = word[:1].lower() + word[1:]  # an entry may begin with a capital at the beginning of a sentence
        for beginning, is_folded in {(lower[start], True), (word, words == lower), (small, words == lower)}:
            following, at = lower if is_folded else words, start + 1
            while (entry := _next_entry(connection, id, pair, beginning)) and entry[0].startswith(beginning):
                if entry[0] == beginning:
                    yield entry
                if at == len(words):
                    break
                beginning, at = beginning + following[at], at + 1


def _next_entry(connection: sqlite3.Connection, id: str, pair: Pair, source: str) -> TermLine | None:
    """Return the entry with this source or, in the order of the index, the one that follows."""
    query = (
        "SELECT source, target FROM entry WHERE (glossary, src, tgt) = (?, ?, ?) AND source >= ? "
        "ORDER BY source LIMIT 1"
    )
    found: TermLine | None = connection.execute(query, [id, *pair, source]).fetchone()
    return found


def _delete(connection: sqlite3.Connection, id: str, pair: Pair) -> int:
    return connection.execute("DELETE FROM entry WHERE (glossary, src, tgt) = (?, ?, ?)", [id, *pair]).rowcount


def _no_dictionary(pair: Pair) -> list[TermLine]:
    raise NotFound(f"the glossary has no dictionary for {'-'.join(pair)}")


def _check_name(name: str) -> None:
    if not name.strip() or len(name.encode("utf-8", "replace")) > _MOST_BYTES or _CONTROL.search(name):
        raise BadRequest(f"the name of a glossary must have 1 to {_MOST_BYTES:,} bytes, and no control characters")


def read_entries(text: str, format: EntriesFormat, pair: Pair) -> list[TermLine]:
    """Read the entries of a table without a header: source and target, in CSV also their languages.

    Raises BadRequest that names the line for anything that is not an entry, or that a terminology cannot contain.
    """
    entries: dict[str, str] = {}
    for number, cells in _rows(text, format):
        tidy = list(map(tidied, cells))
        if len(tidy) == 4 and format == "csv" and (primary_code(tidy[2]), primary_code(tidy[3])) == pair:
            tidy = tidy[:2]
        source, target = _checked(number, cells, tidy)
        if entries.setdefault(source, target) != target:
            raise BadRequest(f"entry {number}: {source!r} already has another translation; remove one of them")
    if not entries:
        raise BadRequest("a dictionary needs at least one entry")
    return list(entries.items())


def _rows(text: str, format: EntriesFormat) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, with their numbers."""
    lines = lines_in(text)
    rows: Iterable[list[str]] = csv.reader(lines, strict=True) if format == "csv" else (ln.split("\t") for ln in lines)
    number = 0
    try:
        for number, cells in enumerate(rows, start=1):
            if any(cell.strip() for cell in cells):
                yield number, cells
    except csv.Error as error:
        raise BadRequest(f"entry {number + 1}: not valid CSV: {error}") from None


def _checked(number: int, cells: Sequence[str], tidy: Sequence[str]) -> TermLine:
    if len(tidy) != 2 or not all(tidy):
        raise BadRequest(f"entry {number}: needs a source and a target, but has {cells!r:.80}")
    for cell, raw in zip(tidy, cells, strict=False):
        if len(cell.encode("utf-8", "replace")) > _MOST_BYTES:
            raise BadRequest(f"entry {number}: {cell[:20]!r}... is longer than {_MOST_BYTES:,} bytes")
        if _CONTROL.search(raw.strip()) or cell == "*" or _ALTERNATIVES in f" {cell} ":
            raise BadRequest(
                f"entry {number}: {cell[:40]!r}: a term cannot be '*' alone, or have '|' alone or control characters"
            )
    return tidy[0], tidy[1]
