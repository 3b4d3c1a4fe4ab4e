"""Read a document in the format that its file extension or an option gives."""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from mtkit.documents.document import Document, Parsed, Part, naming
from mtkit.documents.skeleton import Reading
from mtkit.errors import DataError, UsageError
from mtkit.pair_files.encodings import BOMS, check_encodings, encoding_of_zeros, likely_encoding
from mtkit.text.templates import IN_PROSE

MOST_BYTES = 100_000_000  # of a document, unpacked
FORMATS: Mapping[str, tuple[str, ...]] = {  # and their file extensions
    "text": ("txt", "text"),
    "json": ("json", "jsonc", "arb"),
    "yaml": ("yaml", "yml"),
    "toml": ("toml",),
    "properties": ("properties",),
    "apple": ("strings",),
    "html": ("html", "htm", "xhtml", "xht"),
    "markdown": ("md", "markdown", "mdx"),
    "subtitles": ("srt", "vtt"),
    "po": ("po", "pot"),
    "csv": ("csv", "tsv", "tab"),
    "xliff": ("xliff", "xlf", "sdlxliff"),
    "docx": ("docx", "docm", "dotx", "dotm"),
    "pptx": ("pptx", "pptm", "ppsx", "ppsm", "potx", "potm"),
    "xlsx": ("xlsx", "xlsm", "xltx", "xltm"),
    "odf": ("odt", "ott", "ods", "ots", "odp", "otp", "odg", "otg", "odm"),
    "epub": ("epub",),
}
FILE_EXTENSIONS = tuple(f".{extension}" for extensions in FORMATS.values() for extension in extensions)
_ROOMS = {  # where the module of a format's name is
    "pages": ("text", "html", "markdown", "epub"),
    "messages": ("json", "yaml", "toml", "properties", "apple", "po", "csv", "xliff"),
    "office": ("docx", "pptx", "xlsx", "odf"),
    "subtitles": ("subtitles",),
}
_MODULES = {name: f"mtkit.documents.{room}.{name}" for room, names in _ROOMS.items() for name in names}
_ARCHIVES = frozenset([*_ROOMS["office"], "epub"])  # not texts


@dataclass(frozen=True)
class Options:
    """What a user specifies for a document."""

    format: str | None = None  # a key of FORMATS; default: from the file extension
    columns: tuple[str, ...] = ()  # of a table, which hold text
    src_lang: str | None = None
    tgt_lang: str | None = None
    encoding: str | None = None  # of a text without a byte order mark; default: as it declares, or UTF-8


_NO_OPTIONS = Options()
_FIELD = re.compile(IN_PROSE)
_MOST_FIELDS = 10  # listed
Read = Callable[[bytes, Options], Document]  # what the module of each format has as `read`; raises DataError


def format_of(path: Path, options: Options) -> str:
    """Return the format of a document. Raises UsageError for an unknown one."""
    known = ", ".join(FORMATS)
    if options.format is not None:
        if options.format not in FORMATS:
            raise UsageError(f"--format {options.format}: unknown format; choose one of {known}")
        return options.format
    name = format_named(path)
    if name is None:
        raise UsageError(
            f"{path}: unknown file extension {path.suffix!r}; choose a format with --format, one of {known}"
        )
    return name


def format_named(path: Path) -> str | None:
    """Return the format that a file extension means; None for an unknown one."""
    ending = path.suffix.lower().removeprefix(".")
    return next((name for name, endings in FORMATS.items() if ending in endings), None)


def read_document(path: Path, options: Options) -> Document:
    """Read a document. Raises DataError if it is damaged, too large or in another format than the options give."""
    name = format_of(path, options)
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise DataError(f"{path}: {size / 1e6:,.0f} MB; the limit is {MOST_BYTES / 1e6:.0f} MB: split the document")
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    return document_of(raw, name, options, str(path))


def document_of(raw: bytes, format_name: str, options: Options, name: str = "document") -> Document:
    """Read the bytes of a document. name: for messages."""
    check_encodings([options.encoding] if options.encoding else [])
    if options.encoding and format_name in _ARCHIVES:
        raise UsageError(f"--encoding is for texts, but mtkit reads {name} as {format_name}; leave it out")
    try:
        read: Read = import_module(_MODULES[format_name]).read
    except ModuleNotFoundError as error:
        raise UsageError(
            f"documents in {format_name} need the package {error.name}: pip install 'mtkit[documents]'"
        ) from None
    try:
        document = read(raw, options)
        for part in document.parts:
            _ = part.reading  # so that an error is raised now
        return replace(document, src_lang=options.src_lang, remarks=[*document.remarks, *_words_kept(document)])
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def _words_kept(document: Document) -> Iterator[str]:
    """Yield the words of the text that are not translated because they could be fields of a template."""
    if IN_PROSE not in document.placeholders:
        return
    segments = (segment for part in document.parts for segment in part.reading.all_segments)
    fields = Counter(field for segment in segments for field in _FIELD.findall(segment.inline.text))
    if fields:
        more = ", ..." if len(fields) > _MOST_FIELDS else ""
        listed = ", ".join(field for field, _ in fields.most_common(_MOST_FIELDS))
        yield f"words that stay as they are, because they could be fields of a template: {listed}{more}"


def text_part(
    raw: bytes,
    read: Callable[[str], Reading],
    structure: Callable[[str], object],
    options: Options,
    *,
    declared: Callable[[str], str | None] | None = None,
) -> Part[str]:
    """Return a whole document whose format takes the text as it is; see `parsed_part`."""
    return parsed_part(raw, str, read, structure, options, declared=declared, is_markup=False)


def parsed_part(
    raw: bytes,
    parse: Callable[[str], Parsed],
    read: Callable[[Parsed], Reading],
    structure: Callable[[Parsed], object],
    options: Options = _NO_OPTIONS,
    *,
    name: str = "",
    declared: Callable[[str], str | None] | None = None,
    is_markup: bool = True,
) -> Part[Parsed]:
    """Decode a text, and later encode it likewise.

    Its encoding is that of its byte order mark, else that of the options, else what it declares, else UTF-8.
    parse, read, structure, name: as for `Part`.
    declared: returns the encoding that the beginning of the text, read as Latin-1, declares.
    is_markup: it can write &#8364; for a character that its encoding lacks; elsewhere such a translation is left out.
    Raises DataError if it is in another encoding.
    """
    with naming(name):
        text, encode = _decoded(raw, options, declared, is_markup)
    return Part(name, text, parse, read, structure, encode)


def _decoded(
    raw: bytes, options: Options, declared: Callable[[str], str | None] | None, is_markup: bool
) -> tuple[str, Callable[[str], bytes]]:
    """Return a text, and the function that encodes a text as this one was."""
    if kind := next((kind for start, kind in _NO_TEXTS.items() if raw.startswith(start)), None):
        raise DataError(f"is {kind}, not a text; use the file extension of its format, or --format")
    bom = next((mark for mark in BOMS if raw.startswith(mark)), b"")
    given = options.encoding and _WITHOUT_BOM.get(codecs.lookup(options.encoding).name, options.encoding)
    encoding = BOMS[bom] if bom else given or _declared(raw, declared)
    try:
        text = raw[len(bom) :].decode(encoding)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        at = len(bom) + error.start
        shown = f"line {line}: byte 0x{raw[at]:02x} is not {encoding}"
        raise DataError(f"{shown}; {_remedy(raw, at, options)}") from None
    if "\0" in text:
        by_zeros = encoding_of_zeros(raw)
        of = f"it is probably {by_zeros}: give --encoding {by_zeros}" if by_zeros else "it is not a text"
        raise DataError(f"contains NUL characters; {of}, or save it as UTF-8")

    def encode(merged: str) -> bytes:
        has_all = encoding.startswith("utf") or not is_markup
        return bom + merged.encode(encoding, "strict" if has_all else "xmlcharrefreplace")

    if encode(text) != raw:
        raise DataError(f"would change when written in {encoding}; convert it to UTF-8")
    return text, encode


def _remedy(raw: bytes, at: int, options: Options) -> str:
    """Return what to do about a byte that the encoding lacks."""
    if options.encoding:
        return "give the right --encoding, or save it as UTF-8"
    likely = likely_encoding(raw, options.src_lang)
    start, end = max(raw.rfind(b"\n", 0, at) + 1, at - _EXCERPT), raw.find(b"\n", at)
    excerpt = raw[start : end if 0 <= end < at + _EXCERPT else at + _EXCERPT].decode(likely, "ignore").strip()
    shown = "" if likely.startswith("UTF-") else f", where it reads {excerpt!r}"
    return f"it is probably {likely}{shown}: give --encoding {likely}, or save it as UTF-8"


def _declared(raw: bytes, declared: Callable[[str], str | None] | None) -> str:
    """Return the encoding that a text declares; UTF-8 if it declares none, or one in which ASCII could not be read."""
    encoding = (declared(raw[:4096].decode("latin-1")) if declared else None) or "utf-8"
    try:
        name, ascii_text = codecs.lookup(encoding).name, "<a>".encode(encoding)
    except (LookupError, UnicodeError):
        name, ascii_text = "", b""
    if name.startswith(("utf-16", "utf-32")):
        return "utf-8"
    if ascii_text != b"<a>" or name in _NEVER:
        raise DataError(f"declares an unknown encoding, {encoding!r}; convert it to UTF-8")
    return encoding


_EXCERPT = 20  # bytes before and after one, for a message
_WITHOUT_BOM = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}  # which Python would add
_NEVER = frozenset(["utf-7", "unicode-escape", "raw-unicode-escape", "punycode", "idna"])  # of Python, not of documents
_NO_TEXTS = {
    b"PK\x03\x04": "a zip, such as an Office file",
    bytes.fromhex("d0cf11e0a1b11ae1"): "an old or encrypted Office file",
    b"%PDF-": "a PDF",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"\x1f\x8b": "compressed by gzip",
}
