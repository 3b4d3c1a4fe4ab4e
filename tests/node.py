"""Run JavaScript without a browser, in Node.js; tests that do are skipped without it."""

import json
import shutil
import subprocess
from typing import Any

import pytest

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")


def in_node(script: str, given: Any) -> Any:
    """Return what the body of an async function returns for `given`; both are JSON."""
    body = f"""
        const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
        (async () => {{ {script} }})().then(result => process.stdout.write(JSON.stringify(result)));
    """
    done = subprocess.run(["node", "-e", body], input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
