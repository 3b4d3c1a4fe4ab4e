"""Read lines and sentence pairs from text files, one at a time, and write text; the only module that reads corpora."""

import codecs
import gzip
import hashlib
import io
import itertools
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TextIO, TypeVar, cast

from mtkit.config.schema import CorpusFiles
from mtkit.cores import usable_cores
from mtkit.errors import DataError, UsageError
from mtkit.files import atomic_file

_BOM = b"\xef\xbb\xbf"
LINE_FRAME = len(_BOM + b"\r\n")  # bytes around the text of a line
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 20
_SETTLED_NS = 2_000_000_000  # a file changed more recently may change again within the resolution of its time stamp
# Characters that some program takes for the end of a line.
_LINE_BREAKS = str.maketrans(dict.fromkeys("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))

_T = TypeVar("_T")

Side = Literal["src", "tgt"]
SIDES: tuple[Side, Side] = ("src", "tgt")

_known_checksums: dict[tuple[int | str, ...], str] = {}  # by device, inode, size, times and suffix


class Pair(NamedTuple):
    """A sentence, its translation, and their place."""

    src: str
    tgt: str
    file: str  # the source side's file, or the TSV
    line: int  # from 1


def first_missing(corpora: Iterable[CorpusFiles]) -> Path | None:
    """Return the first file of the corpora that does not exist."""
    return next((path for path in _files_of(corpora) if not path.exists()), None)


def require_files(
    key: str,
    corpora: Iterable[CorpusFiles],
    *,
    config: Path | str = "the config",
    remedy: str = "correct the path (relative paths start from the config's folder), or put the file there",
) -> None:
    """Raise DataError, with the config's key and the remedy, if one of the files does not exist or is a pipe."""
    corpora = list(corpora)
    if (path := first_missing(corpora)) is not None:
        raise DataError(f"{path}: no such file, though {config} names it as {key}: {remedy}")
    for path in _files_of(corpora):
        _require_regular(path)


def read_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a file, plain or `.gz`, without their ends.

    Only \n ends a line (U+2028, U+0085 and the like are text); the \r of CRLF and a BOM are dropped.
    Raises DataError if the file cannot be read; with line and byte if it is not UTF-8 or a line is too long.
    """
    max_bytes = max_line_bytes()
    with _reading(path) as file:
        for number, raw in enumerate(_raw_lines(file, max_bytes), start=1):
            yield decode_line(raw, number, path, max_bytes)


def read_windows(path: Path, size: int) -> Iterator[tuple[list[str], int]]:
    """Yield lists of `size` lines (the last may be shorter), each with the number of bytes of the file read so far.

    Lines and errors as in `read_lines`. Bytes are as on disk, compressed for `.gz`, which is read a little ahead.
    """
    n_lines, n_bytes, max_bytes = 0, 0, max_line_bytes()
    with _reading(path) as file:
        for raw_lines in windows(_raw_lines(file, max_bytes), size):
            lines = [decode_line(raw, n_lines + i, path, max_bytes) for i, raw in enumerate(raw_lines, start=1)]
            n_lines += len(lines)
            n_bytes += sum(map(len, raw_lines))
            yield lines, file.fileobj.tell() if isinstance(file, gzip.GzipFile) else n_bytes


def decode_line(raw: bytes, number: int, file: Path | str, max_bytes: int) -> str:
    """Decode line `number` (from 1) of a file; drop its LF or CRLF, and the BOM of the first line.

    Raises DataError, with the line, if it is longer than max_bytes, not UTF-8 (with the byte), or if no LF ends lines.
    """
    if number == 1:
        raw = raw.removeprefix(_BOM)
        if problem := _not_lines(raw):
            raise DataError(f"{file}: {problem}")
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if len(raw) > max_bytes:
        raise DataError(
            f"{file}: line {number} has more than {max_bytes:,} bytes; write one sentence per line, each ended by LF, "
            "or allow longer lines with $MTKIT_MAX_LINE_BYTES"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(_not_utf8(file, number, raw, error)) from None


def max_line_bytes() -> int:
    """Return how many bytes a line may have: $MTKIT_MAX_LINE_BYTES, by default ten million.

    The limit keeps a damaged or hostile input, such as a few megabytes of gzip that unpack to one line of a gigabyte,
    from filling the memory.
    """
    value = os.environ.get("MTKIT_MAX_LINE_BYTES", "10_000_000")
    if not value.isascii() or not value.replace("_", "").isdigit() or int(value) < 1:
        raise UsageError(f"$MTKIT_MAX_LINE_BYTES is {value!r}, not a number of bytes such as 10000000")
    return int(value)


def windows(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield lists of `size` items (the last may be shorter), reading items as needed."""
    iterator = iter(items)
    while window := list(itertools.islice(iterator, size)):
        yield window


def evenly_spaced(items: Sequence[_T], n: int) -> list[_T]:
    """Return n of the items at equal distances, from the first on; all if there are fewer."""
    n = min(n, len(items))
    return [items[i * len(items) // n] for i in range(n)]


def as_one_line(text: str) -> str:
    """Replace every character that some program takes for the end of a line by a space."""
    return text.translate(_LINE_BREAKS)


def check_text(text: object, number: int) -> None:
    """Raise DataError, which names line `number`, for what a caller passes as text and cannot be encoded as UTF-8."""
    if not isinstance(text, str):
        remedy = "; decode it first, for example with .decode('utf-8')" if isinstance(text, bytes) else ""
        raise DataError(f"line {number}: text must be a str, not {type(text).__name__}{remedy}")
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"line {number}: character {error.start + 1} is half of a surrogate pair "
            f"(U+{ord(text[error.start]):04X}); remove it, or read the text as UTF-8"
        ) from None


def count_lines(path: Path) -> int:
    """Count the lines that read_lines yields, without decoding them.

    Raises DataError for what can be read only once, such as a pipe: counting would use it up. Stops at a line that is
    far too long, such as that of a small gzip file that unpacks to gigabytes, and raises what `read_lines` does.
    """
    _require_regular(path)
    n, n_open, max_bytes = 0, 0, max_line_bytes()  # n_open: bytes read of the line that has not ended yet
    with _reading(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            n_ends = chunk.count(b"\n")
            n += n_ends
            n_open = len(chunk) - 1 - chunk.rindex(b"\n") if n_ends else n_open + len(chunk)
            if n_open > max_bytes + LINE_FRAME:
                return sum(1 for _ in read_lines(path))
    return n + (n_open > 0)


def read_pairs(corpora: Sequence[CorpusFiles]) -> Iterator[Pair]:
    """Yield every pair of every corpus, in order.

    Raises DataError if two files have unequal line counts (at the end of the shorter), or a TSV line has no tab.
    """
    for corpus in corpora:
        yield from _read_tsv(corpus.tsv) if corpus.tsv else _read_two_files(*_two_files(corpus))


def read_side(corpora: Sequence[CorpusFiles], side: Side) -> Iterator[str]:
    """Yield the sentences of one side, in order."""
    for corpus in corpora:
        if corpus.tsv:
            yield from (getattr(pair, side) for pair in _read_tsv(corpus.tsv))
        else:
            yield from read_lines(_two_files(corpus)[side == "tgt"])


def count_pairs(corpora: Sequence[CorpusFiles]) -> int:
    """Count the pairs that read_pairs yields. Raises DataError if two files have unequal line counts."""
    total = 0
    for corpus in corpora:
        if corpus.tsv:
            total += count_lines(corpus.tsv)
            continue
        src, tgt = _two_files(corpus)
        n_src, n_tgt = count_lines(src), count_lines(tgt)
        if n_src != n_tgt:
            raise DataError(_unequal(src, n_src, tgt, n_tgt))
        total += n_src
    return total


def corpus_name(corpus: CorpusFiles) -> str:
    """Return the name of the corpus in messages: its source file, or the TSV."""
    return str(corpus.tsv or corpus.src)


def text_checksums(corpora: Sequence[CorpusFiles]) -> list[dict[str, str]]:
    """Return the sha256 of each corpus' text by role (src, tgt, tsv), whatever its path and compression."""
    files = [{role: getattr(corpus, role) for role in ("src", "tgt", "tsv")} for corpus in corpora]
    with ThreadPoolExecutor(usable_cores()) as pool:  # hashing and unpacking release the GIL
        checksums = [{role: pool.submit(_checksum, path) for role, path in roles.items() if path} for roles in files]
        return [{role: checksum.result() for role, checksum in roles.items()} for roles in checksums]


@contextmanager
def open_output(path: Path) -> Iterator[TextIO]:
    """Open a writer of UTF-8 text with LF ends, compressed for .gz; the file appears when the block ends.

    Special files, such as /dev/stdout or a named pipe, are written to directly.
    """
    # Check before following links: /dev/stdout leads to /proc/N/fd/pipe:[M], which is not the name of a file.
    special = path.exists() and not path.is_file()
    with nullcontext(path) if special else atomic_file(path.resolve()) as place, place.open("wb") as raw:
        if path.suffix == ".gz":
            # Without name and time in the header, the same text gives the same bytes.
            with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed, _text_writer(packed) as text:
                yield text
        else:
            with _text_writer(raw) as text:
                yield text


def _text_writer(raw: BinaryIO | gzip.GzipFile) -> io.TextIOWrapper:
    return io.TextIOWrapper(cast(BinaryIO, raw), encoding="utf-8", newline="\n")


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, uncompressed; turn what goes wrong in the block into a DataError."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            try:
                yield cast(BinaryIO, file)
            except (gzip.BadGzipFile, zlib.error, EOFError) as error:
                raise DataError(_damaged_gzip(path, error, file.tell())) from error
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _damaged_gzip(path: Path, error: Exception, n_bytes: int) -> str:
    """Return the message. n_bytes: of the text that could be read."""
    if isinstance(error, EOFError):
        return f"{path}: the gzip file ends too early, after byte {n_bytes:,} of its text; copy it again, as a whole"
    if str(error).startswith("Not a gzipped file") and not n_bytes:
        return f"{path}: not a gzip file ({error}); if it is plain text, remove .gz from its name"
    return f"{path}: the gzip file is damaged after byte {n_bytes:,} of its text ({error}); copy it again"


def _raw_lines(file: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    """Yield the lines with their ends; of one with more than max_bytes only the beginning, for `decode_line`."""
    while raw := file.readline(max_bytes + LINE_FRAME):
        yield raw


def _not_lines(raw: bytes) -> str:
    """Return what is wrong if the first line shows that a file is not text with LF at the end of each line; else ""."""
    if b"\r" in raw[:-1] and not raw.endswith(b"\n"):
        return "CR ends its lines, not LF; convert it, for example: tr '\\r' '\\n'"
    text = raw.removesuffix(b"\n")
    even, odd = text[::2], text[1::2]
    for encoding, letters, zeros in (("UTF-16LE", even, odd), ("UTF-16BE", odd, even)):
        if odd and all(letters) and not any(zeros):  # Latin letters in UTF-16 without BOM, valid as UTF-8
            return f"line 1: every other byte is 0; convert it, for example: iconv -f {encoding} -t UTF-8"
    return ""


def _not_utf8(path: Path | str, line: int, raw: bytes, error: UnicodeDecodeError) -> str:
    where = f"{path}: line {line}, byte {error.start + 1}: 0x{raw[error.start]:02x} is not UTF-8 ({error.reason})"
    if line == 1 and raw.startswith(_GZIP_MAGIC):
        return f"{where}; the file is compressed: rename it to end in .gz"
    encoding = "UTF-16" if line == 1 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "LATIN1"
    return f"{where}; convert it, for example: iconv -f {encoding} -t UTF-8"


def _files_of(corpora: Iterable[CorpusFiles]) -> list[Path]:
    return [path for corpus in corpora for path in (corpus.src, corpus.tgt, corpus.tsv) if path is not None]


def _require_regular(path: Path) -> None:
    """Raise DataError for what can be read only once, such as a pipe."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path}: not a regular file, but this text is read more than once; save it to a file first")


def _two_files(corpus: CorpusFiles) -> tuple[Path, Path]:
    assert corpus.src is not None and corpus.tgt is not None  # the schema ensures it
    return corpus.src, corpus.tgt


def _read_two_files(src_path: Path, tgt_path: Path) -> Iterator[Pair]:
    src_lines, tgt_lines = read_lines(src_path), read_lines(tgt_path)
    name, n = str(src_path), 0
    for src in src_lines:
        tgt = next(tgt_lines, None)
        if tgt is None:
            raise DataError(_unequal(src_path, n + 1 + sum(1 for _ in src_lines), tgt_path, n))
        n += 1
        yield Pair(src, tgt, name, n)
    if next(tgt_lines, None) is not None:
        raise DataError(_unequal(src_path, n, tgt_path, n + 1 + sum(1 for _ in tgt_lines)))


def _unequal(src: Path, n_src: int, tgt: Path, n_tgt: int) -> str:
    return (
        f"{src} has {n_src:,} lines, {tgt} has {n_tgt:,}; line n of one must translate line n of the other "
        "(use a blank line for a missing sentence)"
    )


def _read_tsv(path: Path) -> Iterator[Pair]:
    name = str(path)
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t", 2)
        if len(columns) < 2:
            raise DataError(f"{path}: line {number}: no tab; write each line as source, tab, target")
        yield Pair(columns[0], columns[1], name, number)


def _checksum(path: Path) -> str:
    with _reading(path) as file:
        stat = os.fstat(file.fileno())
        state = stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, path.suffix
        if state in _known_checksums:  # one start needs the same checksum several times
            return _known_checksums[state]
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    if time.time_ns() - stat.st_ctime_ns > _SETTLED_NS:
        _known_checksums[state] = digest.hexdigest()
    return digest.hexdigest()
