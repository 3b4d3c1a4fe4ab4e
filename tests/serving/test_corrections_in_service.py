"""Corrections in the service, around a tiny random model: whole texts first, then sentences."""

import asyncio

import pytest
from serving.test_service import PATIENT, Running, WorkerInThread
from tiny_server import bundle_of

from mtkit.config.serving import CorrectionsConfig, ServeConfig
from mtkit.documents.sentences import Sentence
from mtkit.serving.backend import Backend
from mtkit.serving.caller import Caller
from mtkit.serving.records.corrections import CorrectionFile
from mtkit.serving.refusals import Forbidden
from mtkit.serving.service import Service
from mtkit.serving.texts import TranslatedSentence, TranslatedText

pytest.importorskip("py3langid")

CAT, RAIN = "The cat sleeps under the table.", "It rains, it rains."
WISHED = "Le chat roupille sous la table."
ANNE, BEN = Caller("anne"), Caller("ben")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("corrected")


@pytest.fixture(scope="module")
def running(place):
    folder = bundle_of(place / "en-fr" / "model", "en", "fr")
    corrected = CorrectionsConfig(file=place / "corrections.sqlite")
    cfg = ServeConfig(models=[folder], workers=1, limits=PATIENT, corrections=corrected)

    async def start(module, settings):
        return WorkerInThread(settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mtkit.serving.workers.pool.start_worker", start)
        running = Running(cfg, Backend.from_config(cfg).corrections)
        assert running.call(running.service.suggest("EN", "fr", CAT, WISHED, ANNE)).accepted
        yield running
        running.end()
        running.service.corrections.close()


def translate(running, text, caller=ANNE, **options):
    return running.call(running.service.translate(text, "en", "fr", caller=caller, **options))


def test_a_whole_text_is_corrected_for_its_caller(running):
    corrected = translate(running, f" {CAT}\n")
    assert corrected.text == f" {WISHED}\n"
    assert corrected.path == ["en", "fr"]
    assert [sentence.is_correction for sentence in corrected.sentences] == [True]
    assert translate(running, CAT, BEN).text != WISHED


def test_a_sentence_is_corrected_where_it_stands(running):
    before, rain = translate(running, f"{RAIN} {CAT}", BEN), translate(running, RAIN, BEN).text
    assert WISHED not in before.text
    corrected = translate(running, f"{RAIN} {CAT}")
    assert corrected.text == f"{rain} {WISHED}"
    assert [(one.src, one.is_correction) for one in corrected.sentences] == [(RAIN, False), (CAT, True)]


def test_what_the_model_says_is_an_alternative(running):
    models = translate(running, CAT, BEN).text
    corrected = translate(running, CAT, n_alternatives=2)
    assert corrected.text == WISHED
    assert corrected.alternatives[0] == models
    both = translate(running, f"{RAIN} {CAT}", n_alternatives=1)
    assert both.text.endswith(WISHED)
    assert models in both.alternatives[0]


def test_a_terminology_of_the_request_counts_more(running):
    with_terms = translate(running, CAT, terms=[("cat", "chat")])
    assert with_terms.text != WISHED
    assert not any(sentence.is_correction for sentence in with_terms.sentences)


def test_a_sentence_with_tags_is_left_to_the_model(running):
    html = CAT.replace("cat", "<b>cat</b>")
    assert translate(running, html, format="html").text == translate(running, html, BEN, format="html").text
    assert translate(running, CAT, format="html").text == WISHED


def test_a_stream_has_the_correction(running):
    async def parts():
        return [part async for part in running.service.stream(CAT, "en", "fr", caller=ANNE)]

    sentence, whole = running.call(parts())
    assert isinstance(sentence, TranslatedSentence) and isinstance(whole, TranslatedText)
    assert (sentence.tgt, sentence.is_correction, whole.text) == (WISHED, True, WISHED)


def test_documents_have_the_correction(running):
    async def of_document():
        with running.service.using("en", "fr") as path:
            return await running.service.translate_sentences([Sentence(CAT, False)], (), path, caller=ANNE)

    [translated] = running.call(of_document())
    assert translated.text == WISHED


def test_what_the_model_said_is_kept_with_the_suggestion(running, place):
    running.call(running.service.suggest("en", "fr", CAT, WISHED, ANNE))  # again: it is not the first one that is kept
    [kept] = CorrectionFile(place / "corrections.sqlite").list()
    assert (kept.src, kept.translation) == ("en", translate(running, CAT, BEN).text)


def test_a_service_without_a_file_takes_none(place):
    service = Service(ServeConfig(models=[place / "en-fr" / "model"], workers=1), None)
    with pytest.raises(Forbidden, match="does not accept corrections"):
        asyncio.run(service.suggest("en", "fr", CAT, WISHED))


def test_the_backends_detector_follows_the_models(running, place):
    backend = Backend.from_config(ServeConfig(models=[place / "en-fr" / "model"]))
    assert backend.detector.languages == ["en", "fr"]
    assert backend.detector is backend.detector
    assert backend.detector.detect(CAT).language == "en"
    bundle_of(place / "fr-de" / "model", "fr", "de")
    backend.service.models = Backend.from_config(
        ServeConfig(models=[place / "en-fr" / "model", place / "fr-de" / "model"])
    ).service.models
    assert backend.detector.languages == ["en", "fr", "de"]
