"""Read text in encodings other than UTF-8, and guess which one a text is in."""

import codecs
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from mtkit.console import counted, log
from mtkit.errors import DataError, UsageError
from mtkit.languages import primary_code

_CHUNK_BYTES = 1 << 16
BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark begins it
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_BY_LANGUAGE = {  # what Windows used before UTF-8
    **dict.fromkeys(("be", "bg", "mk", "ru", "sr", "uk", "kk", "ky", "mn"), ("cp1251",)),
    **dict.fromkeys(("bs", "cs", "hr", "hu", "pl", "ro", "sk", "sl", "sq"), ("cp1250",)),
    **dict.fromkeys(("et", "lt", "lv"), ("cp1257",)),
    **dict.fromkeys(("ar", "fa", "ur"), ("cp1256",)),
    **{"el": ("cp1253",), "he": ("cp1255",), "th": ("cp874",), "tr": ("cp1254",), "vi": ("cp1258",)},
    **{"ja": ("cp932", "euc_jp"), "ko": ("cp949",), "zh": ("gb18030", "big5")},
}

_BY_ZEROS: dict[tuple[bool, ...], str] = {  # by which of four bytes are mostly zero
    (False, True, False, True): "UTF-16LE",
    (True, False, True, False): "UTF-16BE",
    (False, True, True, True): "UTF-32LE",
    (True, True, True, False): "UTF-32BE",
}


def likely_encoding(raw: bytes, language: str | None) -> str:
    """Guess the encoding of text that is not UTF-8, by its bytes and its language, if that is known."""
    if encoding := encoding_of_zeros(raw):
        return encoding
    some = raw[:_CHUNK_BYTES]
    high = [byte for byte in some if byte >= 0x80]
    candidates = _BY_LANGUAGE.get(primary_code(language), ())
    if not candidates and 2 * len(high) > len(some.replace(b" ", b"")):  # mostly letters that are not Latin
        candidates = ("cp1251",) if min(high) >= 0xC0 else ("cp932", "gb18030", "cp949")
    return next((encoding for encoding in (*candidates, "cp1252") if _fits(raw, encoding)), "iso8859-1")


def encoding_of_zeros(raw: bytes) -> str:
    """Return the encoding, without a byte order mark, that the places of zero bytes in a text show; "" if they do not.

    Most characters of a text are below U+0100, be it only for spaces and line breaks.
    """
    some = raw[:_CHUNK_BYTES]
    columns = [some[offset::4] for offset in range(4)]
    if not all(columns) or 0 not in some:
        return ""
    return _BY_ZEROS.get(tuple(3 * column.count(0) > len(column) for column in columns), "")


def _fits(raw: bytes, encoding: str) -> bool:
    try:
        raw.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def check_encodings(names: Sequence[str]) -> None:
    """Raise UsageError for a name that is not that of a text encoding, or for UTF-16 and the like among several."""
    for name in names:
        try:
            ascii_as_one_byte = "\n".encode(name)  # refuses rot13 and the like, too
        except (LookupError, UnicodeError):
            raise UsageError(f"--encoding {name}: not a known text encoding; such as cp1252 or utf-16") from None
        if len(names) > 1 and ascii_as_one_byte != b"\n":
            raise UsageError(f"--encoding {','.join(names)}: {name} cannot be tried line by line; give it alone")


def as_utf8(file: BinaryIO, name: str, encodings: Sequence[str], *, counting: bool = True) -> BinaryIO:
    """Return a reader of the file's text in UTF-8. Several encodings are tried in this order on each line.

    If there is one, a byte order mark counts more than it. If there are several, and counting, the end of the file
    logs how many lines each of them fitted.
    """
    one = len(encodings) == 1
    chunks = _one_encoding(file, name, encodings[0]) if one else _by_line(file, name, encodings, counting)
    return io.BufferedReader(_Stream(chunks))


def _one_encoding(file: BinaryIO, name: str, encoding: str) -> Iterator[bytes]:
    raw = file.read(_CHUNK_BYTES)
    encoding = next((of_bom for bom, of_bom in BOMS.items() if raw.startswith(bom)), encoding)
    decoder = codecs.getincrementaldecoder(encoding)()
    n_lines = 0
    while True:
        try:
            text = decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(encoding, errors="replace").count("\n")
            raise DataError(_not_in(name, n_lines + before + 1, error.object[error.start], encoding)) from None
        except UnicodeError as error:
            raise DataError(f"{name}: {error}; choose the right --encoding, such as utf-16-le") from None
        n_lines += text.count("\n")
        if text:
            yield text.encode("utf-8")
        if not raw:
            return
        raw = file.read(_CHUNK_BYTES)


def _by_line(file: BinaryIO, name: str, encodings: Sequence[str], counting: bool) -> Iterator[bytes]:
    number, rest, counts = 1, b"", Counter[str]()  # lines with letters that are not ASCII, by encoding
    while raw := file.readline(_CHUNK_BYTES):  # pieces of a long line are decoded with what follows
        rest += raw
        if not raw.endswith(b"\n") and len(rest) < 100 * _CHUNK_BYTES:
            continue
        yield _decoded(rest, name, number, encodings, counts).encode("utf-8")
        number, rest = number + 1, b""
    if rest:
        yield _decoded(rest, name, number, encodings, counts).encode("utf-8")
    if not counting:
        return
    found = ", ".join(f"{counted(counts[encoding], 'line')} in {encoding}" for encoding in encodings)
    log.info(f"{name}: {found}, the rest in ASCII" if counts.total() else f"{name}: every line is in ASCII")


def _decoded(raw: bytes, name: str, number: int, encodings: Sequence[str], counts: Counter[str]) -> str:
    for encoding in encodings:
        try:
            text = raw.decode(encoding)
            counts[encoding] += not raw.isascii()
            return text
        except UnicodeDecodeError as error:
            problem = _not_in(name, number, raw[error.start], " or ".join(encodings))
    raise DataError(problem)


def _not_in(name: str, number: int, byte: int, encoding: str) -> str:
    return f"{name}: line {number}: byte 0x{byte:02x} is not {encoding}; choose the right --encoding"


class _Stream(io.RawIOBase):
    """A file of bytes that come in chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._chunk = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next bytes, and return how many; 0 at the end."""
        if not self._chunk:
            self._chunk = memoryview(next(self._chunks, b""))
        piece = self._chunk[: len(buffer)]
        buffer[: len(piece)] = piece
        self._chunk = self._chunk[len(piece) :]
        return len(piece)
