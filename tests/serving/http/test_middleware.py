"""What is in front of all routes: hosts, origins, bodies, headers, metrics."""

import asyncio
import errno

import httpx
import pytest
from starlette.datastructures import UploadFile
from tiny_server import loud_backend

from mtkit.serving.http import middleware
from mtkit.serving.http.app import create_app
from mtkit.serving.records.key_file import add_key

PAGE = "https://page.example"
FORM = {"q": "a", "source": "en", "target": "fr"}


def ask(method="GET", path="/health", *, settings=None, host="localhost:5000", **request):
    """The answer to one request to a service with these settings."""

    async def once():
        transport = httpx.ASGITransport(create_app(loud_backend(**(settings or {}))))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return await client.request(method, path, **request)

    return asyncio.run(once())


@pytest.mark.parametrize(
    ("settings", "host", "status"),
    [
        ({}, "localhost:5000", 200),
        ({}, "LOCALHOST.", 200),
        ({}, "127.0.0.1", 200),
        ({}, "192.168.1.7:80", 200),
        ({}, "[::1]:5000", 200),
        ({}, "mt.localhost", 200),
        ({}, "evil.example", 421),
        ({}, "localhost.evil.example", 421),
        ({}, "127.0.0.1.evil.example:5000", 421),
        ({"hosts": ["mt.example"]}, "mt.example:8080", 200),
        ({"hosts": ["mt.example"]}, "a.mt.example", 421),
        ({"hosts": ["*"]}, "evil.example", 200),
        ({"host": "127.0.0.2"}, "evil.example", 421),
        ({"host": "127.0.0.2"}, "127.0.0.2:5000", 200),
        ({"host": "127.1"}, "evil.example", 421),
        ({"host": "LOCALHOST"}, "evil.example", 421),
        ({"host": "0.0.0.0"}, "anything.example", 200),
        ({"host": "0.0.0.0", "hosts": ["mt.example"]}, "evil.example", 421),
    ],
)
def test_only_known_names_of_the_service_are_served(settings, host, status):
    answer = ask(settings=settings, host=host)
    assert answer.status_code == status
    assert status == 200 or "is not a host name of this service" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/", "/health", "/languages", "/api/models", "/metrics"])
def test_head_is_answered_where_get_is(path):
    got, headed = ask("GET", path), ask("HEAD", path)
    assert headed.status_code == got.status_code == 200
    assert headed.headers["content-type"] == got.headers["content-type"]


@pytest.mark.parametrize(
    ("path", "name"), [("/translate_file", "error"), ("/v2/document", "message"), ("/api/documents", "error")]
)
def test_a_full_disk_is_not_a_fault_of_the_service(monkeypatch, path, name):
    """A large upload goes to a temporary file while the form is read."""

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(UploadFile, "write", full)
    answer = ask("POST", path, data={**FORM, "target_lang": "fr"}, files={"file": ("a.txt", b"one")})
    assert answer.status_code == 503 and answer.headers["retry-after"]
    assert "cannot store" in answer.json()[name]


@pytest.mark.parametrize("path", ["//translate", "//v2/translate"])
def test_a_doubled_slash_is_one(path):
    form = {**FORM, "text": "a", "target_lang": "fr"}
    assert ask("POST", f"http://localhost:5000{path}", data=form).status_code == 200


@pytest.mark.parametrize(
    ("cors", "headers", "status"),
    [
        ([], {}, 200),  # no page, but a program
        ([], {"Origin": "http://localhost:5000"}, 200),
        ([], {"Origin": "http://localhost:6000"}, 403),
        ([], {"Origin": PAGE}, 403),
        ([], {"Origin": "null"}, 403),
        ([], {"Origin": "http://[bad"}, 403),
        ([], {"Origin": "moz-extension://0123"}, 200),
        ([], {"Origin": PAGE, "Sec-Fetch-Site": "same-origin"}, 200),  # behind a proxy that changes the host
        ([], {"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}, 403),
        ([PAGE], {"Origin": PAGE}, 200),
        ([PAGE], {"Origin": f"{PAGE}.evil.example"}, 403),
        (["*"], {"Origin": "null"}, 200),
    ],
)
def test_pages_of_other_origins_may_not_send_anything(cors, headers, status):
    answer = ask("POST", "/translate", settings={"cors": cors}, data=FORM, headers=headers)
    assert answer.status_code == status
    if cors and status == 200:
        assert answer.headers["Access-Control-Allow-Origin"] in (headers["Origin"], "*")
    else:
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_browsers_are_told_what_pages_may_do():
    asking = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    allowed = ask("OPTIONS", "/translate", settings={"cors": [PAGE]}, headers=asking)
    assert (allowed.status_code, allowed.headers["Access-Control-Allow-Origin"]) == (200, PAGE)
    assert "Access-Control-Allow-Origin" not in ask("OPTIONS", "/translate", headers=asking).headers


def test_a_page_may_use_nothing_from_elsewhere():
    page = ask(path="/")
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert "Content-Security-Policy" not in ask().headers


LIMITS = {"limits": {"max_chars": 10, "max_file_mb": 0.5, "deadline_s": 300}}
MOST = 1_000_000 + 12 * 10 * 10


class Body:
    """A client's connection: gives parts of a body, and counts those that were taken."""

    def __init__(self, parts):
        self._parts = iter(parts)
        self.n_taken = 0

    async def receive(self):
        part = next(self._parts, None)
        if part is None:
            await asyncio.Event().wait()
        self.n_taken += 1
        return {"type": "http.request", "body": part, "more_body": True}


async def upload(body, path="/translate", headers=(), settings=LIMITS):
    """Send a body whose length no header tells; returns the status and the headers of the answer."""
    answer = []

    async def send(message):
        answer.append(message)

    scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "method": "POST"},
        **{"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "client": ("10.0.0.1", 1)},
        **{"server": ("localhost", 5000), "headers": [(b"content-type", b"application/json"), *headers]},
    }
    await create_app(loud_backend(**settings))(scope, body.receive, send)
    return answer[0]["status"], dict(answer[0]["headers"])


@pytest.fixture
def short_discard(monkeypatch):
    monkeypatch.setattr(middleware, "_DISCARD_S", 0.05)


def test_a_body_without_an_end_is_cut(short_discard):
    body = Body([b" " * 100_000] * 40)
    status, headers = asyncio.run(upload(body))
    assert (status, headers[b"connection"]) == (413, b"close")
    assert body.n_taken == 40  # what is left is thrown away, so that the client reads why


def test_a_body_that_says_it_is_too_long_is_not_read(short_discard):
    waits_for_consent = (b"content-length", str(MOST + 1).encode()), (b"expect", b"100-continue")
    body = Body([b"x"])
    status, _ = asyncio.run(upload(body, headers=waits_for_consent))
    assert (status, body.n_taken) == (413, 0)


@pytest.mark.parametrize(("path", "status"), [("/translate_file", 400), ("/translate", 413), ("/v2/nothing", 413)])
def test_only_documents_may_be_as_long_as_a_document(short_discard, path, status):
    settings = {"limits": {**LIMITS["limits"], "max_file_mb": 5}}
    length = (b"content-length", b"5000000")
    assert asyncio.run(upload(Body([b"x"]), path, [length], settings))[0] == status


def test_a_slow_body_is_given_up_at_once(monkeypatch):
    monkeypatch.setattr(middleware, "_DISCARD_S", 900)

    async def answered():
        async with asyncio.timeout(300):  # less than what is left of a long body is read for
            return await upload(Body([b"{"]), settings={"limits": {"deadline_s": 0.05}})

    status, headers = asyncio.run(answered())
    assert (status, headers[b"connection"]) == (408, b"close")


def test_a_client_that_leaves_while_it_sends_is_no_fault(caplog):
    async def receive():
        return {"type": "http.disconnect"}

    body = Body([])
    body.receive = receive  # type: ignore[method-assign]
    asyncio.run(upload(body))
    assert "failed" not in caplog.text


def test_requests_are_counted_by_route_method_and_status(tmp_path):
    async def some():
        transport = httpx.ASGITransport(create_app(loud_backend()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await client.post("/translate", json=FORM)
            await client.post("/translate", json={**FORM, "api_key": "secret"})
            await client.get("/download_file/private")
            await client.get("/no/such/path")
            await client.request("INVENTED", "/translate")
            return (await client.get("/metrics")).text

    text = asyncio.run(some())
    counts = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}
    name = "libretranslate_http_request_duration_seconds_count"
    found = {key.removeprefix(name): count for key, count in counts.items() if key.startswith(name)}
    assert found == {
        '{endpoint="/translate",method="POST",status="200"}': 2,
        '{endpoint="/download_file/{name}",method="GET",status="404"}': 1,
        '{endpoint="other",method="GET",status="404"}': 1,
        '{endpoint="/translate",method="other",status="405"}': 1,
    }
    assert counts["libretranslate_http_requests_in_flight"] == 1  # this one
    assert (counts["mtkit_documents_waiting"], counts["mtkit_documents_running"]) == (0, 0)
    assert {"mtkit_queue_sentences", "mtkit_batches_total", "mtkit_sentences_total", "mtkit_worker_deaths_total"} <= {
        *counts
    }
    assert not [word for word in ("secret", "private", "127.0.0.1") if word in text]


def test_metrics_may_need_a_key(tmp_path):
    keys = tmp_path / "keys.yaml"
    good, other = add_key(keys, "prometheus"), add_key(keys, "ann")
    settings = {"keys": {"file": keys, "metrics": "prometheus"}}
    for token, status in ((f"Bearer {good}", 200), (f"Bearer {other}", 401), (good, 401), ("", 401)):
        answer = ask(path="/metrics", settings=settings, headers={"Authorization": token})
        assert answer.status_code == status
        assert status == 200 or answer.headers["WWW-Authenticate"] == "Bearer"
