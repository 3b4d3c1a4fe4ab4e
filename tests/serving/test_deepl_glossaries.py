"""Glossaries of DeepL's clients, around a service that translates into upper case."""

import asyncio

import pytest
from deepl_requests import EN_TO_FR, error_of
from tiny_server import ask, client_of, loud_backend


@pytest.fixture
def keeping(tmp_path):
    """A service that keeps glossaries."""
    return loud_backend(glossaries=str(tmp_path / "glossaries.sqlite"))


def test_a_glossary_of_version_2_is_made_read_used_and_deleted(keeping):
    async def scenario():
        async with client_of(keeping) as client:
            values = {"name": "Pets", "source_lang": "EN", "target_lang": "fr", "entries": "cat\tchat\ndog\tchien"}
            for kind in ("json", "data"):
                made = await client.post("/v2/glossaries", **{kind: values})
                assert made.status_code == 201
            glossary = made.json()
            path = f"/v2/glossaries/{glossary['glossary_id']}"
            assert (await client.get(path)).json() == glossary
            assert glossary in (await client.get("/v2/glossaries")).json()["glossaries"]
            entries = await client.get(f"{path}/entries")
            assert entries.headers["content-type"].startswith("text/tab-separated-values")
            assert entries.text == values["entries"]
            request = {**EN_TO_FR, "text": ["a cat"], "glossary_id": glossary["glossary_id"]}
            [one] = (await client.post("/v2/translate", json=request)).json()["translations"]
            assert one["terms"] == [{"source": "cat", "target": "chat", "required": 1, "met": 0}]
            assert (await client.delete(path)).status_code == 204
            for answer in (await client.get(path), await client.post("/v2/translate", json=request)):
                status, message = error_of(answer)
                assert status == 404 and "no such glossary" in message
            return glossary

    glossary = asyncio.run(scenario())
    assert {name: glossary[name] for name in ("name", "ready", "source_lang", "target_lang", "entry_count")} == {
        **{"name": "Pets", "ready": True, "source_lang": "en", "target_lang": "fr", "entry_count": 2}
    }


def test_a_glossary_of_version_3_changes(keeping):
    async def scenario():
        async with client_of(keeping) as client:
            pets = {"source_lang": "en", "target_lang": "fr", "entries": "cat\tchat", "entries_format": "tsv"}
            german = {"source_lang": "de", "target_lang": "fr", "entries": "Katze,chat", "entries_format": "csv"}
            made = await client.post("/v3/glossaries", json={"name": "Pets", "dictionaries": [pets, german]})
            assert made.status_code == 201
            path = f"/v3/glossaries/{made.json()['glossary_id']}"
            pair = {"source_lang": "EN", "target_lang": "FR"}
            for two in (path.replace("v3", "v2"), f"{path.replace('v3', 'v2')}/entries"):
                status, message = error_of(await client.get(two))
                assert status == 400 and "2 dictionaries" in message and "/v3/glossaries" in message
            assert (await client.get("/v2/glossaries")).json() == {"glossaries": []}
            assert (await client.get("/v3/glossaries")).json() == {"glossaries": [made.json()]}
            change = {"name": "Animals", "dictionaries": [{**pets, "entries": "dog\tchien"}]}
            changed = await client.patch(path, json=change)
            assert changed.json()["name"] == "Animals"
            [found] = (await client.get(f"{path}/entries", params=pair)).json()["dictionaries"]
            assert found["entries"] == "cat\tchat\ndog\tchien"
            replaced = await client.put(f"{path}/dictionaries", json=pets)
            assert replaced.json() == {"source_lang": "en", "target_lang": "fr", "entry_count": 1}
            assert (await client.delete(f"{path}/dictionaries", params=pair)).status_code == 204
            assert error_of(await client.get(f"{path}/entries", params=pair))[0] == 404
            assert [d["source_lang"] for d in (await client.get(path)).json()["dictionaries"]] == ["de"]
            assert (await client.delete(path)).status_code == 204
            return error_of(await client.get(path))

    assert asyncio.run(scenario())[0] == 404


def test_dictionaries_come_also_as_the_fields_of_a_form(keeping):
    form = {
        **{"name": "Pets", "dictionaries[1].source_lang": "de", "dictionaries[1].target_lang": "fr"},
        **{"dictionaries[1].entries": "Katze,chat", "dictionaries[1].entries_format": "csv"},
        **{"dictionaries[0].source_lang": "en", "dictionaries[0].target_lang": "fr"},
        **{"dictionaries[0].entries": "cat\tchat"},
    }

    async def scenario():
        async with client_of(keeping) as client:
            made = await client.post("/v3/glossaries", data=form)
            path = f"/v3/glossaries/{made.json()['glossary_id']}"
            change = {**form, "name": "", "dictionaries[0].entries": "dog\tchien"}
            return made.json(), (await client.patch(path, data=change)).json()

    made, changed = asyncio.run(scenario())
    assert [(one["source_lang"], one["entry_count"]) for one in made["dictionaries"]] == [("en", 1), ("de", 1)]
    assert (changed["name"], [one["entry_count"] for one in changed["dictionaries"]]) == ("Pets", [2, 1])


@pytest.mark.parametrize("body", ["[]", '"a"', "{", '{"name": "x", "dictionaries": [1]}'])
def test_a_glossary_that_is_none_is_refused(keeping, body):
    answer = ask("POST", "/v3/glossaries", keeping, content=body, headers={"Content-Type": "application/json"})
    assert error_of(answer)[0] == 400


def test_the_first_of_several_glossaries_counts(keeping):
    async def scenario():
        async with client_of(keeping) as client:
            ids = []
            for entries in ("cat\tchat", "cat\tminou\ndog\tchien"):
                values = {"name": "x", "source_lang": "en", "target_lang": "fr", "entries": entries}
                ids.append((await client.post("/v2/glossaries", json=values)).json()["glossary_id"])
            found = []
            for kind, names in (("json", ids), ("data", ",".join(ids))):
                request = {**EN_TO_FR, "text": ["cat dog"], "glossary_ids": names}
                [one] = (await client.post("/v2/translate", **{kind: request})).json()["translations"]
                found.append([term["target"] for term in one["terms"]])
            return found

    assert asyncio.run(scenario()) == [["chat", "chien"]] * 2


@pytest.mark.parametrize(
    ("values", "fact"),
    [
        ({"target_lang": "zz"}, "zz is not supported"),
        ({"source_lang": "fr", "target_lang": "en"}, "fr cannot be translated"),
        ({"target_lang": "en"}, "no single model"),
        ({"entries": "cat"}, "entry 1"),
        ({"entries_format": "xlsx"}, "entries_format"),
        ({"name": ""}, "name"),
    ],
)
def test_glossaries_that_cannot_be_used_are_refused(keeping, values, fact):
    values = {"name": "x", "source_lang": "en", "target_lang": "fr", "entries": "cat\tchat", **values}
    status, message = error_of(ask("POST", "/v2/glossaries", keeping, json=values))
    assert status == 400
    assert fact in message


@pytest.mark.parametrize(
    ("settings", "status"), [({}, 200), ({"host": "0.0.0.0"}, 403), ({"proxies": ["10.0.0.1"]}, 403)], ids=str
)
def test_callers_without_keys_share_no_glossaries_unless_all_use_this_machine(tmp_path, settings, status):
    backend = loud_backend(glossaries=str(tmp_path / "glossaries.sqlite"), **settings)
    answer = ask("GET", "/v3/glossaries", backend)
    assert answer.status_code == status
    assert status == 200 or "API key" in error_of(answer)[1]


def test_a_glossary_may_have_a_hundred_thousand_entries(keeping):
    """More than any text may have: some 3 MB of JSON."""
    entries = "\n".join(f"Source-${n}\tTarget-${n}" for n in range(100_000))
    made = ask("POST", "/v2/glossaries", keeping, json={**EN_TO_FR, "name": "Large", "entries": entries})
    assert (made.status_code, made.json()["entry_count"]) == (201, 100_000)


def test_pairs_of_glossaries_are_those_of_single_models(keeping):
    assert ask("GET", "/v2/glossary-language-pairs", keeping).json() == {
        "supported_languages": [
            {"source_lang": "en", "target_lang": "fr"},
            {"source_lang": "de", "target_lang": "fr"},
        ]
    }


def test_all_methods_of_a_path_are_named():
    answer = ask("OPTIONS", "/v3/glossaries/x")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH")


def test_values_that_are_missing_in_a_query_are_named(keeping):
    status, message = error_of(ask("GET", "/v3/glossaries/x/entries?source_lang=en", keeping))
    assert status == 400
    assert "target_lang" in message
