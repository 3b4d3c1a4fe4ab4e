"""Bytes that are no request, or one without an end, sent to a server that listens."""

import json
import socket
import urllib.request
from urllib.parse import urlsplit

import pytest
from tiny_server import loud_backend, running

from mtkit.serving.http import protocol

HEAD = b"POST /translate HTTP/1.1\r\nHost: localhost\r\n"
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
TEXT = b"q=one&source=en&target=fr"
WHOLE = HEAD + FORM + b"Content-Length: %d\r\n\r\n" % len(TEXT) + TEXT
LAST = WHOLE.replace(FORM, FORM + b"Connection: close\r\n")


@pytest.fixture(scope="module")
def server():
    with running(loud_backend(limits={"max_chars": 100})) as address:
        yield address


def send(address, *parts, close=True):
    """Send parts, and return all that comes until the server closes the connection, or answers what is whole."""
    host = urlsplit(address)
    with socket.create_connection((host.hostname, host.port), timeout=300) as connection:
        for part in parts:
            try:
                connection.sendall(part)
            except OSError:  # the server has closed it
                break
        if close:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while data := connection.recv(65_536):
                answer += data
        except ConnectionResetError:
            pass
    return answer


def status_of(answer):
    """The status and the message of an error."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


@pytest.fixture(autouse=True)
def still_answers(server):
    yield
    with urllib.request.urlopen(f"{server}/translate", TEXT, timeout=300) as answer:
        assert json.load(answer) == {"translatedText": "ONE"}


@pytest.mark.parametrize(
    "sent",
    [
        b"\0\1\2\3\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3",
        b"GET /\xff HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_as_json(server, sent):
    status, message = status_of(send(server, sent))
    assert (status, message) == (400, "Invalid HTTP request received.")


@pytest.mark.parametrize(
    "framing",
    [
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\nq=one\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-5\r\nq=one\r\n0\r\n\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nq=one!",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: abc\r\n\r\n",
    ],
)
def test_bodies_whose_length_is_a_lie_are_refused(server, framing):
    answer = send(server, HEAD + FORM + framing)
    assert b" 200 " not in answer
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "endless",
    [
        [HEAD + b"A: " + b"x" * 200_000],
        [HEAD, *[b"A%d: b\r\n" % number for number in range(20_000)]],
        [b"GET /" + b"x" * 200_000],
        [HEAD + FORM + b"Transfer-Encoding: chunked\r\n\r\n0\r\nA: " + b"x" * 200_000],
    ],
    ids=["a header", "headers", "a path", "a trailer"],
)
def test_headers_without_an_end_are_cut(server, endless):
    answer = send(server, *endless, close=False)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")  # the system may drop an answer beside unread bytes


def test_headers_may_be_long(server):
    padded = WHOLE.replace(b"\r\n\r\n", b"\r\nA: " + b"x" * 30_000 + b"\r\nConnection: close\r\n\r\n")
    assert send(server, padded, close=False).endswith(b'{"translatedText":"ONE"}')


def test_requests_that_follow_each_other_are_answered(server):
    assert send(server, WHOLE * 3 + LAST, close=False).count(b'{"translatedText":"ONE"}') == 4


def test_bytes_that_come_one_by_one_are_a_request(server):
    answer = send(server, *[LAST[i : i + 1] for i in range(len(LAST))], close=False)
    assert answer.endswith(b'{"translatedText":"ONE"}')


@pytest.mark.parametrize("sent", [b"", HEAD, WHOLE + HEAD])
def test_a_head_that_does_not_come_is_given_up(monkeypatch, sent):
    monkeypatch.setattr(protocol, "_HEAD_S", 0.1)
    with running(loud_backend()) as address:
        answer = send(address, sent, close=False)
    assert status_of(answer[answer.index(b"HTTP/1.1 408") :]) == (408, "no request arrived within 0.1 s")
