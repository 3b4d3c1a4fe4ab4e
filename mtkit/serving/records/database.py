"""A SQLite file that several threads and processes may use, and that survives a crash."""

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from mtkit.console import log
from mtkit.errors import MtkitError
from mtkit.serving.refusals import Busy
from mtkit.serving.threads import run_to_end

_VERSION = 1
_WAIT_S = 5.0  # for another process that writes

_T = TypeVar("_T")


def time_text(moment: datetime) -> str:
    """Return a moment of UTC as records and replies have it, such as 2026-11-25T04:43:13.000Z; as text, it sorts."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Database:
    """One connection, which threads use in turn."""

    def __init__(self, path: Path, kind: str, schema: Sequence[str]) -> None:
        """Open a file, or create it readable by this user only.

        kind: its contents, for messages. schema: the statements that create its tables.
        Raises MtkitError if the file is of another kind, damaged, or cannot be written.
        """
        self._path = path
        self._lock = threading.Lock()
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            version = self._transaction(lambda connection: _prepare(connection, schema))
            if version == _VERSION:  # else the file is not ours to change
                self._connection.execute("PRAGMA journal_mode=WAL")  # readers need not wait for a writer
                self._connection.execute("PRAGMA foreign_keys=ON")
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise MtkitError(
                f"{path}: cannot keep {kind}: {error}; choose another file, or move this one away"
            ) from None
        except OSError as error:
            raise MtkitError(f"{path}: cannot keep {kind}: {error.strerror or error}") from None
        if version != _VERSION:
            self._connection.close()
            raise MtkitError(
                f"{path} is not a database of {kind} of version {_VERSION} (it has version {version}); use another file"
            )

    async def run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run work in a thread as one transaction and return its result: the file keeps all of its changes, or none.

        Raises Busy if the file cannot be written now, and any error that work raises.
        """
        try:
            return await run_to_end(lambda: self._transaction(work))
        except sqlite3.OperationalError as error:
            log.error(f"{self._path}: {error}")
            raise Busy("the service cannot read or store this now; try again later", retry_after_s=10) from None

    def run_now(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run work in this thread as one transaction. Raises MtkitError if the file cannot be read or written."""
        try:
            return self._transaction(work)
        except sqlite3.DatabaseError as error:
            raise MtkitError(f"{self._path}: {error}") from None

    def _transaction(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(self._connection)
                self._connection.execute("COMMIT")
                return result
            except BaseException:
                if self._connection.in_transaction:  # SQLite itself ends it when the disk is full
                    self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


def _prepare(connection: sqlite3.Connection, schema: Sequence[str]) -> int:
    """Create the tables in a new file, and return the version of the file."""
    [version] = connection.execute("PRAGMA user_version").fetchone()
    [n_tables] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if version or n_tables:
        return int(version)
    for statement in schema:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version={_VERSION}")
    return _VERSION
