"""Clients that others have written for LibreTranslate, on a server that listens."""

import json
import urllib.error
import urllib.request

import pytest
from tiny_server import KeptCorrections, loud_backend, running

from mtkit.serving.records.key_file import add_key

pytest.importorskip("libretranslatepy", reason="needs clients: pip install mtkit[dev]")
import deep_translator
import libretranslate_aio
import libretranslatepy
from deep_translator.exceptions import AuthorizationException

ONE = "One café & <b>two</b>?"


@pytest.fixture(scope="module")
def corrections():
    return KeptCorrections()


@pytest.fixture(scope="module")
def key_file(tmp_path_factory):
    return tmp_path_factory.mktemp("keys") / "keys.yaml"


@pytest.fixture(scope="module")
def keys(key_file):
    return {name: add_key(key_file, name) for name in ("ann", "bob")}


@pytest.fixture(scope="module")
def server(key_file, keys, corrections):
    backend = loud_backend(corrections=corrections, keys={"file": key_file, "required": True})
    with running(backend) as address:
        yield address


def test_libretranslatepy(server, keys):
    client = libretranslatepy.LibreTranslateAPI(server, keys["ann"])
    assert client.translate(ONE, "en", "fr") == ONE.upper()
    assert client.translate("each\nof", "auto", "fr") == "EACH\nOF"
    assert client.detect("each")[0] == {"confidence": 75.0, "language": "en"}
    assert [language["code"] for language in client.languages()] == ["en", "fr", "de"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        libretranslatepy.LibreTranslateAPI(server, "guess").translate(ONE, "en", "fr")
    with refused.value as answer:
        assert (answer.code, json.load(answer)) == (403, {"error": "Invalid API key"})


def test_deep_translator(server, keys):
    client = deep_translator.LibreTranslator("en", "fr", keys["ann"], custom_url=f"{server}/")
    assert client.translate(ONE) == ONE.upper()
    assert client.translate_batch(["one", "two"]) == ["ONE", "TWO"]
    with pytest.raises(AuthorizationException):
        deep_translator.LibreTranslator("en", "fr", "guess", custom_url=f"{server}/").translate(ONE)


def test_libretranslate_aio(server, keys, corrections, tmp_path):
    text = tmp_path / "rapport d'été.txt"
    text.write_text("one\n\ntwo\n")
    with libretranslate_aio.LibreTranslate(server, api_key=keys["ann"]) as client:
        both = client.translate(["each", "dort"], "auto", "fr", alternatives=1)
        assert both.translated_text == ["EACH", "DORT"]
        assert isinstance(both.detected_language, list)
        assert [found.language for found in both.detected_language] == ["en", "de"]
        assert both.alternatives == [["EACH 1"], ["DORT 1"]]
        assert client.translate("<p>one</p>", "en", "fr", format="html").translated_text == "<p>ONE</p>"
        assert client.detect("each")[0].language == "en"
        targets = {language.code: language.targets for language in client.languages()}
        assert targets == {"en": ["fr"], "fr": [], "de": ["fr"]}
        assert client.suggest("one", "better", "en", "fr")
        assert corrections.kept[-1][:4] == ("en", "fr", "one", "better")
        assert client.health()
        settings = client.frontend_settings()
        assert (settings.char_limit, settings.key_required, settings.suggestions) == (10_000, True, True)
        assert settings.language.source.code == "auto"
        address = client.translate_file(text, "en", "fr").translated_file_url
        with urllib.request.urlopen(address) as answer:
            assert answer.read() == b"ONE\n\nTWO\n"
            assert answer.headers["Content-Disposition"].startswith("attachment; ")
        with pytest.raises(libretranslate_aio.BadRequestError, match="zz is not supported"):
            client.translate("one", "en", "zz")
    with (
        libretranslate_aio.LibreTranslate(server) as client,
        pytest.raises(libretranslate_aio.ForbiddenError, match="needs an API key"),
    ):
        client.translate("one", "en", "fr")
