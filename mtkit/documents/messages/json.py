"""JSON with strings of a program: i18next, FormatJS, Vue, Flutter's ARB, messages of browser extensions and others."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mtkit.documents.document import Document
from mtkit.documents.messages.string_files import Scan, Value, check_readings, strings_document
from mtkit.documents.reading import Options
from mtkit.errors import DataError

_STRING = r'"(?P<string>[^"\\]*+(?:\\.[^"\\]*+)*+)"?'
_COMMENT = r"(?P<comment>//[^\r\n]*+|/\*.*?(?:\*/|\Z))"
_TOKEN = re.compile(rf"{_STRING}(?P<is_key>\s*+:)?|{_COMMENT}", re.DOTALL)
_STRING_OR_COMMA = re.compile(rf"{_STRING}|(?P<comma>,)(?=\s*+[}}\]])", re.DOTALL)
_NOT_LINE_END = re.compile(r"[^\r\n]")
_UNICODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_EXTENSION = frozenset(["message", "description", "placeholders"])  # of an entry in messages.json of an extension
_LONGEST_PATH = 200  # characters


def read(raw: bytes, options: Options) -> Document:
    """Read a JSON file, which may have comments."""
    return strings_document(raw, scan, options)


@dataclass(frozen=True)
class _Escapes:
    """The way in which a file writes the characters of strings."""

    escaped: re.Pattern[str]
    slash: str

    @classmethod
    def of(cls, text: str) -> "_Escapes":
        """Detect the escapes of a file. If it is ASCII with escapes for other characters, escape them all."""
        found = {chr(int(match[1], 16)) for match in _UNICODE.finditer(text)}
        named = "".join(re.escape(character) for character in sorted(found) if " " < character < "\x7f")
        beyond = "\x7f-\U0010ffff" if text.isascii() and any(character > "\x7f" for character in found) else ""
        slash = "\\/" if "\\/" in text and text.count("\\/") > text.count("/") / 2 else "/"
        return cls(re.compile(f'[\\x00-\\x1f"\\\\{named}{beyond}]'), slash)

    def write(self, text: str) -> str:
        """Escape text to be written between quotes."""
        return self.escaped.sub(lambda found: escape(found[0]), text).replace("/", self.slash)


def escape(character: str) -> str:
    """Return a character as JSON writes it in ASCII."""
    return _NAMED.get(character) or "".join(f"\\u{unit:04x}" for unit in utf16_units(character))


def utf16_units(character: str) -> Iterator[int]:
    """Yield the numbers that UTF-16 writes a character with: one or two."""
    raw = character.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2))


class _Object(tuple[tuple[str, object], ...]):
    """The names and values of an object, in order; a name may come twice."""


class _Number(str):
    """A number as it is written."""


def scan(text: str) -> Scan:
    """Return the strings and the other values of a JSON text. Raises DataError if it is not JSON."""
    plain, parsed = _parsed(text)
    outline: list[object] = []
    found = list(_strings(parsed, outline))
    places = list(_places(plain))
    check_readings([_decoded(plain[start:end]) for start, end in places], [value for value, _, _ in found])
    write = _Escapes.of(text).write
    values = [
        Value(start, end, value, write, path, is_text)
        for (value, path, is_text), (start, end) in zip(found, places, strict=True)
    ]
    return Scan(values, outline)


def _parsed(text: str) -> tuple[str, object]:
    """Return the text with spaces in place of comments, and its parsed contents."""
    try:
        return text, _loaded(text)
    except json.JSONDecodeError as error:
        plain = _without_comments(text)
        if plain == text:
            raise _error(text, error) from None
    try:
        return plain, _loaded(plain)
    except json.JSONDecodeError as error:
        raise _error(text, error) from None


def _loaded(text: str) -> object:
    try:
        return json.loads(
            text, object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number, parse_constant=_Number
        )
    except RecursionError:
        raise DataError("has too many lists and objects inside each other; divide it") from None


def _without_comments(text: str) -> str:
    """Replace comments by spaces, and also commas after the last item of a list or object."""

    def blanked(match: re.Match[str]) -> str:
        return match[0] if match["comment"] is None else _NOT_LINE_END.sub(" ", match[0])

    without = _TOKEN.sub(blanked, text)
    return _STRING_OR_COMMA.sub(lambda match: match[0] if match["comma"] is None else " ", without)


def _error(text: str, error: json.JSONDecodeError) -> DataError:
    line = text[error.pos :].split("\n", 1)[0].strip()[:40]
    if not text.strip():
        return DataError("line 1: is empty; JSON has at least {}")
    what = error.msg[:1].lower() + error.msg[1:]
    shown = f", before {line!r}" if line else ", at the end of the line"
    return DataError(
        f"line {error.lineno}: is not JSON: {what}{shown}; correct it there, or choose its format with --format"
    )


def _places(plain: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the strings that are values."""
    return (match.span("string") for match in _TOKEN.finditer(plain) if match["is_key"] is None)


def _decoded(raw: str) -> str:
    return str(json.loads(f'"{raw}"')) if "\\" in raw else raw


def _strings(parsed: object, outline: list[object]) -> Iterator[tuple[str, str, bool]]:
    """Yield the strings that are values, with their paths and whether they may be text; add all else to the outline."""
    is_extension = isinstance(parsed, _Object) and bool(parsed) and all(_is_entry(value) for _, value in parsed)
    to_do: list[tuple[object, str, bool]] = [(parsed, "", True)]
    while to_do:
        value, path, is_text = to_do.pop()
        if isinstance(value, str) and not isinstance(value, _Number):
            outline.append("string")
            yield value, path, is_text
        elif isinstance(value, _Object):
            outline.append(tuple(name for name, _ in value))
            names = [name for name, _ in value]
            kept = ("description", "id") if "defaultMessage" in names else ()
            for name, inner in reversed(value):
                may_be = is_text and not name.startswith("@") and name not in kept
                may_be = may_be and not (is_extension and path and name != "message")
                to_do.append((inner, f"{path}.{name}"[-_LONGEST_PATH:] if path else name, may_be))
        elif isinstance(value, list):
            outline.append(len(value))
            to_do += [(inner, f"{path}[{index}]", is_text) for index, inner in reversed(list(enumerate(value)))]
        else:
            outline.append(value)


def _is_entry(value: object) -> bool:
    """Return whether a value has the form of those in messages.json of a browser extension."""
    if not isinstance(value, _Object):
        return False
    names = {name for name, _ in value}
    return "message" in names and names <= _EXTENSION
