"""The attack of scripts/bench/serve_hostile.py, on a service without models; on a whole one, run the script."""

import asyncio
import importlib
import sys
from pathlib import Path

import pytest
from tiny_server import KeptCorrections, loud_backend, running

from mtkit.serving.http import middleware, protocol
from mtkit.serving.records.key_file import add_key

BENCH = Path(__file__).parents[2] / "scripts" / "bench"


@pytest.fixture
def hostile(monkeypatch):
    """The script, and a server that gives up soon."""
    monkeypatch.setattr(protocol, "_HEAD_S", 1.0)
    monkeypatch.setattr(middleware, "_DISCARD_S", 0.2)
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module("serve_hostile")
    sys.modules.pop("serve_hostile", None)


# Starlette's parser leaves the file of a form that breaks off to the garbage collector.
@pytest.mark.filterwarnings("ignore:.*SpooledTemporaryFile:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("n", [200, pytest.param(5_000, marks=pytest.mark.slow)])
def test_hostile_requests_are_refused_and_the_service_goes_on(hostile, tmp_path, n):
    path = tmp_path / "keys.yaml"
    keys = [add_key(path, name) for name in ("ann", "bob")]
    backend = loud_backend(
        corrections=KeptCorrections(), keys={"file": path, "required": True}, limits={"deadline_s": 1}
    )
    with running(backend) as address:
        report = asyncio.run(hostile.attack(hostile.Target(address, *keys, "en", "fr"), n, seed=1))
    assert report.faults == []
    assert {"200", "400", "403", "404", "405", "408", "413", "421"} <= set(report.statuses)


def test_the_attack_sees_what_is_wrong(hostile):
    report = hostile.Report()
    for answer in (b"HTTP/1.1 500 \r\n\r\n{}", b"HTTP/1.1 404 \r\n\r\nNot Found", b"HTTP/1.1 400 \r\n\r\n{}"):
        hostile.judge(answer, b"GET", report)
    assert [fault.split(" ", 2)[:2] for fault in report.faults] == [["status", "500"], *[["an", "error"]] * 3]
