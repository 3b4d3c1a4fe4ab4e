"""What proxies may tell the service about a request, and what the service notes of each."""

import asyncio
import logging
import re

import httpx
import pytest
from tiny_server import loud_backend

from mtkit.config.serving import ServeConfig
from mtkit.serving.http.app import create_app

PROXY, STRANGER = "10.0.0.9", "203.0.113.7"
BEHIND = {"proxies": [PROXY], "hosts": ["mt.example.org"]}
MT = {"X-Forwarded-Prefix": "/mt"}
EN_FR = {"q": "The secret cat", "source": "en", "target": "fr"}


def ask(path, settings=None, *, client=PROXY, method="GET", fault=None, **request):
    """The answer to a request that a client, or a proxy, sends."""

    async def once():
        backend = loud_backend(**settings or {})
        backend.service.fault = fault
        transport = httpx.ASGITransport(create_app(backend), client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://mt.example.org") as http:
            return await http.request(method, path, **request)

    return asyncio.run(once())


def server_in_spec(answer):
    return [server["url"] for server in answer.json().get("servers", [])]


@pytest.mark.parametrize(
    ("settings", "client", "headers", "path", "server"),
    [
        (BEHIND, PROXY, MT, "/spec", ["/mt"]),  # the proxy removes the prefix, and says so
        (BEHIND, PROXY, {"X-Forwarded-Prefix": "/a/b-c/"}, "/spec", ["/a/b-c"]),
        (BEHIND, STRANGER, MT, "/spec", []),
        ({**BEHIND, "proxies": []}, PROXY, MT, "/spec", []),
        ({**BEHIND, "prefix": "/mt"}, PROXY, {}, "/mt/spec", ["/mt"]),  # the proxy leaves it in the path
        ({**BEHIND, "prefix": "/mt"}, PROXY, {}, "/spec", ["/mt"]),  # not through the proxy
        ({**BEHIND, "prefix": "/api"}, PROXY, {}, "/api/spec", ["/api"]),  # also the beginning of our own paths
        (BEHIND, PROXY, {"X-Forwarded-Prefix": "//evil.example"}, "/spec", []),
        (BEHIND, PROXY, {"X-Forwarded-Prefix": "/mt?x=<script>"}, "/spec", []),
    ],
)
def test_the_prefix_of_a_proxy_is_known(settings, client, headers, path, server):
    assert server_in_spec(ask(path, settings, client=client, headers=headers)) == server


@pytest.mark.parametrize("prefix", ["/api", "/v2", "/translate"])  # the beginnings of our own paths
@pytest.mark.parametrize("path", ["/api/models", "/v2/languages", "/languages"])
def test_a_prefix_is_removed_once(prefix, path):
    settings = {**BEHIND, "prefix": prefix}
    assert ask(prefix + path, settings).status_code == 200
    assert ask(path, BEHIND, headers={"X-Forwarded-Prefix": prefix}).status_code == 200


def test_checks_before_the_routes_know_the_path_without_its_prefix():
    settings = {**BEHIND, "prefix": "/mt"}
    assert ask("/mt/v2/nothing", settings).json() == {"message": "Not Found"}  # DeepL's word for an error
    full = {**settings, "queue": {"max_sentences": 1}}
    assert ask("/mt/translate", full, method="POST", json=EN_FR).status_code == 200


def test_the_page_has_an_address_whose_relative_links_are_right():
    answer = ask("/mt", {**BEHIND, "prefix": "/mt"})
    assert (answer.status_code, answer.headers["location"]) == (307, "/mt/")
    assert "<html" in ask("/mt/", {**BEHIND, "prefix": "/mt"}).text


@pytest.mark.parametrize("prefix", ["mt", "/mt/", "/", "/a b", "/a?b", "//evil"])
def test_a_prefix_that_is_none_is_refused(prefix):
    with pytest.raises(ValueError, match="prefix"):
        ServeConfig(prefix=prefix)


@pytest.mark.parametrize(
    ("client", "given", "is_kept"),
    [(PROXY, "ab-12.x:y_z", True), (STRANGER, "ab-12", False), (PROXY, "a\tb", False), (PROXY, "x" * 65, False)],
)
def test_each_answer_has_the_id_of_its_request(client, given, is_kept):
    id = ask("/languages", BEHIND, client=client, headers={"X-Request-ID": given}).headers["x-request-id"]
    assert id == given if is_kept else re.fullmatch("[0-9a-f]{16}", id)


def test_the_access_log_has_a_line_for_each_request_without_what_the_client_wrote(caplog):
    caplog.set_level(logging.INFO, "mtkit")
    settings = {**BEHIND, "access_log": True}
    behind = {"X-Forwarded-For": STRANGER, "X-Request-ID": "r1"}
    ask("/translate?q=secret", settings, method="POST", json=EN_FR, headers=behind)
    ask("/download_file/secret", settings)
    ask("/secret", settings)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split()[:4] for line in lines] == [
        [STRANGER, "POST", "/translate", "200"],
        [PROXY, "GET", "/download_file/{name}", "404"],
        [PROXY, "GET", "other", "404"],
    ]
    assert re.fullmatch(r".* 200 \d+\.\d ms r1", lines[0])
    assert "secret" not in caplog.text


def test_without_the_access_log_only_faults_are_in_the_log_with_their_ids(caplog):
    caplog.set_level(logging.INFO, "mtkit")
    ask("/languages", BEHIND)
    assert caplog.records == []
    id = ask("/translate", BEHIND, method="POST", json=EN_FR, fault=ZeroDivisionError("secret")).headers["x-request-id"]
    assert f"request {id} failed: ZeroDivisionError" in caplog.text
    assert re.search(rf"POST /translate 500 .* {id}", caplog.text)
    assert "secret" not in caplog.text
