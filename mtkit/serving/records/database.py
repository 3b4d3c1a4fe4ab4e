"""A SQLite file that outlives the service: safe among threads and processes, and after a crash."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from mtkit.console import log
from mtkit.errors import MtkitError
from mtkit.serving.refusals import Busy

_VERSION = 1
_WAIT_S = 5.0  # for another process that writes

_T = TypeVar("_T")


class Database:
    """One connection, which threads take in turn."""

    def __init__(self, path: Path, kind: str, schema: Sequence[str]) -> None:
        """Open a file, or make it for this user alone.

        kind: what it holds, for messages. schema: the statements that make its tables.
        Raises MtkitError if the file is another one, damaged, or cannot be written.
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
            raise MtkitError(f"{path}: cannot keep {kind}: {error}; name another file, or move this one away") from None
        except OSError as error:
            raise MtkitError(f"{path}: cannot keep {kind}: {error.strerror or error}") from None
        if version != _VERSION:
            self._connection.close()
            raise MtkitError(
                f"{path} is not a database of {kind} of version {_VERSION} (it has version {version}); use another file"
            )

    async def run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Return what work does in one transaction, in a thread: all of it is kept, or nothing.

        Raises Busy if the file cannot be written now, and whatever work raises.
        """
        try:
            return await asyncio.to_thread(self._transaction, work)
        except sqlite3.OperationalError as error:
            log.error(f"{self._path}: {error}")
            raise Busy("the service cannot read or keep this now: try again later", retry_after_s=10) from None

    def run_now(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do the same in this thread. Raises MtkitError if the file cannot be read or written."""
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
    """Make the tables of a new file; return the version of the file."""
    [version] = connection.execute("PRAGMA user_version").fetchone()
    [n_tables] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if version or n_tables:
        return int(version)
    for statement in schema:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version={_VERSION}")
    return _VERSION
