"""YAML with strings of a program, such as Rails locale files: translate scalars with text, each in its own style."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import yaml

from mtkit.documents.document import Document
from mtkit.documents.messages.string_files import Scan, Value, strings_document
from mtkit.documents.reading import Options
from mtkit.errors import DataError

_MOST_LEVELS = 200
_PROPERTIES = re.compile(r"(?:[&!]\S*+(?:\s|(?<=\s)#[^\n]*+)*+)*+")
_BOOLEAN_WORD = re.compile("Yes|No|On|Off|YES|NO|ON|OFF")
_BOOLEAN = "is a boolean without quotes; put it in quotes to have it translated"
_UNICODE_ESCAPE = re.compile(r"\\[xuU][0-9a-fA-F]{2}")
_LONGEST_PATH = 200  # characters
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is about 20 times as fast
_NO_BLOCK = "is a block that begins or ends with a line of spaces; remove them"
_SPECIAL_START = re.compile(r"[-?:,\[\]{}#&*!|>'\"%@`=~<.\s]")
_SPECIAL = re.compile(r":(?:\s|\Z)|\s#|\s\Z|[\n\t\x85\u2028\u2029\ufeff]")
_SPECIAL_IN_FLOW = re.compile(r"[,\[\]{}?]|:(?=[^\w\s])")
_LIKE_OTHERS = re.compile(r"y|n|yes|no|on|off|true|false|null|none|[-+]?[\d.][\d_,.:eE+-]*", re.IGNORECASE)
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]')
_ESCAPED_ASCII = re.compile(r'["\\]|[^\x20-\x7e]')
_NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", "\x85": "\\N", "\xa0": "\\_"}
_SINGLE_SPACE = re.compile(r"(?<=\S) (?=\S)")
_NARROWEST = 40  # characters of a line that is wrapped
_STRING = "tag:yaml.org,2002:str"


def read(raw: bytes, options: Options) -> Document:
    """Read a file of YAML, which may have several documents."""
    return strings_document(raw, scan, options)


def scan(text: str) -> Scan:
    """Return the string scalars, and the rest as the YAML parser sees it. Raises DataError if the text is not YAML."""
    scanner = _Scanner(text, text.isascii() and _UNICODE_ESCAPE.search(text) is not None)
    for event in _events(text):
        scanner.add(event)
    return Scan(scanner.values, scanner.outline)


def _events(text: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise _error(text, error) from None
    except yaml.reader.ReaderError as error:
        found = yaml.reader.Reader.NON_PRINTABLE.search(text)
        line = text.count("\n", 0, found.start()) + 1 if found else 1
        shown = f"the character {found[0]!r}" if found else str(error)
        raise DataError(f"line {line}: is not YAML: {shown} is not allowed; write it as an escape in quotes") from None


def _error(text: str, error: yaml.MarkedYAMLError) -> DataError:
    lines = text.splitlines() or [""]
    mark, context = error.problem_mark or error.context_mark, error.context_mark
    number = min(len(lines), 1 if mark is None else mark.line + 1)
    began = "" if context is None or context.line + 1 >= number else f" (from line {context.line + 1} on)"
    what = " ".join(filter(None, [f"{error.context}{began}:" if error.context else None, error.problem]))
    return DataError(f"line {number}: is not YAML: {what}, at {lines[number - 1].strip()[:40]!r}; correct it there")


@dataclass
class _Level:
    """A mapping or a list that is open."""

    path: str
    is_mapping: bool
    is_flow: bool
    is_text: bool
    n_seen: int = 0  # nodes
    key: str = ""

    @property
    def is_at_key(self) -> bool:
        return self.is_mapping and self.n_seen % 2 == 0


@dataclass
class _Scanner:
    text: str
    is_ascii: bool  # characters beyond are escapes
    values: list[Value] = field(default_factory=list)
    outline: list[object] = field(default_factory=list)
    levels: list[_Level] = field(default_factory=list)
    resolver: yaml.resolver.Resolver = field(default_factory=yaml.resolver.Resolver)

    def add(self, event: yaml.Event) -> None:
        """Process the next event."""
        if isinstance(event, yaml.ScalarEvent):
            self._add_scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self.outline.append((type(event).__name__, event.anchor, event.tag))
            path, is_text = self._place()
            is_flow = bool(event.flow_style) or (bool(self.levels) and self.levels[-1].is_flow)
            self.levels.append(_Level(path, isinstance(event, yaml.MappingStartEvent), is_flow, is_text))
            if len(self.levels) > _MOST_LEVELS:
                assert event.start_mark is not None
                line = event.start_mark.line + 1
                raise DataError(
                    f"line {line}: more than {_MOST_LEVELS} lists and mappings inside each other; divide it"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            self.outline.append("end")
            self.levels.pop()
            self._count("")
        else:
            self.outline.append((type(event).__name__, getattr(event, "anchor", None)))
            if isinstance(event, yaml.AliasEvent):
                self._count("")

    def _add_scalar(self, event: yaml.ScalarEvent) -> None:
        tag = event.tag
        if not tag or tag == "!":
            tag = _tag_of(self.resolver, event.value, event.implicit)
        is_boolean = tag.endswith(":bool") and _BOOLEAN_WORD.fullmatch(event.value) is not None
        path, is_text = self._place()
        self.outline.append((event.anchor, tag, None if tag == _STRING else event.value))
        if tag == _STRING or is_boolean:
            self.values.append(self._value(event, path, is_text, _BOOLEAN if is_boolean else ""))
        self._count(event.value)

    def _place(self) -> tuple[str, bool]:
        """Return the path of the next node, and whether it may hold text: keys do not."""
        if not self.levels:
            return "", True
        level = self.levels[-1]
        step = f".{level.key}" if level.is_mapping else f"[{level.n_seen}]"
        return (level.path + step)[-_LONGEST_PATH:].removeprefix("."), level.is_text and not level.is_at_key

    def _count(self, value: str) -> None:
        """Process the end of a node. value: of a scalar."""
        if self.levels:
            level = self.levels[-1]
            if level.is_at_key:
                level.key = value
            level.n_seen += 1

    def _value(self, event: yaml.ScalarEvent, path: str, is_text: bool, fault: str) -> Value:
        assert event.start_mark is not None and event.end_mark is not None
        start, end = event.start_mark.index, event.end_mark.index
        properties = _PROPERTIES.match(self.text, start, end) if event.style not in ("'", '"') or event.tag else None
        start = properties.end() if properties and (event.anchor or event.tag) else start
        write: Callable[[str], str]
        if event.style in ("|", ">"):
            block = _block_of(self.text[start:end], event.value, is_folded=event.style == ">")
            if block is None:
                return Value(start, end, event.value, str, path, is_text, fault=_NO_BLOCK)
            return Value(start + block.start, start + block.end, event.value, block.write, path, is_text, fault=fault)
        if event.style == "'":
            write = partial(_single_quoted, is_ascii=self.is_ascii)
        elif event.style == '"':
            write = partial(_double_quoted, is_ascii=self.is_ascii)
        else:
            is_flow = bool(self.levels) and self.levels[-1].is_flow
            write = partial(_plain, self.resolver, is_flow=is_flow, is_ascii=self.is_ascii)
        return Value(start, end, event.value, write, path, is_text, fault=fault)


def _tag_of(resolver: yaml.resolver.Resolver, value: str, implicit: tuple[bool, bool]) -> str:
    """Return the type of a scalar without a tag."""
    return str(resolver.resolve(yaml.ScalarNode, value, implicit))  # type: ignore[no-untyped-call]


def _plain(resolver: yaml.resolver.Resolver, text: str, *, is_flow: bool, is_ascii: bool) -> str:
    """Return text as a plain scalar, or in double quotes if it would be something else. is_flow: inside [] or {}."""
    is_special = (
        not text
        or _SPECIAL_START.match(text)
        or _SPECIAL.search(text)
        or (is_flow and _SPECIAL_IN_FLOW.search(text))
        or _ESCAPED.search(text.replace('"', "").replace("\\", ""))
        or _LIKE_OTHERS.fullmatch(text)
        or (is_ascii and not text.isascii())
        or _tag_of(resolver, text, (True, False)) != _STRING
    )
    return _double_quoted(text, is_ascii=is_ascii) if is_special else text


def _single_quoted(text: str, *, is_ascii: bool) -> str:
    """Return text in single quotes, or in double ones if it needs escapes."""
    needs_escapes = _ESCAPED.search(text.replace('"', "").replace("\\", "")) or (is_ascii and not text.isascii())
    return _double_quoted(text, is_ascii=is_ascii) if needs_escapes else "'{}'".format(text.replace("'", "''"))


def _double_quoted(text: str, *, is_ascii: bool) -> str:
    """Return text in double quotes. is_ascii: with escapes for all other characters."""
    pattern = _ESCAPED_ASCII if is_ascii else _ESCAPED
    return f'"{pattern.sub(lambda found: _escape(found[0]), text)}"'


def _escape(character: str) -> str:
    code = ord(character)
    named = _NAMED.get(character)
    return named or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


@dataclass(frozen=True)
class _Block:
    """The lines of a literal or folded block: characters start to end, behind the indentation of the first."""

    start: int
    end: int
    indentation: str
    newline: str
    width: int  # of its longest line
    is_folded: bool
    begins_with_space: bool = False  # which its header allows

    def write(self, text: str) -> str:
        """Return text as such lines. Line breaks at its ends are not part of them, nor is a space that begins it."""
        core = text.strip("\n") if self.begins_with_space else text.strip("\n").lstrip(" ")
        lines = self._folded(core) if self.is_folded else core.split("\n")
        return self.newline.join(self.indentation + line if line else "" for line in lines).removeprefix(
            self.indentation
        )

    def _folded(self, text: str) -> list[str]:
        """Fold a line into several that YAML joins again. YAML never joins lines that begin with white space."""
        lines: list[str] = []
        n_empty, before = 0, ""
        for line in text.split("\n"):
            if not line:
                n_empty += 1
                continue
            if lines:
                is_kept = before[0] in " \t" or line[0] in " \t"
                lines += [""] * (n_empty if is_kept else n_empty + 1)
            lines += [line] if line[0] in " \t" else self._wrapped(line)
            n_empty, before = 0, line
        return lines

    def _wrapped(self, line: str) -> list[str]:
        lines: list[str] = []
        words: list[str] = []
        length = 0
        for word in _SINGLE_SPACE.split(line):
            if words and length + 1 + len(word) > max(self.width, _NARROWEST):
                lines.append(" ".join(words))
                words, length = [], 0
            length += len(word) + bool(words)
            words.append(word)
        return [*lines, " ".join(words)]


def _block_of(raw: str, value: str, *, is_folded: bool) -> _Block | None:
    """Return the lines of a block.

    raw: from its | or > on. value: what it stands for. None if a line of spaces is part of the text at its ends.
    """
    core = value.strip("\n")
    header = raw.find("\n") + 1
    first = re.compile(r"[ \t]*[^\s]").search(raw, header) if header else None
    if not core.strip() or first is None:
        return _Block(len(raw), len(raw), "", "\n", 0, is_folded) if not core else None
    if not core.split("\n", 1)[0].strip() or not core.rsplit("\n", 1)[-1].strip():
        return None
    start = raw.rfind("\n", 0, first.end()) + 1
    n_before = len(raw[start:]) - len(raw[start:].lstrip(" "))
    n_inner = len(core) - len(core.lstrip(" "))
    end = len(raw.rstrip())
    line_end = raw.find("\n", end)
    end = len(raw[: line_end if line_end >= 0 else len(raw)].rstrip("\r"))
    indentation = " " * (n_before - n_inner)
    width = max(len(line.rstrip()) for line in raw[start:end].split("\n")) - len(indentation)
    newline = "\r\n" if "\r\n" in raw else "\n"
    return _Block(start + len(indentation), end, indentation, newline, width, is_folded, n_inner > 0)
