"""XLSX: the texts of cells, comments and drawings are segments; texts that formulas or tables refer to stay."""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import partial

from mtkit.documents.document import Document, Part
from mtkit.documents.office import ooxml
from mtkit.documents.office.archive import Archive
from mtkit.documents.office.ooxml import DRAWINGS, PREFIXES, PROPERTIES, Formats, Names, Reader, add_element
from mtkit.documents.office.runs import Item, Raw, RunStyle, add_paragraph, add_text
from mtkit.documents.reading import Options
from mtkit.documents.skeleton import Reading, Skeleton
from mtkit.markup import xml_tokens
from mtkit.markup.xml_tree import Frame, Xml
from mtkit.text.placeholders import PROSE

_RUN = Names("x:r", "x:rPr", "x:t")
_TEXTS = frozenset(["x:si", "x:is", "x:text"])
_MAIN = ("sheet.main", "sheet.macroEnabled.main", "template.main", "template.macroEnabledTemplate.main")
_PROMPTS = ("prompt", "promptTitle", "error", "errorTitle", "tooltip")
_FRAME = Frame(PREFIXES, _TEXTS, ignored=["x:r", "x:t"], skipped=["x:rPr"], attributes=_PROMPTS)
_FORMULA = re.compile(r"<(?:[\w.-]+:)?(f|formula|formula1|formula2|definedName)\b[^>]*>([^<]+)<")
_LITERAL = re.compile('"((?:[^"]|"")*)"')
_NAME = re.compile(
    r"""<(?:[\w.-]+:)?(?:tableColumn|filter|cacheField|s)\s[^>]*?\b(?:name|val|v)\s*=\s*("[^"]*"|'[^']*')"""
)
_HEADERS = frozenset(f"x:{pages}{which}" for pages in ("odd", "even", "first") for which in ("Header", "Footer"))
_HEADER_CODE = re.compile(
    r"""&amp;(?:(?P<section>[LCR])|(?P<ampersand>&amp;)|(?:"|&quot;).*?(?:"|&quot;)|[0-9]+"""
    r"""|K[0-9A-F]{6}|K[0-9]{2}[+-][0-9]{3}|[A-Z])"""
)
_IN_SHEET = re.compile(
    r"""<(?:[\w.-]+:)?(?:is|\w+Header|\w+Footer)\b|\s(?:prompt|promptTitle|error|errorTitle|tooltip)="""
    r"""|\st=["']str["'][^<>]*>\s*<(?:[\w.-]+:)?v\b"""
)
_REFERRING = ("worksheet", ".table", "pivotCacheDefinition", "sheet.main", "sheet.macroEnabled.main", "template.main")


def read(raw: bytes, options: Options) -> Document:
    """Read an XLSX, XLSM, XLTX or XLTM. Raises DataError if it is another format, damaged or encrypted."""
    archive = Archive(raw, "XLSX")
    kinds = ooxml.types(archive)
    readers = dict.fromkeys(
        ("sharedStrings", "worksheet"), Reader(partial(_read_texts, frozenset(_referred_to(archive, kinds))), _FRAME)
    )
    readers |= {"spreadsheetml.comments": Reader(partial(_read_texts, frozenset()), _FRAME)}
    readers |= {"ms-excel.threadedcomments": ooxml.texts_of(["tc:text"])}
    readers |= {".drawing": DRAWINGS, ".chart": DRAWINGS, "core-properties": PROPERTIES}
    readers |= {".diagramData": DRAWINGS, ".diagramDrawing": DRAWINGS}
    parts = ooxml.parts(archive, kinds, readers, _MAIN, "XLSX")
    return archive.document([part for part in parts if _may_have_text(part, kinds)], PROSE)


def _referred_to(archive: Archive, kinds: Mapping[str, str]) -> Iterator[str]:
    """Yield, in lower case, the texts by which formulas, filters, tables and pivot tables find cells."""
    for name, kind in kinds.items():
        if any(kind.endswith(f"{end}+xml") for end in _REFERRING):
            text = ooxml.member_xml(archive, name, PREFIXES).text
            for formula in _FORMULA.finditer(text):
                for literal in _LITERAL.finditer(xml_tokens.unescape(formula[2])):
                    yield from (
                        part.strip().lower() for part in [literal[1].replace('""', '"'), *literal[1].split(",")]
                    )
            for found in _NAME.finditer(text):
                yield xml_tokens.unescape(found[1][1:-1]).replace("_x000a_", "\n").lower()


def _may_have_text(part: Part[Xml], kinds: Mapping[str, str]) -> bool:
    """Return whether a member may have text. Few sheets have any themselves, and sheets are too large to parse all."""
    return not kinds[part.name].endswith("worksheet+xml") or bool(_IN_SHEET.search(part.text))


def _read_texts(kept: Collection[str], xml: Xml) -> Reading:
    """Return the texts of cells or comments, and the hints of a sheet for cells to be filled in."""
    skeleton = Skeleton(xml.text)
    formats = Formats(xml, skeleton, _RUN)
    n_texts = 0
    cell = ""
    for index, (token, name) in enumerate(zip(xml.tokens, xml.names, strict=True)):
        if name == "x:c" and token.kind == "open":
            cell = xml.attribute(index, "r")
            if (value := _text_value(xml, index)) and xml.content(value).strip().lower() not in kept:
                add_element(skeleton, xml, value, f"cell {cell}")
        if name in _TEXTS and token.kind == "open":
            n_texts += 1
            items = list(_items(xml, skeleton, index, formats))
            whole = "".join(item.text for item in items if item.kind == "text")
            if whole.strip().lower() not in kept:
                add_paragraph(skeleton, items, formats.style, f"cell {cell}" if cell else f"text {n_texts}")
        elif name in _HEADERS and token.kind == "open" and xml.is_text_only(index):
            for section in _sections(xml.text, token.end, xml.tokens[xml.ends[index]].start):
                add_paragraph(skeleton, section, _HEADER_STYLE, name.rpartition(":")[2])
        elif name in ("x:dataValidation", "x:hyperlink"):
            for attribute, found in token.attributes.items():
                if attribute in _PROMPTS:
                    add_text(skeleton, found.start, found.end, found.value, attribute, xml_tokens.escape_value)
    return skeleton.reading()


def _text_value(xml: Xml, cell: int) -> int | None:
    """Return the value of a cell that holds its own text, as SheetJS writes it; with a formula it is a result."""
    if xml.attribute(cell, "t") != "str":
        return None
    children = [child for child in xml.children(cell) if xml.names[child]]
    return children[0] if [xml.names[child] for child in children] == ["x:v"] else None


def _sections(text: str, start: int, end: int) -> Iterator[list[Item]]:
    """Yield the text and the codes of each section, such as &L for the left one, of a header or a footer of pages."""
    items: list[Item] = []
    at = start
    for code in _HEADER_CODE.finditer(text, start, end):
        items.append(Item(at, code.start(), "text", xml_tokens.unescape(text[at : code.start()])))
        at = code.end()
        if code["section"]:
            yield items
            items = []
        elif code["ampersand"]:
            items.append(Item(*code.span(), "text", "&"))
        else:
            items.append(Item(*code.span(), "single", markup=(Raw("", code[0]),)))
    yield [*items, Item(at, end, "text", xml_tokens.unescape(text[at:end]))]


def _write_header(text: str) -> str:
    return xml_tokens.escape(text.replace("&", "&&"))


_HEADER_STYLE = RunStyle(lambda format: "", str, _write_header)


def _items(xml: Xml, skeleton: Skeleton, parent: int, formats: Formats) -> Iterator[Item]:
    """Yield the text and the codes of a cell or a comment."""
    for index in xml.children(parent):
        token, name, end = xml.tokens[index], xml.names[index], xml.end(index)
        if name == "x:t" and token.kind == "open":
            yield Item(token.start, end, "text", _content(xml, index))
        elif name == "x:r" and token.kind == "open":
            texts = [i for i in xml.children(index) if xml.names[i] == "x:t" and xml.tokens[i].kind == "open"]
            yield Item(token.start, end, "text", "".join(_content(xml, i) for i in texts), formats.of(index))
        elif name and name not in ("x:r", "x:t"):
            yield Item(token.start, end, "single", markup=(Raw(None, skeleton.raw(token.start, end)),))


def _content(xml: Xml, index: int) -> str:
    return xml.content(index).replace("_x000D_", "")
