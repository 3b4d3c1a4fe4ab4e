"""TOML with strings of a program: strings that are values, each in its own kind of quotes."""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from mtkit.documents.document import Document
from mtkit.documents.messages.string_files import Scan, Value, check_readings, strings_document
from mtkit.documents.reading import Options
from mtkit.errors import DataError

_TOKEN = re.compile(  # strings that are not closed, too, so that no text takes quadratic time
    r"(?P<comment>#[^\n]*+)"
    r'|"""(?P<long>[^"\\]*+(?:\\.?[^"\\]*+|"{1,2}(?!")[^"\\]*+)*+(?:"{0,2}(?="""))?)(?:"""|\Z)'
    r"|'''(?P<long_raw>[^']*+(?:'{1,2}(?!')[^']*+)*+(?:'{0,2}(?='''))?)(?:'''|\Z)"
    r'|"(?P<basic>[^"\\\n]*+(?:\\.?[^"\\\n]*+)*+)"?'
    r"|'(?P<raw>[^'\n]*+)'?"
    r"|(?P<mark>[\[\]{}=,.\n])"
    r"|(?P<bare>[^\s\"'\[\]{}=,.#]++)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_NAMED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_WRITTEN = {character: f"\\{letter}" for letter, character in _NAMED.items()}
_CONTROL = re.compile('[\\x00-\\x1f\\x7f"\\\\]')
_CONTROL_BUT_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_MOST_LEVELS = 100
_LINE = re.compile(r"\(at (?:line (\d+), column \d+|end of document)\)")
_LONGEST_PATH = 200  # characters


def read(raw: bytes, options: Options) -> Document:
    """Read a file of TOML."""
    return strings_document(raw, scan, options)


def scan(text: str) -> Scan:
    """Return the strings that are values, and the rest as Python reads it. Raises DataError if a text is no TOML."""
    _check_levels(text)
    strings: Counter[str] = Counter()
    try:
        outline = _without_strings(tomllib.loads(text), strings)
    except tomllib.TOMLDecodeError as error:
        raise _error(text, str(error)) from None
    except ValueError as error:
        raise DataError(f"cannot be read as TOML ({error}); shorten its longest number") from None
    values = list(_Scanner(text).values())
    check_readings(sorted(value.text for value in values), sorted(strings.elements()))
    return Scan(values, outline)


def _check_levels(text: str) -> None:
    depth = n_names = 0  # n_names: of the key
    for token in _TOKEN.finditer(text):
        mark = token["mark"]
        depth += (mark in ("[", "{")) - (mark in ("]", "}"))
        n_names = n_names + 1 if mark == "." else n_names if mark is None else 0
        if max(depth, n_names) > _MOST_LEVELS:
            line = text.count("\n", 0, token.start()) + 1
            raise DataError(f"line {line}: more than {_MOST_LEVELS} lists and tables inside each other; divide it")


def _error(text: str, message: str) -> DataError:
    found = _LINE.search(message)
    lines = text.split("\n")
    line = int(found[1]) if found and found[1] else len(lines)
    what = _LINE.sub("", message).strip()
    return DataError(f"line {line}: is not TOML: {what}, at {lines[line - 1].strip()[:40]!r}; correct it there")


def _without_strings(value: object, strings: Counter[str]) -> object:
    """Return a value as text without its strings; count these."""
    if isinstance(value, str):
        strings[value] += 1
        return "string"
    if isinstance(value, Mapping):
        return [(name, _without_strings(inner, strings)) for name, inner in value.items()]
    if isinstance(value, list):
        return [_without_strings(inner, strings) for inner in value]
    return f"{type(value).__name__} {value!r}"


@dataclass
class _Scanner:
    """Separates keys from values in a TOML text."""

    text: str
    levels: list[str] = field(default_factory=list)  # the brackets that are open behind an equals sign
    path: list[str] = field(default_factory=list)  # of the key that is read, or was read last
    table: str = ""
    is_value: bool = False
    is_header: bool = False

    def values(self) -> Iterator[Value]:
        """Yield the strings that are values, in order."""
        for token in _TOKEN.finditer(self.text):
            kind = token.lastgroup
            if kind == "mark":
                self._mark(token["mark"])
            elif kind in ("comment", None):
                continue
            elif not self.is_value:
                self.path.append(_decoded(kind, token[kind]) if kind != "bare" else token[0])
            elif kind != "bare":
                yield self._value(token, kind)

    def _mark(self, mark: str) -> None:
        if mark == "=":
            self.is_value = True
        elif mark == "\n" and not self.levels:
            if self.is_header:
                self.table = ".".join(self.path)
            self.is_value = self.is_header = False
            self.path = []
        elif mark == "[" and not self.is_value:
            self.is_header = True
        elif mark in "[{":
            self.levels.append(mark)
            self.is_value = mark == "["
            self.path = self.path if mark == "[" else []
        elif mark in "]}" and self.levels:
            self.levels.pop()
            self.is_value = True
        elif mark == "," and self.levels[-1:] == ["{"]:
            self.is_value = False
            self.path = []

    def _value(self, token: re.Match[str], kind: str) -> Value:
        start, end = token.span(kind)
        raw = token[kind]
        path = ".".join(filter(None, [self.table, *self.path]))[-_LONGEST_PATH:]
        text = _decoded(kind, raw)
        if kind in ("long", "long_raw") and raw.startswith(("\n", "\r\n")):
            start += raw.index("\n") + 1
        newline = "\r\n" if "\r\n" in raw else "\n"
        start, end, write = self._written(token, kind, (start, end), newline)
        return Value(start, end, text, write, path)

    def _written(
        self, token: re.Match[str], kind: str, place: tuple[int, int], newline: str
    ) -> tuple[int, int, Callable[[str], str]]:
        """Return the characters that a translation replaces, and the function that writes it."""
        if kind == "basic":
            return *place, basic
        if kind == "long":
            return *place, partial(long_basic, newline=newline)
        quotes = token[0][:3] if kind == "long_raw" else "'"
        return *token.span(), partial(_literal, quotes, newline, self.text[token.start() + len(quotes) : place[0]])


def _decoded(kind: str, raw: str) -> str:
    """Return the value of a string."""
    text = raw.replace("\r\n", "\n") if kind in ("long", "long_raw") else raw
    if kind in ("long", "long_raw"):
        text = text.removeprefix("\n")
    if kind == "long":
        text = _ESCAPE_OR_BREAK.sub(_character, text)
    return _ESCAPE.sub(_character, text) if kind == "basic" else text


_ESCAPE_OR_BREAK = re.compile(rf"(?P<gap>\\[ \t]*\n\s*)|{_ESCAPE.pattern}", re.DOTALL)


def _character(found: re.Match[str]) -> str:
    if found.groupdict().get("gap"):
        return ""
    *_, short, long, named = found.groups()
    return _NAMED[named] if named else chr(int(short or long, 16))


def basic(text: str) -> str:
    """Escape text for double quotes."""
    return _CONTROL.sub(lambda found: _WRITTEN.get(found[0]) or f"\\u{ord(found[0]):04X}", text)


def long_basic(text: str, *, newline: str = "\n") -> str:
    """Escape text for three double quotes."""
    escaped = text.replace("\\", "\\\\")
    if '"""' in escaped or escaped.endswith('"'):
        escaped = escaped.replace('"', '\\"')
    if escaped.startswith("\n"):  # which the quotes would swallow
        escaped = f"\\n{escaped[1:]}"
    escaped = _CONTROL_BUT_LINES.sub(lambda found: _WRITTEN.get(found[0]) or f"\\u{ord(found[0]):04X}", escaped)
    return escaped.replace("\n", newline)


def _literal(quotes: str, newline: str, beginning: str, text: str) -> str:
    """Return text in single quotes, or in double ones if it cannot stand in these. beginning: the first line break."""
    if quotes == "'":
        return f'"{basic(text)}"' if "'" in text or _CONTROL_BUT_LINES.search(text) or "\n" in text else f"'{text}'"
    beginning = beginning or ("\n" if text.startswith("\n") else "")
    if "'''" in text or text.endswith("'") or _CONTROL_BUT_LINES.search(text):
        return f'"""{beginning}{long_basic(text, newline=newline)}"""'
    return f"'''{beginning}{text}'''".replace("\n", newline) if newline == "\n" else _crlf(f"'''{beginning}{text}'''")


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
