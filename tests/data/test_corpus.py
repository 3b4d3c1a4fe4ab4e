import gzip
import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtkit.config.schema import CorpusFiles
from mtkit.data import corpus
from mtkit.data.corpus import (
    Pair,
    count_lines,
    count_pairs,
    evenly_spaced,
    max_line_bytes,
    open_output,
    read_lines,
    read_pairs,
    read_side,
    read_windows,
    require_files,
    text_checksums,
)
from mtkit.errors import DataError, UsageError


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["text", "text.gz"])
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
        ("text", b"fine\nbad \xe9 here\n", "text: line 2, byte 5: 0xe9 .*iconv -f LATIN1"),
        ("text", "fine\n".encode("utf-16"), "text: line 1, byte 1: 0xff .*iconv -f UTF-16"),
        ("text.gz", b"fine\nfine\n\xff", "text.gz: line 3, byte 1: 0xff"),
        ("text", b"\xef\xbb\xbf\xe9\n", "line 1, byte 1: 0xe9"),
        ("text", b"\xed\xa0\x80\n", "line 1, byte 1: 0xed"),  # a surrogate, spelled out
        ("text", gzip.compress(b"fine\n", mtime=0), r"line 1, byte 2: 0x8b.*compressed.*\.gz"),
        ("text", "fine\nfine\n".encode("utf-16-le"), "text: line 1: .* 0; .*iconv -f UTF-16LE"),
        ("text.gz", "fine\n".encode("utf-16-be"), r"text\.gz: line 1: .* 0; .*iconv -f UTF-16BE"),
        ("text", b"one\rtwo\rthree", r"text: CR ends.*tr '\\r' '\\n'"),
        ("text", b"\xef\xbb\xbfone\rtwo\r", "text: CR ends"),
    ],
)
def test_invalid_utf8_is_reported_with_file_line_and_byte(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        list(read_lines(write(tmp_path / name, content)))


@pytest.mark.parametrize("name", ["text", "text.gz"])
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
        with pytest.raises(DataError, match=rf"line {n_before + 1} "):
            list(read_windows(too_long, 2))


@pytest.mark.parametrize("value", ["", "0", "-1", "10MB", "1e6", "\u0661"])
def test_a_limit_that_is_not_a_number_of_bytes_is_refused(tmp_path, monkeypatch, value):
    monkeypatch.setenv("MTKIT_MAX_LINE_BYTES", value)
    with pytest.raises(UsageError, match="MTKIT_MAX_LINE_BYTES"):
        list(read_lines(write(tmp_path / "text", b"fine\n")))


def test_ten_million_bytes_are_the_default_limit(monkeypatch):
    monkeypatch.delenv("MTKIT_MAX_LINE_BYTES", raising=False)
    assert max_line_bytes() == 10_000_000


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="tells how much memory a process has")
@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_one_line_that_never_ends_fills_no_memory(tmp_path, name):
    path = tmp_path / name
    with gzip.open(path, "wb", compresslevel=1) if path.suffix else path.open("wb") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    code = """
import resource, sys
from pathlib import Path
from mtkit.data.corpus import count_lines, read_lines
from mtkit.errors import DataError
now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (16 << 20), resource.RLIM_INFINITY))
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


def test_a_pipe_named_by_a_config_is_refused_before_it_is_opened(tmp_path):
    """It would be read a second time, and wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"pipe: not a regular file.*save it"):
        require_files("data.dev", [CorpusFiles(tsv=tmp_path / "pipe")])


def test_lines_before_a_bad_one_are_still_read(tmp_path):
    lines = read_lines(write(tmp_path / "text", b"fine\n\xff\n"))
    assert next(lines) == "fine"


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "plain.gz").write_bytes(b"plain text")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"0123456789\n" * 999)[:-20])
    text = os.urandom(25_000).hex().encode()  # compresses little: the damage is far from the beginning
    (tmp_path / "bad-sum.gz").write_bytes(gzip.compress(text)[:-8] + bytes(8))
    (tmp_path / "joined.gz").write_bytes(gzip.compress(b"text\n") + b"plain text")
    (tmp_path / "damaged.gz").write_bytes(gzip.compress(b"text")[:10] + b"\xff" * 20)
    for name, message in [
        ("missing", "no such file"),
        (".", "cannot be read .*directory"),
        ("plain.gz", "not a gzip file .*remove .gz"),
        ("cut.gz", r"ends too early, after byte 1?\d?,?\d+ .*copy it again"),
        ("damaged.gz", "damaged after byte 0 .*copy it again"),
        ("bad-sum.gz", "damaged after byte 50,000 .*CRC"),
        ("joined.gz", r"damaged after byte 5 .*Not a gzip"),
    ]:
        path = tmp_path / name
        for read in (lambda path: list(read_lines(path)), count_lines):
            with pytest.raises(DataError, match=message) as error:
                read(path)
            assert str(error.value).startswith(f"{path}: ")


def test_a_missing_file_has_no_checksum(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        text_checksums([CorpusFiles(tsv=tmp_path / "missing")])


def test_checksums_depend_on_the_text_and_its_role_not_its_path(tmp_path):
    a, b = write(tmp_path / "a", b"a\n"), write(tmp_path / "b", b"b\n")
    moved = write(tmp_path / "moved", b"a\n")
    here = text_checksums([CorpusFiles(src=a, tgt=b)])
    assert here == text_checksums([CorpusFiles(src=moved, tgt=b)])
    assert here != text_checksums([CorpusFiles(src=b, tgt=a)])


def test_the_checksum_is_that_of_the_text_however_it_is_compressed(tmp_path):
    plain, packed = write(tmp_path / "a", b"text\n" * 999), tmp_path / "a.gz"
    expected = [{"tsv": hashlib.sha256(b"text\n" * 999).hexdigest()}]
    assert text_checksums([CorpusFiles(tsv=plain)]) == expected
    for level in (1, 9):
        packed.write_bytes(gzip.compress(b"text\n" * 999, compresslevel=level, mtime=level))
        assert text_checksums([CorpusFiles(tsv=packed)]) == expected


def test_unchanged_text_is_hashed_once(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "_SETTLED_NS", -1)
    files = [CorpusFiles(tsv=write(tmp_path / "a", b"text\n"))]
    first, settled = text_checksums(files), (tmp_path / "a").stat()
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "sha256", lambda: pytest.fail("read again"))
        assert text_checksums(files) == first
    time.sleep(0.02)  # a file's times have no finer grain than this
    write(tmp_path / "a", b"tux!\n")
    os.utime(tmp_path / "a", ns=(settled.st_atime_ns, settled.st_mtime_ns))
    assert text_checksums(files) == [{"tsv": hashlib.sha256(b"tux!\n").hexdigest()}]


def test_text_written_a_moment_ago_is_hashed_again(tmp_path, monkeypatch):
    files = [CorpusFiles(tsv=write(tmp_path / "a", b"text\n"))]
    text_checksums(files)
    monkeypatch.setattr(hashlib, "sha256", lambda: pytest.fail("read again"))
    with pytest.raises(pytest.fail.Exception, match="read again"):
        text_checksums(files)


def test_pairs_come_from_several_corpora_with_their_places(tmp_path):
    src, tgt = write(tmp_path / "c.en.gz", b"one\ntwo\n"), write(tmp_path / "c.fr", b"un\r\ndeux\r\n")
    tsv = write(tmp_path / "more.tsv", b"\xef\xbb\xbfthree\ttrois\tLicence\n\tx\n")
    corpora = [CorpusFiles(src=src, tgt=tgt), CorpusFiles(tsv=tsv)]
    assert list(read_pairs(corpora)) == [
        Pair("one", "un", str(src), 1),
        Pair("two", "deux", str(src), 2),
        Pair("three", "trois", str(tsv), 1),
        Pair("", "x", str(tsv), 2),
    ]
    assert count_pairs(corpora) == 4
    assert list(read_side(corpora, "src")) == ["one", "two", "three", ""]
    assert list(read_side(corpora, "tgt")) == ["un", "deux", "trois", "x"]


@pytest.mark.parametrize(("n_src", "n_tgt"), [(3, 5), (5, 3), (0, 1), (2000, 1)])
@pytest.mark.parametrize("read", [lambda corpora: list(read_pairs(corpora)), count_pairs])
def test_files_of_unequal_length_are_named_with_both_counts(tmp_path, read, n_src, n_tgt):
    src, tgt = write(tmp_path / "c.en", b"line\n" * n_src), write(tmp_path / "c.fr", b"ligne\n" * n_tgt)
    with pytest.raises(DataError) as error:
        read([CorpusFiles(src=src, tgt=tgt)])
    assert all(fact in str(error.value) for fact in (f"{src} has {n_src:,} lines", f"{tgt} has {n_tgt:,}"))


def test_a_tsv_line_without_a_tab_is_reported_with_its_number(tmp_path):
    tsv = write(tmp_path / "c.tsv", b"one\tun\ntwo deux\n")
    with pytest.raises(DataError, match=r"c.tsv: line 2: no tab"):
        list(read_pairs([CorpusFiles(tsv=tsv)]))


def test_lines_are_read_before_the_file_is_complete(tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    go_on = threading.Event()

    def produce() -> None:
        with fifo.open("wb", buffering=0) as file:
            file.write(b"first\n" + b"x" * (1 << 16) + b"\n")
            go_on.wait(10)
            file.write(b"last\n")

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    lines = read_lines(fifo)
    assert next(lines) == "first"  # before the last line exists
    go_on.set()
    assert [line[:4] for line in lines] == ["xxxx", "last"]
    producer.join(10)


def is_like_utf16(line: str) -> bool:
    """Whether every other character is NUL: refused as the first line of a file."""
    return "\0" in line and all(line[i::2].count("\0") in (0, len(line[i::2])) for i in (0, 1))


@settings(deadline=None)
@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"))))
@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_what_is_written_is_what_is_read(tmp_path_factory, name, lines):
    assume(not lines or not is_like_utf16(lines[0]))
    path = tmp_path_factory.mktemp("out") / name
    with open_output(path) as file:
        file.writelines(line + "\n" for line in lines)
    assert list(read_lines(path)) == lines


def test_output_appears_only_when_all_is_written(tmp_path):
    path = tmp_path / "out.gz"
    write(path, b"before\n")
    with pytest.raises(RuntimeError), open_output(path) as file:
        file.write("half")
        raise RuntimeError
    assert list(read_lines(path)) == ["before"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.gz"]


def test_the_same_text_gives_the_same_compressed_bytes(tmp_path):
    for name in ("a.gz", "b.gz"):
        with open_output(tmp_path / name) as file:
            file.write("text\n")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert (tmp_path / "a.gz").read_bytes()[4:8] == bytes(4)  # no time stamp


def test_output_through_a_link_keeps_the_link(tmp_path):
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    with open_output(link) as file:
        file.write("text\n")
    assert link.is_symlink()
    assert target.read_text() == "text\n"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs names for open files")
def test_output_to_an_open_pipe_goes_through_its_name():
    """As with `-o /dev/stdout | less` and `-o >(gzip)`: the name is a link to something that is not a file."""
    reading, writing = os.pipe()
    try:
        with open_output(Path(f"/dev/fd/{writing}")) as file:
            file.write("text\n")
        assert os.read(reading, 100) == b"text\n"
    finally:
        os.close(reading)
        os.close(writing)


def test_output_to_a_pipe_goes_through_it(tmp_path):
    """A pipe represents all special files: replacing a device would harm the machine."""
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with open_output(fifo) as file:
            file.write("text\n")
        assert fifo.is_fifo()
        assert os.read(descriptor, 100) == b"text\n"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("n_items", "n", "chosen"),
    [(10, 3, [0, 3, 6]), (3, 10, [0, 1, 2]), (7, 7, list(range(7))), (1000, 1, [0]), (0, 5, [])],
)
def test_items_are_chosen_at_equal_distances(n_items, n, chosen):
    assert evenly_spaced(range(n_items), n) == chosen
