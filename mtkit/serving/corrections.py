"""Corrections that users suggest: checked, kept in a SQLite file, and used as exact matches."""

import asyncio
import re
import sqlite3
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from mtkit.config.serving import ServeConfig
from mtkit.data.placeholders import Placeholders
from mtkit.documents.placeholders import PROSE
from mtkit.quality.faults import find_faults
from mtkit.serving.database import Database
from mtkit.serving.refusals import BadRequest, Busy
from mtkit.serving.service import Caller

State = Literal["held", "vetted", "accepted", "rejected"]

_MOST_OF_A_CALLER = 10_000
_MOST = 100_000
_LOOK_S = 1.0  # how often to look whether another process has changed the file
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_COLUMNS = "id, src, tgt, text, suggestion, caller, state, reasons, created"
_SCHEMA = (
    """
    CREATE TABLE correction (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        src TEXT NOT NULL,
        tgt TEXT NOT NULL,
        text TEXT NOT NULL,
        suggestion TEXT NOT NULL,
        caller TEXT NOT NULL,
        state TEXT NOT NULL,
        reasons TEXT NOT NULL,
        created TEXT NOT NULL,
        UNIQUE (src, tgt, text, caller, suggestion)
    )
    """,
)


@dataclass(frozen=True)
class Correction:
    """A translation that a user would have."""

    id: int
    src: str
    tgt: str
    text: str
    suggestion: str
    caller: str  # the name of the key; "" without one
    state: State  # held: a check failed
    reasons: str  # why it is held
    created: str  # time, as in 2026-11-25T04:43:13+00:00


@dataclass(frozen=True)
class Verdict:
    """What became of a suggestion: it is kept in any case, and acts if it was accepted."""

    accepted: bool
    reasons: Sequence[str] = ()  # why it waits for a person


class Corrections:
    """The corrections of all callers.

    One that passes the checks acts at once, for the caller who gave it. It acts for all once the operator has accepted
    it. Callers without a key are one caller, so where strangers can reach the service theirs wait for the operator.
    """

    def __init__(self, path: Path, *, acts: bool, anonymous_acts: bool) -> None:
        """acts: whether a correction acts before it is accepted; anonymous_acts: also one without a key.

        Raises MtkitError if the file cannot be used.
        """
        self._path, self._acts, self._anonymous_acts = path, acts, anonymous_acts
        self._database = Database(path, "corrections", _SCHEMA)
        self._matches: dict[tuple[str, str, str], dict[str | None, str]] = {}  # by caller; None: for all
        self._stamp: object = None
        self._looked = 0.0
        self._reloading: asyncio.Task[None] | None = None
        self._use(self._database.transact(_active), self._file_stamp())

    @classmethod
    def from_config(cls, cfg: ServeConfig) -> "Corrections | None":
        """Return the corrections that the settings name, if any."""
        if cfg.corrections.file is None:
            return None
        is_private = cfg.host in ("127.0.0.1", "::1", "localhost")
        return cls(cfg.corrections.file, acts=cfg.corrections.apply == "vetted", anonymous_acts=is_private)

    async def suggest(self, src: str, tgt: str, text: str, suggestion: str, caller: Caller) -> Verdict:
        """Keep a suggestion. src, tgt: codes of served languages.

        Raises BadRequest if there is nothing to keep, Busy if too many wait.
        """
        key, wanted = _tidy(text), suggestion.strip()
        if not key or not wanted:
            raise BadRequest("a correction needs a text and its translation")
        if _CONTROL.search(key + wanted):
            raise BadRequest("a correction cannot have control characters")
        reasons = check(text, suggestion, tgt)
        state: State = "held" if reasons else "vetted"
        correction = await self._database.run(
            lambda connection: _keep(connection, src, tgt, key, wanted, caller.name, state, "; ".join(reasons))
        )
        acts = self._acts_for(correction)
        if acts is not False:
            self._matches.setdefault((src, tgt, key), {})[acts] = wanted
        if correction.state == "rejected":
            reasons = ["the operator has rejected it"]
        elif acts is False and not reasons:
            reasons = ["it waits for the operator"]
        return Verdict(acts is not False, reasons)

    def lookup(self, src: str, tgt: str, text: str, caller: Caller) -> str | None:
        """Return the translation of exactly this text that acts for a caller: his own, else an accepted one."""
        self._look()
        matches = self._matches.get((src, tgt, _tidy(text)))
        return None if matches is None else matches.get(caller.name, matches.get(None))

    def _acts_for(self, correction: Correction) -> str | Literal[False] | None:
        """Return the caller for whom a correction acts, None for all, False for nobody."""
        if correction.state == "accepted":
            return None
        is_known = bool(correction.caller) or self._anonymous_acts
        return correction.caller if correction.state == "vetted" and self._acts and is_known else False

    def _use(self, corrections: Iterable[Correction], stamp: object) -> None:
        matches: dict[tuple[str, str, str], dict[str | None, str]] = {}
        for correction in corrections:  # the newest come last
            acts = self._acts_for(correction)
            if acts is not False:
                matches.setdefault((correction.src, correction.tgt, correction.text), {})[acts] = correction.suggestion
        self._matches, self._stamp = matches, stamp

    def _look(self) -> None:
        """Read the file again if another process, such as `mtkit corrections accept`, has changed it."""
        now = time.monotonic()
        if now - self._looked < _LOOK_S or (self._reloading is not None and not self._reloading.done()):
            return
        self._looked = now
        if (stamp := self._file_stamp()) != self._stamp:
            self._reloading = asyncio.get_running_loop().create_task(self._reload(stamp))

    async def _reload(self, stamp: object) -> None:
        self._use(await self._database.run(_active), stamp)

    def _file_stamp(self) -> object:
        """Return what changes whenever the file does."""
        stamps = []
        for path in (self._path, self._path.with_name(f"{self._path.name}-wal")):
            try:
                status = path.stat()
                stamps.append((status.st_mtime_ns, status.st_size))
            except OSError:
                stamps.append((0, 0))
        return stamps

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def check(text: str, suggestion: str, tgt: str) -> list[str]:
    """Return why a suggestion may be no translation of a text: the faults of translations, and lost parts."""
    reasons = [
        f"{_FAULTS[fault.kind]}{f': {fault.detail}' if fault.detail else ''}"
        for fault in find_faults(text, suggestion, tgt_lang=tgt)
    ]
    patterns = Placeholders(PROSE)
    if sorted(patterns.values(text)) != sorted(patterns.values(suggestion)):
        reasons.append("its variables or addresses are not those of the text")
    if Counter(_TAG.findall(text)) != Counter(_TAG.findall(suggestion)):
        reasons.append("its tags are not those of the text")
    if "\n" in suggestion.strip() and "\n" not in text.strip():
        reasons.append("it has line ends, and the text has none")
    return list(dict.fromkeys(reasons))


_FAULTS = {
    "empty": "it is empty",
    "loop": "it repeats itself",
    "length": "its length is unlikely",
    "copy": "it copies the text",
    "number": "it loses a number",
    "url": "it loses an address",
}


def _tidy(text: str) -> str:
    """Return a text as it is compared: characters composed, one space where white space is."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _keep(
    connection: sqlite3.Connection,
    src: str,
    tgt: str,
    text: str,
    suggestion: str,
    caller: str,
    state: State,
    reasons: str,
) -> Correction:
    """Keep a suggestion as the newest one; what the operator has said of the same one before holds."""
    values = (src, tgt, text, suggestion, caller)
    same = "src = ? AND tgt = ? AND text = ? AND suggestion = ? AND caller = ?"
    before = connection.execute(f"SELECT state FROM correction WHERE {same}", values).fetchone()
    if before is None:
        [of_caller] = connection.execute("SELECT count(*) FROM correction WHERE caller = ?", (caller,)).fetchone()
        [of_all] = connection.execute("SELECT count(*) FROM correction").fetchone()
        if of_caller >= _MOST_OF_A_CALLER or of_all >= _MOST:
            raise Busy("too many corrections are kept: the operator must look at them first", retry_after_s=3600)
    elif before[0] in ("accepted", "rejected"):
        state = before[0]
    connection.execute(f"DELETE FROM correction WHERE {same}", values)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    row = (*values, state, reasons, created)
    cursor = connection.execute(
        "INSERT INTO correction (src, tgt, text, suggestion, caller, state, reasons, created) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    return Correction(cursor.lastrowid or 0, *row)


def _active(connection: sqlite3.Connection) -> list[Correction]:
    return read(connection, ("vetted", "accepted"))


def read(connection: sqlite3.Connection, states: Sequence[State]) -> list[Correction]:
    """Return the corrections in these states, the newest last."""
    places = ", ".join("?" * len(states))
    rows = connection.execute(f"SELECT {_COLUMNS} FROM correction WHERE state IN ({places}) ORDER BY id", tuple(states))
    return [Correction(*row) for row in rows]


def open_file(path: Path) -> Database:
    """Open a file of corrections. Raises MtkitError if it is none."""
    return Database(path, "corrections", _SCHEMA)
