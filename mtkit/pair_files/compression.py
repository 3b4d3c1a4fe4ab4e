"""Open files for reading, plain or compressed (.gz, .xz, .zst), and files of UTF-8 text for writing."""

import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, TextIO, cast

from mtkit.errors import DataError, MtkitError
from mtkit.files import atomic_files, full_disk_named

MAGIC = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\0", ".zst": b"\x28\xb5\x2f\xfd"}  # the first bytes, by file extension
_NAMES = {".gz": "a gzip file", ".xz": "an xz file", ".zst": "a Zstandard file"}
_PIECE_BYTES = 1 << 9  # of Zstandard, unpacked at a time: can become 17 MB at most


def packing(path: Path) -> str:
    """Return the file extension of a compressed file; "" for any other."""
    return path.suffix if path.suffix in MAGIC else ""


def packed_unnoticed(name: str, head: bytes) -> str:
    """Return the advice for a file that is compressed without such an extension; "" if it is not."""
    for suffix, magic in (*MAGIC.items(), (".zip", b"PK\3\4")):
        if head.startswith(magic):
            unpack = "unpack it first" if name.lower().endswith(suffix) else f"rename it to end in {suffix}"
            return f"the file is compressed: {unpack}"
    return ""


class _BadZstandard(Exception):
    """The data is not Zstandard."""


DAMAGE = gzip.BadGzipFile, zlib.error, lzma.LZMAError, _BadZstandard, EOFError  # what reading can raise


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, uncompressed; convert read errors in the block to a DataError."""
    try:
        with path.open("rb") as raw, unpacked(raw, path.suffix) as file:
            stat = os.fstat(raw.fileno())
            if path.suffix in MAGIC and not stat.st_size and S_ISREG(stat.st_mode):
                raise DataError(f"{path}: 0 bytes, too few even for {_NAMES[path.suffix]} of nothing; copy it again")
            try:
                yield file
            except DAMAGE as error:
                raise DataError(_damaged(path, error, file.tell())) from error
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def unpacked(raw: BinaryIO, suffix: str) -> BinaryIO:
    """Return a reader of the uncompressed data of a file with this suffix; the file itself if it is not compressed."""
    if suffix == ".gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
    if suffix == ".xz":
        return cast(BinaryIO, lzma.LZMAFile(raw))
    return io.BufferedReader(_Zstandard(raw)) if suffix == ".zst" else raw


@contextmanager
def open_output(path: Path) -> Iterator[TextIO]:
    """Open a writer of UTF-8 text with LF ends, compressed for .gz, .xz and .zst; the file appears when the block ends.

    Special files, such as /dev/stdout or a named pipe, are written to directly.
    """
    with open_outputs([path]) as [file]:
        yield file


@contextmanager
def open_outputs(paths: Sequence[Path]) -> Iterator[list[TextIO]]:
    """Open writers of files that belong together, such as the two sides of a corpus; they appear at the same time."""
    # Check before following links: /dev/stdout leads to /proc/N/fd/pipe:[M], which is not the name of a file.
    regular = [path for path in paths if path.is_file() or not path.exists()]
    with atomic_files([path.resolve() for path in regular]) as temporaries, ExitStack() as stack:
        places = dict(zip(regular, temporaries, strict=True))
        yield [stack.enter_context(_writer(path, places.get(path, path))) for path in paths]


@contextmanager
def _writer(path: Path, place: Path) -> Iterator[TextIO]:
    """Open the writer of an output. place: where its bytes go."""
    with (
        full_disk_named(path),
        place.open("wb") as raw,
        _packed(raw, path.suffix) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text,
    ):
        yield text


def pack(data: bytes, suffix: str) -> bytes:
    """Compress data by the format of this suffix, if it is that of a compressed file; such pieces can be joined."""
    if suffix == ".gz":
        return gzip.compress(data, mtime=0)  # no time in the header, so that the same text gives the same bytes
    if suffix == ".xz":
        return lzma.compress(data)
    return bytes(_zstandard_writer().compress(data)) if suffix == ".zst" else data


def zstandard() -> Any:
    """Return the package zstandard. Raises MtkitError, with the command that installs it, if it is missing."""
    try:
        import zstandard
    except ImportError:
        raise MtkitError("files that end in .zst need the package zstandard: pip install 'mtkit[data]'") from None
    return zstandard


def _packed(raw: BinaryIO, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        # Without name and time in the header, the same text gives the same bytes.
        return cast(BinaryIO, gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
    if suffix == ".xz":
        return cast(BinaryIO, lzma.LZMAFile(raw, "wb"))
    return cast(BinaryIO, _zstandard_writer().stream_writer(raw)) if suffix == ".zst" else raw


def _zstandard_writer() -> Any:
    """Return a compressor that writes checksums, as the program zstd does; without them, much damage is not seen."""
    return zstandard().ZstdCompressor(write_checksum=True)


class _Zstandard(io.RawIOBase):
    """A reader of a Zstandard file that detects a truncated file, which zstandard's own reader does not."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._package = zstandard()
        self._frame: Any = None  # None between frames
        self._packed = b""
        self._unpacked = memoryview(b"")
        self._n_bytes = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the compressed file."""
        return self._raw.fileno()

    def tell(self) -> int:
        """Return the number of uncompressed bytes read so far."""
        return self._n_bytes

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next uncompressed bytes, and return their number; 0 at the end."""
        while not self._unpacked:
            self._packed = self._packed or self._raw.read(_PIECE_BYTES)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("the last frame is not complete")
                return 0
            self._unpack()
        piece = self._unpacked[: len(buffer)]
        buffer[: len(piece)] = piece
        self._unpacked = self._unpacked[len(piece) :]
        self._n_bytes += len(piece)
        return len(piece)

    def _unpack(self) -> None:
        if self._frame is None:
            self._frame = self._package.ZstdDecompressor().decompressobj()
        try:
            self._unpacked = memoryview(self._frame.decompress(self._packed))
        except self._package.ZstdError as error:
            raise _BadZstandard(str(error).removeprefix("zstd decompressor error: ")) from None
        self._packed = b""
        if self._frame.eof:
            self._packed, self._frame = self._frame.unused_data, None


def _damaged(path: Path, error: Exception, n_bytes: int) -> str:
    """Return the message. n_bytes: the number of uncompressed bytes that could be read."""
    name, magic = _NAMES[path.suffix], MAGIC[path.suffix]
    with path.open("rb") as raw:
        begins_like_it = n_bytes or raw.read(len(magic)) == magic
    if not begins_like_it:
        return f"{path}: not {name} ({error}); if it is plain text, remove {path.suffix} from its name"
    the_file = f"the {name.partition(' ')[2]}"
    if isinstance(error, EOFError):
        return f"{path}: {the_file} ends too early, after byte {n_bytes:,} of its text; copy it again, as a whole"
    return f"{path}: {the_file} is damaged after byte {n_bytes:,} of its text ({error}); copy it again"
