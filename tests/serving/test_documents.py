"""Jobs of documents, around a service that translates when the test lets it."""

import asyncio
from contextlib import contextmanager
from pathlib import Path

import pytest

from mtkit.config.serving import LimitsConfig
from mtkit.documents.sentences import Translated
from mtkit.serving import documents
from mtkit.serving.caller import Caller
from mtkit.serving.detection import UNDETERMINED, Source
from mtkit.serving.documents import Documents
from mtkit.serving.models import Model, ServedModels
from mtkit.serving.refusals import BadRequest, Busy, NotFound, TooLarge
from mtkit.serving.workers.pool import WorkerDied
from mtkit.serving.workers.work import ModelVersion

ANN, BOB = Caller("ann"), Caller("bob")


class FakeService:
    """Translates into upper case; what begins with "held", once `go` is set."""

    def __init__(self):
        self.models = ServedModels([Model(ModelVersion("en-fr", "1"), "en", "fr", 1)])  # type: ignore[arg-type]
        self.go = asyncio.Event()
        self.started = []
        self.cancelled = []

    @contextmanager
    def using(self, src, tgt):
        yield self.models.path(src, tgt)

    async def translate_sentences(self, sentences, patterns, path, *, terms=(), memory=None, caller=None):
        [text] = [sentence.text for sentence in sentences]
        self.started.append(text)
        try:
            await (self.go.wait() if text.startswith("held") else asyncio.sleep(0))
        except asyncio.CancelledError:
            self.cancelled.append(text)
            raise
        return [Translated(text.upper())]


class FakeWorker:
    """Reads a document as one sentence."""

    def __init__(self, settings):
        self._source, self._result = Path(settings["source"]), Path(settings["result"])
        self.has_ended = False
        self.read_in = []  # languages

    async def ask(self, message, timeout_s):
        text = self._source.read_text()
        self.read_in += [message["with"].get("src_lang")] if message["task"] == "read" else []
        match message["task"], message["with"].get("translations"):
            case "read", _:
                special = {"bad": {"error": "line 1: is bad"}, "fault": {"fault": "Traceback ..."}}
                special |= {"full": {"disk": "No space left on device"}}
                return special.get(text, {"n_sentences": 1, "n_chars": len(text), "patterns": [], "beginning": text})
            case "next", []:
                return {"sentences": [[text, False]]}
            case "next", [translated]:
                self._translation = translated["text"]
                return {"sentences": []}
            case "write", _:
                self._result.write_text(self._translation)
                return {}

    async def end(self, at_once):
        self.has_ended = True


@pytest.fixture(autouse=True)
def workers(monkeypatch):
    """Those that were started; they have ended after the test."""
    started = []

    async def start(module, settings):
        started.append(FakeWorker(settings))
        return started[-1]

    monkeypatch.setattr(documents, "start_worker", start)
    yield started
    assert all(worker.has_ended for worker in started)


def choose(text, target):
    """English if it says so, no language if it has digits, else Dutch, which nothing translates."""
    if text.isdecimal():
        return Source(None, UNDETERMINED, 0.0)
    return Source("en", "en", 0.9) if "english" in text else Source(None, "nl", 0.9)


def run(scenario, **limits):
    """Run a scenario with the jobs and their service; return what it returns. Then nothing is left on the disk."""

    async def around():
        service = FakeService()
        jobs = Documents(service, LimitsConfig(**limits), choose)  # type: ignore[arg-type]
        try:
            return await scenario(jobs, service)
        finally:
            folder = jobs._folder
            await jobs.close()
            assert folder is None or not folder.exists()

    return asyncio.run(around())


async def submit(jobs, raw, caller=ANN, name="a.txt"):
    return await jobs.submit(raw, name, "en", "fr", caller=caller)


async def until(condition):
    async with asyncio.timeout(300):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_document_is_translated_and_kept_for_its_caller():
    async def scenario(jobs, service):
        job = await submit(jobs, b"one text", name="report.TXT")
        await job.finished()
        assert jobs.get(job.id, ANN) is job
        with pytest.raises(NotFound):
            jobs.get(job.id, BOB)
        with pytest.raises(NotFound):
            jobs.get(job.id, Caller())
        return job.status, job.n_done, job.n_total, job.n_chars, job.result, job.name, job.source_path.exists()

    assert run(scenario) == ("done", 1, 1, 8, b"ONE TEXT", "report_fr.TXT", False)


def test_files_are_in_a_folder_that_only_this_user_can_read():
    async def scenario(jobs, service):
        job = await submit(jobs, b"text")
        await job.finished()
        return job.folder.stat().st_mode & 0o777

    assert run(scenario) == 0o700


def test_a_document_whose_request_is_cancelled_while_it_is_stored_is_forgotten():
    async def scenario(jobs, service):
        request = asyncio.create_task(submit(jobs, b"held"))
        while not jobs._jobs:
            await asyncio.sleep(0)
        request.cancel()
        await asyncio.wait((request,))
        return request.cancelled(), len(jobs._jobs)

    assert run(scenario) == (True, 0)


def test_documents_of_a_killed_service_are_deleted_and_those_of_a_running_one_stay(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed, not_ours, link = (tmp_path / f"mtkit-documents-{name}" for name in ("killed", "other", "link"))
    for folder in (killed, not_ours):
        folder.mkdir()
        (folder / "a.source").write_text("text")
    (killed / ".lock").write_text("7")  # whose process is gone
    link.symlink_to(killed)

    async def scenario(jobs, service):
        job = await submit(jobs, b"held")
        documents.remove_leftovers()
        assert job.source_path.exists()
        return job.folder

    running = run(scenario)
    assert not running.exists()
    assert not killed.exists() and link.is_symlink() and (not_ours / "a.source").exists()


def test_ids_cannot_be_guessed():
    async def scenario(jobs, service):
        return {(await submit(jobs, b"text")).id for _ in range(50)}

    ids = run(scenario)
    assert len(ids) == 50
    assert all(len(id) == 32 and set(id) <= set("0123456789abcdef") for id in ids)


@pytest.mark.parametrize(
    ("raw", "error"), [(b"bad", "line 1: is bad"), (b"fault", "its log says why"), (b"full", "cannot store")]
)
def test_a_document_that_cannot_be_translated_says_why(raw, error):
    async def scenario(jobs, service):
        job = await submit(jobs, raw)
        await job.finished()
        following = await submit(jobs, b"fine")
        await following.finished()
        assert following.status == "done"
        return job

    job = run(scenario)
    assert (job.status, job.result) == ("error", None)
    assert error in job.error


@pytest.mark.parametrize(
    ("raw", "name", "src", "refusal", "fact"),
    [
        (b"a" * 1001, "a.txt", "en", TooLarge, "0.001 MB"),
        (b"text", "a.xyz", "en", BadRequest, "docx"),
        (b"text", "", "en", BadRequest, "docx"),
        (b"text", "a.txt", "de", BadRequest, "de is not supported"),
        (b"text", "a.txt", "fr", BadRequest, "fr cannot be translated into en"),
    ],
)
def test_what_cannot_be_a_job_is_refused_at_once(raw, name, src, refusal, fact):
    async def scenario(jobs, service):
        tgt = "fr" if src != "fr" else "en"
        with pytest.raises(refusal, match=fact):
            await jobs.submit(raw, name, src, tgt, caller=ANN)
        assert (jobs._jobs, jobs._folder) == ({}, None)

    run(scenario, max_file_mb=0.001)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("report.docx", "report_fr.docx"),
        ("../../etc/passwd.txt", "passwd_fr.txt"),
        ("C:\\Users\\ann\\Größe.TXT", "Größe_fr.TXT"),
        ('a"b\r\nSet-Cookie: c.txt', "a_b__Set-Cookie_ c_fr.txt"),
        (".txt", "txt_fr"),
        ("a" * 300 + ".txt", "a" * 100 + "_fr.txt"),
        ("\ud800.txt", "__fr.txt"),
    ],
)
def test_names_of_results_are_safe(name, expected):
    async def scenario(jobs, service):
        return (await jobs.submit(b"text", name, "en-US", "FR", caller=ANN, format="text")).name

    assert run(scenario) == expected


def test_two_documents_run_at_a_time_and_callers_take_turns():
    async def scenario(jobs, service):
        for number in range(4):
            await submit(jobs, f"held {number} of ann".encode())
        last = await submit(jobs, b"held by bob", BOB)
        await until(lambda: len(service.started) == 2)
        await asyncio.sleep(0.02)
        assert len(service.started) == 2
        service.go.set()
        await last.finished()
        await until(lambda: len(service.started) == 5)
        return service.started

    assert run(scenario).index("held by bob") < 4


def test_too_many_documents_are_refused_until_there_is_room():
    async def scenario(jobs, service):
        kept = [await submit(jobs, b"held", caller) for caller in (ANN, BOB)]
        with pytest.raises(Busy, match="2 documents") as refusal:
            await submit(jobs, b"third")
        assert refusal.value.retry_after_s
        service.go.set()
        for job in kept:
            await job.finished()
        third = await submit(jobs, b"third")
        await third.finished()
        with pytest.raises(NotFound):  # ann's oldest made room; bob's stays
            jobs.get(kept[0].id, ANN)
        assert not kept[0].result_path.exists()
        return jobs.get(kept[1].id, BOB).result, third.result

    assert run(scenario, max_documents=2) == (b"HELD", b"THIRD")


def test_who_keeps_most_documents_makes_room_for_others():
    async def scenario(jobs, service):
        service.go.set()
        kept = [await submit(jobs, f"text {number}".encode(), ANN) for number in range(2)]
        for job in kept:
            await job.finished()
        await (await submit(jobs, b"text", BOB)).finished()
        with pytest.raises(NotFound):
            jobs.get(kept[0].id, ANN)
        return jobs.get(kept[1].id, ANN).result

    assert run(scenario, max_documents=2) == b"TEXT 1"


def test_a_removed_document_is_no_longer_worked_on():
    async def scenario(jobs, service):
        first, _, waiting, last = [await submit(jobs, f"held {n}".encode()) for n in range(4)]
        await until(lambda: len(service.started) == 2)
        await jobs.remove(waiting)
        await jobs.remove(first)
        service.go.set()
        await last.finished()
        assert not any((first.folder / f"{job.id}.source").exists() for job in (first, waiting))
        return service.started, service.cancelled, first.status, waiting.status

    assert run(scenario) == (["held 0", "held 1", "held 3"], ["held 0"], "error", "error")


def test_a_document_that_takes_too_long_ends():
    async def scenario(jobs, service):
        job = await submit(jobs, b"held")
        await job.finished()
        return job.status, job.error, service.cancelled

    status, error, cancelled = run(scenario, document_deadline_s=0.05)
    assert (status, cancelled) == ("error", ["held"])
    assert "0.05 s" in error


def test_documents_expire(monkeypatch):
    async def scenario(jobs, service):
        loop, later = asyncio.get_running_loop(), []
        call_later = loop.call_later

        def noted(delay_s, callback, *arguments):
            if callback == jobs._forget:
                later.append((delay_s, arguments))
            return call_later(delay_s, callback, *arguments)

        monkeypatch.setattr(loop, "call_later", noted)
        job = await submit(jobs, b"text")
        await job.finished()
        assert later == [(3600, (job,))]
        assert job.result == b"TEXT"
        jobs._forget(job)  # as it happens then
        with pytest.raises(NotFound, match="an hour"):
            jobs.get(job.id, ANN)
        return job.result, job.result_path.exists()

    assert run(scenario) == (None, False)


def test_the_end_of_the_service_ends_jobs_and_whoever_waits_for_them():
    async def scenario(jobs, service):
        submitted = [await submit(jobs, b"held") for _ in range(3)]
        await until(lambda: len(service.started) == 2)
        waiting = asyncio.gather(*(job.finished() for job in submitted))
        await jobs.close()
        await asyncio.wait_for(waiting, 300)
        assert len(service.started) == 2
        return [(job.status, "stopped" in job.error) for job in submitted]

    assert run(scenario) == [("error", True)] * 3


def test_a_full_disk_refuses_the_document(monkeypatch):
    async def scenario(jobs, service):
        def full(path, raw):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("pathlib.Path.write_bytes", full)
        with pytest.raises(Busy, match="cannot store documents"):
            await submit(jobs, b"text")
        assert jobs._jobs == {}

    run(scenario)


def test_a_full_disk_without_room_for_the_folder_refuses_the_document(monkeypatch):
    async def scenario(jobs, service):
        def full(prefix, dir):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("tempfile.mkdtemp", full)
            with pytest.raises(Busy, match="cannot store documents"):
                await submit(jobs, b"text")
        job = await submit(jobs, b"text")
        await job.finished()
        return job.result

    assert run(scenario) == b"TEXT"


def test_a_document_whose_process_dies_ends(monkeypatch):
    async def died(self, message, timeout_s):
        raise WorkerDied("worker 1 ended")

    async def scenario(jobs, service):
        monkeypatch.setattr(FakeWorker, "ask", died)
        job = await submit(jobs, b"text")
        await job.finished()
        return job.status, job.error

    status, error = run(scenario)
    assert status == "error"
    assert "its log says why" in error


@pytest.mark.parametrize("source", [None, "en"])
def test_a_document_in_the_target_language_is_refused(source):
    async def scenario(jobs, service):
        job = await jobs.submit(b"an english text", "a.txt", source, "en-GB", caller=ANN)
        await job.finished()
        return job.status, job.error, service.started

    status, error, started = run(scenario)
    assert (status, started) == ("error", [])
    assert "Source and target language" in error and "English" in error


@pytest.mark.parametrize(
    ("text", "src", "status", "result"),
    [
        (b"an english text", "en", "done", b"AN ENGLISH TEXT"),
        (b"een andere taal", None, "error", None),
        (b"1234", None, "done", b"1234"),
    ],
)
def test_the_language_of_a_document_is_detected_in_its_text(text, src, status, result, workers):
    async def scenario(jobs, service):
        job = await jobs.submit(text, "a.txt", None, "fr", caller=ANN)
        await job.finished()
        return job.src, job.status, job.result

    assert run(scenario) == (src, status, result)
    assert [worker.read_in for worker in workers] == [[None, "en"] if src else [None]]  # what is foreign depends on it
