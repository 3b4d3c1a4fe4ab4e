"""Translate uploaded documents as background jobs, after all texts, and keep each result for an hour."""

import asyncio
import secrets
import shutil
import tempfile
import time
from asyncio import TimerHandle
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any, Literal

from mtkit.config.serving import LimitsConfig
from mtkit.console import log, log_fault
from mtkit.documents.reading import FILE_EXTENSIONS, FORMATS, Options, format_named
from mtkit.documents.sentences import Sentence, Translated
from mtkit.files import remove_unlocked_folders, working_folder
from mtkit.languages import english_name
from mtkit.serving.caller import Caller
from mtkit.serving.detection import UNDETERMINED, Source
from mtkit.serving.records.memories import MemoryUse
from mtkit.serving.refusals import (
    BadRequest,
    Busy,
    Fault,
    NotFound,
    Refusal,
    TooLarge,
    TooLate,
    Unready,
    without_options,
)
from mtkit.serving.service import Service
from mtkit.serving.texts import Terms, in_memory
from mtkit.serving.threads import run_to_end
from mtkit.serving.workers.pool import WorkerDied, start_worker

Status = Literal["queued", "translating", "done", "error"]

_AT_ONCE = 2  # documents: while one is read or written, the sentences of the other keep the workers busy
_KEEP_S = 3600.0  # a job after its end
_MOST_NAME_CHARS = 100
_FOLDER = "mtkit-documents-"  # beginning of the name of a service's folder
_WINDOW = 32  # sentences of a document in the queue at a time: few, so that requests for texts need not wait long
_FAULT = "the service failed on this document; its log says why"
_STOPPED = "the service was stopped before the document was translated; send it again"


@dataclass(eq=False)
class DocumentJob:
    """An uploaded document and the state of its translation."""

    id: str  # cannot be guessed
    name: str  # of the translated file: without a path, safe to save under
    src: str | None  # None until it is detected
    tgt: str
    caller: Caller
    options: Options
    terms: Terms
    memory: MemoryUse | None
    folder: Path
    status: Status = "queued"
    n_done: int = 0  # sentences
    n_total: int = 0  # sentences, each different one once; 0 until the document has been read
    n_chars: int = 0  # of its text
    refusal: Refusal | None = None  # why there is no translation
    started: float = 0.0  # time, by the monotonic clock
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def error(self) -> str | None:
        """The error message for the caller, if the translation failed."""
        return None if self.refusal is None else str(self.refusal)

    @property
    def source_path(self) -> Path:
        """The uploaded file, which is deleted once the job has ended."""
        return self.folder / f"{self.id}.source"

    @property
    def result_path(self) -> Path:
        """The translated file, once the status is "done"."""
        return self.folder / f"{self.id}.result"

    @property
    def result(self) -> bytes | None:
        """The bytes of the translated file; None if there is none, or it was deleted."""
        if self.status != "done":
            return None
        with suppress(FileNotFoundError):
            return self.result_path.read_bytes()
        return None

    async def finished(self) -> None:
        """Wait until the status is "done" or "error"."""
        await self.ended.wait()


class Documents:
    """The jobs of all callers. Their files are in a folder that only the user of the service can read."""

    def __init__(self, service: Service, limits: LimitsConfig, choose: Callable[[str, str], Source]) -> None:
        """choose: chooses the language of a text, given the target."""
        self._service, self._limits, self._choose = service, limits, choose
        self._folder: Path | None = None
        self._locked = ExitStack()  # that folder, while this service uses it
        self._jobs: dict[str, DocumentJob] = {}  # by id, in the order of their arrival
        self._waiting: OrderedDict[str, deque[DocumentJob]] = OrderedDict()  # by caller, in the order of their turns
        self._tasks: dict[DocumentJob, asyncio.Task[None]] = {}
        self._expiries: dict[DocumentJob, TimerHandle] = {}

    async def submit(
        self,
        raw: bytes,
        name: str,
        src: str | None,
        tgt: str,
        *,
        caller: Caller,
        terms: Terms = (),
        memory: MemoryUse | None = None,
        format: str | None = None,
    ) -> DocumentJob:
        """Accept a document and translate it when its turn comes.

        name: of the file; its extension gives the format unless `format` does. src: None to detect the language.
        Raises BadRequest for an unknown format or language, TooLarge, or Busy if too many documents wait.
        """
        if len(raw) > self._limits.max_file_mb * 1e6:
            raise TooLarge(f"the file has {len(raw) / 1e6:.1f} MB; the limit is {self._limits.max_file_mb:g} MB")
        format = format or format_named(Path(PureWindowsPath(name).name))
        if format not in FORMATS:
            raise BadRequest(f"Invalid file: unknown file extension; the service reads {', '.join(FILE_EXTENSIONS)}")
        models = self._service.models
        tgt = models.code(tgt)
        if src is not None:
            models.path(src, tgt)
            src = models.code(src)
        options = Options(format, src_lang=src, tgt_lang=tgt)
        await self._make_room(caller)
        try:
            if self._folder is None:
                self._folder = self._locked.enter_context(working_folder(Path(tempfile.gettempdir()), _FOLDER))
            name = _result_name(name, tgt)
            job = DocumentJob(secrets.token_hex(16), name, src, tgt, caller, options, terms, memory, self._folder)
            self._jobs[job.id] = job
            try:
                await run_to_end(partial(job.source_path.write_bytes, raw))
            except BaseException:  # also if the request is cancelled meanwhile
                self._forget(job)
                raise
        except OSError as error:  # the disk is full, or the folder is gone
            log.error(f"a document was refused: {error}")
            raise Busy("the service cannot store documents now; try again later", retry_after_s=60) from None
        self._waiting.setdefault(caller.name, deque()).append(job)
        self._start_next()
        return job

    def get(self, id: str, caller: Caller) -> DocumentJob:
        """Return a job of this caller. Raises NotFound, also if it is another caller's."""
        job = self._jobs.get(id)
        if job is None or job.caller.name != caller.name:
            raise NotFound(
                "no such document; the service deletes documents an hour after it translated them, and when it restarts"
            )
        return job

    @property
    def n_waiting(self) -> int:
        """The number of documents that wait for their turn."""
        return sum(map(len, self._waiting.values()))

    @property
    def n_running(self) -> int:
        """The number of documents that are being translated."""
        return len(self._tasks)

    async def remove(self, job: DocumentJob) -> None:
        """Delete a job, after stopping it if it still runs."""
        task = self._tasks.get(job)
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
            self._tasks.pop(job, None)  # if it was cancelled before its first step
        self._forget(job)
        self._start_next()

    async def close(self) -> None:
        """Stop all jobs and delete their files."""
        self._waiting.clear()  # so that none starts when another ends
        for job in list(self._jobs.values()):
            await self.remove(job)
        self._locked.close()
        self._folder = None

    async def _make_room(self, caller: Caller) -> None:
        """If there are too many jobs, delete the oldest ended one of the caller who keeps the most.

        The new job counts for its caller, so that no caller loses a result to another one with equally many. Raises
        Busy if only callers with fewer jobs have jobs that ended.
        """
        while len(self._jobs) >= self._limits.max_documents:
            n_jobs = Counter(job.caller.name for job in self._jobs.values())
            n_jobs[caller.name] += 1
            ended = (job for job in self._jobs.values() if job.ended.is_set())
            oldest = max(ended, key=lambda job: n_jobs[job.caller.name], default=None)
            if oldest is None or n_jobs[oldest.caller.name] < n_jobs[caller.name]:
                raise Busy(f"{len(self._jobs)} documents are stored or waiting; try again later", retry_after_s=60)
            await self.remove(oldest)

    def _start_next(self) -> None:
        """Start jobs, from each caller in turn, while there is capacity."""
        while self._waiting and len(self._tasks) < _AT_ONCE:
            name, jobs = self._waiting.popitem(last=False)
            job = jobs.popleft()
            if jobs:
                self._waiting[name] = jobs
            self._tasks[job] = asyncio.get_running_loop().create_task(self._run(job))

    async def _run(self, job: DocumentJob) -> None:
        """Translate a document, end its job whatever happens, and start the next one."""
        seconds = self._limits.document_deadline_s
        try:
            async with asyncio.timeout(seconds):
                await self._translate(job)
            job.status = "done"
        except TimeoutError:
            job.refusal = TooLate(f"not done within {seconds:g} s; divide the document")
        except Refusal as error:
            job.refusal = error
        except OSError as error:
            log.error(f"could not store a document: {error}")
            job.refusal = Busy("the service cannot store documents now; send it again later", retry_after_s=60)
        except Exception as error:
            log_fault("a document could not be translated", error)
            job.refusal = Fault(_FAULT)
        finally:
            if job.status != "done":
                job.status = "error"
                job.refusal = job.refusal or Unready(_STOPPED)
            self._tasks.pop(job, None)
            job.source_path.unlink(missing_ok=True)
            job.ended.set()
            if job.id in self._jobs:
                self._expiries[job] = asyncio.get_running_loop().call_later(_KEEP_S, self._forget, job)
            self._start_next()

    async def _translate(self, job: DocumentJob) -> None:
        job.status, job.started = "translating", time.monotonic()
        async with self._worker(job) as ask:
            facts = await ask("read")
            is_given = job.src is not None
            self._find_source(job, facts["beginning"])
            if not is_given and job.src is not None:
                facts = await ask("read", src_lang=job.src)
            with self._service.using(job.src or job.tgt, job.tgt) as path:
                if not path:  # the two languages are one
                    await asyncio.to_thread(shutil.copyfile, job.source_path, job.result_path)
                    return
                if job.memory is not None or path[0].memory is not None:
                    texts = (await ask("paragraphs"))["texts"]
                    whole = await asyncio.to_thread(in_memory, texts, path[0], job.memory)
                    facts |= await ask("join", whole=list(whole))
                job.n_total, job.n_chars = facts["n_sentences"], facts["n_chars"]
                translations: list[Translated] = []
                while True:
                    answer = await ask("next", translations=[one.as_values() for one in translations], n=_WINDOW)
                    job.n_done += len(translations)
                    sentences = [Sentence(*sentence) for sentence in answer["sentences"]]
                    if not sentences:
                        break
                    translations = await self._service.translate_sentences(
                        sentences, facts["patterns"], path, terms=job.terms, memory=job.memory, caller=job.caller
                    )
            await ask("write")

    def _find_source(self, job: DocumentJob, beginning: str) -> None:
        """Choose the language of a document if the caller has not given it; a document of numbers alone has none.

        Raises BadRequest if no model translates its language, or if that is the target.
        """
        if job.src is None:
            source = self._choose(beginning, job.tgt)
            job.src = source.language
            if job.src is None and source.reported != UNDETERMINED:
                raise BadRequest(
                    f"the document is in {_named(source.reported)}, which cannot be translated into {_named(job.tgt)}; "
                    "if that is wrong, choose its language as the source"
                )
        if job.src == job.tgt:
            raise BadRequest(f"Source and target language are equal: the document is already in {_named(job.tgt)}")

    @asynccontextmanager
    async def _worker(self, job: DocumentJob) -> AsyncIterator[Callable[..., Awaitable[dict[str, Any]]]]:
        """Yield a function that sends requests to a new process for this document; end the process after the block.

        The function raises BadRequest for a document that cannot be read.
        """
        settings = {"source": str(job.source_path), "result": str(job.result_path), "options": asdict(job.options)}
        worker = await start_worker("mtkit.serving.workers.document_worker", settings)

        async def ask(task: str, **values: Any) -> dict[str, Any]:
            answer = await worker.ask({"task": task, "with": values}, self._limits.document_deadline_s)
            if "error" in answer:
                raise BadRequest(without_options(answer["error"]))
            if "disk" in answer:
                raise OSError(answer["disk"])
            if "fault" in answer:
                log.error(f"a document could not be translated: {answer['fault']}")
                raise Fault(_FAULT)
            return answer

        try:
            yield ask
        except WorkerDied as error:
            log.error(f"a document could not be translated: {error}")
            raise Fault(_FAULT) from None
        finally:
            await worker.end(at_once=True)

    def _forget(self, job: DocumentJob) -> None:
        """Remove a job that is not running, with its files."""
        self._jobs.pop(job.id, None)
        if (expiry := self._expiries.pop(job, None)) is not None:
            expiry.cancel()
        of_caller = self._waiting.get(job.caller.name, deque())
        if job in of_caller:
            of_caller.remove(job)
            if not of_caller:
                del self._waiting[job.caller.name]
        if not job.ended.is_set():
            job.status, job.refusal = "error", job.refusal or Unready(_STOPPED)
            job.ended.set()
        for path in (job.source_path, job.result_path):
            path.unlink(missing_ok=True)


def remove_leftovers() -> None:
    """Delete the documents of this user's services that were killed."""
    remove_unlocked_folders(Path(tempfile.gettempdir()), _FOLDER)


def _result_name(name: str, tgt: str) -> str:
    """Return the name of a translated file: report_fr.docx for report.docx.

    It has no path, is not empty, and has no characters with a special meaning in file systems or headers.
    """
    base = PureWindowsPath(name).name  # of a path in either notation
    safe = "".join(letter if letter.isalnum() or letter in "-_. ()" else "_" for letter in base).strip(" .")
    path = PurePath(safe or "document")
    return f"{path.stem[:_MOST_NAME_CHARS]}_{tgt}{path.suffix[:_MOST_NAME_CHARS]}"


def _named(code: str) -> str:
    return english_name(code) or code
