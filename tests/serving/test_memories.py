"""Imports of translation memories end, whatever happens, and leave no files behind."""

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.serving.caller import Caller
from mtkit.serving.records import memories
from mtkit.serving.records.memories import Memories
from mtkit.serving.workers import memory_worker
from mtkit.serving.workers.pool import WorkerDied

ANN = Caller("ann")
UNITS = "".join(
    f'<tu><tuv xml:lang="en"><seg>{n}</seg></tuv><tuv xml:lang="fr"><seg>{n}</seg></tuv></tu>' for n in ("a", "b", "c")
)
TMX = f"<tmx>{UNITS}</tmx>".encode()


class FakeWorker:
    """Indexes in this process; dies of an upload "dies"."""

    def __init__(self, settings):
        self._settings = settings

    async def ask(self, message, timeout_s):
        if Path(self._settings["source"]).read_text() == "dies":
            raise WorkerDied("it died")
        return memory_worker.build(self._settings, message)

    async def end(self, at_once):
        """End nothing."""


@pytest.fixture(autouse=True)
def workers(monkeypatch):
    async def start(module, settings):
        return FakeWorker(settings)

    monkeypatch.setattr(memories, "start_worker", start)


async def imported(kept, raw, before=lambda kept, job: None):
    """Import a file; return its job when that is over. before: called before the upload."""
    job = await kept.announce(ANN, "Pets", len(raw))
    before(kept, job)
    await kept.receive(job.secret, raw)
    return await ended(kept, job)


async def ended(kept, job):
    """Return a job when all tasks are over."""
    while kept._tasks:
        await asyncio.wait_for(asyncio.gather(*kept._tasks, return_exceptions=True), 60)
    return await kept.job(job.id, ANN)


def run(folder, scenario, most_units=5):
    async def around():
        kept = Memories(folder, most_units, 1e6, 60.0)
        try:
            return await scenario(kept)
        finally:
            await kept.close()

    return asyncio.run(around())


def files(folder):
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("memories.sqlite"))
    return sorted(path.suffix or path.name for path in paths)


def test_an_import_leaves_its_memory_alone(tmp_path):
    job = run(tmp_path, lambda kept: imported(kept, TMX))
    assert (job.status, files(tmp_path)) == ("completed", [".memory"])


@pytest.mark.parametrize(
    ("raw", "fact"), [(b"dies", "its log says why"), (b"<tmx>", "Pets.tmx"), (b"<tmx/>", "two languages")]
)
def test_an_import_that_fails_leaves_no_file(tmp_path, raw, fact):
    job = run(tmp_path, lambda kept: imported(kept, raw))
    assert job.status == "failed"
    assert fact in job.error
    assert files(tmp_path) == []


def test_an_upload_that_cannot_be_stored_fails_its_import(tmp_path):
    def occupy(kept, job):  # by a folder, so that writing fails, also for root
        kept._upload(job.id).mkdir()

    job = run(tmp_path, lambda kept: imported(kept, TMX, occupy))
    assert job.status == "failed"
    assert "import it again" in job.error


@pytest.mark.parametrize("error", [OSError(12, "Cannot allocate memory"), ValueError("a fault")])
def test_a_worker_that_does_not_start_fails_its_import(tmp_path, monkeypatch, error):
    async def start(module, settings):
        raise error

    monkeypatch.setattr(memories, "start_worker", start)
    job = run(tmp_path, lambda kept: imported(kept, TMX))
    assert (job.status, files(tmp_path)) == ("failed", [])
    assert "stopped" not in job.error


def test_an_import_whose_end_cannot_be_recorded_has_failed(tmp_path, monkeypatch):
    def refuse(work):
        raise MtkitError("disk full")

    def prepare(kept, job):
        monkeypatch.setattr(kept._database, "run_now", refuse)

    job = run(tmp_path, lambda kept: imported(kept, b"dies", prepare))
    assert (job.status, files(tmp_path)) == ("failed", [])


def test_what_a_killed_service_left_behind_is_deleted_and_its_import_has_failed(tmp_path):
    async def announced(kept):
        await imported(kept, TMX)
        return await kept.announce(ANN, "More", 10)

    job = run(tmp_path, announced)
    with sqlite3.connect(tmp_path / "memories.sqlite") as connection:
        connection.execute("UPDATE job SET status = 'processing' WHERE id = ?", [job.id])
    connection.close()
    (tmp_path / "working-killed").mkdir()
    for name in (*(f"working-killed/{name}" for name in (".lock", f"{job.id}.upload")), "other.memory", "notes.txt"):
        (tmp_path / name).touch()

    async def after(kept):
        assert [memory.name for memory in await kept.all_of(ANN)] == ["Pets"]
        return await kept.job(job.id, ANN)

    again = run(tmp_path, after)
    assert (again.status, "import it again" in again.error) == ("failed", True)
    assert files(tmp_path) == [".memory", ".txt"]


def test_the_limit_on_units_counts_all_memories_of_a_caller(tmp_path):
    async def twice(kept):
        first, second = [await imported(kept, TMX), await imported(kept, TMX)]
        assert first.status == "completed"
        return second

    job = run(tmp_path, twice, most_units=5)
    assert (job.status, files(tmp_path)) == ("failed", [".memory"])
    assert "more than 5 units" in job.error


def test_two_services_with_one_folder_leave_each_other_alone(tmp_path, monkeypatch):
    async def scenario(kept):
        may_index = asyncio.Event()

        class SlowWorker(FakeWorker):
            async def ask(self, message, timeout_s):
                await may_index.wait()
                return await super().ask(message, timeout_s)

        async def start(module, settings):
            return SlowWorker(settings)

        monkeypatch.setattr(memories, "start_worker", start)
        job = await kept.announce(ANN, "Pets", len(TMX))
        await kept.receive(job.secret, TMX)
        other = Memories(tmp_path, 5, 1e6, 60.0)
        assert (await other.job(job.id, ANN)).status == "processing"
        may_index.set()
        await ended(kept, job)
        done = await other.job(job.id, ANN)
        assert [memory.id for memory in await other.all_of(ANN)] == [done.memory]
        await other.close()
        return done

    assert run(tmp_path, scenario).status == "completed"
    assert files(tmp_path) == [".memory"]


def test_an_import_goes_on_when_the_request_is_cancelled_while_its_file_is_recorded(tmp_path, monkeypatch):
    async def scenario(kept):
        loop, began, may_record = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
        transaction = kept._database._transaction

        def slow(work):
            loop.call_soon_threadsafe(began.set)
            may_record.wait(60)
            return transaction(work)

        job = await kept.announce(ANN, "Pets", len(TMX))
        monkeypatch.setattr(kept._database, "_transaction", slow)
        request = asyncio.create_task(kept.receive(job.secret, TMX))
        await began.wait()
        request.cancel()
        await asyncio.wait((request,))
        may_record.set()
        return await ended(kept, job)

    job = run(tmp_path, scenario)
    assert (job.status, files(tmp_path)) == ("completed", [".memory"])
