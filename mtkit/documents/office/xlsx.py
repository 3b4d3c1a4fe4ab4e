"""XLSX: the texts of cells, comments and drawings; what formulas and tables refer to by its text stays."""

import re
from collections.abc import Collection, Iterator
from functools import partial

from mtkit.documents.document import Document, Reading
from mtkit.documents.office import ooxml
from mtkit.documents.office.archive import Archive
from mtkit.documents.office.ooxml import DRAWINGS, PREFIXES, PROPERTIES, Formats, Names, Reader
from mtkit.documents.office.runs import Item, Raw, RunStyle, add_paragraph, add_text
from mtkit.documents.office.skeleton import Skeleton
from mtkit.documents.placeholders import PROSE
from mtkit.documents.reading import Options
from mtkit.markup import xml_tokens
from mtkit.markup.xml_tree import Frame, Xml

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
_IN_SHEET = re.compile(r"<(?:[\w.-]+:)?(?:is|\w+Header|\w+Footer)\b|\s(?:prompt|promptTitle|error|errorTitle|tooltip)=")
_REFERRING = ("worksheet", ".table", "pivotCacheDefinition", "sheet.main", "sheet.macroEnabled.main", "template.main")


def read(raw: bytes, options: Options) -> Document:
    """Read an XLSX, XLSM, XLTX or XLTM. Raises DataError if it is none, damaged or encrypted."""
    archive = Archive(raw, "XLSX")
    kept = frozenset(_referred_to(archive))
    strings = Reader(partial(_read_texts, kept), _FRAME)
    readers = {"sharedStrings": strings, "worksheet": Reader(partial(_read_sheet, kept), _FRAME)}
    readers |= {"spreadsheetml.comments": Reader(partial(_read_texts, frozenset()), _FRAME)}
    readers |= {"ms-excel.threadedcomments": Reader(_read_threads, Frame(PREFIXES, ()))}
    readers |= {".drawing": DRAWINGS, ".chart": DRAWINGS, "core-properties": PROPERTIES}
    readers |= {".diagramData": DRAWINGS, ".diagramDrawing": DRAWINGS}
    return archive.document([*ooxml.parts(archive, readers, _MAIN, "XLSX")], PROSE)


def _referred_to(archive: Archive) -> Iterator[str]:
    """Yield, in lower case, the texts by which formulas, filters, tables and pivot tables find cells."""
    for name, kind in ooxml.types(archive).items():
        if any(kind.endswith(f"{end}+xml") for end in _REFERRING):
            text = ooxml.member_part(archive, name, lambda text: Reading(text, ())).text
            for formula in _FORMULA.finditer(text):
                for literal in _LITERAL.finditer(xml_tokens.unescape(formula[2])):
                    yield from (
                        part.strip().lower() for part in [literal[1].replace('""', '"'), *literal[1].split(",")]
                    )
            for found in _NAME.finditer(text):
                yield xml_tokens.unescape(found[1][1:-1]).replace("_x000a_", "\n").lower()


def _read_threads(text: str) -> Reading:
    return ooxml.read_texts(text, frozenset(["tc:text"]), PREFIXES)


def _read_sheet(kept: Collection[str], text: str) -> Reading:
    """Return the texts that a sheet itself has: few have any, and sheets are large."""
    return _read_texts(kept, text) if _IN_SHEET.search(text) else Reading(text, ())


def _read_texts(kept: Collection[str], text: str) -> Reading:
    """Return the texts of cells or comments, and what a sheet says of cells to be filled in."""
    xml, skeleton = Xml(text, PREFIXES), Skeleton(text)
    formats = Formats(xml, _RUN)
    style = RunStyle(formats.style.close, formats.style.text, xml_tokens.escape)
    n_texts = 0
    cell = ""
    for index, (token, name) in enumerate(zip(xml.tokens, xml.names, strict=True)):
        if name == "x:c" and token.kind == "open":
            cell = xml.attribute(index, "r")
        if name in _TEXTS and token.kind == "open":
            n_texts += 1
            items = list(_items(xml, skeleton, index, formats))
            whole = "".join(item.text for item in items if item.kind == "text")
            if whole.strip().lower() not in kept:
                add_paragraph(skeleton, items, style, f"cell {cell}" if cell else f"text {n_texts}")
        elif name in _HEADERS and token.kind == "open" and xml.is_text_only(index):
            for section in _sections(text, token.end, xml.tokens[xml.ends[index]].start):
                add_paragraph(skeleton, section, _HEADER_STYLE, name.rpartition(":")[2])
        elif name in ("x:dataValidation", "x:hyperlink"):
            for attribute, found in token.attributes.items():
                if attribute in _PROMPTS:
                    add_text(skeleton, found.start, found.end, found.value, attribute, xml_tokens.escape_value)
    return skeleton.reading()


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
