"""The tokens of a well-formed XML text, with the standard prefixes in their names, whatever prefixes the text uses."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from mtkit.markup.xml_parser import check
from mtkit.markup.xml_tokens import Token, ends_of, tokens

_DECLARATION = re.compile(r"""\sxmlns(?::(?P<prefix>[\w.-]+))?\s*=\s*["'](?P<uri>[^"']+)["']""")


class Xml:
    """The tokens of a text, by their indices, with names and ends."""

    def __init__(self, text: str, prefixes: Mapping[str, str]) -> None:
        """prefixes: the usual ones, by the addresses of namespaces. Raises DataError if the text is not well-formed."""
        check(text)
        self.text = text
        self.tokens: list[Token] = list(tokens(text))
        self.ends = ends_of(self.tokens)
        usual = {match["prefix"] or "": prefixes.get(match["uri"]) for match in _DECLARATION.finditer(text)}
        self._usual = {prefix: name for prefix, name in usual.items() if name is not None}
        self._known: dict[str, str] = {}
        self.names = [self._name(token.name) if token.name else "" for token in self.tokens]

    def _name(self, name: str) -> str:
        if name not in self._known:
            prefix, _, local = name.rpartition(":")
            usual = self._usual.get(prefix, prefix)
            self._known[name] = f"{usual}:{local}" if usual else local
        return self._known[name]

    def own_prefix(self, usual: str) -> str:
        """Return the prefix that the text uses for a namespace, such as "w:"."""
        own = next((prefix for prefix, name in self._usual.items() if name == usual), usual)
        return f"{own}:" if own else ""

    def end(self, index: int) -> int:
        """Return the character behind an element that begins with this token, or behind another token."""
        return self.tokens[self.ends.get(index, index)].end

    def children(self, index: int) -> list[int]:
        """Return the indices of the tokens inside an element, without what is inside of those."""
        found, at, last = [], index + 1, self.ends[index]
        while at < last:
            found.append(at)
            at = self.ends.get(at, at) + 1
        return found

    def attribute(self, index: int, local_name: str) -> str:
        """Return the value of an attribute whose prefix does not matter; "" without it."""
        attributes = self.tokens[index].attributes
        return next((found.value for name, found in attributes.items() if name.rpartition(":")[2] == local_name), "")

    def content(self, index: int) -> str:
        """Return the characters of an element that has no others inside."""
        return "".join(token.content for token in self.tokens[index + 1 : self.ends[index]])

    def is_text_only(self, index: int) -> bool:
        """Return whether an element has nothing inside but text."""
        return all(token.kind in ("text", "cdata") for token in self.tokens[index + 1 : self.ends[index]])


@dataclass(frozen=True)
class Frame:
    """The parts of an XML text that no translation may change: all elements, in order, except for these."""

    prefixes: Mapping[str, str]
    paragraphs: Collection[str]  # elements inside which others may change places
    ignored: Collection[str] = ()  # tags that a translation may add or remove
    skipped: Collection[str] = ()  # elements that it may add or remove, with all inside
    attributes: Collection[str] = ()  # whose values are text

    @cached_property
    def _values(self) -> re.Pattern[str]:
        return re.compile(rf"""(\s(?:{"|".join(self.attributes)})\s*=\s*)(?:"[^"]*"|'[^']*')""")

    def parse(self, text: str) -> Xml:
        """Return the tree of a text. Raises DataError if it is not well-formed."""
        return Xml(text, self.prefixes)

    def __call__(self, xml: Xml) -> object:
        """Return the frame of a text."""
        levels: list[list[str]] = [[]]
        index = -1
        while (index := index + 1) < len(xml.tokens):
            token, name = xml.tokens[index], xml.names[index]
            if token.kind in ("text", "cdata", "comment") or name in self.ignored:
                continue
            if name in self.skipped:
                index = xml.ends[index]
            elif name in self.paragraphs and token.kind == "open":
                levels[-1].append(token.markup)
                levels.append([])
            elif name in self.paragraphs and token.kind == "close":
                inside = repr(sorted(levels.pop()))
                levels[-1].append(sha256(inside.encode("utf-8", "surrogatepass")).hexdigest())
            else:
                levels[-1].append(self._values.sub(r"\1", token.markup) if self.attributes else token.markup)
        return levels[0]
