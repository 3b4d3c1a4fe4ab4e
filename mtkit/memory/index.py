"""A translation memory in a SQLite file: build it from sentence pairs, and search it for the best matches of a text.

The search uses prefix filtering (Bayardo, Ma and Srikant 2007): a source with a score of at least t shares at least
t * n of a text's n tokens, so it has one of the n - t * n + 1 rarest of them. For each token, a list holds the units
that have it, by their length. The candidates that share the most of those tokens are scored first, and the search ends
when no other candidate can be better. It is exact unless more than MOST_SCORED candidates could be.
"""

import math
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mtkit.config.decoding import LEAST_MATCH
from mtkit.errors import DataError
from mtkit.files import atomic_file
from mtkit.memory.fuzzy import EXACT, exact_key, fuzzy_score, normalized, tokens_of
from mtkit.pair_files.lines import as_column
from mtkit.pair_files.pairs import Languages, Pair, place_of
from mtkit.text.placeholders import placeholder_pattern_in_line

MOST_SCORED = 4096  # candidates of a text, which bounds the time of a search
_AT_ONCE = 128  # candidates
_ROWS = 10_000  # units that are indexed at once
_UNIT_BITS = 32
_SPACES = re.compile(" +")  # a translation keeps special ones, such as the no-break spaces of French
_VERSION = 1
_APPLICATION = 0x6D746D31
_SCHEMA = (
    "CREATE TABLE facts (src_lang TEXT NOT NULL, tgt_lang TEXT NOT NULL)",
    "CREATE TABLE units (id INTEGER PRIMARY KEY, key BLOB NOT NULL, tokens BLOB NOT NULL, src TEXT NOT NULL, "
    "tgt TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, times INTEGER NOT NULL)",
    "CREATE UNIQUE INDEX unit_texts ON units (key, tgt)",
    "CREATE TABLE tokens (token TEXT PRIMARY KEY, id INTEGER NOT NULL, n INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE lists (token INTEGER, length INTEGER, units BLOB NOT NULL, PRIMARY KEY (token, length))",
)
_ADD = (
    "INSERT INTO units (key, tokens, src, tgt, file, line, times) VALUES (?, ?, ?, ?, ?, ?, 1) "
    "ON CONFLICT DO UPDATE SET times = times + 1, file = excluded.file, line = excluded.line"
)

_FIRST_LEAST = 0.7  # a search for lower scores tries this one first, because that takes a fifth of the time
_Ints = npt.NDArray[np.int64]
_Scored = tuple[float, int, int]  # score, times and id of a unit


@dataclass(frozen=True)
class Match:
    """A unit of a memory, and how nearly its source equals a text."""

    score: float  # 1 if it equals the text, else at most 0.99; see `fuzzy_score`
    src: str
    tgt: str
    file: str  # where the unit came from
    line: int  # of that file, or number of its unit

    @property
    def place(self) -> str:
        """The place that the unit came from, such as "memory.tmx: unit 7"."""
        return place_of(self.file, self.line)

    @property
    def is_exact(self) -> bool:
        """Whether the source equals the text."""
        return self.score == EXACT

    def as_json(self) -> dict[str, object]:
        """Return the match as JSON, with the score in percent."""
        return {"score": self.percent, "source": self.src, "target": self.tgt, "place": self.place}

    @property
    def keeps_placeholders(self) -> bool:
        """Whether source and target have the same placeholders."""
        src, tgt = (
            sorted(found[0] for found in placeholder_pattern_in_line().finditer(text)) for text in (self.src, self.tgt)
        )
        return src == tgt

    @property
    def percent(self) -> int:
        """The score in percent, rounded down, so that only an exact match has 100."""
        return math.floor(100 * self.score + 1e-9)


def is_memory(path: Path) -> bool:
    """Return whether a file is a SQLite database, as `mtkit memory build` writes it."""
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


class Memory:
    """A translation memory, open for searches. Threads may share it."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.name = name
        [self.langs] = connection.execute("SELECT src_lang, tgt_lang FROM facts").fetchall()

    @cached_property
    def n_units(self) -> int:
        """The number of units."""
        with self._lock, _explained(self.name):
            [[n_units]] = self._connection.execute("SELECT count(*) FROM units").fetchall()
        return int(n_units)

    @classmethod
    def open(cls, path: Path) -> "Memory":
        """Open a file that `write_memory` has written. Raises DataError if it is something else, or damaged."""
        if not is_memory(path):
            problem = "not a memory" if path.exists() else "no such file"
            raise DataError(f"{path}: {problem}; build one from your files with `mtkit memory build`")
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        try:
            with _explained(str(path)):
                [application], [version] = (
                    connection.execute(f"PRAGMA {pragma}").fetchone() for pragma in ("application_id", "user_version")
                )
                if (application, version) == (_APPLICATION, _VERSION):
                    return cls(connection, str(path))
        except DataError:
            connection.close()
            raise
        connection.close()
        what = f"a translation memory of format {version}" if application == _APPLICATION else "another database"
        raise DataError(f"{path}: {what}, not a memory of format {_VERSION}; build it with `mtkit memory build`")

    @classmethod
    def of_pairs(cls, pairs: Iterable[Pair], langs: Languages, name: str) -> "Memory":
        """Build a memory that lasts as long as this process."""
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        _build(connection, pairs, langs)
        return cls(connection, name)

    def exact(self, text: str) -> Match | None:
        """Return the exact match of a text: the most frequent translation, and the latest of equally frequent ones."""
        return next(iter(self._exact(normalized(text))), None)

    def usable(self, text: str) -> Match | None:
        """Return the exact match of a text if its translation can be used: it has the same placeholders."""
        match = self.exact(text)
        return match if match is not None and match.keeps_placeholders else None

    def best(self, text: str, least: float) -> Match | None:
        """Return the best match of a text with a score of at least `least`, 1 for exact matches only."""
        return next(iter(self.search(text, least)), None)

    def search(self, text: str, least: float = 0.7, most: int = 1) -> list[Match]:
        """Return the best matches of a text, at most `most`, best first; of equally good ones, the most frequent first.

        least: the lowest score, from 0.5 on.
        """
        text = normalized(text)
        if not LEAST_MATCH / 100 <= least <= 1:
            raise ValueError(f"least={least}: a score from {LEAST_MATCH / 100} to 1")
        exact = self._exact(text)
        if len(exact) >= most or least == 1:
            return exact[:most]
        with self._lock, _explained(self.name):
            query, tokens = self._coded(tokens_of(text))
            best: list[_Scored] = []
            for lowest in dict.fromkeys((max(_FIRST_LEAST, least), least)):
                best = self._best(query, tokens, lowest, most - len(exact), exact_key(text))
                if len(exact) + len(best) == most:
                    break
            return [*exact, *(self._match(score, id) for score, _, id in best)]

    def units(self, after: int = 0) -> Iterator[tuple[int, str, str]]:
        """Yield the number, source and target of each unit after one, in order."""
        with _explained(self.name):
            yield from self._connection.execute("SELECT id, src, tgt FROM units WHERE id > ? ORDER BY id", [after])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _exact(self, text: str) -> list[Match]:
        with self._lock, _explained(self.name):
            rows = self._connection.execute(
                "SELECT src, tgt, file, line FROM units WHERE key = ? ORDER BY times DESC, id DESC", [exact_key(text)]
            ).fetchall()
        return [Match(EXACT, *row) for row in rows]

    def _best(
        self, query: Sequence[int], tokens: Sequence[tuple[int, int]], least: float, most: int, exact: bytes
    ) -> list[_Scored]:
        """Return the best units, at most `most`; see `_candidates` and `_scored`."""
        best: list[_Scored] = []
        n_scored = 0
        for bound, ids in self._candidates(tokens, len(query), least):
            if (len(best) == most and best[-1][0] >= bound) or n_scored >= MOST_SCORED:
                break
            n_scored += len(ids)
            best = sorted([*best, *self._scored(ids, query, least, exact)], reverse=True)[:most]
        return best

    def _match(self, score: float, id: int) -> Match:
        [row] = self._connection.execute("SELECT src, tgt, file, line FROM units WHERE id = ?", [id])
        return Match(score, *row)

    def _coded(self, tokens: Sequence[str]) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of tokens, and each different id with its number of times, the rarest first; -1: unknown."""
        known = {}
        for token in set(tokens):
            row = self._connection.execute("SELECT n, id FROM tokens WHERE token = ?", [token]).fetchone()
            known[token] = row or (0, -1)
        ids = [known[token][1] for token in tokens]
        by_rarity = sorted(set(known.values()))
        times = Counter(ids)
        return ids, [(id, times[id]) for _, id in by_rarity]

    def _candidates(self, tokens: Sequence[tuple[int, int]], n: int, least: float) -> Iterator[tuple[float, _Ints]]:
        """Yield the highest possible score of some units and their numbers, the highest first.

        tokens: of a text with n tokens, each different one with its number of times, the rarest first.
        """
        n_left = n  # tokens of the text that are not looked for yet
        n_rarest = n - _least_shared(n, least) + 1
        lists: list[_Ints] = []
        while tokens and n_left > n - n_rarest:
            (token, times), *tokens = tokens
            lists.append(np.repeat(self._units_with(token, n, least), times))
            n_left -= times
        codes, shared = np.unique(np.concatenate([*lists, np.array([], np.int64)]), return_counts=True)
        lengths = codes >> _UNIT_BITS
        bounds = np.minimum(shared + n_left, lengths) / np.maximum(lengths, n)
        while len(codes) > _AT_ONCE and tokens:  # look for the other tokens, too: that takes less time than to score
            (token, times), *tokens = tokens
            others = self._units_with(token, n, least)
            n_left -= times
            if len(others):
                at = np.minimum(np.searchsorted(others, codes), len(others) - 1)
                shared = shared + times * (others[at] == codes)
            bounds = np.minimum(shared + n_left, lengths) / np.maximum(lengths, n)
            may_match = bounds >= least - 1e-9
            codes, shared, lengths, bounds = codes[may_match], shared[may_match], lengths[may_match], bounds[may_match]
        order = np.argsort(-bounds, kind="stable")
        for start in range(0, len(order), _AT_ONCE):
            part = order[start : start + _AT_ONCE]
            yield float(bounds[part[0]]), codes[part] & ((1 << _UNIT_BITS) - 1)

    def _units_with(self, token: int, n: int, least: float) -> _Ints:
        """Return the units with a token whose length allows the lowest score: length and number in one code, sorted."""
        lists = self._connection.execute(
            "SELECT length, units FROM lists WHERE token = ? AND length BETWEEN ? AND ? ORDER BY length",
            [token, _least_shared(n, least), math.floor(n / least + 1e-9)],
        )
        codes = [length << _UNIT_BITS | np.frombuffer(units, np.uint32).astype(np.int64) for length, units in lists]
        return np.concatenate([*codes, np.array([], np.int64)])

    def _scored(self, ids: _Ints, query: Sequence[int], least: float, exact: bytes) -> list[_Scored]:
        """Return score, times and id of those units that reach the lowest score; exact: the key of exact matches."""
        rows = self._connection.execute(
            f"SELECT id, key, tokens, times FROM units WHERE id IN ({','.join(map(str, ids.tolist()))})"
        )
        scores = [
            (fuzzy_score(query, np.frombuffer(tokens, np.uint32).tolist(), least), times, id)
            for id, key, tokens, times in rows
            if key != exact
        ]
        return [one for one in scores if one[0] >= least - 1e-9]


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn SQLite's error about a damaged file, or one that was overwritten meanwhile, into one with a remedy."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise DataError(f"{name}: cannot read this translation memory: {error}; build it again") from None


class TooManyUnits(DataError):
    """A memory would have more units than its limit."""


def write_memory(path: Path, pairs: Iterable[Pair], langs: Languages, most: int | None = None) -> int:
    """Write a memory of these pairs to a file and return its number of units; equal pairs are one unit.

    Raises DataError if there are no pairs, and TooManyUnits soon after there are more units than `most`.
    """
    with atomic_file(path) as temporary:
        connection = sqlite3.connect(temporary)
        try:
            connection.execute("PRAGMA journal_mode=OFF")  # the temporary file is thrown away after an error
            connection.execute("PRAGMA synchronous=OFF")
            _build(connection, pairs, langs, most)
            memory = Memory(connection, str(path))
            if not memory.n_units:
                raise DataError(f"{path}: not written, because there is no pair with text on both sides")
            return memory.n_units
        finally:
            connection.close()


def _build(connection: sqlite3.Connection, pairs: Iterable[Pair], langs: Languages, most: int | None = None) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={_APPLICATION}")
    connection.execute(f"PRAGMA user_version={_VERSION}")
    connection.execute("INSERT INTO facts VALUES (?, ?)", langs)
    vocabulary: dict[str, int] = {}
    rows = _rows(pairs, vocabulary)
    while part := list(islice(rows, _ROWS)):
        connection.executemany(_ADD, part)
        [[n_units]] = connection.execute("SELECT max(id) FROM units")
        if most is not None and n_units > most:
            raise TooManyUnits(f"more than {most:,} units")
    _add_lists(connection, vocabulary)
    connection.commit()


def _rows(pairs: Iterable[Pair], vocabulary: dict[str, int]) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the units, and number their tokens; of a path only the name is kept."""
    for pair in pairs:
        src, tgt = normalized(pair.src), _SPACES.sub(" ", as_column(pair.tgt)).strip()
        if src and tgt:
            tokens = [vocabulary.setdefault(token, len(vocabulary)) for token in tokens_of(src)]
            yield (
                exact_key(src),
                np.array(tokens, np.uint32).tobytes(),
                src,
                tgt,
                pair.file.rpartition("/")[2],
                pair.line,
            )


def _add_lists(connection: sqlite3.Connection, vocabulary: dict[str, int]) -> None:
    """Add the units of each token, by length, and in how many each token is."""
    units, tokens, lengths = [], [], []
    rows = connection.execute("SELECT id, tokens FROM units")
    while part := rows.fetchmany(_ROWS):
        n_tokens = np.array([len(blob) // 4 for _, blob in part])
        owners = np.repeat(np.arange(len(part)), n_tokens)
        pairs = np.unique(owners << _UNIT_BITS | np.frombuffer(b"".join(blob for _, blob in part), np.uint32))
        owners = pairs >> _UNIT_BITS
        units.append(np.array([id for id, _ in part], np.uint32)[owners])
        tokens.append((pairs & ((1 << _UNIT_BITS) - 1)).astype(np.uint32))
        lengths.append(np.minimum(n_tokens, 0xFFFF).astype(np.uint16)[owners])
    token, length, unit = (np.concatenate(parts or [np.array([], np.uint32)]) for parts in (tokens, lengths, units))
    n_units = np.bincount(token, minlength=len(vocabulary))
    connection.executemany(
        "INSERT INTO tokens VALUES (?, ?, ?)", ((text, id, int(n_units[id])) for text, id in vocabulary.items())
    )
    order = np.lexsort((unit, length, token))
    groups, starts = np.unique(token[order].astype(np.int64) << 16 | length[order], return_index=True)
    parts = np.split(unit[order], starts[1:])
    connection.executemany(
        "INSERT INTO lists VALUES (?, ?, ?)",
        ((group >> 16, group & 0xFFFF, part.tobytes()) for group, part in zip(groups.tolist(), parts, strict=False)),
    )


def _least_shared(n: int, least: float) -> int:
    """Return how many of its n tokens a text shares at least with a source that scores at least `least`."""
    return math.ceil(n * least - 1e-9)
