import gzip
import lzma
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard

from mtkit.errors import DataError, MtkitError
from mtkit.pair_files.compression import open_output
from mtkit.pair_files.lines import count_lines, read_lines

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,  # as zstd does
}
NAMES = {".gz": "gzip", ".xz": "xz", ".zst": "Zstandard"}


def changed(data: bytes, index: int) -> bytes:
    return data[:index] + bytes(byte ^ 0xFF for byte in data[index : index + 100]) + data[index + 100 :]


@pytest.mark.parametrize("ending", PACK)
def test_a_file_that_cannot_be_read_is_named(tmp_path, ending):
    pack, kind = PACK[ending], NAMES[ending]
    (tmp_path / f"plain{ending}").write_bytes(b"plain text")
    text = os.urandom(250_000).hex().encode()  # compresses little: the damage is far from the beginning
    (tmp_path / f"cut{ending}").write_bytes(pack(text)[:-40])
    (tmp_path / f"joined{ending}").write_bytes(pack(b"text\n") + b"plain text")
    (tmp_path / f"changed{ending}").write_bytes(changed(pack(text), 200_000))
    for name, message in [
        ("missing", "no such file"),
        ("", "cannot be read .*directory"),
        (f"plain{ending}", rf"not an? {kind} file .*remove {ending}"),
        (f"cut{ending}", rf"{kind} file ends too early, after byte \d\d\d,\d+ .*copy it again"),
        (f"changed{ending}", rf"{kind} file is damaged after byte \d+,\d+ .*copy it again"),
        *([] if ending == ".xz" else [(f"joined{ending}", r"damaged after byte 5 ")]),  # liblzma ignores what follows
    ]:
        path = tmp_path / name
        for read in (lambda path: list(read_lines(path)), count_lines):
            with pytest.raises(DataError, match=message) as error:
                read(path)
            assert str(error.value).startswith(f"{path}: ")


def test_a_wrong_checksum_of_a_gzip_file_is_told_with_its_place(tmp_path):
    (tmp_path / "bad-sum.gz").write_bytes(gzip.compress(b"x" * 50_000)[:-8] + bytes(8))
    with pytest.raises(DataError, match=r"bad-sum\.gz: .*gzip .*byte 50,000 .*CRC"):
        count_lines(tmp_path / "bad-sum.gz")


@pytest.mark.parametrize("ending", PACK)
def test_files_joined_from_several_are_read_to_the_end(tmp_path, ending):
    path = tmp_path / f"text{ending}"
    path.write_bytes(PACK[ending](b"one\ntw") + PACK[ending](b"") + PACK[ending](b"o\nthree"))
    assert list(read_lines(path)) == ["one", "two", "three"]


@pytest.mark.parametrize("ending", PACK)
def test_other_programs_read_what_is_written(tmp_path, ending):
    path = tmp_path / f"text{ending}"
    with open_output(path) as file:
        file.write("één\n" * 99_999)
    program = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}[ending]
    if shutil.which(program) is None:
        pytest.skip(f"needs the program {program}")
    done = subprocess.run([program, "-dc", path], capture_output=True, check=True)
    assert done.stdout == "één\n".encode() * 99_999


@pytest.mark.parametrize("ending", PACK)
def test_a_changed_letter_in_a_written_file_is_damage(tmp_path, ending):
    letters = "".join(np.random.default_rng(1).choice(list("0123456789abcdef"), 3_000))
    path = tmp_path / f"text{ending}"
    with open_output(path) as file:
        file.write(letters)
    whole = path.read_bytes()
    for index in range(500, len(whole) - 100, 50):  # Zstandard alone reads most of them as other letters
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :])
        with pytest.raises(DataError, match=r"damaged|too early"):
            list(read_lines(path))


def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MtkitError, match=r"zstandard: pip install 'mtkit\[data\]'"), open_output(tmp_path / "a.zst"):
        pass
    (tmp_path / "b.zst").write_bytes(b"")
    with pytest.raises(MtkitError, match=r"zstandard: pip install 'mtkit\[data\]'"):
        count_lines(tmp_path / "b.zst")
    assert [entry.name for entry in tmp_path.iterdir()] == ["b.zst"]


def test_output_appears_only_when_all_is_written(tmp_path):
    path = tmp_path / "out.gz"
    path.write_bytes(gzip.compress(b"before\n"))
    with pytest.raises(RuntimeError), open_output(path) as file:
        file.write("half")
        raise RuntimeError
    assert list(read_lines(path)) == ["before"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.gz"]


@pytest.mark.parametrize("ending", PACK)
def test_the_same_text_gives_the_same_compressed_bytes(tmp_path, ending):
    for name in ("a", "b"):
        with open_output(tmp_path / f"{name}{ending}") as file:
            file.write("text\n")
    written = (tmp_path / f"a{ending}").read_bytes()
    assert written == (tmp_path / f"b{ending}").read_bytes()
    assert ending != ".gz" or written[4:8] == bytes(4)  # no time stamp


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
