"""Requests are refused at the door while the queue is full, and only those that would wait in it."""

import asyncio
import json
from pathlib import Path

import pytest

from mtkit.config.serving import QueueConfig
from mtkit.serving.http.overload import RefuseWhenFull
from mtkit.serving.workers.batcher import Batcher
from mtkit.serving.workers.work import ModelVersion, Work

WORK = Work("translate", ModelVersion(Path("en-fr"), "1"))

PATHS = "/translate", "/v2/translate"


async def application(scope, receive, send):
    """What is behind the door."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


async def ask(door, path, method="POST", receive=None):
    """Status, headers and body of the answer to a request without a body."""
    sent = []

    async def send(message):
        sent.append(message)

    async def nothing():
        return {"type": "http.request", "body": b"", "more_body": False}

    await door({"type": "http", "method": method, "path": path, "headers": []}, receive or nothing, send)
    start, body = sent
    return start["status"], dict(start["headers"]), json.loads(body["body"])


def test_requests_on_their_way_to_the_queue_count():
    async def scenario():
        batcher = Batcher(QueueConfig(max_sentences=2), 10.0)
        are_read = asyncio.Event()

        async def slow_application(scope, receive, send):
            await receive()
            if not batcher.queue.n_waiting:
                await batcher.run(WORK, ["a"], [1])
            await are_read.wait()
            await application(scope, receive, send)

        door = RefuseWhenFull(slow_application, batcher, PATHS)
        waiting, on_its_way, refused = (asyncio.ensure_future(ask(door, "/translate")) for _ in range(3))
        status, _, _ = await refused
        are_read.set()
        others = (await on_its_way)[0], (await ask(door, "/translate"))[0]
        waiting.cancel()
        return status, *others

    assert asyncio.run(scenario()) == (503, 200, 200)


def asked(path, n_waiting, method="POST"):
    async def scenario():
        batcher = Batcher(QueueConfig(max_sentences=2), 10.0)  # without a pool: what is put in stays
        waiting = asyncio.ensure_future(batcher.run(WORK, ["a"] * n_waiting, [1] * n_waiting))
        await asyncio.sleep(0)
        answer = await ask(RefuseWhenFull(application, batcher, PATHS), path, method)
        waiting.cancel()
        return answer

    return asyncio.run(scenario())


@pytest.mark.parametrize(("path", "key"), [("/translate", "error"), ("/v2/translate", "message")])
def test_a_full_queue_refuses_in_the_words_of_the_dialect(path, key):
    status, headers, body = asked(path, 2)
    assert status == 503
    assert int(headers[b"retry-after"]) >= 1
    assert list(body) == [key]
    assert body[key].startswith("2 sentences are waiting; try again in ")


@pytest.mark.parametrize(
    ("path", "n_waiting", "method"), [("/translate", 1, "POST"), ("/health", 2, "POST"), ("/translate", 2, "OPTIONS")]
)
def test_whatever_does_not_wait_passes(path, n_waiting, method):
    assert asked(path, n_waiting, method)[0] == 200


def test_requests_that_are_still_being_sent_keep_nobody_out():
    async def scenario():
        batcher = Batcher(QueueConfig(max_sentences=2), 10.0)

        async def reading(scope, receive, send):
            await receive()
            await application(scope, receive, send)

        door = RefuseWhenFull(reading, batcher, PATHS)
        waiting = asyncio.ensure_future(batcher.run(WORK, ["a"], [1]))
        slow = [asyncio.ensure_future(ask(door, "/translate", receive=asyncio.Event().wait)) for _ in range(5)]
        await asyncio.sleep(0)
        status, _, _ = await ask(door, "/translate")
        for task in (waiting, *slow):
            task.cancel()
        return status

    assert asyncio.run(scenario()) == 200


def test_a_request_is_let_in_as_a_whole():
    async def scenario():
        batcher = Batcher(QueueConfig(max_sentences=3), 10.0)
        calls: list[asyncio.Future] = []

        async def many_texts(scope, receive, send):
            await receive()
            calls.extend(asyncio.ensure_future(batcher.run(WORK, ["a", "b"], [1, 1])) for _ in range(4))
            await asyncio.sleep(0)
            await application(scope, receive, send)

        status, _, _ = await ask(RefuseWhenFull(many_texts, batcher, PATHS), "/translate")
        n_waiting = batcher.queue.n_waiting
        refused, _, _ = await ask(RefuseWhenFull(many_texts, batcher, PATHS), "/translate")
        for call in calls:
            call.cancel()
        return status, n_waiting, refused

    assert asyncio.run(scenario()) == (200, 8, 503)
