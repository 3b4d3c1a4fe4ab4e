import codecs
import gzip
import lzma
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtkit.errors import DataError, UsageError
from mtkit.pair_files.compression import open_output
from mtkit.pair_files.lines import count_lines, max_line_bytes, read_lines


def write(path: Path, content: bytes) -> Path:
    pack: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.compress,
        ".xz": lzma.compress,
        ".zst": zstandard.ZstdCompressor().compress,
    }
    path.write_bytes(pack.get(path.suffix, bytes)(content))
    return path


@pytest.mark.parametrize("name", ["text", "text.gz", "text.xz", "text.zst"])
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"one", ["one"]),
        (b"one\n", ["one"]),
        (b"one\n\n", ["one", ""]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"one\r\r\n", ["one\r"]),
        (b"a\rb\n", ["a\rb"]),
        (b"one\r", ["one"]),
        (b"\0\n", ["\0"]),
        (b"a\0\0b\n", ["a\0\0b"]),  # not UTF-16
        (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", ["one", "\ufefftwo"]),  # only the file's first may be a BOM
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n".encode(), ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"]),
    ],
)
def test_only_lf_and_crlf_end_a_line_and_a_bom_is_dropped(tmp_path, name, content, lines):
    path = write(tmp_path / name, content)
    assert list(read_lines(path)) == lines
    assert count_lines(path) == len(lines)


def test_a_line_across_the_counting_buffer_is_one_line(tmp_path):
    content = b"x" * (1 << 20) + b"yz\nlast"
    assert count_lines(write(tmp_path / "text", content)) == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text", b"fine\nbad \xe9 here\n", "text: line 2, byte 5: 0xe9 .*iconv -f cp1252 .*--encoding cp1252"),
        ("text", "fine\n".encode("utf-16"), "text: line 1, byte 1: 0xff .*iconv -f UTF-16"),
        ("text.gz", b"fine\nfine\n\xff", "text.gz: line 3, byte 1: 0xff"),
        ("text", b"\xef\xbb\xbf\xe9\n", "line 1, byte 1: 0xe9"),
        ("text", b"\xed\xa0\x80\n", "line 1, byte 1: 0xed"),  # a surrogate, spelled out
        ("text", gzip.compress(b"fine\n", mtime=0), r"line 1: .*compressed: rename .*\.gz"),
        ("text.zip", b"PK\3\4\n", r"line 1: .*compressed: unpack"),
        ("text", "fine\nfine\n".encode("utf-16-le"), "text: line 1: .* 0; .*iconv -f UTF-16LE"),
        ("text", "fine\n".encode("utf-32"), "text: line 1, byte 1: 0xff .*iconv -f UTF-32 .*--encoding UTF-32"),
        ("text", codecs.BOM_UTF32_BE + "fine\n".encode("utf-32-be"), "text: line 1, byte 3: .*iconv -f UTF-32 "),
        ("text", "fine\n".encode("utf-32-le"), "text: line 1: .* 0; .*--encoding UTF-32LE"),
        ("text", "fine\n".encode("utf-32-be"), "text: line 1: .* 0; .*--encoding UTF-32BE"),
        ("text", b"fine\n\xed\xa0\xbd\xed\xb8\x80\n", "text: line 2, byte 1: 0xed .*surrogate.*CESU-8"),
        ("text.gz", "fine\n".encode("utf-16-be"), r"text\.gz: line 1: .* 0; .*iconv -f UTF-16BE"),
        ("text", b"one\rtwo\rthree", r"text: CR ends.*tr '\\r' '\\n'"),
        ("text", b"\xef\xbb\xbfone\rtwo\r", "text: CR ends"),
    ],
)
def test_invalid_utf8_is_reported_with_file_line_and_byte(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        list(read_lines(write(tmp_path / name, content)))


@pytest.mark.parametrize("name", ["text", "text.gz", "text.xz", "text.zst"])
def test_a_line_may_have_as_many_bytes_as_the_limit_says(tmp_path, monkeypatch, name):
    monkeypatch.setenv("MTKIT_MAX_LINE_BYTES", "6")
    longest = "\u00e9" * 3
    path = write(tmp_path / name, f"\ufeff{longest}\r\n{longest}\n{longest}".encode())
    assert list(read_lines(path)) == [longest] * 3
    for n_before, end in ((0, ""), (1, "\n"), (2, "\r\n")):
        too_long = write(tmp_path / name, f"{longest}\n".encode() * n_before + f"{longest}.{end}more".encode())
        lines = read_lines(too_long)
        assert [next(lines) for _ in range(n_before)] == [longest] * n_before
        with pytest.raises(DataError, match=rf"{name}: line {n_before + 1} .* 6 bytes.*MTKIT_MAX_LINE_BYTES"):
            next(lines)


@pytest.mark.parametrize("value", ["", "0", "-1", "10MB", "1e6", "\u0661"])
def test_a_limit_that_is_not_a_number_of_bytes_is_refused(tmp_path, monkeypatch, value):
    monkeypatch.setenv("MTKIT_MAX_LINE_BYTES", value)
    with pytest.raises(UsageError, match="MTKIT_MAX_LINE_BYTES"):
        list(read_lines(write(tmp_path / "text", b"fine\n")))


def test_ten_million_bytes_are_the_default_limit(monkeypatch):
    monkeypatch.delenv("MTKIT_MAX_LINE_BYTES", raising=False)
    assert max_line_bytes() == 10_000_000


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="tells how much memory a process has")
@pytest.mark.parametrize("name", ["text", "text.gz", "text.xz", "text.zst"])
def test_one_line_that_never_ends_fills_no_memory(tmp_path, name):
    path = tmp_path / name
    write(path, bytes(64 << 20))
    code = """
import resource, sys
from pathlib import Path
from mtkit.pair_files.lines import count_lines, read_lines
from mtkit.errors import DataError
now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (48 << 20), resource.RLIM_INFINITY))
path = Path(sys.argv[1])
for read in (count_lines, lambda path: list(read_lines(path))):
    try:
        print(read(path))
    except DataError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MTKIT_MAX_LINE_BYTES": "1_000_000"},
    )
    assert done.stderr == ""
    counted, read = done.stdout.splitlines()
    assert counted == read
    assert read.startswith(f"{path}: line 1 has more than 1,000,000 bytes")


def test_counting_stops_at_a_line_that_is_far_too_long(tmp_path, monkeypatch):
    """A file of a few megabytes can unpack to many gigabytes; here the end of the file is damaged."""
    monkeypatch.setenv("MTKIT_MAX_LINE_BYTES", "1_000_000")
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"fine\n" * 300_000 + bytes(4 << 20))[:-8])
    with pytest.raises(DataError, match=r"line 300001 has more than 1,000,000 bytes"):
        count_lines(path)


def test_lines_before_a_bad_one_are_still_read(tmp_path):
    lines = read_lines(write(tmp_path / "text", b"fine\n\xff\n"))
    assert next(lines) == "fine"


def test_lines_are_read_before_the_file_is_complete(tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    go_on = threading.Event()

    def produce() -> None:
        with fifo.open("wb", buffering=0) as file:
            file.write(b"first\n" + b"x" * (1 << 16) + b"\n")
            go_on.wait(300)
            file.write(b"last\n")

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    lines = read_lines(fifo)
    assert next(lines) == "first"  # before the last line exists
    go_on.set()
    assert [line[:4] for line in lines] == ["xxxx", "last"]
    producer.join(300)


def is_like_utf16(line: str) -> bool:
    """Whether every other character is NUL: refused as the first line of a file."""
    return "\0" in line and all(line[i::2].count("\0") in (0, len(line[i::2])) for i in (0, 1))


@settings(max_examples=30)  # of each of 4 kinds
@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"))))
@pytest.mark.parametrize("name", ["text", "text.gz", "text.xz", "text.zst"])
def test_what_is_written_is_what_is_read(tmp_path_factory, name, lines):
    assume(not lines or not is_like_utf16(lines[0]))
    path = tmp_path_factory.mktemp("out") / name
    with open_output(path) as file:
        file.writelines(line + "\n" for line in lines)
    assert list(read_lines(path)) == lines
