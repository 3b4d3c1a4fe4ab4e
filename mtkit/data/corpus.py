"""Text files in, lines and sentence pairs out, one at a time; and the way back to a file. The only reader of text."""

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
from mtkit.errors import DataError
from mtkit.files import atomic_file

_BOM = b"\xef\xbb\xbf"
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 20
_SETTLED_NS = 2_000_000_000  # a file changed less than this ago may change again without its time showing it
# What ends a line for some program or other: inside a line it would make two lines of one.
_LINE_BREAKS = str.maketrans(dict.fromkeys("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))

_T = TypeVar("_T")

Side = Literal["src", "tgt"]
SIDES: tuple[Side, Side] = ("src", "tgt")

_known_checksums: dict[tuple[int | str, ...], str] = {}  # of files in a state: device, inode, size, times


class Pair(NamedTuple):
    """A sentence, its translation, and where they stand."""

    src: str
    tgt: str
    file: str  # the source side's file, or the TSV
    line: int  # from 1


def first_missing(corpora: Iterable[CorpusFiles]) -> Path | None:
    """The first of their files that is not here."""
    paths = [path for corpus in corpora for path in (corpus.src, corpus.tgt, corpus.tsv) if path is not None]
    return next((path for path in paths if not path.exists()), None)


def require_files(
    key: str,
    corpora: Iterable[CorpusFiles],
    *,
    config: Path | str = "the config",
    remedy: str = "correct the path (it counts from the config's folder), or bring the file there",
) -> None:
    """Raise DataError, with the config's key and what to do, if one of the files is not here."""
    if (path := first_missing(corpora)) is not None:
        raise DataError(f"{path}: no such file, though {config} names it as {key}: {remedy}")


def read_lines(path: Path) -> Iterator[str]:
    r"""The file's lines without their ends; `.gz` is read as such.

    Only \n ends a line (U+2028, U+0085 and the like are text); the \r of CRLF and a BOM are dropped.
    Raises DataError if the file cannot be read, or with line and byte where it is no UTF-8.
    """
    with _reading(path) as file:
        for number, raw in enumerate(file, start=1):
            yield decode_line(raw, number, path)


def read_windows(path: Path, size: int) -> Iterator[tuple[list[str], int]]:
    """Lists of `size` lines each (the last may be shorter), with the share of the file read so far, in bytes.

    Lines and errors as in `read_lines`. The bytes are those on disk, compressed if the file is: they tell how much of
    it is left, though a `.gz` is read a little ahead of its lines.
    """
    n_lines, n_bytes = 0, 0
    with _reading(path) as file:
        for raw_lines in windows(file, size):
            lines = [decode_line(raw, n_lines + i, path) for i, raw in enumerate(raw_lines, start=1)]
            n_lines += len(lines)
            n_bytes += sum(map(len, raw_lines))
            yield lines, file.fileobj.tell() if isinstance(file, gzip.GzipFile) else n_bytes


def decode_line(raw: bytes, number: int, file: Path | str) -> str:
    """The text of a file's line (numbers count from 1), without its end, LF or CRLF, and a first line's BOM.

    Raises DataError, with line and byte, where it is no UTF-8.
    """
    if number == 1:
        raw = raw.removeprefix(_BOM)
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(_no_utf8(file, number, raw, error)) from None


def windows(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """The items in lists of size items, of which the last may be shorter; read as they are asked for."""
    iterator = iter(items)
    while window := list(itertools.islice(iterator, size)):
        yield window


def evenly_spaced(items: Sequence[_T], n: int) -> list[_T]:
    """n of the items, from the first on at equal distances; all of them if there are fewer."""
    n = min(n, len(items))
    return [items[number * len(items) // n] for number in range(n)]


def as_one_line(text: str) -> str:
    """The text with a space for every character that some program takes for the end of a line."""
    return text.translate(_LINE_BREAKS)


def count_lines(path: Path) -> int:
    """How many lines read_lines gives, without decoding them.

    Raises DataError for what can be read only once, such as a pipe: counted, it would be used up.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path}: no regular file; this text is read more than once, so give it as a file")
    n, last = 0, b"\n"
    with _reading(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            n += chunk.count(b"\n")
            last = chunk[-1:]
    return n + (last != b"\n")


def read_pairs(corpora: Sequence[CorpusFiles]) -> Iterator[Pair]:
    """Every pair of every corpus, in order.

    Raises DataError if two files have unequal line counts (at the end of the shorter), or a TSV line has no tab.
    """
    for corpus in corpora:
        yield from _read_tsv(corpus.tsv) if corpus.tsv else _read_two_files(*_two_files(corpus))


def read_side(corpora: Sequence[CorpusFiles], side: Side) -> Iterator[str]:
    """The sentences of one side, in order."""
    for corpus in corpora:
        if corpus.tsv:
            yield from (getattr(pair, side) for pair in _read_tsv(corpus.tsv))
        else:
            yield from read_lines(_two_files(corpus)[side == "tgt"])


def count_pairs(corpora: Sequence[CorpusFiles]) -> int:
    """How many pairs read_pairs gives. Raises DataError if two files have unequal line counts."""
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
    """The file that stands for the corpus in messages: its source side, or the TSV."""
    return str(corpus.tsv or corpus.src)


def text_checksums(corpora: Sequence[CorpusFiles]) -> list[dict[str, str]]:
    """For each corpus the sha256 of its text, by role (src, tgt, tsv): equal wherever it lies, compressed or not."""
    files = [{role: getattr(corpus, role) for role in ("src", "tgt", "tsv")} for corpus in corpora]
    with ThreadPoolExecutor(usable_cores()) as pool:  # hashing and unpacking leave Python free
        found = [{role: pool.submit(_checksum, path) for role, path in roles.items() if path} for roles in files]
        return [{role: checksum.result() for role, checksum in roles.items()} for roles in found]


@contextmanager
def open_output(path: Path) -> Iterator[TextIO]:
    """A writer of UTF-8 text with LF ends, compressed if the name ends in .gz; the file appears when the block ends.

    What is no ordinary file, such as /dev/stdout or a named pipe, is written to directly.
    """
    # Asked before links are followed: /dev/stdout leads to /proc/N/fd/pipe:[M], a name for which there is no file.
    special = path.exists() and not path.is_file()
    with nullcontext(path) if special else atomic_file(path.resolve()) as place, place.open("wb") as raw:
        if path.suffix == ".gz":
            # No name and no time in the header: the same text gives the same bytes.
            with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed, _text_writer(packed) as text:
                yield text
        else:
            with _text_writer(raw) as text:
                yield text


def _text_writer(raw: BinaryIO | gzip.GzipFile) -> io.TextIOWrapper:
    return io.TextIOWrapper(cast(BinaryIO, raw), encoding="utf-8", newline="\n")


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, uncompressed; what goes wrong while they are read becomes a DataError."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield cast(BinaryIO, file)
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: not a gzip file, or a damaged one ({error})") from error
    except EOFError as error:
        raise DataError(f"{path}: the gzip file ends too early; was it copied whole?") from error
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _no_utf8(path: Path | str, line: int, raw: bytes, error: UnicodeDecodeError) -> str:
    where = f"{path}: line {line}, byte {error.start + 1}: 0x{raw[error.start]:02x} is not UTF-8 ({error.reason})"
    if line == 1 and raw.startswith(_GZIP_MAGIC):
        return f"{where}; the file is compressed: give it a name that ends in .gz"
    encoding = "UTF-16" if line == 1 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "LATIN1"
    return f"{where}; convert it, for example: iconv -f {encoding} -t UTF-8"


def _two_files(corpus: CorpusFiles) -> tuple[Path, Path]:
    assert corpus.src is not None and corpus.tgt is not None  # the schema sees to it
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
        "(a blank line keeps the place of a missing sentence)"
    )


def _read_tsv(path: Path) -> Iterator[Pair]:
    name = str(path)
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t", 2)
        if len(columns) < 2:
            raise DataError(f"{path}: line {number}: no tab; each line must be: source, tab, target")
        yield Pair(columns[0], columns[1], name, number)


def _checksum(path: Path) -> str:
    with _reading(path) as file:
        stat = os.fstat(file.fileno())
        state = stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, path.suffix
        if state in _known_checksums:  # a start asks for the same text's several times
            return _known_checksums[state]
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    if time.time_ns() - stat.st_ctime_ns > _SETTLED_NS:
        _known_checksums[state] = digest.hexdigest()
    return digest.hexdigest()
