"""The service as a process: how it ends, and what it says if it cannot start."""

import asyncio
import errno
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvicorn
from tiny_server import bundle_of, client_of, is_running, loud_backend

from mtkit.config.serving import ServeConfig
from mtkit.errors import MtkitError
from mtkit.serving.http.run import _check_address, _Server, serve, url_of

_ANSWER_S = 300.0


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return bundle_of(tmp_path_factory.mktemp("run") / "model", "en", "fr")


@contextmanager
def served(model: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A service of its own, which is gone afterwards."""
    command = [sys.executable, "-m", "mtkit", "serve", "--model", str(model), "--port", "0", "--set", "workers=1"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(condition):
    """Wait until it holds; return it."""
    until = time.monotonic() + _ANSWER_S
    while not (found := condition()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


# by SIGTERM, the examples of docs/serving.md end with exit code 0 in the default tests
@pytest.mark.parametrize("signal_number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGINT])
def test_a_service_that_is_told_to_end_ends_well(model, tmp_path, signal_number):
    log = tmp_path / "log"
    with served(model, log) as process:
        wait_for(lambda: b"serving at" in log.read_bytes())
        process.send_signal(signal_number)
        assert process.wait(_ANSWER_S) == 0
    assert log.read_bytes().count(b"\n") == 1


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes as Linux shows them")
def test_ctrl_c_while_models_load_leaves_no_process(model, tmp_path):
    with served(model, tmp_path / "log") as process:
        workers = wait_for(lambda: children_of(process.pid))
        process.send_signal(signal.SIGINT)
        assert process.wait(_ANSWER_S) == 130
        wait_for(lambda: not any(map(is_running, workers)))
    assert (tmp_path / "log").read_text("utf-8") == "mtkit: interrupted\n"


def test_a_document_that_is_waited_for_while_the_service_stops_is_answered_as_json(monkeypatch):
    """The server's own timeout, after the deadline, would answer by text: "Internal Server Error"."""
    read = asyncio.Event()

    class Reader:
        """A process that never ends to read its document."""

        async def ask(self, message, timeout_s):
            read.set()
            await asyncio.Event().wait()

        async def end(self, at_once):
            pass

    async def start(module, settings):
        return Reader()

    monkeypatch.setattr("mtkit.serving.documents.start_worker", start)

    async def scenario():
        backend = loud_backend(limits={"deadline_s": 0.01})
        server = _Server(uvicorn.Config("", log_config=None), backend)
        async with client_of(backend) as client:
            sent = {"files": {"file": ("a.txt", b"text")}, "data": {"source": "en", "target": "fr"}}
            waiting = asyncio.ensure_future(client.post("/translate_file", **sent))
            await read.wait()
            monkeypatch.setattr(uvicorn.Server, "shutdown", lambda self: asyncio.wait((waiting,), timeout=_ANSWER_S))
            await server.shutdown()
            return waiting.result()

    answer = asyncio.run(scenario())
    assert answer.status_code == 503
    assert "send it again" in answer.json()["error"]


def test_a_stream_that_goes_on_while_the_service_stops_ends_with_an_error_event(monkeypatch):
    """The server would cut it off, because each sentence has a deadline of its own."""

    async def scenario():
        backend = loud_backend()
        server = _Server(uvicorn.Config("", log_config=None), replace(backend, cfg=_short()))
        async with client_of(backend) as client:
            values = {"text": "One.\nwait", "source": "en", "target": "fr"}
            waiting = asyncio.ensure_future(client.post("/api/stream", json=values))
            monkeypatch.setattr(uvicorn.Server, "shutdown", lambda self: asyncio.wait((waiting,), timeout=_ANSWER_S))
            while not backend.service.is_waiting:
                await asyncio.sleep(0)
            await server.shutdown()
            late = await client.post("/translate", json={"q": "One.", "source": "en", "target": "fr"})
            return waiting.result(), late

    streamed, late = asyncio.run(scenario())
    *events, error, nothing = streamed.text.split("\n\n")
    assert [event.split("\n")[0] for event in events] == ["event: start", "event: sentence"]
    assert error.startswith('event: error\ndata: {"status":503,') and "send the request again" in error
    assert nothing == ""
    assert late.status_code == 503


def _short() -> ServeConfig:
    return ServeConfig.model_validate({"limits": {"deadline_s": 0.01}})


def test_a_missing_extra_is_named():
    code = (
        "import sys; sys.modules['uvicorn'] = None; sys.argv = ['mtkit', 'serve']; from mtkit.cli import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    assert (ended.returncode, ended.stderr) == (
        1,
        "mtkit: `mtkit serve` needs the package uvicorn: pip install 'mtkit[serve]'\n",
    )


def test_a_port_in_use_is_named_before_a_model_is_loaded(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MtkitError, match=rf"127\.0\.0\.1, port {port}: Address already in use; .*--port.* stop"):
            serve(ServeConfig(models=[tmp_path / "nothing"], port=port))


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b"])
def test_an_address_of_another_machine_and_what_is_no_address_are_named(tmp_path, host):
    with pytest.raises(MtkitError, match=rf"{re.escape(host)}, port 8080: .*; choose an address .*--host$"):
        serve(ServeConfig(models=[tmp_path / "nothing"], host=host, port=8080))


def test_a_port_that_needs_rights_is_named_with_those_that_need_none(tmp_path, monkeypatch):
    def refuse(self, address):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(MtkitError, match="port 80: Permission denied; choose a port above 1023"):
        serve(ServeConfig(models=[tmp_path / "nothing"], port=80))


def test_a_free_port_is_no_error():
    _check_address("localhost", 0)


def test_the_address_of_the_service_can_be_opened_with_ipv6_too():
    for host in ("127.0.0.1", "::1"):
        address = urlsplit(url_of(host, 5000))
        assert (address.hostname, address.port) == (host, 5000)
