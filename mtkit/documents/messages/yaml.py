"""YAML with strings of a program, such as the locale files of Rails: scalars that hold text, each in its own style."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import yaml

from mtkit.documents.document import Document
from mtkit.documents.messages import yaml_scalars
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


def read(raw: bytes, options: Options) -> Document:
    """Read a file of YAML, which may have several documents."""
    return strings_document(raw, scan)


def scan(text: str) -> Scan:
    """Return the scalars that are strings, and what else the parser of YAML sees. Raises DataError if it sees none."""
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
        """Take note of the next event."""
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
            tag = yaml_scalars.tag_of(self.resolver, event.value, event.implicit)
        is_boolean = tag.endswith(":bool") and _BOOLEAN_WORD.fullmatch(event.value) is not None
        path, is_text = self._place()
        self.outline.append((event.anchor, tag, None if tag == yaml_scalars.STRING else event.value))
        if tag == yaml_scalars.STRING or is_boolean:
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
        """Take note that a node has ended. value: of a scalar."""
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
            block = yaml_scalars.block_of(self.text[start:end], event.value, is_folded=event.style == ">")
            if block is None:
                return Value(start, end, event.value, str, path, is_text, fault=yaml_scalars.NO_BLOCK)
            return Value(start + block.start, start + block.end, event.value, block.write, path, is_text, fault=fault)
        if event.style == "'":
            write = partial(yaml_scalars.single_quoted, is_ascii=self.is_ascii)
        elif event.style == '"':
            write = partial(yaml_scalars.double_quoted, is_ascii=self.is_ascii)
        else:
            is_flow = bool(self.levels) and self.levels[-1].is_flow
            write = partial(yaml_scalars.plain, self.resolver, is_flow=is_flow, is_ascii=self.is_ascii)
        return Value(start, end, event.value, write, path, is_text, fault=fault)
