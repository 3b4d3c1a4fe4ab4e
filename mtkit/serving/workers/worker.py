"""A process that translates batches for the service, with requests on standard input and replies on standard output."""

import ctypes
import gc
import json
import logging
import os
import signal
import sys
import traceback
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.bundle import BundleFiles, load_model, read_bundle
from mtkit.config.reading.overrides import decode_overrides
from mtkit.console import log, set_up_logging
from mtkit.cores import let_threads_sleep
from mtkit.documents.sentence_translator import SentenceTranslator
from mtkit.documents.sentences import Sentence
from mtkit.errors import BundleError, DataError, MtkitError
from mtkit.serving.workers import frames
from mtkit.serving.workers.work import ModelVersion, Work, fingerprint
from mtkit.translation.terminology import Terminology, TermReport
from mtkit.translation.translator import Translator

if TYPE_CHECKING:
    from mtkit.memory.index import Memory
    from mtkit.scoring.scoring import Scorer

_TERMINOLOGIES = 8  # kept by each model
_MEMORIES = 8  # translation memories that are open at a time


class LoadedModel:
    """A bundle and the parts of it that are loaded."""

    def __init__(self, version: ModelVersion, overrides: Sequence[str]) -> None:
        """Read and verify the bundle. Raises BundleError if it is damaged or no longer this version."""
        self._overrides = overrides
        self._version = version
        self.files = self._read()
        self._terminologies: OrderedDict[tuple[str, ...], Terminology] = OrderedDict()

    def _read(self, *overrides: str) -> BundleFiles:
        files = read_bundle(self._version.folder, [*self._overrides, "decode.workers=1", *overrides])
        if fingerprint(files) != self._version.fingerprint:
            raise BundleError(
                f"{self._version.folder}: the bundle has changed since the service read it (perhaps only the file of "
                "its decode.terminology or decode.memory); reload the models"
            )
        return files

    @cached_property
    def translator(self) -> Translator:
        """The translator for plain work."""
        return Translator.from_bundles([self.files], device="auto", threads=1)

    @cached_property
    def native(self) -> Translator:
        """The translator with every control, for terminologies and alternatives."""
        if self.translator.engine.name == "native":
            return self.translator
        return Translator.from_bundles([self._read("decode.engine=native")], device="auto", threads=1)

    @cached_property
    def scorer(self) -> "Scorer":
        """The model as a scorer of given translations."""
        from mtkit.engines.native import NativeEngine
        from mtkit.scoring.scoring import Scorer

        engine = self.native.engine
        model = engine.models[0] if isinstance(engine, NativeEngine) else load_model(self.files).eval()
        return Scorer(model, self.native.src_tokenizer, self.native.tgt_tokenizer)

    def with_terms(self, lines: tuple[str, ...]) -> Translator:
        """Return a translator that uses the terms in these lines. Raises DataError for a term that it cannot use."""
        terminology = self._terminologies.pop(lines, None)
        if terminology is None:
            tokenizer = self.native.tgt_tokenizer.with_placeholders(())
            terminology = Terminology.from_lines(lines, tokenizer)
        self._terminologies[lines] = terminology
        if len(self._terminologies) > _TERMINOLOGIES:
            self._terminologies.popitem(last=False)
        return self.native.with_terms(terminology)


class Models:
    """The models that a worker has loaded; if memory is limited, the most recently used ones."""

    def __init__(self, overrides: Sequence[str], most_bytes: int | None) -> None:
        self._overrides = overrides
        self._most_bytes = most_bytes
        self._loaded: OrderedDict[ModelVersion, LoadedModel] = OrderedDict()
        self._base_bytes = _resident_bytes()

    def get(self, version: ModelVersion) -> LoadedModel:
        """Return a model, after loading it if necessary."""
        model = self._loaded.pop(version, None) or LoadedModel(version, self._overrides)
        self._loaded[version] = model
        return model

    def drop(self, versions: Sequence[ModelVersion]) -> None:
        """Unload these versions if they are loaded."""
        loaded = [version for version in versions if version in self._loaded]
        for version in loaded:
            del self._loaded[version]
        if loaded:
            _return_freed_memory()

    def shrink(self) -> None:
        """Unload the least recently used models until the rest fits the memory; keep the one used last."""
        if self._most_bytes is None:
            return
        while len(self._loaded) > 1 and _resident_bytes() - self._base_bytes > self._most_bytes:
            version, _ = self._loaded.popitem(last=False)
            log.info(f"unloaded {version.folder}: the models take more than the service's memory_mb")
            _return_freed_memory()


def _resident_bytes() -> int:
    """Return the memory that this process occupies, in bytes; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        return 0


def _return_freed_memory() -> None:
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc only
        ctypes.CDLL(None).malloc_trim(0)


class Worker:
    """Processes the batches of a worker."""

    def __init__(self, overrides: Sequence[str], most_bytes: int | None) -> None:
        """most_bytes: memory limit for models; None: no limit."""
        self.models = Models(overrides, most_bytes)
        self._memories: OrderedDict[str, Memory] = OrderedDict()  # by file

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the results of a batch, or its error; for a message without work, whether the process has torch."""
        try:
            if not message:
                return {"has_torch": "torch" in sys.modules}
            self.models.drop([ModelVersion.from_json(version) for version in message.get("retired", ())])
            work = Work.from_json(message["work"])
            results = getattr(self, f"_{work.task}")(self.models.get(work.model), work, message["items"])
            self.models.shrink()
            return {"results": results}
        except DataError as error:
            return {"error": "data", "message": str(error)}
        except BundleError as error:
            return {"error": "bundle", "message": str(error)}
        except MtkitError as error:
            return {"error": "request", "message": str(error)}
        except Exception:  # this is our bug: report it and keep serving
            return {"error": "fault", "message": traceback.format_exc()}

    def _translate(self, model: LoadedModel, work: Work, items: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        translator = model.with_terms(work.terms) if work.terms else model.translator
        if work.memory is not None:
            translator = translator.with_memory(self._memory(work.memory[0]), work.memory[1])
        n_best = min(work.n_best, max(1, translator.decode.mbr_samples or translator.decode.beam_size))
        sentences = [Sentence(*item) for item in items]
        worker = SentenceTranslator(translator, work.patterns, n_best=n_best, check_direction=False)
        results = [translated.as_values() for translated in worker.translate(sentences)]
        if translator.terminology is not None:
            for sentence, result in zip(sentences, results, strict=True):
                report = TermReport(translator.terminology)
                report.add(translator.reader.replaced(sentence.text).text, result["text"], 1)
                result["terms"] = report.as_json()["terms"]
        return results

    def _memory(self, file: str) -> "Memory":
        """Return an open translation memory. Raises DataError if it was deleted."""
        from mtkit.memory.index import Memory  # here, because few requests use one

        memory = self._memories.pop(file, None)
        if memory is None:
            memory = Memory.open(Path(file))
        self._memories[file] = memory
        if len(self._memories) > _MEMORIES:
            self._memories.popitem(last=False)[1].close()
        return memory

    def _words(self, model: LoadedModel, work: Work, items: Sequence[Sequence[Any]]) -> list[list[Any]]:
        from mtkit.scoring.scoring import word_probabilities

        scores = model.scorer.score([(src, tgt) for src, tgt in items])
        return [word_probabilities(score) for score in scores]

    def _alternatives(self, model: LoadedModel, work: Work, items: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        from mtkit.scoring.alternatives import find_alternatives

        return [asdict(find_alternatives(model.native, src, at, n=n, translation=tgt)) for src, tgt, at, n in items]


def main() -> None:
    """Reply to messages until standard input ends. The arguments are JSON: decode settings, and bytes for models."""
    settings = json.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service ends its workers
    let_threads_sleep()
    set_up_logging(quiet=True, with_times=True)
    log.setLevel(logging.ERROR)  # what it says of single lines would fill the log, and is in the answers
    worker = Worker(decode_overrides(settings["decode"]), settings["most_bytes"])
    frames.answer_messages(worker.answer)


if __name__ == "__main__":
    main()
