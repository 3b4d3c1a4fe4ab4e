"""ODT, ODS and ODP: paragraphs, headings, notes and comments are segments; formats, links and fields are codes."""

import re
from collections.abc import Collection, Iterator, Mapping

from mtkit.documents.document import Document, Part
from mtkit.documents.office.archive import Archive
from mtkit.documents.office.ooxml import add_element, member_part, member_xml
from mtkit.documents.office.runs import Item, Raw, RunStyle, add_paragraph, add_text, is_code_style
from mtkit.documents.reading import Options
from mtkit.documents.skeleton import Reading, Skeleton
from mtkit.errors import DataError
from mtkit.markup import xml_tokens
from mtkit.markup.xml_tree import Frame, Xml
from mtkit.text.inline import Kind
from mtkit.text.placeholders import PROSE
from mtkit.text.words import has_letters

_OASIS = "urn:oasis:names:tc:opendocument:xmlns:"
_PREFIXES: Mapping[str, str] = {
    f"{_OASIS}office:1.0": "office",
    f"{_OASIS}text:1.0": "text",
    f"{_OASIS}table:1.0": "table",
    f"{_OASIS}style:1.0": "style",
    f"{_OASIS}svg-compatible:1.0": "svg",
    f"{_OASIS}meta:1.0": "meta",
    f"{_OASIS}manifest:1.0": "manifest",
    "http://purl.org/dc/elements/1.1/": "dc",
}
_PARAGRAPHS = frozenset(["text:p", "text:h"])
_AROUND = frozenset(["text:a", "text:meta", "text:meta-field"])
_RANGES = ("text:bookmark", "text:reference-mark", "text:change", "text:toc-mark", "text:user-index-mark")
_BREAKS = frozenset(["text:tab", "text:line-break"])
_LEFT_OUT = frozenset(["text:soft-page-break"])
_PLAIN = frozenset(
    ["svg:title", "svg:desc", "text:index-title-template", "dc:title", "dc:subject", "dc:description", "meta:keyword"]
)
_STAYS = frozenset(["text:tracked-changes", "office:scripts", "table:tracked-changes"])
_FRAME = Frame(_PREFIXES, _PARAGRAPHS, ignored=["text:span", "text:s", *_LEFT_OUT], attributes=["office:title"])
_LANGUAGE = re.compile(
    r"""\s(?:fo:language|fo:country|fo:script|style:language-\w+|style:country-\w+|style:script-\w+|style:rfc-[\w-]+"""
    r"""|officeooo:[\w-]*rsid)\s*=\s*"[^"]*\""""
)
_LITERAL = re.compile('"((?:[^"]|"")*)"')
_SPACES = re.compile("[ \t\r\n]+")


def read(raw: bytes, options: Options) -> Document:
    """Read an ODT, ODS, ODP or their templates. Raises DataError if it is another format, damaged or encrypted."""
    archive = Archive(raw, "ODT, ODS or ODP")
    manifest = "META-INF/manifest.xml"
    if manifest in archive and "manifest:encryption-data" in member_xml(archive, manifest, _PREFIXES).parsed.names:
        raise DataError("is encrypted; save the document without a password")
    if "content.xml" not in archive and "styles.xml" not in archive:  # some templates have styles alone
        raise DataError("has no content.xml, so it is damaged or another kind of file; save it as ODT, ODS or ODP")
    return archive.document(list(_parts(archive)), PROSE)


def _parts(archive: Archive) -> Iterator[Part[Xml]]:
    for name in archive.names:  # objects inside, such as charts, have texts of their own
        if name.rpartition("/")[2] in ("content.xml", "styles.xml") or name == "meta.xml":
            yield member_part(archive, name, _read_text, _FRAME)


def _read_text(xml: Xml) -> Reading:
    return _Content(xml).reading()


class _Content:
    def __init__(self, xml: Xml) -> None:
        self._xml, self._skeleton = xml, Skeleton(xml.text)
        own = self._xml.own_prefix("text")
        self._close, self._space = f"</{own}span>", f"<{own}s"
        self._shifts = dict(self._positions())
        self._style = RunStyle(lambda format: self._close * format.count("<"), str, self._write, self._shift)
        self._plain_styles = frozenset(self._styles_without_meaning())
        self._code_styles = frozenset(self._styles_of_code())
        self._kept = frozenset(self._literals())

    def reading(self) -> Reading:
        """Return the segments."""
        xml = self._xml
        n_paragraphs = stays_until = 0
        waiting: list[tuple[int, str]] = []  # paragraphs that have begun
        for index, (token, name) in enumerate(zip(xml.tokens, xml.names, strict=True)):
            if index < stays_until:
                continue
            if token.kind == "open" and (name in _STAYS or (name == "table:table-cell" and self._is_no_text(index))):
                stays_until = xml.ends[index]
            elif name in _PARAGRAPHS and token.kind == "open":
                n_paragraphs += 1
                waiting.append((index, f"paragraph {n_paragraphs}"))
            elif name in _PARAGRAPHS and token.kind == "close":
                first, place = waiting.pop()
                self._add(first, index, place)
            elif name == "text:a" and (title := token.attributes.get("office:title")):
                place = f"paragraph {n_paragraphs}"
                add_text(self._skeleton, title.start, title.end, title.value, place, xml_tokens.escape_value)
            elif name in _PLAIN and token.kind == "open":
                add_element(self._skeleton, xml, index, name.rpartition(":")[2])
        return self._skeleton.reading()

    def _add(self, first: int, last: int, place: str) -> None:
        if self._is_code(first):
            return
        items = list(self._items(first + 1, last))
        whole = "".join(item.text for item in items if item.kind == "text")
        if whole.strip().lower() not in self._kept:
            add_paragraph(self._skeleton, items, self._style, place)

    def _is_no_text(self, cell: int) -> bool:
        """Return whether a cell shows a number, a date, or the result of a formula."""
        attributes = self._xml.tokens[cell].attributes
        kind = next((value.value for name, value in attributes.items() if name.endswith(":value-type")), "string")
        return kind != "string" or any(name.endswith((":formula", ":string-value")) for name in attributes)

    def _literals(self) -> Iterator[str]:
        """Yield, in lower case, the texts by which formulas and filters find cells."""
        for token in self._xml.tokens:
            if token.kind in ("open", "empty") and token.name.startswith("table:"):
                for name, found in token.attributes.items():
                    if name in ("table:formula", "table:condition", "table:expression"):
                        yield from (literal[1].strip().lower() for literal in _LITERAL.finditer(found.value))
                    elif name == "table:value":  # of a filter
                        yield found.value.strip().lower()

    def _styles_without_meaning(self) -> Iterator[str]:
        """Yield the names of styles that only set the language, or record when the text was written."""
        xml = self._xml
        for index, name in enumerate(xml.names):
            if name != "style:style" or xml.tokens[index].kind == "close":
                continue
            if xml.attribute(index, "family") != "text" or xml.attribute(index, "parent-style-name"):
                continue
            inside = xml.tokens[index + 1 : xml.ends[index]]
            if all(" " not in _LANGUAGE.sub("", token.markup).rstrip("/> ") for token in inside if token.name):
                yield xml.attribute(index, "name")

    def _positions(self) -> Iterator[tuple[str, str]]:
        """Yield the styles of superscripts ("+") and subscripts ("-"), as text names them."""
        style = ""
        for index, name in enumerate(self._xml.names):
            if name == "style:style":
                style = self._xml.attribute(index, "name")
            elif name == "style:text-properties":
                position = self._xml.attribute(index, "text-position")
                if re.match("super|sub|-?[1-9]", position):
                    yield f'style-name="{style}"', "-" if position.startswith(("-", "sub")) else "+"

    def _shift(self, format: str) -> str:
        """Return "+" for the format of superscripts, "-" for that of subscripts, and "" for others."""
        return next((shift for style, shift in self._shifts.items() if style in format), "")

    def _styles_of_code(self) -> Iterator[str]:
        """Yield the names of the styles that belong to one of program code."""
        for index, name in enumerate(self._xml.names):
            is_style = name == "style:style" and self._xml.tokens[index].kind != "close"
            if is_style and is_code_style(self._xml.attribute(index, "parent-style-name")):
                yield self._xml.attribute(index, "name")

    def _is_code(self, index: int) -> bool:
        style = self._xml.attribute(index, "style-name")
        return style in self._code_styles or is_code_style(style)

    def _items(self, first: int, last: int) -> Iterator[Item]:
        """Yield the text and the codes between two tokens."""
        xml = self._xml
        spans: list[int] = []  # that are open
        outer = (0, 0)  # of the outermost
        index = first
        while index < last:
            token, name = xml.tokens[index], xml.names[index]
            if name == "text:span" and token.kind == "open" and self._is_code(index):
                start, end = outer if spans else (token.start, xml.end(index))
                raw = Raw(self._format(spans), self._skeleton.raw(token.start, xml.end(index)))
                yield Item(start, end, "single", markup=(raw,))
                index = xml.ends[index]
            elif name == "text:span" and token.kind == "open":
                outer = outer if spans else (token.start, xml.end(index))
                spans.append(index)
            elif name == "text:span" and token.kind == "close":
                spans.pop()
            elif name != "text:span" and token.kind not in ("comment", "instruction") and name not in _LEFT_OUT:
                start, end = outer if spans else (token.start, xml.end(index) if token.kind != "close" else token.end)
                yield self._item(index, start, end, self._format(spans))
                index = index if name in _AROUND else xml.ends.get(index, index)
            index += 1

    def _format(self, spans: Collection[int]) -> str:
        markups = (self._xml.tokens[span].markup for span in spans if not self._is_plain(span))
        return "".join(markups)

    def _is_plain(self, span: int) -> bool:
        return self._xml.attribute(span, "style-name") in self._plain_styles

    def _item(self, index: int, start: int, end: int, format: str) -> Item:
        xml = self._xml
        token, name = xml.tokens[index], xml.names[index]
        if not name:
            text = _SPACES.sub(" ", token.content)
            if has_letters(text) or not text.strip() or self._shift(format) != "+":
                return Item(start, end, "text", text, format)
            return Item(start, end, "single", markup=(Raw(format, self._skeleton.raw(token.start, token.end)),))
        if name == "text:s":
            n = xml.attribute(index, "c")
            return Item(start, end, "text", " " * min(1000, int(n) if n.isdecimal() else 1), format)
        markup = self._skeleton.raw(token.start, token.end if name in _AROUND else xml.end(index))
        if name in _AROUND and token.kind != "empty":
            kind: Kind = "open" if token.kind == "open" else "close"
            return Item(start, end, kind, markup=(Raw(None, markup),), name=name, has_base=True)
        stem, _, side = name.rpartition("-")
        if stem in _RANGES and side in ("start", "end"):
            partner = f"{name.removesuffix(side)}{xml.attribute(index, 'name')}{xml.attribute(index, 'id')}"
            kind = "open" if side == "start" else "close"
            return Item(start, end, kind, markup=(Raw(None, markup),), name=partner, is_soft=True)
        in_format = format if name in _BREAKS or name.startswith("text:") else None
        return Item(start, end, "single", "\n" if name in _BREAKS else "", markup=(Raw(in_format, markup),))

    def _write(self, text: str) -> str:
        """Return text as XML. Repeated spaces would be lost, so an element states their number."""
        escaped = xml_tokens.escape(re.sub(r" *\n+", " ", text))
        return re.sub("(?<= ) +", lambda spaces: f"{self._space} {self._count(len(spaces[0]))}/>", escaped)

    def _count(self, n: int) -> str:
        return f'{self._xml.own_prefix("text")}c="{n}"'
