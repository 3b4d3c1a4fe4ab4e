"""The process that reads and writes a document: its answers, and that nothing it reads can hurt the service."""

import asyncio
import gzip
import os
import signal
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from mtkit.config.serving import LimitsConfig
from mtkit.documents.reading import Options
from mtkit.documents.sentences import Translated
from mtkit.memory.index import write_memory
from mtkit.pair_files.pairs import Pair
from mtkit.serving.caller import Caller
from mtkit.serving.detection import Source
from mtkit.serving.documents import Documents
from mtkit.serving.models import Model, ServedModels
from mtkit.serving.records.memories import MemoryUse
from mtkit.serving.workers import document_worker, pool
from mtkit.serving.workers.document_worker import DocumentWorker
from mtkit.serving.workers.pool import WorkerDied, start_worker
from mtkit.serving.workers.work import ModelVersion

PAGE = b"<p>the red cat</p><ul><li>two dogs<li>two dogs<li>one cat</ul>"


class FakeService:
    """Translates into upper case, with a record of what came together."""

    def __init__(self):
        self.models = ServedModels([Model(ModelVersion("en-fr", "1"), "en", "fr", 1)])  # type: ignore[arg-type]
        self.windows = []

    @contextmanager
    def using(self, src, tgt):
        yield self.models.path(src, tgt)

    async def translate_sentences(self, sentences, patterns, path, *, terms=(), memory=None, caller=None):
        self.windows.append([sentence.text for sentence in sentences])
        return [Translated(sentence.text.upper()) for sentence in sentences]


def translated(raw, name, memory=None):
    """Return the job of a document that real processes have read and written, and what the service was asked."""

    async def scenario():
        service = FakeService()
        jobs = Documents(service, LimitsConfig(), lambda text, target: Source("en", "en", 1.0))  # type: ignore[arg-type]
        job = await jobs.submit(raw, name, "en", "fr", caller=Caller(), memory=memory)
        await job.finished()
        result = job.result
        await jobs.close()
        return job, result, service.windows

    return asyncio.run(scenario())


def test_a_document_is_translated_in_windows(monkeypatch):
    monkeypatch.setattr("mtkit.serving.documents._WINDOW", 2)
    job, result, windows = translated(PAGE, "a.html")
    assert result == PAGE.upper().replace(b"<P", b"<p").replace(b"</P", b"</p").replace(b"UL>", b"ul>").replace(
        b"LI>", b"li>"
    )
    assert windows == [["the red cat", "two dogs"], ["one cat"]]
    assert (job.n_done, job.n_total) == (3, 3)
    assert job.n_chars == len("the red cat" + "two dogs" * 2 + "one cat")


def test_a_paragraph_of_the_memory_is_one_sentence(tmp_path):
    write_memory(tmp_path / "m.memory", [Pair("One cat. Two dogs.", "TOUT", "m.tmx", 1)], ("en", "fr"))
    text = b"One cat. Two dogs.\n\nOne cat. No dog.\n"
    _, _, [window] = translated(text, "a.txt", MemoryUse(tmp_path / "m.memory", 70))
    assert window == ["One cat. Two dogs.", "One cat.", "No dog."]
    job, result, [window] = translated(text, "a.txt", MemoryUse(tmp_path / "deleted.memory", 70))
    assert window == ["One cat.", "Two dogs.", "No dog."]
    assert (job.status, result) == ("done", text.upper())


def bomb(tmp_path):
    """The bytes of a DOCX whose text unpacks to 300 MB."""
    path = tmp_path / "bomb.docx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("[Content_Types].xml", "<Types/>")
        file.writestr("word/document.xml", b"<a>" + b" " * 300_000_000)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("make", "name", "fact"),
    [
        (bomb, "a.docx", "zip bomb"),
        (lambda _: b"<p>caf\xe9", "a.html", "line 1"),
        (lambda _: gzip.compress(b"text"), "a.txt", "gzip"),
        (lambda _: b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><xliff>&b;</xliff>", "a.xlf", "DOCTYPE"),
    ],
)
def test_a_document_that_cannot_be_read_says_why(tmp_path, make, name, fact):
    job, result, _ = translated(make(tmp_path), name)
    assert (job.status, result) == ("error", None)
    assert fact in job.error


def test_a_document_that_needs_too_much_memory_says_so(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_bytes(b"text")

    def greedy(raw, format, options):
        raise MemoryError

    monkeypatch.setattr(document_worker, "document_of", greedy)
    worker = DocumentWorker(tmp_path / "a.txt", tmp_path / "b.txt", Options("text"))
    assert "memory" in worker.answer({"task": "read"})["error"]


def test_once_the_language_is_known_text_in_another_one_is_not_given_out(tmp_path):
    (tmp_path / "a.html").write_text("<p>a <i lang=fr>chat</i> sleeps</p><p lang=fr>un chat</p><p>привет</p>")
    worker = DocumentWorker(tmp_path / "a.html", tmp_path / "b.html", Options("html"))
    assert worker.answer({"task": "read"})["n_sentences"] == 3
    assert worker.answer({"task": "read", "with": {"src_lang": "en"}})["n_sentences"] == 1
    given = worker.answer({"task": "next", "with": {"translations": [], "n": 9}})["sentences"]
    assert [text.split() for text, _ in given] == [["a", "sleeps"]]


def test_a_fault_of_ours_or_of_the_disk_is_no_error_of_the_document(tmp_path, monkeypatch):
    worker = DocumentWorker(tmp_path / "missing.txt", tmp_path / "b.txt", Options("text"))
    assert "missing.txt" in worker.answer({"task": "read"})["disk"]
    (tmp_path / "missing.txt").write_bytes(b"text")
    monkeypatch.setattr(document_worker, "document_of", {}.__getitem__)
    assert "Error" in worker.answer({"task": "read"})["fault"]


def test_the_process_gives_way_has_a_limit_and_can_be_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "_STOP_S", 900)  # the wait for a worker that is not killed
    (tmp_path / "a.txt").write_bytes(b"text")
    settings = {"source": str(tmp_path / "a.txt"), "result": str(tmp_path / "b"), "options": {"format": "text"}}

    async def scenario():
        worker = await start_worker("mtkit.serving.workers.document_worker", settings)
        answer = await worker.ask({"task": "read"}, 300)
        niceness = os.getpriority(os.PRIO_PROCESS, worker.pid)
        limits = Path(f"/proc/{worker.pid}/limits").read_text()
        os.kill(worker.pid, signal.SIGSTOP)  # as one that hangs
        with pytest.raises(WorkerDied, match="did not answer"):
            await worker.ask({"task": "write"}, 0.1)
        async with asyncio.timeout(300):
            await worker.end(at_once=True)
        return answer["n_sentences"], niceness - os.getpriority(os.PRIO_PROCESS, 0), limits

    n_sentences, niceness, limits = asyncio.run(scenario())
    assert (n_sentences, niceness) == (1, 10)
    [line] = [line for line in limits.splitlines() if line.startswith("Max address space")]
    assert line.split()[3] == "4000000000"
