"""The tests of DeepL's own Python client, where they lie beside the repository, against a service of scripted models.

They ask for a server at an address. Ours serves their languages into English, and German both ways, with their example
sentences as accepted corrections.
"""

import ast
import asyncio
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from scripted_service import running, scripted_backend

from mtkit.serving.records.corrections import CorrectionFile
from mtkit.serving.records.key_file import add_key

deepl = pytest.importorskip("deepl", reason="needs clients: pip install mtkit[dev]")

SUITE = Path(__file__).parents[3] / "shared" / "peers" / "deepl-python" / "tests"
REGISTER = "the models have one register, so formality=more is refused"
NOT_OFFERED = "the service has no such feature"
EXPECTED = {  # their tests that fail, with the reason; one that passes must leave the list
    "test_general::test_version": "they are the tests of version 1.30.0; ours is the client that constraints.txt pins",
    "test_cli::test_text": REGISTER,
    "test_translate_document::test_translate_document_formality": REGISTER,
    "test_translate_text::test_formality": REGISTER,
    "test_general::test_language": "no target supports formality, and the service says so",
    "test_translate_document::test_document_failure_during_translation": "one word is too little to detect German",
    "test_rephrase_text::test_single_text": NOT_OFFERED,
    "test_rephrase_text::test_business_style": NOT_OFFERED,
    "test_style_rules::test_style_rule_crud": NOT_OFFERED,
    "test_style_rules::test_style_rule_accepts_style_rule_info": NOT_OFFERED,
    "test_translate_text::test_custom_instructions": NOT_OFFERED,
}
# What their conftest takes from the first version of pydantic, and clocks that do not make us wait.
SETTINGS = """
import os, time

class BaseSettings:
    def __init__(self):
        for name in self.__annotations__:
            setattr(self, name, os.environ.get(self.Config.env_prefix + name.upper()))

sleep = time.sleep
time.sleep = lambda seconds: sleep(min(seconds, 0.05))
"""
ARTIST = "The artist was awarded a prize.", "Der Maler erhielt einen Gewinn."
MORE = ("A document's title", "Der Titel eines Dokuments"), ("My First Heading", "Meine erste Überschrift")


@pytest.fixture
def examples():
    """Their translations of one text, by language."""
    if not SUITE.is_dir():
        pytest.skip(f"the client's tests are not in {SUITE}")
    text = (SUITE / "conftest.py").read_text(encoding="utf-8")
    table = re.search(r"^example_text = (\{.*?^\})", text, re.MULTILINE | re.DOTALL)
    assert table is not None
    found: dict[str, str] = ast.literal_eval(table[1])
    return {code.lower(): text for code, text in found.items() if code not in ("EN-US", "EN-GB", "PT-BR", "PT-PT")}


@pytest.fixture
def service(examples, tmp_path):
    """The settings with which their tests find the service."""
    pairs = [(code, "en") for code in examples if code != "en"]
    pairs += [("en", code) for code in ("de", "fr", "ar", "tr")]
    file = CorrectionFile(tmp_path / "corrections.sqlite")

    async def correct() -> None:
        for src, tgt in (*pairs, ("fr", "de")):  # the last by way of English
            await file.add(src, tgt, examples[src], examples[tgt], "", None, [])
        for src, tgt in MORE:
            await file.add("en", "de", src, tgt, "", None, [])

    asyncio.run(correct())
    file.decide("accepted", [one.id for one in file.list()])
    file.close()
    key = add_key(tmp_path / "keys.yaml", "tester")
    backend, script = scripted_backend(
        pairs,
        keys={"file": tmp_path / "keys.yaml", "required": True},
        corrections={"file": tmp_path / "corrections.sqlite"},
        glossaries=tmp_path / "glossaries.sqlite",
    )
    script.translations = dict([ARTIST])
    with running(backend) as address:
        yield {"DEEPL_AUTH_KEY": key, "DEEPL_SERVER_URL": address}


@pytest.mark.slow  # ten seconds on a machine that does nothing else
def test_the_tests_of_deepls_client_pass_but_for_those_of_the_list(service, tmp_path):
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "pydantic.py").write_text(SETTINGS)
    results = tmp_path / "results.xml"
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            f"--junit-xml={results}",
            SUITE,
        ],
        cwd=SUITE.parent,
        env={**os.environ, "PYTHONPATH": str(shims), "PYTHONDONTWRITEBYTECODE": "1", **service},
        capture_output=True,
        text=True,
        timeout=600,
    )
    cases = {
        f"{case.get('classname', '').removeprefix('tests.')}::{case.get('name')}": [child.tag for child in case]
        for case in ET.parse(results).iter("testcase")
    }
    failed = {name for name, children in cases.items() if {"failure", "error"}.intersection(children)}
    assert failed == EXPECTED.keys(), run.stdout[-20_000:]
    assert sum(not children for children in cases.values()) > 100
