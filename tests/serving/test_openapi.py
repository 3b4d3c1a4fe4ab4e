"""What /spec says is what the service does: schemathesis sends good and bad requests, and checks the answers."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from scripted_service import scripted_backend
from tiny_server import KeptCorrections, loud_backend, running

pytest.importorskip("schemathesis", reason="needs schemathesis: pip install mtkit[dev]")

# Whether a language is clear, a file is of a known format, or a text is a table of entries, no schema can say: there,
# 400 is an answer to good data, as to a position behind the last word. In DeepL's dialect and our
# own, 413 is the answer to long data, and in DeepL's, 503 to impatience.
CONFIG = """
[[operations]]
include-path-regex = "^/translate"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404"]
[[operations]]
include-path-regex = "^/v[23]/"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "503"]
[operations.checks.negative_data_rejection]
expected-statuses = ["400", "403", "404", "405", "413"]
[[operations]]
include-path-regex = "^/api/"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404"]
[operations.checks.negative_data_rejection]
expected-statuses = ["400", "403", "404", "405", "413", "422"]
"""


def test_spec_names_the_languages_and_limits_of_now():
    backend = loud_backend((("en", "fr"),), limits={"max_chars": 12, "max_alternatives": 2})
    with running(backend) as address:
        spec = httpx.get(f"{address}/spec").json()
        translate = spec["paths"]["/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        properties = translate["properties"]
        assert properties["source"]["enum"] == ["auto", "en"]
        assert properties["target"]["enum"] == ["fr"]
        assert properties["q"]["anyOf"][0]["maxLength"] == 12
        assert properties["alternatives"]["anyOf"][0]["maximum"] == 2
        assert "x-mtkit" not in str(spec)

        backend.service.models = loud_backend((("de", "en"),)).service.models  # as after a reload
        assert "['auto', 'de']" in str(httpx.get(f"{address}/spec").json())


@pytest.mark.slow
@pytest.mark.parametrize(("tags", "n_operations"), [(["LibreTranslate", "operation"], 9), (["DeepL"], 20)], ids=str)
def test_schemathesis_finds_no_violation(tmp_path, tags, n_operations):
    backend = loud_backend(
        corrections=KeptCorrections(), limits={"deadline_s": 5}, glossaries=str(tmp_path / "glossaries.sqlite")
    )
    with running(backend) as address:
        check_spec(address, tags, n_operations, tmp_path)


@pytest.mark.slow
def test_schemathesis_finds_no_violation_in_our_own_dialect(tmp_path):
    corrections = {"file": str(tmp_path / "corrections.sqlite")}
    backend, _ = scripted_backend([("en", "fr"), ("de", "fr")], corrections=corrections)
    with running(backend) as address:
        check_spec(address, ["mtkit"], 10, tmp_path)


def check_spec(address, tags, n_operations, folder):
    (folder / "schemathesis.toml").write_text(CONFIG)
    schemathesis = [str(Path(sys.executable).with_name("schemathesis")), "run"]
    options = [*(part for tag in tags for part in ("--include-tag", tag)), "--max-examples", "50", "--seed", "1"]
    done = subprocess.run(
        [*schemathesis, f"{address}/spec", *options, "--continue-on-failure"],
        **{"capture_output": True, "text": True, "check": False, "cwd": folder, "timeout": 300},
    )
    assert done.returncode == 0, done.stdout
    assert f"Tested: {n_operations}" in done.stdout
