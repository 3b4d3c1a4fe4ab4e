"""Java properties: mtkit keeps keys and translates values, with MessageFormat's quotes if they have arguments."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mtkit.documents.document import Document
from mtkit.documents.messages import icu
from mtkit.documents.messages.string_files import Scan, Value, strings_document, with_joined_surrogates
from mtkit.documents.messages.values import Apostrophes
from mtkit.documents.reading import Options
from mtkit.errors import DataError

_SPACE = r"(?:[ \t\f]|\\(?:\r\n|[\r\n]))"
_ENTRY = re.compile(
    r"[ \t\f]*+"
    r"(?:(?P<comment>[#!][^\r\n]*+)"
    rf"|(?P<key>(?:[^\\=: \t\f\r\n]|\\(?:\r\n|.))*+)(?:{_SPACE}*+(?:[=:]{_SPACE}*+)?)"
    r"(?P<value>(?:[^\\\r\n]|\\(?:\r\n|.)?)*+))"
    r"(?:\r\n|[\r\n]|\Z)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u(?P<hex>.{0,4})|(?P<break>\r\n|[\r\n])[ \t\f]*|(?P<other>.))", re.DOTALL)
_BREAK = re.compile(r"\\(?P<newline>\r\n|[\r\n])(?P<indentation>[ \t\f]*)")
_HEX = re.compile("[0-9a-fA-F]{4}")
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {character: f"\\{letter}" for letter, character in _NAMED.items()} | {"\\": "\\\\"}
_BETWEEN_WORDS = re.compile(r"(?<=\S )(?=\S)|(?<=\\n)(?=\S)")
_MARKS = "=:#!"
_ARGUMENT = re.compile(r"\{\s*\d+\s*[,}]")


def read(raw: bytes, options: Options) -> Document:
    """Read a file in UTF-8, or else in ISO-8859-1."""
    try:
        raw.decode("utf-8")
        is_utf8 = True
    except UnicodeDecodeError:
        is_utf8 = False

    def scan_file(text: str) -> Scan:
        return scan(text, is_utf8=is_utf8)

    return strings_document(raw, scan_file, options, lambda _beginning: None if is_utf8 else "iso-8859-1")


def scan(text: str, *, is_utf8: bool = True) -> Scan:
    """Return the values and everything between them. Raises DataError for an escape that Java does not accept."""
    entries = [entry for entry in _ENTRY.finditer(text) if entry["comment"] is None and entry[0].strip()]
    style = _style_of(text, entries, is_utf8=is_utf8)
    values = [
        Value(
            *entry.span("value"),
            _decoded(text, entry.span("value")),
            replace(style, breaks=_breaks_of(entry["value"])).write,
            _decoded(text, entry.span("key")),
        )
        for entry in entries
    ]
    return Scan(list(_with_apostrophes(values)), _between(text, values))


def _between(text: str, values: Sequence[Value]) -> list[str]:
    ends = [0, *(value.end for value in values)]
    starts = [*(value.start for value in values), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


def _decoded(text: str, place: tuple[int, int]) -> str:
    raw = text[slice(*place)]
    if "\\" not in raw:
        return raw

    def character(found: re.Match[str]) -> str:
        if found["hex"] is not None:
            if not _HEX.fullmatch(found["hex"]):
                line = text.count("\n", 0, place[0] + found.start()) + 1
                raise DataError(f"line {line}: {found[0]!r} is no \\u escape of four hexadecimal digits; correct it")
            return chr(int(found["hex"], 16))
        return "" if found["break"] else _NAMED.get(found["other"], found["other"])

    decoded = _ESCAPE.sub(character, raw)
    return with_joined_surrogates(decoded)


@dataclass(frozen=True)
class _Breaks:
    """The way in which a value continues on further lines."""

    newline: str
    indentation: str
    width: int


def _breaks_of(raw: str) -> _Breaks | None:
    found = _BREAK.search(raw) if "\\" in raw else None
    if found is None:
        return None
    return _Breaks(found["newline"], found["indentation"], max(40, *map(len, raw.splitlines())))


@dataclass(frozen=True)
class _Style:
    """The way in which a file writes values."""

    escaped: re.Pattern[str]
    is_upper: bool  # hexadecimal digits
    breaks: _Breaks | None = None

    def write(self, text: str) -> str:
        """Return text as a value."""
        written = self.escaped.sub(lambda found: self._escape(found[0]), text)
        if written[:1] == " ":
            written = "\\" + written
        if self.breaks is None:
            return written
        lines = [""]
        for word in _BETWEEN_WORDS.split(written):
            if lines[-1] and len(lines[-1]) + len(word) >= self.breaks.width:
                lines.append("")
            lines[-1] += word
        return f"\\{self.breaks.newline}{self.breaks.indentation}".join(lines)

    def _escape(self, character: str) -> str:
        if character in _WRITTEN:
            return _WRITTEN[character]
        if character in _MARKS:
            return f"\\{character}"
        raw = character.encode("utf-16-be", "surrogatepass").hex()
        units = (raw[at : at + 4] for at in range(0, len(raw), 4))
        return "".join(f"\\u{unit.upper() if self.is_upper else unit}" for unit in units)


def _style_of(text: str, entries: Sequence[re.Match[str]], *, is_utf8: bool) -> _Style:
    """Return the style: escapes for all beyond ASCII unless the file has such characters in UTF-8."""
    escaped_marks = {mark for mark in _MARKS if any(f"\\{mark}" in entry["value"] for entry in entries)}
    beyond = "" if is_utf8 and not text.isascii() else "\x7f-\U0010ffff"
    pattern = "[\\\\\\x00-\\x1f{}{}]".format("".join(map(re.escape, sorted(escaped_marks))), beyond)
    return _Style(re.compile(pattern), re.search(r"\\u[0-9a-f]*[A-F]", text) is not None)


def _with_apostrophes(values: Sequence[Value]) -> Iterator[Value]:
    """Yield the values with what an apostrophe means in them: that depends on whether the program formats messages."""
    messages = [value.text for value in values if _has_arguments(value.text)]
    doubles = any("''" in text for text in messages)
    has_single = any("'" in text.replace("''", "") for text in messages)
    for value in values:
        if "''" in value.text or (doubles and _has_arguments(value.text)):
            yield replace(value, apostrophes=Apostrophes.DOUBLED)
        elif _has_arguments(value.text) and not has_single:
            yield replace(value, apostrophes=Apostrophes.ANY)
        else:
            yield value


def _has_arguments(text: str) -> bool:
    return _ARGUMENT.search(text) is not None or icu.has_branches(text)
