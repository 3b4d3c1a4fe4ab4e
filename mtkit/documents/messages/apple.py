"""Strings of Apple's systems, `"key" = "value";`: values are text; keys and comments stay."""

import re
from dataclasses import dataclass

from mtkit.documents.document import Document
from mtkit.documents.messages.string_files import Scan, Value, strings_document, with_joined_surrogates
from mtkit.documents.reading import Options
from mtkit.errors import DataError

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BARE = r"[\w.$/:-]++"
_GAP = r"(?:\s|//[^\r\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+"
_ENTRY = re.compile(
    rf"{_GAP}(?P<key>{_STRING}|(?!//|/\*){_BARE}){_GAP}(?:={_GAP}(?:(?P<value>{_STRING})|(?!//|/\*){_BARE}){_GAP})?;",
    re.DOTALL,
)
_REST = re.compile(_GAP, re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|([0-7]{3})|(.))", re.DOTALL)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WRITTEN = {character: f"\\{letter}" for letter, character in _NAMED.items()} | {'"': '\\"', "\\": "\\\\"}


def read(raw: bytes, options: Options) -> Document:
    """Read a file in UTF-8, or in UTF-16 with a byte order mark."""
    if raw.startswith((b"bplist", b"<?xml")):
        kind = "binary" if raw.startswith(b"b") else "XML"
        raise DataError(f'line 1: is a property list in {kind}; convert it to lines such as "key" = "value";')
    return strings_document(raw, scan, options)


@dataclass(frozen=True)
class _Style:
    escaped: re.Pattern[str]
    newline: str | None  # a line break as it is; None: as \\n

    def write(self, text: str) -> str:
        """Escape text to be written between quotes."""
        written = self.escaped.sub(lambda found: _escape(found[0]), text)
        return written if self.newline is None else written.replace("\\n", self.newline)


def _escape(character: str) -> str:
    if character in _WRITTEN:
        return _WRITTEN[character]
    raw = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\U{raw[at : at + 4]}" for at in range(0, len(raw), 4))


def scan(text: str) -> Scan:
    """Return the values and everything between them. Raises DataError if a text is not such a list."""
    beyond = "\x7f-\U0010ffff" if text.isascii() and re.search(r"\\[uU][0-9a-fA-F]{4}", text) else ""
    escaped = re.compile(f'["\\\\\\x00-\\x1f{beyond}]')
    values: list[Value] = []
    between: list[str] = []
    at = last = 0
    while (entry := _ENTRY.match(text, at)) is not None:
        at = entry.end()
        if entry["value"] is not None:
            start, end = entry.start("value") + 1, entry.end("value") - 1
            raw = text[start:end]
            newline = ("\r\n" if "\r\n" in raw else "\n") if "\n" in raw else None
            path = _decoded(entry["key"].strip('"'))
            values.append(Value(start, end, _decoded(raw), _Style(escaped, newline).write, path))
            between.append(text[last:start])
            last = end
    rest = _REST.match(text, at)
    assert rest is not None
    if rest.end() < len(text):
        line = text.count("\n", 0, rest.end()) + 1
        excerpt = text[rest.end() :].split("\n", 1)[0][:40]
        raise DataError(f'line {line}: expected "key" = "value"; at {excerpt!r}; correct it there')
    return Scan(values, [*between, text[last:]])


def _decoded(raw: str) -> str:
    if "\\" not in raw and "\r" not in raw:
        return raw
    decoded = _ESCAPE.sub(_character, raw.replace("\r\n", "\n"))
    return with_joined_surrogates(decoded)


def _character(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    return chr(int(found[2], 8)) if found[2] else _NAMED.get(found[3], found[3])
