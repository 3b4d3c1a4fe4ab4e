"""Translation memories of callers: their records in a SQLite file, and each one's index in a file next to it."""

import asyncio
import io
import secrets
import sqlite3
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from mtkit.console import log, log_fault
from mtkit.errors import MtkitError
from mtkit.files import LOCK, open_locked, remove_unlocked_folders, working_folder
from mtkit.memory.index import Memory
from mtkit.pair_files import tmx
from mtkit.pair_files.pairs import Languages
from mtkit.serving.caller import Caller
from mtkit.serving.records.database import Database, time_text
from mtkit.serving.refusals import BadRequest, Fault, NotFound, Refusal, TooLarge, without_options
from mtkit.serving.threads import run_to_end
from mtkit.serving.workers.pool import WorkerDied, start_worker
from mtkit.text.characters import tidied

_MOST_MEMORIES = 100  # of a caller
_MOST_JOBS = 1000  # of a caller; the oldest are forgotten
_MOST_NAME_BYTES = 1024
_KEEP = timedelta(hours=1)  # until an upload must arrive, and a download may be fetched
_PART_CHARS = 1 << 16
_UPLOAD, _MEMORY = ".upload", ".memory"  # file extensions
_WORKING = "working-"  # beginning of the name of the folder of a running service
_FAULT = "the service failed on this file; its log says why"
_NO_JOB = "no such import or export"
_STOPPED = "the service was stopped before the file was read; import it again"
_SCHEMA = (
    """
    CREATE TABLE memory (
        id TEXT PRIMARY KEY,
        caller TEXT NOT NULL,
        name TEXT NOT NULL,
        created TEXT NOT NULL,
        src TEXT NOT NULL,
        tgt TEXT NOT NULL,
        n_units INTEGER NOT NULL
    )
    """,
    "CREATE INDEX memory_of_caller ON memory (caller, created)",
    """
    CREATE TABLE job (
        id TEXT PRIMARY KEY,
        caller TEXT NOT NULL,
        operation TEXT NOT NULL,
        name TEXT NOT NULL,
        secret TEXT NOT NULL UNIQUE,
        size INTEGER NOT NULL,
        status TEXT NOT NULL,
        created TEXT NOT NULL,
        expires TEXT NOT NULL,
        memory TEXT NOT NULL,
        error TEXT NOT NULL,
        n_skipped INTEGER NOT NULL
    )
    """,
)

Status = Literal["awaiting_input", "processing", "completed", "failed", "expired"]
_T = TypeVar("_T")


class TooManyMemories(Refusal):
    """The caller has used up the space for translation memories."""

    status = 456  # DeepL's own: a quota is used up


@dataclass(frozen=True)
class StoredMemory:
    """A translation memory without its units."""

    id: str
    name: str
    created: str  # time, as in 2026-11-25T04:43:13.000Z
    langs: Languages
    n_units: int


@dataclass(frozen=True)
class MemoryJob:
    """An import or an export of a memory."""

    id: str
    operation: Literal["import", "export"]
    name: str  # of the memory
    secret: str  # the last part of the address to upload to or to download from
    size: int  # bytes that the import has announced
    status: Status
    created: str
    expires: str  # when the address stops to work
    memory: str  # its id; "" until an import has made it
    error: str
    n_skipped: int  # units of the file that have no text in one of the languages


@dataclass(frozen=True)
class MemoryUse:
    """The memory that a request translates with."""

    path: Path
    threshold: int  # percent, as decode.memory_threshold


class Memories:
    """The translation memories of all callers. A caller cannot see the memories of others."""

    def __init__(self, folder: Path, most_units: int, most_bytes: float, deadline_s: float) -> None:
        """folder: of all files. most_units: of all memories of a caller. most_bytes: of one upload.

        deadline_s: for indexing one upload. Raises MtkitError if the folder cannot be used.
        """
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise MtkitError(f"{folder}: cannot keep translation memories: {error.strerror}") from None
        self._folder, self._most_units, self._most_bytes, self._deadline_s = folder, most_units, most_bytes, deadline_s
        self._database = Database(folder / "memories.sqlite", "translation memories", _SCHEMA)
        self._locked = ExitStack()
        # Other services may use the same folder, so what this one has not finished is in a folder that it locks.
        self._working = self._locked.enter_context(working_folder(folder, _WORKING))
        self._delete_leftovers()
        self._tasks: set[asyncio.Task[None]] = set()
        self._indexing = asyncio.Semaphore(1)

    async def all_of(self, caller: Caller) -> list[StoredMemory]:
        """Return all memories of a caller, the oldest first."""
        query = "SELECT id, name, created, src, tgt, n_units FROM memory WHERE caller = ? ORDER BY created, id"
        rows = await self._database.run(lambda connection: connection.execute(query, [caller.name]).fetchall())
        return [_stored(row) for row in rows]

    async def get(self, id: str, caller: Caller) -> StoredMemory:
        """Return a memory. Raises NotFound."""
        return await self._database.run(lambda connection: _memory(connection, id, caller))

    async def use(self, id: str, caller: Caller, threshold: int) -> tuple[StoredMemory, MemoryUse]:
        """Return a memory, and what translates with it. Raises NotFound."""
        return await self.get(id, caller), MemoryUse(self._path(id), threshold)

    async def remove(self, id: str, caller: Caller) -> None:
        """Delete a memory. Raises NotFound."""

        def work(connection: sqlite3.Connection) -> None:
            _memory(connection, id, caller)
            connection.execute("DELETE FROM memory WHERE id = ?", [id])
            self._path(id).unlink(missing_ok=True)  # here, because the request may be cancelled

        await self._database.run(work)

    async def read(self, id: str, caller: Caller, work: Callable[[Memory], _T]) -> _T:
        """Run work on a memory in a thread, and return its result. Raises NotFound."""
        await self.get(id, caller)
        return await asyncio.to_thread(self._read, id, work)

    def _read(self, id: str, work: Callable[[Memory], _T]) -> _T:
        with closing(Memory.open(self._path(id))) as memory:
            return work(memory)

    async def announce(self, caller: Caller, name: str, size: int) -> MemoryJob:
        """Start an import, whose file is to be uploaded. Raises Refusal."""
        if not tidied(name) or len(name.encode("utf-8", "replace")) > _MOST_NAME_BYTES:
            raise BadRequest(f"display_name: give a name of at most {_MOST_NAME_BYTES:,} bytes")
        if size > self._most_bytes:
            raise TooLarge(f"the file has {size / 1e6:.1f} MB; the limit is {self._most_bytes / 1e6:g} MB")
        return await self._add_job(caller, "import", tidied(name), size, "awaiting_input", "")

    async def export(self, id: str, caller: Caller) -> MemoryJob:
        """Return an export of a memory, whose file can be downloaded at once. Raises NotFound."""
        memory = await self.get(id, caller)
        return await self._add_job(caller, "export", memory.name, 0, "completed", id)

    async def _add_job(
        self, caller: Caller, operation: str, name: str, size: int, status: Status, memory: str
    ) -> MemoryJob:
        id, secret, now = str(uuid.uuid4()), secrets.token_urlsafe(32), datetime.now(UTC)
        values = [
            id,
            caller.name,
            operation,
            name,
            secret,
            size,
            status,
            time_text(now),
            time_text(now + _KEEP),
            memory,
            "",
            0,
        ]

        def work(connection: sqlite3.Connection) -> MemoryJob:
            [n] = connection.execute("SELECT count(*) FROM memory WHERE caller = ?", [caller.name]).fetchone()
            if operation == "import" and n >= _MOST_MEMORIES:
                raise TooManyMemories(f"there are {n:,} translation memories already; delete one")
            connection.execute(f"INSERT INTO job VALUES ({', '.join('?' * len(values))})", values)
            connection.execute(
                "DELETE FROM job WHERE caller = ? AND id NOT IN "
                "(SELECT id FROM job WHERE caller = ? ORDER BY rowid DESC LIMIT ?)",
                [caller.name, caller.name, _MOST_JOBS],
            )
            return _job(connection, "id", id)

        return await self._database.run(work)

    async def job(self, id: str, caller: Caller) -> MemoryJob:
        """Return an import or an export. Raises NotFound."""

        def work(connection: sqlite3.Connection) -> MemoryJob:
            job = _job(connection, "id", id)
            [owner] = connection.execute("SELECT caller FROM job WHERE id = ?", [id]).fetchone()
            if owner != caller.name:
                raise NotFound(_NO_JOB)
            # Within the transaction, because an import deletes its upload after it has recorded its end.
            has_stopped = job.status == "processing" and not self._is_in_work(id)
            return replace(job, status="failed", error=_STOPPED) if has_stopped else job

        return await self._database.run(work)

    def _is_in_work(self, id: str) -> bool:
        """Return whether this service, or another one that uses the folder, works on an import."""
        for upload in self._folder.glob(f"{_WORKING}*/{id}{_UPLOAD}"):
            if upload.parent == self._working:
                return True
            with open_locked(upload.with_name(LOCK)) as lock:
                if lock is None:
                    return True
        return False

    async def receive(self, secret: str, raw: bytes) -> None:
        """Take the file of an import; store and index it after this call. Raises Refusal."""
        if len(raw) > self._most_bytes:
            raise TooLarge(f"the file has {len(raw) / 1e6:.1f} MB; the limit is {self._most_bytes / 1e6:g} MB")
        # If the request is cancelled now, the import goes on: its record may already say that it is processed.
        await asyncio.shield(self._start(self._accept(secret, raw)))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, secret: str, raw: bytes) -> None:
        """Record that a file has come, and start its import. Raises Refusal."""

        def work(connection: sqlite3.Connection) -> tuple[MemoryJob, str]:
            job = _job(connection, "secret", secret)
            if job.operation != "import" or job.status != "awaiting_input":
                raise NotFound("no import waits for a file at this address; start another one")
            connection.execute("UPDATE job SET status = 'processing' WHERE id = ?", [job.id])
            [caller] = connection.execute("SELECT caller FROM job WHERE id = ?", [job.id]).fetchone()
            self._upload(job.id).touch()  # before others can see the new status
            return job, caller

        job, caller = await self._database.run(work)
        self._start(self._import(job, caller, raw))

    async def download(self, secret: str) -> Iterator[str]:
        """Return the file of an export, a TMX, in parts. Raises NotFound."""
        job = await self._database.run(lambda connection: _job(connection, "secret", secret))
        if job.operation != "export" or job.status != "completed" or not self._path(job.memory).exists():
            raise NotFound("no file to download at this address; start another export")
        return self._tmx(job.memory)

    def _tmx(self, id: str) -> Iterator[str]:
        with closing(Memory.open(self._path(id))) as memory:
            part = io.StringIO()
            with tmx.writing(part, memory.langs) as write:
                for _, src, tgt in memory.units():
                    write(src, tgt)
                    if part.tell() > _PART_CHARS:
                        yield part.getvalue()
                        part.seek(0)
                        part.truncate()
            yield part.getvalue()

    async def _import(self, job: MemoryJob, caller: str, raw: bytes) -> None:
        """Store and index an uploaded file, and end its job whatever happens."""
        id, upload, problem = str(uuid.uuid4()), self._upload(job.id), _STOPPED
        try:
            await run_to_end(partial(upload.write_bytes, raw))
            del raw  # other imports may come first
            async with self._indexing:
                await self._index(job, caller, id, upload)
            problem = ""
        except Refusal as error:
            problem = without_options(str(error))
        except OSError as error:
            log.error(f"a translation memory could not be imported: {error}")
            problem = "the service cannot take files now; import it again later"
        except Exception as error:
            log_fault("a translation memory could not be imported", error)
            problem = _FAULT
        finally:
            if problem:
                try:
                    self._database.run_now(lambda connection: _fail(connection, job.id, id, problem))
                except MtkitError as error:  # without an upload the job counts as failed, too
                    log.error(str(error))
                _delete(self._path(id))
            _delete(self._working / self._path(id).name)
            _delete(upload)

    async def _index(self, job: MemoryJob, caller: str, id: str, upload: Path) -> None:
        """Index an uploaded file as a memory with this id. Raises Refusal."""
        query = "SELECT coalesce(sum(n_units), 0) FROM memory WHERE caller = ?"
        [n_units] = await self._database.run(lambda connection: connection.execute(query, [caller]).fetchone())
        most = max(0, self._most_units - n_units)
        result = self._working / self._path(id).name
        settings = {"source": str(upload), "name": job.name, "result": str(result), "most": most}
        worker = await start_worker("mtkit.serving.workers.memory_worker", settings)
        try:
            facts = await worker.ask({}, self._deadline_s)
        except WorkerDied as error:
            facts = {"fault": error}
        finally:
            await worker.end(at_once=True)
        if "fault" in facts:
            log.error(f"a translation memory could not be indexed: {facts['fault']}")
            raise Fault(_FAULT)
        if "error" in facts:
            raise BadRequest(facts["error"])
        if "too_many" in facts:
            raise TooManyMemories(
                f"all of your translation memories together would have more than {self._most_units:,} units"
            )
        values = [id, caller, job.name, job.created, *facts["langs"], facts["n_units"]]
        done = "UPDATE job SET status = 'completed', memory = ?, n_skipped = ? WHERE id = ?"

        def add(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO memory VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            connection.execute(done, [id, facts["n_skipped"], job.id])
            result.replace(self._path(id))  # here, because another service deletes memories without a record

        await self._database.run(add)

    def _delete_leftovers(self) -> None:
        """Delete the files that a process left behind when it was killed."""
        remove_unlocked_folders(self._folder, _WORKING)

        def work(connection: sqlite3.Connection) -> None:
            memories = {self._path(id) for (id,) in connection.execute("SELECT id FROM memory")}
            for path in set(self._folder.glob(f"*{_MEMORY}")) - memories:
                _delete(path)

        self._database.run_now(work)

    async def close(self) -> None:
        """Stop all imports and close the file."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._locked.close()
        self._database.close()

    def _path(self, id: str) -> Path:
        return self._folder / f"{id}{_MEMORY}"

    def _upload(self, job: str) -> Path:
        return self._working / f"{job}{_UPLOAD}"


def _delete(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.error(f"{path}: cannot be deleted: {error.strerror}")


def _stored(row: Sequence[Any]) -> StoredMemory:
    id, name, created, src, tgt, n_units = row
    return StoredMemory(id, name, created, (src, tgt), n_units)


def _memory(connection: sqlite3.Connection, id: str, caller: Caller) -> StoredMemory:
    query = "SELECT id, name, created, src, tgt, n_units FROM memory WHERE (id, caller) = (?, ?)"
    row = connection.execute(query, [id, caller.name]).fetchone()
    if row is None:
        raise NotFound("no such translation memory; list yours to see their ids")
    return _stored(row)


def _job(connection: sqlite3.Connection, column: Literal["id", "secret"], value: str) -> MemoryJob:
    query = (
        "SELECT id, operation, name, secret, size, status, created, expires, memory, error, n_skipped FROM job "
        f"WHERE {column} = ?"
    )
    row = connection.execute(query, [value]).fetchone()
    if row is None:
        raise NotFound(_NO_JOB)
    job = MemoryJob(*row)
    is_open = job.status == "awaiting_input" or (job.operation == "export" and job.status == "completed")
    return replace(job, status="expired") if is_open and job.expires < time_text(datetime.now(UTC)) else job


def _fail(connection: sqlite3.Connection, job: str, memory: str, problem: str) -> None:
    """Record that an import has failed, and delete its memory, which a stopping service may have recorded."""
    connection.execute("DELETE FROM memory WHERE id = ?", [memory])
    connection.execute("UPDATE job SET status = 'failed', error = ? WHERE id = ?", [problem, job])
