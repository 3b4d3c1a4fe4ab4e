"""A whole service whose models are scripts: what a sentence becomes is written in the test."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import uvicorn

from mtkit.config.serving import QueueConfig, ServeConfig
from mtkit.serving.backend import Backend
from mtkit.serving.http.app import create_app
from mtkit.serving.models import Model, ServedModels
from mtkit.serving.refusals import BadRequest, Refusal
from mtkit.serving.service import Service
from mtkit.serving.workers.batcher import Batcher
from mtkit.serving.workers.work import ModelVersion, Work


class Script(Batcher):
    """A batcher that knows the results. A sentence it has no translation for is answered in capitals."""

    def __init__(self) -> None:
        super().__init__(QueueConfig(), batch_timeout_s=1)
        self.translations: dict[str, str] = {}
        self.faults: dict[str, list[str]] = {}
        self.confidences: dict[str, float] = {}
        self.read_as: dict[str, dict[str, str]] = {}
        self.held: set[str] = set()  # sentences that take until a test removes them
        self.refusals: dict[str, Refusal] = {}
        self.probabilities: dict[str, float] = {}  # of words; others have 0.9
        self.others: dict[str, list[tuple[str, float]]] = {}  # words for a word
        self.begun: list[str] = []  # sentences, in order
        self.ended: list[str] = []
        self.given_up: list[str] = []  # sentences whose caller left

    async def run(self, work: Work, items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        """Return the results of items, as the batcher does."""
        return [await getattr(self, f"_{work.task}")(work, *item) for item in items]

    async def _translate(self, work: Work, text: str, is_marked: bool) -> dict[str, Any]:
        self.begun.append(text)
        try:
            await asyncio.sleep(0)
            while text in self.held:
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.given_up.append(text)
            raise
        if (refusal := self.refusals.get(text)) is not None:
            raise refusal
        self.ended.append(text)
        translation = self.translations.get(text, text.upper())
        terms = [line.split("\t") for line in work.terms[1:]]
        result: dict[str, Any] = {
            "text": translation,
            "faults": self.faults.get(text, []),
            "alignment": None,
            "others": [f"{translation} ({n})" for n in range(2, work.n_best + 1)],
            "confidence": self.confidences.get(text),
            "read_as": self.read_as.get(text, {}),
        }
        if terms:
            result["terms"] = [
                {"line": line, "source": src, "target": [tgt], "required": 1, "met": int(tgt in translation)}
                for line, (src, tgt) in enumerate(terms, 2)
                if src in text
            ]
        return result

    async def _words(self, work: Work, src: str, tgt: str) -> list[float]:
        return [self.probabilities.get(word, 0.9) for word in tgt.split()]

    async def _alternatives(self, work: Work, src: str, tgt: str, position: int, n: int) -> dict[str, Any]:
        words = tgt.split()
        if position > len(words):
            raise BadRequest(f"position {position}: the translation has {len(words)} words")
        word = words[position - 1]
        others = [
            {"word": other, "probability": share, "text": " ".join([*words[: position - 1], other, "and", "so", "on."])}
            for other, share in self.others.get(word, [])
        ]
        return {"word": word, "probability": self.probabilities.get(word, 0.9), "others": others[:n]}


class ScriptedService(Service):
    """A service without worker processes."""

    can_translate = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.script = Script()
        self.batcher = self.script

    async def start(self) -> None:
        """Start nothing."""

    async def close(self) -> None:
        """End nothing."""


def scripted_backend(pairs: Sequence[tuple[str, str]], **values: Any) -> tuple[Backend, Script]:
    """Return a backend of models for these pairs of languages, and their script. values: of the settings."""
    models = [Model(ModelVersion(Path(f"{src}-{tgt}"), "1"), src, tgt, beam_size=4) for src, tgt in pairs]
    with (
        patch("mtkit.serving.service.read_models", lambda *_: ServedModels(models)),
        patch("mtkit.serving.backend.Service", ScriptedService),
    ):
        backend = Backend.from_config(ServeConfig.model_validate(values))
    return backend, backend.service.script  # type: ignore[attr-defined]


@contextmanager
def running(backend: Backend) -> Iterator[str]:
    """Serve in a thread; gives the address."""
    server = uvicorn.Server(uvicorn.Config(create_app(backend), port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        [port] = [socket.getsockname()[1] for one in server.servers for socket in one.sockets]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
