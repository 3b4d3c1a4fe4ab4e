"""What /spec says is what the service does: schemathesis sends good and bad requests, and checks the answers."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tiny_server import KeptCorrections, loud_backend, running

pytest.importorskip("schemathesis", reason="needs schemathesis: pip install mtkit[dev]")

# Whether a language is clear, or a file is of a known format, no schema can say: there, 400 is an answer to good data.
CONFIG = """
[[operations]]
include-path-regex = "^/translate"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404"]
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
def test_schemathesis_finds_no_violation(tmp_path):
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    schemathesis = [str(Path(sys.executable).with_name("schemathesis")), "run"]
    options = ["--include-tag", "LibreTranslate", "--include-tag", "operation", "--max-examples", "50", "--seed", "1"]
    with running(loud_backend(corrections=KeptCorrections(), limits={"deadline_s": 5})) as address:
        done = subprocess.run(
            [*schemathesis, f"{address}/spec", *options, "--continue-on-failure"],
            **{"capture_output": True, "text": True, "check": False, "cwd": tmp_path, "timeout": 300},
        )
    assert done.returncode == 0, done.stdout
    assert "Tested: 9" in done.stdout
