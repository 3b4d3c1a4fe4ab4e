"""What DeepL's clients send, and what they get, around a service that translates into upper case."""

import asyncio
import re
from typing import Any

import pytest
from deepl_requests import EN_TO_FR, error_of, translate
from tiny_server import ask, client_of, loud_backend

from mtkit.serving.records.key_file import add_key
from mtkit.serving.refusals import Busy, TooLate

TO_FR = {"target_lang": "FR"}


# Texts


@pytest.mark.parametrize(
    "request_of",
    [
        lambda values: {"json": values},
        lambda values: {"json": {**values, "text": values["text"][0]}},
        lambda values: {"data": values},
        lambda values: {"params": values},
    ],
    ids=["JSON", "JSON without a list", "form", "query"],
)
def test_values_come_in_many_ways(request_of):
    answer = ask("POST", "/v2/translate", **request_of({"text": ["etwas élan"], **TO_FR}))
    assert answer.status_code == 200
    assert answer.json() == {"translations": [{"detected_source_language": "EN", "text": "ETWAS ÉLAN"}]}


@pytest.mark.parametrize("kind", ["json", "data"])
def test_texts_keep_their_places_also_empty_ones(kind):
    found = ask("POST", "/v2/translate", **{kind: {"text": ["eins", "", "drei", "5"], **TO_FR}}).json()
    assert [one["text"] for one in found["translations"]] == ["EINS", "", "DREI", "5"]
    assert [one["detected_source_language"] for one in found["translations"]] == ["EN", "UND", "DE", "UND"]


def test_billed_characters_are_those_of_the_text():
    [one] = translate(text=["élan 🙂"], show_billed_characters=True).json()["translations"]
    assert one["billed_characters"] == 6
    [one] = ask("POST", "/v2/translate", data={**EN_TO_FR, "text": "a", "show_billed_characters": "1"}).json()[
        "translations"
    ]
    assert one["billed_characters"] == 1


@pytest.mark.parametrize("target", ["FR", "fr", "fr-CA", "FR-FR"])
def test_variants_of_a_target_are_the_target(target):
    assert translate(text=["a"], target_lang=target).json()["translations"][0]["text"] == "A"


def test_a_text_in_the_target_language_stays_as_it_is():
    [one] = translate(text=["a"], target_lang="EN-US").json()["translations"]
    assert one == {"detected_source_language": "EN", "text": "a"}


def test_an_empty_source_language_is_detected():
    found = translate(text=["dort"], source_lang="").json()
    assert found["translations"] == [{"detected_source_language": "DE", "text": "DORT"}]


@pytest.mark.parametrize("parameter", ["source_lang", "target_lang"])
def test_a_language_that_is_not_served_is_named_with_its_parameter(parameter):
    status, message = error_of(translate(text=["a"], **{parameter: "XX"}))
    assert status == 400 and re.search(f"{parameter}.*XX is not supported", message)


def test_an_unclear_text_does_not_refuse_the_others():
    found = ask("POST", "/v2/translate", json={"text": ["dort", "xyz", "5"], **TO_FR}).json()["translations"]
    assert found == [
        {"detected_source_language": "DE", "text": "DORT"},
        {"detected_source_language": "EN", "text": "XYZ"},
        {"detected_source_language": "UND", "text": "5"},
    ]


def test_a_text_in_a_language_that_is_not_translated_stays_unchanged():
    backend = loud_backend((("en", "fr"), ("fr", "de")))
    found = ask("POST", "/v2/translate", backend, json={"text": ["elan", "du"], "target_lang": "EN"})
    assert error_of(found)[0] == 400  # nothing is translated into English
    found = ask("POST", "/v2/translate", backend, json={"text": ["elan", "du"], **TO_FR}).json()["translations"]
    assert [tuple(one.values()) for one in found] == [("EN", "ELAN"), ("DE", "du")]


@pytest.mark.parametrize(
    "values",
    [
        {"formality": "default"},
        {"formality": "prefer_more"},
        {"context": "a story"},
        {"split_sentences": "0"},
        {"split_sentences": "1"},
        {"preserve_formatting": True},
        {"outline_detection": False},
        {"outline_detection": "0"},
        {"tag_handling_version": "v2"},
        {"a_field_of_a_later_client": 1},
    ],
    ids=str,
)
def test_what_changes_nothing_is_accepted(values):
    assert translate(text=["a"], **values).json()["translations"] == [{"detected_source_language": "EN", "text": "A"}]


@pytest.mark.parametrize(
    ("values", "status", "fact"),
    [
        ({"formality": "more"}, 400, "formality"),
        ({"style_id": "x"}, 400, "style_id"),
        ({"translation_memory_id": "x"}, 403, "translation memories"),
        ({"custom_instructions": ["be kind"]}, 400, "custom_instructions"),
        ({"splitting_tags": ["p"]}, 400, "tag_handling=xml"),
        ({"ignore_tags": ["p"], "tag_handling": "html"}, 400, "tag_handling=xml"),
        ({"split_sentences": "2"}, 400, "split_sentences"),
        ({"tag_handling": "xml", "text": ["a <b>c"]}, 400, "line 1"),
        ({"target_lang": "ZZ"}, 400, "ZZ is not supported"),
        ({"source_lang": "ZZ"}, 400, "ZZ is not supported"),
        ({"source_lang": "FR", "target_lang": "DE"}, 400, "fr cannot be translated into de"),
        ({"text": []}, 400, "text"),
        ({"text": ["a"] * 51}, 400, "51 texts"),
        ({"text": [1]}, 400, "text"),
        ({"text": ["a" * 10_001]}, 413, "10001"),
        ({"text": ["a" * 10_000] * 11}, 413, "110,000"),
        ({"glossary_id": "x", "source_lang": None}, 400, "source_lang"),
        ({"glossary_id": "x"}, 403, "glossaries"),
        ({"glossary_id": "x", "glossary_ids": ["y"]}, 400, "glossary_id"),
    ],
)
def test_what_cannot_be_done_is_refused(values, status, fact):
    found, message = error_of(translate(**{"text": ["a"], **values}))
    assert found == status
    assert fact in message


def test_newlines_end_sentences_unless_they_are_not_to():
    assert translate(text=["a\nb"]).json()["translations"][0]["text"] == "A\nB"
    assert translate(text=["a \r\n b"], split_sentences="nonewlines").json()["translations"][0]["text"] == "A B"


def test_tags_are_kept():
    text = "<p>one</p><p class='x'>two &amp; three</p>"
    for kind in ("xml", "html"):
        [one] = translate(text=[text], tag_handling=kind).json()["translations"]
        assert one["text"] == "<p>ONE</p><p class='x'>TWO &amp; THREE</p>"
    [one] = translate(text=["a < b"]).json()["translations"]
    assert one["text"] == "A < B"


def test_names_of_tags_come_as_a_list_or_with_commas():
    text, expected = "one <x>two</x> <y>three</y>", "ONE <x>two</x> <y>three</y>"
    for kind, names in (("json", ["x", "y"]), ("data", "x,y")):
        request = {"text": [text], **EN_TO_FR, "tag_handling": "xml", "ignore_tags": names}
        [one] = ask("POST", "/v2/translate", **{kind: request}).json()["translations"]
        assert one["text"] == expected


def test_the_type_of_the_model_is_told_if_it_is_asked_for():
    [one] = translate(text=["a"], model_type="prefer_quality_optimized").json()["translations"]
    assert one["model_type_used"] == "quality_optimized"


def test_if_one_text_fails_the_others_are_given_up():
    async def scenario():
        backend: Any = loud_backend()
        async with client_of(backend) as client:
            answer = await client.post(
                "/v2/translate", json={**EN_TO_FR, "text": ["wait", "a <b>"], "tag_handling": "xml"}
            )
            return answer.status_code, backend.service.n_cancelled

    assert asyncio.run(scenario()) == (400, 1)


@pytest.mark.parametrize(("fault", "status"), [(Busy("full", retry_after_s=7), 503), (TooLate("late"), 504)])
def test_a_service_that_cannot_says_when_to_come_back(fault, status):
    backend: Any = loud_backend()
    backend.service.fault = fault
    answer = translate(backend, text=["a"])
    assert answer.status_code == status
    assert answer.headers.get("retry-after") == ("7" if status == 503 else None)
    assert list(answer.json()) == ["message"]


# Keys


@pytest.fixture
def with_keys(tmp_path):
    key = add_key(tmp_path / "keys.yaml", "ann")
    return key, loud_backend(keys={"file": str(tmp_path / "keys.yaml"), "required": True})


def test_the_key_is_in_the_header_or_among_the_values(with_keys):
    key, backend = with_keys
    request = {"text": "a", **EN_TO_FR}
    for headers in ({"Authorization": f"DeepL-Auth-Key {key}"}, {"Authorization": f"deepl-auth-key  {key} "}):
        assert ask("POST", "/v2/translate", backend, json=request, headers=headers).status_code == 200
    assert ask("POST", "/v2/translate", backend, data={**request, "auth_key": key}).status_code == 200
    assert ask("GET", "/v2/languages", backend, params={"auth_key": key}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/translate"),
        ("GET", "/v2/languages"),
        ("GET", "/v2/usage"),
        ("POST", "/v2/document/x"),
        ("POST", "/v2/document/x/result"),
        ("GET", "/v2/glossary-language-pairs"),
        ("POST", "/v2/glossaries"),
        ("GET", "/v2/glossaries"),
        ("GET", "/v2/glossaries/x"),
        ("GET", "/v2/glossaries/x/entries"),
        ("DELETE", "/v2/glossaries/x"),
        ("POST", "/v3/glossaries"),
        ("GET", "/v3/glossaries"),
        ("GET", "/v3/glossaries/x"),
        ("PATCH", "/v3/glossaries/x"),
        ("DELETE", "/v3/glossaries/x"),
        ("GET", "/v3/glossaries/x/entries?source_lang=en&target_lang=fr"),
        ("PUT", "/v3/glossaries/x/dictionaries"),
        ("DELETE", "/v3/glossaries/x/dictionaries?source_lang=en&target_lang=fr"),
    ],
)
def test_every_route_wants_a_key_where_one_is_required(tmp_path, method, path):
    key = add_key(tmp_path / "keys.yaml", "ann")
    keys = {"file": str(tmp_path / "keys.yaml"), "required": True}
    dictionary = {"source_lang": "en", "target_lang": "fr", "entries": "a\tb"}
    body = {"text": "a", **EN_TO_FR, "document_key": "x", "name": "n", **dictionary, "dictionaries": [dictionary]}
    for headers, allowed in (
        ({}, False),
        ({"Authorization": f"DeepL-Auth-Key {key}x"}, False),
        ({"Authorization": f"DeepL-Auth-Key {key}"}, True),
    ):
        backend = loud_backend(keys=keys, glossaries=str(tmp_path / "glossaries"))
        request: dict[str, Any] = {} if method in ("GET", "DELETE") else {"json": body}
        answer = ask(method, path, backend, headers=headers, **request)
        assert (answer.status_code != 403) == allowed
        if answer.status_code >= 400:
            assert list(answer.json()) == ["message"]


def test_usage_counts_characters_of_each_caller(with_keys):
    key, backend = with_keys

    async def scenario():
        async with client_of(backend) as client:
            client.headers["Authorization"] = f"DeepL-Auth-Key {key}"
            await client.post("/v2/translate", json={**EN_TO_FR, "text": ["one", "two"]})
            await client.post("/v2/translate", json={**EN_TO_FR, "text": ["<b>three"], "tag_handling": "xml"})
            return (await client.get("/v2/usage")).json()

    assert asyncio.run(scenario()) == {"character_count": 6, "character_limit": 10**12}


# Languages


def test_targets_have_the_regions_that_clients_want():
    backend = loud_backend((("en", "de"), ("de", "en"), ("de", "pt-br"), ("zh", "en")))
    sources = ask("GET", "/v2/languages", backend).json()
    assert sources == [
        {"language": "EN", "name": "English"},
        {"language": "DE", "name": "German"},
        {"language": "ZH", "name": "Chinese"},
    ]
    targets = ask("GET", "/v2/languages", backend, params={"type": "target"}).json()
    assert {one["language"]: one["name"] for one in targets} == {
        "DE": "German",
        "EN-GB": "English (British)",
        "EN-US": "English (American)",
        "PT-BR": "Portuguese (Brazilian)",
    }
    assert not any(one["supports_formality"] for one in targets)
    assert error_of(ask("GET", "/v2/languages", backend, params={"type": "other"}))[0] == 400
    for one in targets:
        answer = translate(backend, text=["a"], source_lang="DE", target_lang=one["language"])
        assert answer.status_code == 200


# Documents


def upload(client, raw=b"one text", name="a.txt", **values):
    return client.post("/v2/document", files={"file": (name, raw)}, data={**EN_TO_FR, **values})


async def until_done(client, handle):
    async with asyncio.timeout(300):
        while True:
            key = {"document_key": handle["document_key"]}
            status = (await client.post(f"/v2/document/{handle['document_id']}", json=key)).json()
            if status["status"] in ("done", "error"):
                return status
            await asyncio.sleep(0.02)


def test_a_document_is_uploaded_watched_and_fetched():
    async def scenario():
        async with client_of(loud_backend()) as client:
            handle = (await upload(client, name="Größe.txt")).json()
            status = await until_done(client, handle)
            path = f"/v2/document/{handle['document_id']}/result"
            results = [
                await client.post(path, **{kind: {"document_key": handle["document_key"]}}) for kind in ("json", "data")
            ]
            return handle, status, results

    handle, status, results = asyncio.run(scenario())
    assert status == {"document_id": handle["document_id"], "status": "done", "billed_characters": 8}
    for result in results:
        assert (result.status_code, result.content) == (200, b"ONE TEXT")
        assert result.headers["content-disposition"] == "attachment; filename*=utf-8''Gr%C3%B6%C3%9Fe_fr.txt"


def test_a_document_is_for_who_knows_its_key():
    async def scenario():
        async with client_of(loud_backend()) as client:
            handle = (await upload(client)).json()
            found = []
            for key in ("", "0" * 64, "\u00e9"):
                for end in ("", "/result"):
                    path = f"/v2/document/{handle['document_id']}{end}"
                    found.append((await client.post(path, json={"document_key": key})).status_code)
            other = (await upload(client)).json()
            crossed = await client.post(
                f"/v2/document/{handle['document_id']}", json={"document_key": other["document_key"]}
            )
            return {*found, crossed.status_code}

    assert asyncio.run(scenario()) == {404}


def test_a_document_that_is_not_done_is_to_be_asked_for_later():
    async def scenario():
        backend: Any = loud_backend()
        async with client_of(backend) as client:
            handle = (await upload(client, b"wait")).json()
            key = {"document_key": handle["document_key"]}
            early = await client.post(f"/v2/document/{handle['document_id']}/result", json=key)
            status = (await client.post(f"/v2/document/{handle['document_id']}", json=key)).json()
            backend.service.go.set()
            await until_done(client, handle)
            return early, status

    early, status = asyncio.run(scenario())
    assert early.status_code == 503
    assert int(early.headers["retry-after"]) >= 1
    assert status["status"] in ("queued", "translating")


def test_a_document_that_cannot_be_read_says_why():
    async def scenario():
        async with client_of(loud_backend()) as client:
            handle = (await upload(client, b"caf\xe9")).json()
            status = await until_done(client, handle)
            key = {"document_key": handle["document_key"]}
            return status, await client.post(f"/v2/document/{handle['document_id']}/result", json=key)

    status, result = asyncio.run(scenario())
    assert status["status"] == "error"
    assert "line 1" in status["error_message"]
    assert error_of(result) == (400, status["error_message"])


@pytest.mark.parametrize(
    ("request_of", "status", "fact"),
    [
        (lambda: {"json": EN_TO_FR}, 400, "multipart/form-data"),
        (lambda: {"files": {"x": ("a.txt", b"a")}, "data": EN_TO_FR}, 400, "file"),
        (lambda: {"files": {"file": ("a.txt", b"a")}}, 400, "target_lang"),
        (lambda: {"files": {"file": ("a.xyz", b"a")}, "data": EN_TO_FR}, 400, "docx"),
        (lambda: {"files": {"file": ("a.txt", b"a")}, "data": {**EN_TO_FR, "output_format": "pdf"}}, 400, "format"),
        (lambda: {"files": {"file": ("a.txt", b"a")}, "data": {**EN_TO_FR, "formality": "less"}}, 400, "formality"),
        (lambda: {"files": {"file": ("a.txt", b"a" * 2_000_000)}, "data": EN_TO_FR}, 413, "limit|longer"),
    ],
)
def test_documents_that_cannot_be_translated_are_refused(request_of, status, fact):
    found, message = error_of(ask("POST", "/v2/document", loud_backend(limits={"max_file_mb": 1}), **request_of()))
    assert found == status
    assert any(one in message for one in fact.split("|"))


def test_routes_that_do_not_exist_answer_in_the_dialect():
    for path in ("/v2/nothing", "/v3/nothing", "/v2/write/rephrase"):
        assert error_of(ask("POST", path))[0] == 404
