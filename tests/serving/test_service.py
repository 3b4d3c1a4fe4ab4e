"""The service with its worker processes, around tiny random models: it says what the library says."""

import asyncio
import itertools
import json
import os
import re
import shutil
import signal
import threading
from collections import Counter
from types import SimpleNamespace

import pytest
from tiny_models import SENTENCES
from tiny_server import bundle_of

import mtkit
from mtkit.bundle import read_bundle
from mtkit.config.reading.overrides import decode_overrides
from mtkit.config.serving import LimitsConfig, ServeConfig
from mtkit.engines.native import NativeEngine
from mtkit.errors import BundleError, MtkitError
from mtkit.serving.caller import Caller
from mtkit.serving.records.corrections import Corrections
from mtkit.serving.refusals import BadRequest, TooLarge, TooLate
from mtkit.serving.service import Service
from mtkit.serving.texts import TranslatedSentence, TranslatedText
from mtkit.serving.workers.work import ModelVersion, fingerprint
from mtkit.serving.workers.worker import LoadedModel, Worker

PATIENT = LimitsConfig(deadline_s=300)  # other work on the machine must not fail a test
TEXT = "I love oranges. It rains, it rains.\n\nDo you see the big house?  The cat sleeps under the table."


class Running:
    """A service in a thread of its own, so that tests can call it."""

    def __init__(self, cfg: ServeConfig, corrections: Corrections | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        try:
            self.service = self.call(self._started(cfg, corrections))
        except BaseException:
            self.end()  # else the thread would keep the tests from ending
            raise

    async def _started(self, cfg, corrections):
        service = Service(cfg, corrections)
        await service.start()
        return service

    async def _cancel_tasks(self):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(300)

    def end(self):
        if hasattr(self, "service"):
            self.call(self.service.close())
            self.call(self._cancel_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class WorkerInThread:
    """A worker of the pool without a process of its own, whose start would take seconds."""

    pid = 0
    is_busy = has_ended = False
    busy_since = idle_since = 0.0

    def __init__(self, settings):
        self._worker = Worker(decode_overrides(settings["decode"]), settings["most_bytes"])
        self.done = set()

    async def ask(self, message, timeout_s):
        """What the process would answer."""
        return await asyncio.to_thread(self._worker.answer, json.loads(json.dumps(message)))

    async def ended(self):
        """Wait for what does not happen."""
        await asyncio.Event().wait()

    async def end(self, *, at_once=False):
        """End nothing."""


@pytest.fixture
def in_threads(monkeypatch):
    """Workers start without processes; yields them."""
    started = []

    async def start(module, settings):
        started.append(WorkerInThread(settings))
        return started[-1]

    monkeypatch.setattr("mtkit.serving.workers.pool.start_worker", start)
    return started


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    return [bundle_of(place / f"{src}-{tgt}" / "model", src, tgt) for src, tgt in (("en", "fr"), ("fr", "de"))]


@pytest.fixture(scope="module")
def corrections(tmp_path_factory):
    path = tmp_path_factory.mktemp("corrections") / "file"
    corrections = Corrections(ServeConfig.model_validate({"corrections": {"file": path}}))
    yield corrections
    corrections.close()


@pytest.fixture(scope="module")
def running(folders, corrections):
    cfg = ServeConfig(models=folders, workers=2, limits=LimitsConfig(max_chars=1000, deadline_s=300))
    running = Running(cfg, corrections)
    yield running
    running.end()


def translate(running, text=TEXT, src="en", tgt="fr", **options):
    return running.call(running.service.translate(text, src, tgt, **options))


@pytest.fixture(scope="module")
def library(folders):
    """library[pair] translates a text as `mtkit.translate_text` does."""
    translators = [mtkit.Translator.load(folder) for folder in folders]
    return {
        pair: lambda text, translator=translator, **options: mtkit.translate_text(translator, text, **options)
        for pair, translator in zip((("en", "fr"), ("fr", "de")), translators, strict=True)
    }


def test_a_text_is_translated_as_by_the_library(running, library):
    result = translate(running)
    assert result.text == library["en", "fr"](TEXT)
    assert result.path == ["en", "fr"]
    assert [sentence.src for sentence in result.sentences] == [SENTENCES[0], SENTENCES[3], SENTENCES[2], SENTENCES[1]]


def test_many_texts_at_once_keep_their_places(running, library):
    texts = [f"{a} {b}" for a in SENTENCES for b in SENTENCES]

    async def all_at_once():
        return await asyncio.gather(*(running.service.translate(text, "en", "fr") for text in texts))

    assert [result.text for result in running.call(all_at_once())] == [library["en", "fr"](text) for text in texts]


def test_markup_stays(running, library):
    page = "<p>I <b>love</b> oranges &amp; cats.</p>"
    assert translate(running, page, format="html").text == library["en", "fr"](page, format="html")


def test_two_models_translate_one_after_the_other(running, library):
    sentence = SENTENCES[0]
    result = translate(running, sentence, tgt="de")
    assert result.path == ["en", "fr", "de"]
    assert result.text == library["fr", "de"](library["en", "fr"](sentence))


def test_tags_find_their_places_through_two_models(running):
    result = translate(running, "<p>The cat <b>sleeps</b>.</p>", tgt="de", format="html")
    assert result.text.startswith("<p>")
    assert Counter(result.text)["<"] == 4  # <p> <b> </b> </p>


def test_alternatives_are_the_further_candidates_of_a_sentence(running, folders):
    [translation] = mtkit.Translator.load(folders[0]).stream([SENTENCES[0]], n_best=3)
    texts = [candidate.text for candidate in translation.n_best]
    result = translate(running, SENTENCES[0], n_alternatives=2)
    assert [result.text, *result.alternatives] == list(dict.fromkeys(texts))


def test_a_language_into_itself_comes_back(running):
    assert translate(running, src="en", tgt="en").text == TEXT


@pytest.mark.parametrize("text", ["", " \n ", "12345", "🙂 — !"])
def test_what_is_no_sentence_comes_back(running, text):
    assert translate(running, text).text == text


def test_terms_are_met_as_by_the_library(running, folders, tmp_path):
    (tmp_path / "terms.tsv").write_text("source\ttarget\ncat\tthe\nhouse\tTisch\n")
    translator = mtkit.Translator.load(folders[0], terminology=tmp_path / "terms.tsv")
    result = translate(running, SENTENCES[1], terms=[("cat", "the"), ("house", "Tisch")])
    assert result.text == mtkit.translate_text(translator, SENTENCES[1])
    assert "the" not in translate(running, SENTENCES[1]).text
    assert len(re.findall(r"\bthe\b", result.text)) == 1
    assert [(use.source, use.target, use.required, use.met) for use in result.terms] == [("cat", "the", 1, 1)]


def test_a_term_that_the_model_cannot_write_is_refused_by_name(running):
    with pytest.raises(BadRequest, match=r"line 2: target '\\t'|has neither a target"):
        translate(running, terms=[("oranges", " ")])


def test_terms_need_a_direct_model(running):
    with pytest.raises(BadRequest, match="directly"):
        translate(running, tgt="de", terms=[("oranges", "Katze")])


@pytest.mark.parametrize(
    ("options", "refusal", "message"),
    [
        ({"text": "x" * 1001}, TooLarge, r"request \(1001\) exceeds text limit \(1000\)"),
        ({"tgt": "xx"}, BadRequest, "xx is not supported"),
        ({"src": "de", "tgt": "en"}, BadRequest, "de cannot be translated into en"),
        ({"n_alternatives": 5}, BadRequest, "5 alternatives are more than 4"),
        ({"text": "a\0b"}, BadRequest, "NUL"),
        ({"text": "half \ud800 a pair"}, BadRequest, "surrogates"),
    ],
)
def test_what_cannot_be_done_is_refused(running, options, refusal, message):
    with pytest.raises(refusal, match=message):
        translate(running, **options)


def test_corrections_come_before_the_model(running, corrections, library):
    ann, other = Caller("ann"), library["en", "fr"](SENTENCES[0])
    running.call(corrections.suggest("en", "fr", SENTENCES[3], "Il pleut, il pleut.", ann))
    result = translate(running, f"{SENTENCES[0]} {SENTENCES[3]}", caller=ann)
    assert result.text == f"{other} Il pleut, il pleut."
    assert [sentence.is_correction for sentence in result.sentences] == [False, True]
    assert translate(running, f"  {SENTENCES[3]}\n", caller=ann).text == "  Il pleut, il pleut.\n"
    assert translate(running, SENTENCES[3]).text == library["en", "fr"](SENTENCES[3])  # not ann


def test_a_stream_yields_the_sentences_and_then_the_text(running):
    async def streamed():
        return [part async for part in running.service.stream(TEXT, "en", "fr")]

    *sentences, whole = running.call(streamed())
    assert isinstance(whole, TranslatedText)
    assert all(isinstance(sentence, TranslatedSentence) for sentence in sentences)
    assert whole == translate(running)
    assert sentences == whole.sentences


def test_words_have_probabilities_whose_product_is_the_sentences(running, folders):
    [translation] = mtkit.Translator.load(folders[0], engine="native").stream([SENTENCES[0]])
    tgt = translation.text
    [probabilities] = running.call(running.service.word_probabilities([(SENTENCES[0], tgt)], "en", "fr"))
    assert len(probabilities) == len(tgt.split())
    assert all(0 < probability <= 1 for probability in probabilities)


def test_other_words_for_a_position(running):
    tgt = translate(running, SENTENCES[0]).text
    found = running.call(running.service.other_words(SENTENCES[0], tgt, 1, "en", "fr"))
    assert (found["text"], found["position"], found["word"]) == (tgt, 1, tgt.split()[0])
    assert found["others"]


def test_only_a_worker_aside_loads_torch_for_words_and_terms(in_threads, folders):
    """The others stay small, and plain texts do not wait while it loads: as where the engine is CTranslate2."""
    running = Running(ServeConfig(models=folders[:1], workers=1, limits=PATIENT))
    try:
        running.service._has_aside = True  # the workers are in this process, which has torch
        tgt = translate(running, SENTENCES[0]).text
        [plain] = in_threads
        for _ in range(2):
            [words] = running.call(running.service.word_probabilities([(SENTENCES[0], tgt)], "en", "fr"))
            assert len(words) == len(tgt.split())
        assert running.call(running.service.other_words(SENTENCES[0], tgt, 1, "en", "fr"))["word"] == tgt.split()[0]
        assert "the" in translate(running, SENTENCES[1], terms=[("cat", "the")]).text
        [_, aside] = in_threads
        assert [kind[1:] for kind in plain.done] == [("translate", False)]
        assert {kind[1:] for kind in aside.done} == {("words", False), ("alternatives", False), ("translate", True)}
    finally:
        running.end()


def test_a_position_that_is_not_there_is_refused(running):
    with pytest.raises(BadRequest, match="position 99"):
        running.call(running.service.other_words(SENTENCES[0], "a b", 99, "en", "fr"))


def test_killed_workers_are_replaced_and_no_text_is_lost(running, library):
    pids = {worker.pid for worker in running.service.pool.workers}

    async def all_while_killing():
        work = [
            asyncio.ensure_future(running.service.translate(f"{s} {n}", "en", "fr"))
            for s in SENTENCES
            for n in range(20)
        ]
        await asyncio.sleep(0.05)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return await asyncio.gather(*work)

    results = running.call(all_while_killing())
    assert [r.text for r in results] == [library["en", "fr"](f"{s} {n}") for s in SENTENCES for n in range(20)]
    running.call(_until(lambda: len(running.service.pool.workers) == 2))
    assert not pids & {worker.pid for worker in running.service.pool.workers}


async def _until(condition):
    while not condition():
        await asyncio.sleep(0.01)


def test_a_deadline_ends_a_request_whose_worker_hangs(running, library):
    service, cfg = running.service, running.service.cfg
    workers = list(service.pool.workers)
    for worker in workers:
        os.kill(worker.pid, signal.SIGSTOP)
    service.cfg = cfg.model_copy(update={"limits": LimitsConfig(deadline_s=0.3)})
    try:
        with pytest.raises(TooLate, match=r"not done within 0\.3 s"):
            translate(running, SENTENCES[0])
    finally:
        service.cfg = cfg
        for worker in workers:
            os.kill(worker.pid, signal.SIGCONT)
    for sentence in SENTENCES:  # nothing of the late answer is left over
        assert translate(running, sentence).text == library["en", "fr"](sentence)


def test_a_new_version_of_a_bundle_is_served_after_a_reload(in_threads, tmp_path):
    folder = bundle_of(tmp_path / "served" / "model", "en", "fr")
    new = bundle_of(tmp_path / "new" / "model", "en", "fr", d_ff=48)
    before, after = (mtkit.translate_text(mtkit.Translator.load(each), TEXT) for each in (folder, new))
    assert before != after
    running = Running(ServeConfig(models=[folder], workers=1, limits=PATIENT))
    try:
        shutil.rmtree(folder)
        shutil.copytree(new, folder)
        assert translate(running).text == before  # it is loaded
        running.call(running.service.reload())
        assert translate(running).text == after
        assert [version.folder for version in running.service.batcher.retired] == [folder]
    finally:
        running.end()


@pytest.mark.parametrize(
    ("key", "lines"),
    [
        ("memory", ["It rains.\tIl pleut.", "It rains.\tIl pleut !"]),
        ("terminology", ["source\ttarget\nrains\tpleut", "source\ttarget\nrains\ttombe"]),
    ],
)
def test_another_memory_or_terminology_is_used_after_a_reload(in_threads, tmp_path, key, lines):
    folder, path = bundle_of(tmp_path / "model", "en", "fr"), tmp_path / "pairs.en-fr.tsv"
    wanted = []
    for line in lines:
        path.write_text(f"{line}\n")
        wanted.append(mtkit.Translator.load(folder, **{key: path}).translate(["It rains."])[0])
    assert wanted[0] != wanted[1]
    path.write_text(f"{lines[0]}\n")
    running = Running(ServeConfig(models=[folder], decode={key: str(path)}, workers=1, limits=PATIENT))
    try:
        assert translate(running, "It rains.").text == wanted[0]
        path.write_text(f"{lines[1]}\n")
        running.call(running.service.reload())
        assert translate(running, "It rains.").text == wanted[1]
    finally:
        running.end()


def test_what_a_worker_loads_later_is_of_the_same_version(tmp_path):
    folder = bundle_of(tmp_path / "served" / "model", "en", "fr")
    model = LoadedModel(ModelVersion(folder, fingerprint(read_bundle(folder))), [])
    translator = SimpleNamespace(engine=SimpleNamespace(name="ctranslate2"))  # beside it, terms need the native engine
    model.__dict__["translator"] = translator
    shutil.rmtree(folder)
    shutil.copytree(bundle_of(tmp_path / "new" / "model", "en", "fr", d_ff=48), folder)
    with pytest.raises(BundleError, match=r"the bundle has changed since.*; reload"):
        _ = model.native


@pytest.mark.parametrize("name", ["src.spm", "model.safetensors"])  # both of the manifest that is served
def test_a_damaged_model_is_named_and_stays_as_it_is_loaded(in_threads, tmp_path, caplog, name):
    folder = bundle_of(tmp_path / "model", "en", "fr")
    running = Running(ServeConfig(models=[folder], workers=1, limits=PATIENT))
    try:
        before = translate(running).text
        (folder / name).write_bytes(b"broken")
        running.call(running.service.reload())
        assert translate(running).text == before
        assert f"the service keeps the models that it has: {folder / name}: {name} has changed" in caplog.text
    finally:
        running.end()


def test_a_model_has_decoded_before_it_is_served(in_threads, monkeypatch, folders):
    """Else the first request waits while the engine is compiled, which takes longer than requests may."""
    decode, decoded = NativeEngine.decode, []

    def noted(engine, segments, *arguments, **options):
        decoded.append(len(segments))
        return decode(engine, segments, *arguments, **options)

    monkeypatch.setattr(NativeEngine, "decode", noted)
    Running(ServeConfig(models=folders, workers=1, limits=PATIENT)).end()
    assert decoded == [1, 1]  # of each model


def test_a_service_whose_model_cannot_be_loaded_does_not_start(in_threads, tmp_path):
    folder = bundle_of(tmp_path / "model", "en", "fr")
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\xff\xff\xff\x7f")
    with pytest.raises(MtkitError, match=r"model\.safetensors has changed"):
        Running(ServeConfig(models=[folder], workers=1, limits=PATIENT))


def test_under_a_cap_on_memory_models_take_turns(in_threads, monkeypatch, folders, library):
    sizes = itertools.count(step=10_000_000)  # each look finds 10 MB more
    monkeypatch.setattr("mtkit.serving.workers.worker._resident_bytes", lambda: next(sizes))
    running = Running(ServeConfig(models=folders, workers=1, memory_mb=5, limits=PATIENT))
    try:
        [worker] = in_threads
        for _ in range(2):
            assert translate(running, SENTENCES[0]).text == library["en", "fr"](SENTENCES[0])
            assert translate(running, SENTENCES[0], "fr", "de").text == library["fr", "de"](SENTENCES[0])
            assert [version.folder for version in worker._worker.models._loaded] == [folders[1]]
    finally:
        running.end()
