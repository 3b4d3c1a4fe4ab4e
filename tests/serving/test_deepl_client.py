"""DeepL's own Python client on a server that listens."""

import io
import time
from types import SimpleNamespace

import pytest
from deepl_requests import client_with
from tiny_server import loud_backend, running

from mtkit.serving.records.key_file import add_key
from mtkit.serving.refusals import Busy

deepl = pytest.importorskip("deepl", reason="needs clients: pip install mtkit[dev]")

Entries = deepl.api_data.MultilingualGlossaryDictionaryEntries

CATS = {"cat": "chat", "two dogs": "deux chiens"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def backend(folder):
    pairs = ("en", "fr"), ("fr", "en"), ("de", "fr")
    keys = {"file": str(folder / "keys.yaml"), "required": True}
    add_key(folder / "keys.yaml", "nobody")
    return loud_backend(pairs, keys=keys, glossaries=str(folder / "glossaries.sqlite"))


@pytest.fixture(scope="module")
def server(backend):
    with running(backend) as address:
        yield address


@pytest.fixture
def client(server, folder):
    """The client of a caller without a past."""
    name = f"caller-{time.monotonic_ns()}"
    with client_with(add_key(folder / "keys.yaml", name), server) as new:
        yield new


def test_texts_are_translated(client):
    one = client.translate_text("Ein café & <b>", target_lang="FR")
    assert (one.text, one.detected_source_lang, one.billed_characters) == ("EIN CAFÉ & <B>", "EN", 14)
    several = client.translate_text(["one", "", "two"], source_lang="en", target_lang="fr", context="numbers")
    assert [result.text for result in several] == ["ONE", "", "TWO"]
    assert client.translate_text("un", source_lang="FR", target_lang="EN-GB", formality="prefer_more").text == "UN"
    typed = client.translate_text("un", source_lang="FR", target_lang="EN-US", model_type="quality_optimized")
    assert typed.model_type_used == "quality_optimized"


def test_options_of_texts_are_understood(client):
    text = "one <x>two</x><par>Three</par>"
    xml = client.translate_text(
        text,
        source_lang="EN",
        target_lang="FR",
        tag_handling="xml",
        split_sentences="nonewlines",
        preserve_formatting=True,
        outline_detection=False,
        splitting_tags="par",
        non_splitting_tags=["y", "z"],
        ignore_tags=["x"],
    )
    assert xml.text == "ONE <x>two</x><par>THREE</par>"
    html = client.translate_text("<p>one</p>", source_lang="EN", target_lang="FR", tag_handling="html")
    assert html.text == "<p>ONE</p>"


def test_languages_and_usage(client):
    assert [language.code for language in client.get_source_languages()] == ["EN", "FR", "DE"]
    assert [language.code for language in client.get_target_languages()] == ["FR", "EN-GB", "EN-US"]
    client.translate_text("four", source_lang="EN", target_lang="FR")
    usage = client.get_usage()
    assert (usage.character.count, usage.any_limit_reached) == (4, False)


@pytest.mark.parametrize(
    ("values", "fact"),
    [
        ({"target_lang": "ZZ"}, "ZZ is not supported"),
        ({"target_lang": "FR", "formality": "more"}, "formality"),
        ({"target_lang": "FR", "tag_handling": "xml", "text": "<a>"}, "line 1"),
    ],
)
def test_refusals_tell_what_is_wrong(client, values, fact):
    with pytest.raises(deepl.DeepLException, match=fact) as refusal:
        client.translate_text(**{"text": "one", "source_lang": "EN", **values})
    assert refusal.value.http_status_code == 400


def test_a_wrong_key_is_no_key(server):
    with client_with("guess", server) as client, pytest.raises(deepl.AuthorizationException):
        client.get_usage()


def test_the_client_comes_back_when_the_service_is_busy(client, backend, monkeypatch):
    n_retries = []

    def wait(timer):
        n_retries.append(timer.get_num_retries())
        timer._num_retries += 1
        if len(n_retries) == 2:
            backend.service.fault = None

    monkeypatch.setattr(deepl.http_client._BackoffTimer, "sleep_until_deadline", wait)
    backend.service.fault = Busy("full", retry_after_s=1)
    assert client.translate_text("one", source_lang="EN", target_lang="FR").text == "ONE"
    assert n_retries == [0, 1]


def test_glossaries_of_version_2(client):
    assert ("en", "fr") in [(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()]
    glossary = client.create_glossary("Cats", source_lang="EN", target_lang="FR", entries=CATS)
    assert (glossary.name, glossary.entry_count, glossary.ready) == ("Cats", 2, True)
    assert client.get_glossary_entries(glossary) == CATS
    assert client.get_glossary(glossary.glossary_id).creation_time == glossary.creation_time
    translated = client.translate_text_with_glossary("a cat", glossary)
    assert translated.text == "A CAT"
    table = client.create_glossary_from_csv("Dogs", "EN", "FR", 'dog,"chien, le"\n')
    assert client.get_glossary_entries(table) == {"dog": "chien, le"}
    assert {one.name for one in client.list_glossaries()} == {"Cats", "Dogs"}
    client.delete_glossary(glossary)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(glossary.glossary_id)


def test_glossaries_of_version_3(client):
    both = [
        Entries("EN", "FR", CATS),
        Entries("FR", "EN-US", {"chat": "cat"}),
    ]
    glossary = client.create_multilingual_glossary("Cats", both)
    assert [(d.source_lang, d.target_lang, d.entry_count) for d in glossary.dictionaries] == [
        ("EN", "FR", 2),
        ("FR", "EN", 1),
    ]
    more = Entries("EN", "FR", {"cow": "vache"})
    changed = client.update_multilingual_glossary_dictionary(glossary, more)
    assert changed.dictionaries[0].entry_count == 3
    assert client.replace_multilingual_glossary_dictionary(glossary, more).entry_count == 1
    renamed = client.update_multilingual_glossary_name(glossary, "Cows")
    assert [one.name for one in client.list_multilingual_glossaries()] == [renamed.name] == ["Cows"]
    assert client.translate_text("a cow", source_lang="EN", target_lang="FR", glossary=renamed).text == "A COW"
    [entries] = client.get_multilingual_glossary_entries(glossary, "EN", "FR").dictionaries
    assert entries.entries == "cow\tvache"
    client.delete_multilingual_glossary_dictionary(glossary, source_lang="EN", target_lang="FR")
    assert len(client.get_multilingual_glossary(glossary.glossary_id).dictionaries) == 1
    client.delete_multilingual_glossary(glossary)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(glossary.glossary_id)


def test_documents(client, tmp_path, monkeypatch):
    patient = SimpleNamespace(sleep=lambda seconds: time.sleep(0.05), time=time.time)
    monkeypatch.setattr(deepl.translator, "time", patient)  # it would look again after five seconds
    source, target = tmp_path / "a.html", tmp_path / "b.html"
    source.write_text("<p>one <i>two</i></p>")
    status = client.translate_document_from_filepath(source, target, target_lang="FR", source_lang="EN")
    assert (status.done, status.billed_characters) == (True, 7)
    assert target.read_text() == "<p>ONE <i>TWO</i></p>"
    glossary = client.create_glossary("Cats", source_lang="EN", target_lang="FR", entries=CATS)
    written = io.BytesIO()
    client.translate_document(
        "each cat".encode("utf-16"), written, filename="a.txt", source_lang="EN", target_lang="FR", glossary=glossary
    )
    assert written.getvalue() == "EACH CAT".encode("utf-16")
    with pytest.raises(deepl.DocumentTranslationException, match="line 1"):
        client.translate_document(b"caf\xe9", io.BytesIO(), filename="a.txt", target_lang="FR")
    with pytest.raises(deepl.DeepLException, match="docx"):
        client.translate_document(b"text", io.BytesIO(), filename="a.pdf", target_lang="FR")
