"""Split well-formed XML into tokens with offsets: tags, texts and comments."""

import html
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

_NAME = r"[^\s/<>=\"']+"
_VALUE = r"""(?:"[^"]*+"|'[^']*+')"""
_SUBSET = rf"(?:[^\]\"'<]++|{_VALUE}|<!--.*?-->|<\?.*?\?>|<)*+"  # of a document type: its own declarations
_TOKEN = re.compile(
    r"(?P<text>[^<]++)"
    r"|<!--(?P<comment>.*?)-->"
    r"|<!\[CDATA\[(?P<cdata>.*?)\]\]>"
    r"|<\?(?P<instruction>.*?)\?>"
    rf"|<!(?P<doctype>DOCTYPE(?:[^\"'>\[]++|{_VALUE})*+(?:\[{_SUBSET}\]\s*+)?)>"
    rf"|</(?P<close>{_NAME})\s*>"
    rf"|<(?P<open>{_NAME})(?:[^\"'<>/]++|{_VALUE})*+(?P<slash>/?)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(rf"\s(?P<name>{_NAME})\s*=\s*(?P<value>{_VALUE})")
_REFERENCE = re.compile("&(?:#x(?P<hex>[0-9a-fA-F]+)|#(?P<number>[0-9]+)|(?P<name>amp|lt|gt|quot|apos));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ENCODING = re.compile(r"""<\?xml[^>]+?encoding\s*=\s*["']([\w:.-]+)""")

Kind = Literal["open", "close", "empty", "text", "cdata", "comment", "instruction", "doctype"]


class Attribute(NamedTuple):
    """An attribute of a tag."""

    value: str  # without references
    start: int  # of the value, behind its quote, in the text
    end: int


class Token(NamedTuple):
    """Characters start to end of a text; tokens that follow each other make up the whole text."""

    kind: Kind
    start: int
    end: int
    markup: str  # the characters
    name: str = ""  # of a tag, with its prefix; also of an instruction

    @property
    def local_name(self) -> str:
        """The name without its prefix."""
        return self.name.rpartition(":")[2]

    @property
    def content(self) -> str:
        """The unescaped characters of a text or a CDATA section; "" for other tokens."""
        if self.kind == "text":
            return unescape(self.markup)
        return self.markup[len("<![CDATA[") : -len("]]>")] if self.kind == "cdata" else ""

    @property
    def attributes(self) -> dict[str, Attribute]:
        """The attributes of a tag, by their names with prefixes, in order."""
        if self.kind not in ("open", "empty"):
            return {}
        found = {}
        for match in _ATTRIBUTE.finditer(self.markup):
            start, end = match.start("value") + 1, match.end("value") - 1
            value = unescape(self.markup[start:end])
            found[match["name"]] = Attribute(value, self.start + start, self.start + end)
        return found

    def get(self, name: str, default: str = "") -> str:
        """Return the value of an attribute."""
        found = self.attributes.get(name)
        return default if found is None else found.value


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text that `xml_parser.check` accepts, in order and without gaps."""
    for match in _TOKEN.finditer(text):
        group = match.lastgroup
        start, end = match.span()
        if group == "slash":
            yield Token("empty" if match["slash"] else "open", start, end, match[0], match["open"])
        elif group == "close":
            yield Token("close", start, end, match[0], match["close"])
        elif group == "instruction":
            yield Token("instruction", start, end, match[0], match["instruction"].split(maxsplit=1)[0])
        elif group in ("text", "comment", "cdata", "doctype"):
            yield Token(group, start, end, match[0])  # type: ignore[arg-type]  # mypy sees any str


def ends_of(found: Sequence[Token]) -> dict[int, int]:
    """Return the index of the closing tag of each opening one; of an empty element, its own index."""
    ends: dict[int, int] = {}
    waiting: list[int] = []
    for index, token in enumerate(found):
        if token.kind == "open":
            waiting.append(index)
        elif token.kind == "empty":
            ends[index] = index
        elif token.kind == "close":
            ends[waiting.pop()] = index
    return ends


def declared_encoding(beginning: str) -> str | None:
    """Return the encoding that the XML declaration at the beginning of a document names."""
    found = _ENCODING.match(beginning)
    return found[1] if found else None


def unescape(raw: str) -> str:
    """Resolve the references in a text, such as &amp; and &#233;."""
    return _REFERENCE.sub(_character, raw) if "&" in raw else raw


def _character(reference: re.Match[str]) -> str:
    if reference["name"]:
        return _NAMED[reference["name"]]
    return chr(int(reference["hex"], 16) if reference["hex"] else int(reference["number"]))


def escape(text: str) -> str:
    """Escape text for XML between tags."""
    return html.escape(text, quote=False).replace("\r", "&#13;")


def escape_value(text: str) -> str:
    """Escape text for the value of an XML attribute, in quotes of either kind."""
    escaped = html.escape(text, quote=False).replace('"', "&quot;").replace("'", "&apos;")
    return escaped.replace("\t", "&#9;").replace("\n", "&#10;").replace("\r", "&#13;")
