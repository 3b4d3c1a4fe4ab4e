"""Services for tests of HTTP: one that translates into upper case, without workers; and whole servers in threads."""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from tiny_models import tiny_bundle, tiny_config, tiny_tokenizer

from mtkit.config.schema import Config
from mtkit.config.serving import ServeConfig
from mtkit.documents.sentences import Translated
from mtkit.memory.index import Memory
from mtkit.serving.backend import Backend
from mtkit.serving.detection import Detection, choose_source
from mtkit.serving.documents import Documents
from mtkit.serving.http.app import create_app
from mtkit.serving.http.protocol import BoundedProtocol
from mtkit.serving.keys import Gate
from mtkit.serving.models import Model, ServedModels
from mtkit.serving.records.corrections import MOST_CHARS, Verdict
from mtkit.serving.records.glossaries import Glossaries
from mtkit.serving.records.memories import Memories
from mtkit.serving.refusals import BadText, TooLarge
from mtkit.serving.service import Service
from mtkit.serving.texts import Result
from mtkit.serving.workers.batcher import Batcher
from mtkit.serving.workers.pool import Pool
from mtkit.serving.workers.work import ModelVersion


def bundle_of(folder: Path, src: str, tgt: str, d_ff: int = 32) -> Path:
    """The bundle of a random model; another d_ff makes another one."""
    values = tiny_config({"d_ff": d_ff}).model_dump(mode="json")
    values["data"] |= {"src_lang": src, "tgt_lang": tgt}
    values["decode"]["max_len_constant"] = 30  # room for terms
    cfg = Config.model_validate(values)
    folder.mkdir(parents=True)
    tiny_bundle(folder, tiny_tokenizer(folder.parent, cfg), cfg)
    return folder


def is_running(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class LoudService(Service):
    """Translates each sentence into upper case; "wait" once `go` is set; "fail" is refused."""

    can_translate = True

    def __init__(self, cfg: ServeConfig, pairs: tuple[tuple[str, str], ...]) -> None:
        self.cfg = cfg
        self.models = ServedModels([Model(ModelVersion(Path(f"{src}-{tgt}"), "1"), src, tgt, 4) for src, tgt in pairs])
        self.batcher = Batcher(cfg.queue, 10.0)
        self.pool = Pool(1, {}, self.batcher.wake)
        self.aside_batcher, self.aside_pool = Batcher(cfg.queue, 10.0), Pool(1, {}, self.batcher.wake)
        self._has_aside = False
        self.started = 0.0
        self.corrections = None
        self._uses = Counter()
        self._versions = {model.version for model in self.models.models}
        self.go = asyncio.Event()
        self.n_cancelled = 0
        self.fault: Exception | None = None
        self._open = set()
        self._refuses = self.is_waiting = False

    async def start(self) -> None:
        """Start nothing."""

    async def close(self) -> None:
        """End nothing."""

    async def _translate(
        self, sentences, patterns, path, *, n_best=1, terms=(), memory=None, caller=None, correct=True
    ):
        if self.fault is not None:
            raise self.fault
        if any(sentence.text == "fail" for sentence in sentences):
            raise BadText("cannot be encoded")
        results = {}
        lines = terms if isinstance(terms, Sequence) else await terms([sentence.text for sentence in sentences])
        for sentence in sentences:
            self.is_waiting = sentence.text == "wait"
            try:
                await (self.go.wait() if self.is_waiting else asyncio.sleep(0))
            except asyncio.CancelledError:
                self.n_cancelled += 1
                raise
            if memory is not None and (match := Memory.open(memory.path).best(sentence.text, memory.threshold / 100)):
                text = match.tgt if match.is_exact else sentence.text.upper()
                results[sentence.text] = Result(Translated(text, matches=[match.as_json()]))
                continue
            others = [f"{sentence.text.upper()} {number}" for number in range(1, n_best)]
            results[sentence.text] = Result(
                Translated(sentence.text.upper(), others=others),
                [
                    {"line": line, "source": src, "target": [tgt], "required": 1, "met": 0}
                    for line, (src, tgt) in enumerate(lines)
                    if src in sentence.text
                ],
            )
        return results


class FirstLetterDetector:
    """Takes a text that begins with a letter of a language's code for that language, others are unsure."""

    def __init__(self, languages: list[str]) -> None:
        self._languages = languages

    def detect(self, text: str) -> Detection:
        if not any(map(str.isalpha, text)):
            return Detection(None, 0.0, (), has_language=False)
        language = next((code for code in self._languages if text.lower().startswith(code[0])), None)
        confidence = 0.75 if language else 0.3
        return Detection(language, confidence, [(language or self._languages[0], confidence)])


class KeptCorrections:
    """Keeps all suggestions, of which none acts, and has doubts about those that are no longer than the text."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def close(self) -> None:
        """Close nothing."""

    def lookup(self, src, tgt, text, caller):
        return None

    async def suggest(self, src, tgt, source, suggestion, caller, translation):
        if max(len(source), len(suggestion)) > MOST_CHARS:
            raise TooLarge(f"a correction has at most {MOST_CHARS} characters")
        self.kept.append((src, tgt, source, suggestion, caller, translation))
        return Verdict(len(suggestion) > len(source), ["is dull"], acts=False)


@dataclass(frozen=True)
class LoudBackend(Backend):
    """A server around a loud service."""

    service: LoudService

    @property
    def detector(self) -> Any:
        """What tells languages by the first letter."""
        return FirstLetterDetector([language.code for language in self.service.models.languages])


def loud_backend(
    pairs: tuple[tuple[str, str], ...] = (("en", "fr"), ("de", "fr")), *, corrections: Any = None, **settings: Any
) -> LoudBackend:
    """settings: of the service, as in its YAML."""
    cfg = ServeConfig.model_validate(settings)
    service = LoudService(cfg, pairs)
    service.corrections = corrections
    detector: Any = FirstLetterDetector([language.code for language in service.models.languages])
    limits = cfg.limits
    glossaries = None if cfg.glossaries is None else Glossaries(cfg.glossaries, limits.max_glossary_entries)
    memories = None if cfg.memories is None else Memories(cfg.memories, limits.max_memory_units, 1e6, 60.0)
    return LoudBackend(
        cfg,
        service,
        Gate(cfg),
        Documents(
            service,
            limits,
            lambda text, tgt: choose_source(detector.detect(text), service.models.sources_of(tgt), tgt),
        ),
        glossaries,
        memories,
        corrections,
    )


@asynccontextmanager
async def client_of(backend: Backend) -> AsyncIterator[Any]:
    """Yield a client of the application, without a server between them."""
    transport = httpx.ASGITransport(create_app(backend))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:5000") as client:
        yield client
    await backend.documents.close()
    if backend.glossaries is not None:
        backend.glossaries.close()
    if backend.memories is not None:
        await backend.memories.close()


def ask(method: str, path: str, backend: Any = None, **request: Any) -> httpx.Response:
    """The answer to one request; without a backend, of a loud one."""

    async def once() -> httpx.Response:
        async with client_of(backend or loud_backend()) as client:
            return await client.request(method, path, **request)

    return asyncio.run(once())


@contextmanager
def running(backend: Backend) -> Iterator[str]:
    """Serve on a free port, as `mtkit serve` does, and yield the address."""
    settings = uvicorn.Config(
        create_app(backend),
        port=0,
        log_config=None,
        http=BoundedProtocol,
        ws="none",
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
            assert thread.is_alive()
        [*_, port] = [socket.getsockname()[1] for one in server.servers for socket in one.sockets]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
