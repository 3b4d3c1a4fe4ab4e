"""The translation service behind all dialects: it batches the texts of all requests."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mtkit.bundle import verify_bundle
from mtkit.config.serving import ServeConfig
from mtkit.console import counted, log, log_fault
from mtkit.cores import usable_cores
from mtkit.documents.sentences import Sentence, Translated
from mtkit.errors import MtkitError
from mtkit.serving.caller import NOBODY, Caller
from mtkit.serving.models import Model, ServedModels, read_models
from mtkit.serving.pivoting import through
from mtkit.serving.refusals import BadRequest, Busy, Forbidden, Refusal, TooLarge, TooLate, Unready
from mtkit.serving.texts import (
    Format,
    Reader,
    Result,
    SourceText,
    Terms,
    TranslatedSentence,
    TranslatedText,
    corrected_text,
    term_lines,
    whole_terms,
    with_correction,
)
from mtkit.serving.workers.batcher import Batcher
from mtkit.serving.workers.pool import Pool, Worker, WorkerDied
from mtkit.serving.workers.queue import let_in
from mtkit.serving.workers.work import ModelVersion, Work

if TYPE_CHECKING:
    from mtkit.serving.records.corrections import Corrections, Verdict
    from mtkit.serving.records.memories import MemoryUse


_TRIAL = "a"  # what each model translates before it is served: a word, because numbers are kept without the model
_LOADING_S = 300.0  # that a model may take to load, and its first batch to translate
_WORKING_S = 30.0  # that another batch may take, unless requests may take longer
_LOOK_S = 2.0  # between two looks at the workers
_SILENT_S = 15.0  # after which a worker that has not answered does not count as able to translate
_MOST_RETIRED = 100  # versions that each message to a worker names
_SOON_S = 5.0  # after which another service may run
_WINDOW = 64  # sentences of a text in the queue at a time, if they are sent one by one


class Service:
    """All models behind one interface. Every request gets a result or a `Refusal` before the deadline."""

    def __init__(self, cfg: ServeConfig, corrections: "Corrections | None" = None) -> None:
        """Find the models. Raises MtkitError if one cannot be served."""
        self.cfg = cfg
        self.corrections = corrections
        self.models: ServedModels = read_models(cfg.models, cfg.decode)
        # Under a cap on memory any batch may have to load its model again.
        working_s = max(_WORKING_S, cfg.limits.deadline_s) if cfg.memory_mb is None else _LOADING_S
        self.batcher = Batcher(cfg.queue, working_s, _LOADING_S)
        n_workers = cfg.workers or usable_cores()
        most_bytes = None if cfg.memory_mb is None else cfg.memory_mb * 1_000_000 // n_workers
        settings = {"decode": cfg.decode, "most_bytes": most_bytes}
        self.pool = Pool(n_workers, settings, self.batcher.wake)
        # A worker for work that needs torch, where plain work does not; it is started when it is first needed.
        self.aside_batcher = Batcher(cfg.queue, working_s, _LOADING_S)
        self.aside_pool = Pool(1, settings, self.aside_batcher.wake)
        self._has_aside = self._runs_aside = False
        self._starting_aside = asyncio.Lock()
        self._reloading = asyncio.Lock()
        self._uses: Counter[ModelVersion] = Counter()  # by requests that have begun
        self._versions = {model.version for model in self.models.models}  # that workers may have loaded
        self._looking: asyncio.Task[None] | None = None
        self._looks: set[asyncio.Task[None]] = set()  # the loop alone would let go of them
        self._problem = ""  # why a model could last not be loaded, so that the log says it once
        self._open: set[asyncio.Timeout] = set()  # of the requests that are being answered
        self._refuses = False

    async def start(self) -> None:
        """Start the workers, unless they have started, and test each model. Raises MtkitError if one fails."""
        if self.pool.workers:
            return
        await self.pool.start()
        try:  # before the batcher hands out work, so that each worker loads each model
            await asyncio.gather(*map(self._try_all, self.pool.workers))
        except BaseException:
            await self.pool.close()
            raise
        self._has_aside = not (await self.pool.ask(self.pool.workers[0], {}, _SILENT_S))["has_torch"]
        self.batcher.start(self.pool)
        self._looking = asyncio.get_running_loop().create_task(self._look_after_workers())

    async def _try_all(self, worker: Worker) -> None:
        for model in self.models.models:
            try:
                problem = await self._try(worker, model)
            except WorkerDied as error:
                problem = f"{model.version.folder}: {error} while it loaded this model"
            if problem:
                raise MtkitError(problem)

    async def _try(self, worker: Worker, model: Model) -> str:
        """Make a worker load a model and translate with it; return what went wrong, if anything. Raises WorkerDied."""
        trial = Work("translate", model.version)
        answer = await self.pool.ask(worker, {"work": trial.as_json(), "items": [[_TRIAL, False]]}, _LOADING_S)
        if "error" in answer:
            return str(answer["message"])
        worker.done.add(trial.kind)
        return ""

    async def _look_after_workers(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                self.look_at_workers()
            except Exception as error:
                log_fault("the service could not look at its workers", error)

    def look_at_workers(self) -> None:
        """Find workers that hang before requests do, and let new workers load the models before requests come.

        Each idle worker loads a model that it lacks, or answers a message without work. A busy one that makes no
        progress is ended, so that the pool replaces it and another worker does its batch.
        """
        for worker in self.pool.workers:
            if not worker.is_busy:
                worker.is_busy = True  # from now on, so that the batcher does not choose it, too
                look = asyncio.ensure_future(self._look_at(worker))
                self._looks.add(look)
                look.add_done_callback(self._looks.discard)
            else:
                self._kill_if_frozen(worker)
        for worker in self.aside_pool.workers:
            if worker.is_busy:
                self._kill_if_frozen(worker)

    def _kill_if_frozen(self, worker: Worker) -> None:
        if worker.kill_if_frozen():
            log.warning(f"worker {worker.pid} hangs: it has a batch and uses no processor time")

    async def _look_at(self, worker: Worker) -> None:
        # Under a cap on memory a worker may have unloaded what it has done, and loads it again with the next batch.
        wanted = self.models.models if self.cfg.memory_mb is None else self.models.models[:1]
        model = next((model for model in wanted if Work("translate", model.version).kind not in worker.done), None)
        try:
            if model is None:
                await self.pool.ask(worker, {}, _SILENT_S)
            elif (problem := await self._try(worker, model)) != self._problem:
                self._problem = problem
                if problem:
                    log.error(f"a new worker cannot load a model: {problem}")
        except WorkerDied:  # the pool has logged it and starts another one
            pass

    @property
    def can_translate(self) -> bool:
        """Whether some worker has loaded one of the models and has not been silent for long."""
        kinds = {Work("translate", model.version).kind for model in self.models.models}
        long_ago = time.monotonic() - _SILENT_S
        return any(
            not kinds.isdisjoint(worker.done) and not (worker.is_busy and worker.busy_since < long_ago)
            for worker in self.pool.workers
        )

    def refuse_all(self) -> None:
        """Refuse the requests that are being answered, also in the middle of a stream, and all that come."""
        self._refuses = True
        for timeout in self._open:
            if not timeout.expired():
                timeout.reschedule(0)

    async def close(self) -> None:
        """Finish the accepted requests, then stop the workers."""
        try:
            async with asyncio.timeout(self.cfg.limits.deadline_s):
                await self.batcher.drain()
                await self.aside_batcher.drain()
        except TimeoutError:
            log.warning("the service stopped before some requests were finished")
        if self._looking is not None:
            self._looking.cancel()
        for batcher in (self.batcher, self.aside_batcher):
            await batcher.close()
        await asyncio.gather(self.pool.close(), self.aside_pool.close())

    async def reload(self) -> None:
        """Reread the bundles and serve the ones that have changed, once each has passed a test.

        If one is damaged or cannot be served, nothing changes. Requests finish with the models that they began with.
        """
        async with self._reloading:
            before = {model.version for model in self.models.models}
            try:
                models = await asyncio.to_thread(read_models, self.cfg.models, self.cfg.decode)
                for model in models.models:
                    await asyncio.to_thread(verify_bundle, model.version.folder)
                changed = [model for model in models.models if model.version not in before]
                with let_in():
                    for model in changed:
                        await self.batcher.run(Work("translate", model.version), [[_TRIAL, False]], [1])
            except (MtkitError, Refusal) as error:
                log.error(f"the service keeps the models that it has: {error}")
                return
            self.models = models
            self._retire()
            log.info(
                f"{counted(len(changed), 'model')} changed: {', '.join(str(m.version) for m in changed) or 'none'}"
            )

    @contextmanager
    def using(self, src: str, tgt: str) -> Iterator[list[Model]]:
        """Yield the models that translate from one language into another, and keep them loaded until the block ends.

        Raises BadRequest as `ServedModels.path` does.
        """
        path = self.models.path(src, tgt)
        versions = [model.version for model in path]
        self._uses.update(versions)
        try:
            yield path
        finally:
            self._uses.subtract(versions)
            if self._versions - {model.version for model in self.models.models}:
                self._retire()

    def _retire(self) -> None:
        """Make workers unload the versions that are neither served nor in use."""
        served = {model.version for model in self.models.models}
        self._versions |= served
        retired = {version for version in self._versions - served if not self._uses[version]}
        self._versions -= retired
        self.batcher.retired = [*(set(self.batcher.retired) | retired) - served][-_MOST_RETIRED:]
        self.aside_batcher.retired = self.batcher.retired

    # Texts

    async def translate(
        self,
        text: str,
        src: str,
        tgt: str,
        *,
        format: Format = "text",
        read: Reader | None = None,
        n_alternatives: int = 0,
        terms: Terms = (),
        memory: "MemoryUse | None" = None,
        caller: Caller = NOBODY,
        correct: bool = True,
    ) -> TranslatedText:
        """Translate a text between two served languages. Raises Refusal.

        correct: apply corrections, whole texts before sentences; never with terms, because this request asks for them.
        read: reads a text that is not in a `Format`.
        """
        self.check_text(text, caller)
        if n_alternatives > self.cfg.limits.max_alternatives:
            raise BadRequest(f"{n_alternatives} alternatives are more than {self.cfg.limits.max_alternatives}")
        with self.using(src, tgt) as path:
            if not path:  # the two languages are one
                return TranslatedText(text, [], [self.models.code(src)], [], [])
            correct = correct and not terms
            corrected = self._correction(path, text, caller) if correct else None
            if corrected is not None and not n_alternatives:
                return corrected_text(text, corrected, path)
            async with self.deadline():
                source = await SourceText.read(text, format, path[0].src, read)
                source = await source.joined(path[0], memory)
                results = await self._translate(
                    *(source.sentences, source.document.placeholders, path),
                    n_best=n_alternatives + 1,
                    terms=terms,
                    memory=memory,
                    caller=caller,
                    correct=correct,
                )
                codes = [self.models.code(src), *(model.tgt for model in path)]
                n_alternatives = n_alternatives if format == "text" else 0
                translated = await source.translated(results, codes, n_alternatives)
        return translated if corrected is None else with_correction(translated, text, corrected, n_alternatives)

    async def stream(
        self, text: str, src: str, tgt: str, *, terms: Terms = (), caller: Caller = NOBODY
    ) -> AsyncIterator[TranslatedSentence | TranslatedText]:
        """Yield the sentences of a text in order, each as soon as it is ready, and then the whole text.

        Raises Refusal.
        """
        self.check_text(text, caller)
        with self.using(src, tgt) as path:
            if not terms and (corrected := self._correction(path, text, caller)) is not None:
                whole = corrected_text(text, corrected, path)
                yield whole.sentences[0]
                yield whole
                return
            codes = [self.models.code(src), *(model.tgt for model in path)]
            source = await SourceText.read(text, "text", src)
            if path:
                source = await source.joined(path[0])
            results: dict[str, Result] = {}
            at, size = 0, 1
            while at < len(source.sentences):
                window = source.sentences[at : at + size]
                async with self.deadline():
                    found = await self._translate(
                        window, source.document.placeholders, path, terms=terms, caller=caller
                    )
                for sentence in window:
                    yield found[sentence.text].sentence(sentence.text)
                results |= found
                at, size = at + size, min(2 * size, _WINDOW)
            yield await source.translated(results, codes)

    def _correction(self, path: Sequence[Model], text: str, caller: Caller) -> str | None:
        """Return the correction that applies to a whole text or a sentence; None if there is none."""
        if self.corrections is None or not path:
            return None
        return self.corrections.lookup(path[0].src, path[-1].tgt, text, caller)

    async def suggest(self, src: str, tgt: str, text: str, suggestion: str, caller: Caller = NOBODY) -> "Verdict":
        """Store a correction of a text's translation, together with the models' current one. Raises Refusal."""
        if self.corrections is None:
            raise Forbidden("this service does not accept corrections")
        src, tgt = self.models.code(src), self.models.code(tgt)
        if not self.models.path(src, tgt):
            raise BadRequest("the source and the target are the same language")
        translation = None
        with suppress(Busy, TooLate, Unready):  # the suggestion counts more than what it corrects
            translation = (await self.translate(text, src, tgt, caller=caller, correct=False)).text
        return await self.corrections.suggest(src, tgt, text, suggestion, caller, translation)

    def check_text(self, text: str, caller: Caller = NOBODY) -> None:
        """Raise TooLarge for a text beyond the caller's limit."""
        most = caller.max_chars or self.cfg.limits.max_chars
        if len(text) > most:
            raise TooLarge(f"request ({len(text)}) exceeds text limit ({most})")

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """Stop the block with TooLate when a request has taken too long, or with Unready when the service stops."""
        seconds = self.cfg.limits.deadline_s
        try:
            async with asyncio.timeout(0 if self._refuses else seconds) as timeout:
                self._open.add(timeout)
                try:
                    yield
                finally:
                    self._open.discard(timeout)
        except TimeoutError:
            if self._refuses:
                raise Unready("the service is stopping; send the request again", retry_after_s=_SOON_S) from None
            raise TooLate(f"not done within {seconds:g} s; send less text at once, or try later") from None

    # Documents

    async def translate_sentences(
        self,
        sentences: Sequence[Sentence],
        patterns: Sequence[str],
        path: Sequence[Model],
        *,
        terms: Terms = (),
        memory: "MemoryUse | None" = None,
        caller: Caller = NOBODY,
    ) -> list[Translated]:
        """Translate sentences of a document after requests for texts; if the queue is full, wait until it has space.

        patterns: of text to copy exactly. Raises Refusal, but never Busy.
        """
        while True:
            try:
                results = await self._translate(sentences, patterns, path, terms=terms, memory=memory, caller=caller)
                return [results[sentence.text].translated for sentence in sentences]
            except Busy as error:
                await asyncio.sleep(error.retry_after_s or 1)

    # One word of a translation

    async def word_probabilities(self, pairs: Sequence[tuple[str, str]], src: str, tgt: str) -> list[list[float]]:
        """Return the probability of each word of the translations in pairs of source and translation."""
        with self.using(src, tgt) as path:
            work = Work("words", self._single_model(path, src, tgt).version)
            async with self.deadline():
                sizes = [len(source + translation) for source, translation in pairs]
                return await self._run(work, [list(pair) for pair in pairs], sizes)

    async def other_words(
        self, sentence: str, translation: str, position: int, src: str, tgt: str, *, caller: Caller = NOBODY
    ) -> dict[str, Any]:
        """Return the alternatives to a word of a translation: see `mtkit.scoring.alternatives.Alternatives`.

        position: of the word, counted from 1.
        """
        self.check_text(sentence + translation, caller)
        with self.using(src, tgt) as path:
            work = Work("alternatives", self._single_model(path, src, tgt).version)
            n = max(1, self.cfg.limits.max_alternatives)
            async with self.deadline():
                item = [sentence, translation, position, n]
                [result] = await self._run(work, [item], [len(sentence + translation)])
            return dict(result)

    def _single_model(self, path: Sequence[Model], src: str, tgt: str) -> Model:
        if len(path) != 1:
            raise BadRequest(f"no single model translates {src} into {tgt}")
        return path[0]

    # Sentences

    async def _run(self, work: Work, items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        """Give work to the worker aside if it would make the others load torch, which takes seconds and much memory."""
        if not self._has_aside or (work.task == "translate" and not work.terms):
            return await self.batcher.run(work, items, sizes)
        async with self._starting_aside:
            if not self._runs_aside:
                await self.aside_pool.start()
                self.aside_batcher.start(self.aside_pool)
                self._runs_aside = True
        return await self.aside_batcher.run(work, items, sizes)

    async def _translate(
        self,
        sentences: Sequence[Sentence],
        patterns: Sequence[str],
        path: Sequence[Model],
        *,
        n_best: int = 1,
        terms: Terms = (),
        memory: "MemoryUse | None" = None,
        caller: Caller = NOBODY,
        correct: bool = True,
    ) -> dict[str, Result]:
        """Translate sentences by one model after the other; return the translations by source text, in order.

        Without models, return the sentences unchanged.
        """
        if terms and len(path) > 1:
            raise BadRequest("a terminology needs a model that translates directly between the two languages")
        if memory is not None and len(path) > 1:
            raise BadRequest("a translation memory needs a model that translates directly between the two languages")
        corrected = self._corrections(path, sentences, caller) if correct and not terms else {}
        lines = terms if isinstance(terms, Sequence) else await terms([sentence.text for sentence in sentences])
        settled = whole_terms(sentences, lines)
        results = {sentence.text: Result(Translated(sentence.text)) for sentence in sentences} | settled
        # Whoever wants alternatives also gets what the models say of a corrected sentence.
        known = settled.keys() if n_best > 1 else settled.keys() | corrected.keys()
        left = [sentence for sentence in sentences if sentence.text not in known]
        for index, model in enumerate(path):
            is_last = index == len(path) - 1
            work = Work(
                *("translate", model.version, n_best if is_last else 1, tuple(patterns), term_lines(lines)),
                memory=None if memory is None else (str(memory.path), memory.threshold),
            )
            sources = [results[sentence.text].translated.text for sentence in left]
            answers = await self._run(
                work,
                [[src, sentence.is_marked] for src, sentence in zip(sources, left, strict=True)],
                list(map(len, sources)),
            )
            for sentence, answer in zip(left, answers, strict=True):
                found_terms = answer.pop("terms", ())
                translated = Translated.from_values(answer)
                if index:
                    translated = through(results[sentence.text].translated, translated)
                results[sentence.text] = Result(translated, found_terms)
            left = [sentence for sentence in left if results[sentence.text].translated.text]
        for text, correction in corrected.items():
            own = results[text].translated
            others = [other for other in (own.text, *own.others) if n_best > 1 and other not in ("", correction)]
            results[text] = Result(Translated(correction, others=others[: n_best - 1]), is_correction=True)
        return results

    def _corrections(self, path: Sequence[Model], sentences: Sequence[Sentence], caller: Caller) -> dict[str, str]:
        """Return the corrections that apply to sentences, by their texts.

        None applies to a sentence with tags, because only the models' alignment could place them in the correction.
        """
        found = {s.text: self._correction(path, s.text, caller) for s in sentences if not s.is_marked}
        return {text: correction for text, correction in found.items() if correction is not None}
