"""Standard input in windows: whole lines only, none waits for the next, none is lost."""

import io
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from mtkit.cli import lines as lines_module
from mtkit.cli.lines import arriving_windows
from mtkit.errors import DataError, UsageError


@pytest.fixture
def pipe(monkeypatch):
    """A pipe whose reading end is sys.stdin; gives its writing end, unbuffered. Waiting for ever is a failure."""

    def fail(*_: object) -> None:
        raise TimeoutError("waits for input that does not come")

    old_handler = signal.signal(signal.SIGALRM, fail)
    signal.alarm(20)
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as stdin, os.fdopen(write_end, "wb", buffering=0) as writer:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield writer
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old_handler)


def test_what_has_arrived_is_given_without_waiting_for_more(pipe):
    windows = arriving_windows(max_lines=10)
    pipe.write(b"one\n")
    assert next(windows) == ["one"]
    pipe.write(b"two\nthree\nfo")
    assert next(windows) == ["two", "three"]
    pipe.write(b"ur\n")
    assert next(windows) == ["four"]


def test_a_window_has_at_most_the_wanted_number_of_lines(pipe):
    pipe.write(b"".join(b"%d\n" % i for i in range(7)) + b"no end")
    pipe.close()
    assert list(arriving_windows(max_lines=3)) == [["0", "1", "2"], ["3", "4", "5"], ["6", "no end"]]


def test_the_end_of_the_input_ends_the_windows(pipe):
    pipe.close()
    assert list(arriving_windows(max_lines=3)) == []


def test_input_that_another_process_made_non_blocking_is_awaited(pipe):
    os.set_blocking(sys.stdin.fileno(), False)

    def write() -> None:
        for part in (b"one\ntw", b"o\n"):
            time.sleep(0.2)
            pipe.write(part)
        pipe.close()

    writing = threading.Thread(target=write)
    writing.start()
    assert [line for window in arriving_windows(max_lines=10) for line in window] == ["one", "two"]
    writing.join()


@contextmanager
def in_memory(monkeypatch, content: bytes):
    """sys.stdin as a test runner or a notebook replaces it: no file number."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
        yield


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"\xef\xbb\xbfa\r\n\xef\xbb\xbfb\r\n", ["a", "\ufeffb"]),
        (b"\n\n \n", ["", "", " "]),
        ("a\u2028b\u0085c\x0bd\n\u00e9".encode(), ["a\u2028b\u0085c\x0bd", "\u00e9"]),
        (b"a\rb\n", ["a\rb"]),
    ],
)
def test_only_lf_and_crlf_end_a_line_and_a_bom_is_dropped(monkeypatch, content, lines):
    with in_memory(monkeypatch, content):
        assert [line for window in arriving_windows(5) for line in window] == lines


def test_a_closed_standard_input_is_explained(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match=r"^standard input .*--input"):
        next(arriving_windows(5))


def test_the_error_for_bytes_that_are_not_utf8_names_line_and_byte(monkeypatch):
    with in_memory(monkeypatch, b"good\ncaf\xe9\n"):
        windows = arriving_windows(5)
        assert next(windows) == ["good"]
        with pytest.raises(DataError, match=r"^standard input: line 2, byte 4: 0xe9 "):
            next(windows)


def test_a_line_beyond_the_limit_is_refused_while_it_still_arrives(pipe, monkeypatch):
    monkeypatch.setenv("MTKIT_MAX_LINE_BYTES", "1_000")
    windows = arriving_windows(5)
    pipe.write("\ufeff".encode() + b"x" * 1000 + b"\r\n")
    assert next(windows) == ["x" * 1000]
    pipe.write(b"x" * 1005)  # no end: what follows could fill the memory
    with pytest.raises(DataError, match=r"^standard input: line 2 .* 1,000 bytes"):
        next(windows)


def test_the_beginning_of_a_long_line_is_not_copied_at_each_read(monkeypatch):
    """Copies would take a time that grows with the square of the length: half a minute for 64 MB."""
    copied = 0

    class Chunk(bytes):
        def __radd__(self, beginning: bytes) -> bytes:
            nonlocal copied
            copied += len(beginning)
            return beginning + bytes(self)

    n_reads = 64
    chunks = iter([Chunk(b"x" * 1024)] * n_reads + [b"\n", b""])
    monkeypatch.setattr(lines_module, "_read", lambda: next(chunks))
    monkeypatch.setattr(lines_module, "_more_is_ready", lambda: True)
    assert [len(line) for window in arriving_windows(5) for line in window] == [n_reads * 1024]
    assert copied <= n_reads * 1024


def test_lines_that_end_with_cr_are_refused(monkeypatch):
    with in_memory(monkeypatch, b"one\rtwo\r"), pytest.raises(DataError, match=r"^standard input: CR ends"):
        next(arriving_windows(5))
