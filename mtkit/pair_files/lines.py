"""Read the lines of text files, one at a time or in windows, and check lines from other sources."""

import itertools
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from mtkit.errors import DataError, UsageError
from mtkit.languages import language_in_name
from mtkit.pair_files.compression import packed_unnoticed, reading
from mtkit.pair_files.encodings import BOMS, as_utf8, encoding_of_zeros, likely_encoding

_BOM = b"\xef\xbb\xbf"
LINE_FRAME = len(_BOM + b"\r\n")  # bytes around the text of a line
_CHUNK_BYTES = 1 << 20
# Characters that some program takes for the end of a line.
_LINE_BREAKS = str.maketrans(dict.fromkeys("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_LOOKED_AT = 10_000  # lines after one that is not UTF-8

_T = TypeVar("_T")


def read_lines(path: Path, encoding: str | None = None) -> Iterator[str]:
    r"""Yield the lines of a file, plain or compressed, without their ends.

    Only \n ends a line (U+2028, U+0085 and the like are text); the \r of CRLF and a BOM are dropped.
    encoding: of the file, as `check_encodings` accepts it; default: UTF-8.
    Raises DataError if the file cannot be read; with line and byte if it is not UTF-8 or a line is too long.
    """
    with reading(path) as file:
        yield from lines_of(as_utf8(file, str(path), [encoding]) if encoding else file, str(path))


def lines_of(file: BinaryIO, name: str) -> Iterator[str]:
    """Yield the lines of an open file, as `read_lines` does. name: of the file, for messages."""
    max_bytes, is_utf8 = max_line_bytes(), False
    raws = raw_lines(file, max_bytes)
    for number, raw in enumerate(raws, start=1):
        line = decode_line(raw, number, name, max_bytes, after_utf8=is_utf8, following=raws)
        is_utf8 = is_utf8 or not line.isascii()
        yield line


def read_scores(path: Path) -> Iterator[float]:
    """Yield the number at the start of each line of a score file, one line per pair, ignoring anything after a tab.

    Raises DataError for a line that does not begin with a number.
    """
    for number, line in enumerate(read_lines(path), start=1):
        text = line.partition("\t")[0]
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if value != value:
            raise DataError(
                f"{path}: line {number}: {text!r} is not a number; write one, such as -inf for a pair to leave out"
            )
        yield value


def decode_line(
    raw: bytes,
    number: int,
    file: Path | str,
    max_bytes: int,
    *,
    after_utf8: bool = False,
    following: Iterable[bytes] = (),
) -> str:
    """Decode line `number` (from 1) of a file; drop its LF or CRLF, and the BOM of the first line.

    For the message: after_utf8: lines before it have letters that are not ASCII, and are UTF-8; following: lines after
    it, read only if it is not UTF-8.
    Raises DataError, with the line, if it is longer than max_bytes, not UTF-8 (with the byte), or if no LF ends lines.
    """
    if number == 1:
        raw = raw.removeprefix(_BOM)
        if problem := _not_lines(str(file), raw):
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
        others = "before" if after_utf8 else "after" if _has_utf8(following) else ""
        raise DataError(_not_utf8(str(file), number, raw, error, others)) from None


def max_line_bytes() -> int:
    """Return the maximal number of bytes in a line: $MTKIT_MAX_LINE_BYTES, by default ten million.

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


def as_one_line(text: str) -> str:
    """Replace every character that some program treats as the end of a line by a space."""
    return text.translate(_LINE_BREAKS)


def as_column(text: str) -> str:
    """Replace line breaks and tabs, which would break the line of a TSV, by spaces."""
    return as_one_line(text).replace("\t", " ")


def check_text(text: object, number: int) -> None:
    """Raise DataError, which names line `number`, for a value that is not text or cannot be encoded as UTF-8."""
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

    Raises DataError for a pipe and the like, because counting would use it up. Stops at a line that is
    far too long, such as that of a small gzip file that unpacks to gigabytes, and raises what `read_lines` does.
    """
    require_regular(path)
    n, n_open, max_bytes = 0, 0, max_line_bytes()  # n_open: bytes read of the line that has not ended yet
    with reading(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            n_ends = chunk.count(b"\n")
            n += n_ends
            n_open = len(chunk) - 1 - chunk.rindex(b"\n") if n_ends else n_open + len(chunk)
            if n_open > max_bytes + LINE_FRAME:
                return sum(1 for _ in read_lines(path))
    return n + (n_open > 0)


def require_regular(path: Path) -> None:
    """Raise DataError for a file that can be read only once, such as a pipe."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path}: not a regular file, but this text is read more than once; save it to a file first")


def raw_lines(file: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    """Yield the lines with their ends, for `decode_line`; of one with more than max_bytes first the beginning."""
    while raw := file.readline(max_bytes + LINE_FRAME):
        yield raw


def _not_lines(file: str, raw: bytes) -> str:
    """Return the problem if the first line shows that a file is not text with LF at the end of each line; else ""."""
    if packed := packed_unnoticed(file, raw):
        return f"line 1: {packed}"
    if b"\r" in raw[:-1] and not raw.endswith(b"\n"):
        return "CR ends its lines, not LF; convert it, for example: tr '\\r' '\\n'"
    if raw.startswith(tuple(BOMS)):
        return ""  # it is not UTF-8, and its encoding is known
    encoding = encoding_of_zeros(raw.removesuffix(b"\n"))  # the text may be valid as UTF-8
    return f"line 1: many bytes are 0; it is probably {encoding}: {_converted_from(encoding)}" if encoding else ""


def _has_utf8(raws: Iterable[bytes]) -> bool:
    """Return whether one of the next lines has letters that are not ASCII, and is UTF-8."""
    for raw in itertools.islice(raws, _LOOKED_AT):
        with suppress(UnicodeDecodeError):
            if not raw.decode("utf-8").isascii():
                return True
    return False


def _not_utf8(file: str, line: int, raw: bytes, error: UnicodeDecodeError, others: str) -> str:
    """Return the message. others: where UTF-8 lines are, before or after this one; "": nowhere."""
    where = f"{file}: line {line}, byte {error.start + 1}: 0x{raw[error.start]:02x} is not UTF-8 ({error.reason})"
    if _SURROGATE.match(raw, error.start):
        return (
            f"{where}: half of a surrogate pair, as in CESU-8, which Java and some databases write for emoji and the "
            "like; export the text again as UTF-8, or correct the line"
        )
    by_bom = next((name for bom, name in BOMS.items() if line == 1 and raw.startswith(bom)), "")[
        : len("utf-16")
    ].upper()
    encoding = by_bom or likely_encoding(raw, language_in_name(Path(file)))
    if others and not by_bom:
        return (
            f"{where}; lines {others} it are UTF-8, this one is probably {encoding}: correct it, or convert the corpus "
            f"with mtkit data convert --encoding utf-8,{encoding}"
        )
    return f"{where}; it is probably {encoding}: {_converted_from(encoding)}"


def _converted_from(encoding: str) -> str:
    return (
        f"convert it, for example with iconv -f {encoding} -t UTF-8, or give --encoding {encoding} to mtkit translate "
        "or, for a corpus, to mtkit data convert"
    )
