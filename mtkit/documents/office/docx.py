"""DOCX: paragraphs of text, headers, notes, comments and text boxes are segments; formats, links, fields are codes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from mtkit.documents.document import Document
from mtkit.documents.office import ooxml
from mtkit.documents.office.archive import Archive
from mtkit.documents.office.ooxml import PREFIXES, PROPERTIES, TEXT_ATTRIBUTES, Formats, Names, Reader
from mtkit.documents.office.runs import Item, Raw, add_paragraph, add_text, is_code_style
from mtkit.documents.reading import Options
from mtkit.documents.skeleton import Reading, Skeleton
from mtkit.markup import xml_tokens
from mtkit.markup.xml_tree import Frame, Xml
from mtkit.text.inline import Kind
from mtkit.text.placeholders import PROSE
from mtkit.text.words import has_letters

_RUN = Names("w:r", "w:rPr", "w:t")
_IGNORED_FORMAT = re.compile(
    r"""<(?:\w+:)?(?:lang|noProof|spacing|kern|w)\s[^<>]*/>|<(?:\w+:)?noProof/>|\s(?:\w+:)?hint="[^"]*\""""
)
_AROUND = frozenset(
    [
        "w:hyperlink",
        "w:ins",
        "w:moveTo",
        "w:smartTag",
        "w:customXml",
        "w:fldSimple",
        "w:dir",
        "w:bdo",
        "w:sdt",
        "w:sdtContent",
    ]
)
_RANGES = {
    "w:bookmarkStart": "bookmark",
    "w:bookmarkEnd": "bookmark",
    "w:commentRangeStart": "comment",
    "w:commentRangeEnd": "comment",
}
_BREAKS = frozenset(["w:tab", "w:ptab", "w:br", "w:cr"])
_CHARACTERS = {"w:noBreakHyphen": "\u2011", "w:softHyphen": "", "w:lastRenderedPageBreak": ""}
_NOTES = frozenset(["w:footnoteReference", "w:endnoteReference"])  # text beside it is a mark such as *
_RAISED = re.compile(r'vertAlign [^<>]*"superscript"|rStyle [^<>]*"(?:foot|end)note', re.IGNORECASE)  # numbers: marks
_PARAGRAPH_STYLE = re.compile(r"""\s*<[\w.-]*:?pPr\s*>\s*<[\w.-]*:?pStyle\s[^<>]*?val=["']([^"']*)""")
_RUN_STYLE = re.compile(r"""<[\w.-]*:?rStyle\s[^<>]*?val=["']([^"']*)""")
_LEFT_OUT = frozenset(["w:pPr", "w:proofErr"])
_TEXT_FIELDS = frozenset(["HYPERLINK", "TOC", "QUOTE"])  # whose result is text; the rest are numbers, dates and names
_TIP = re.compile(r"""\s*HYPERLINK\s[^<]*?\\o\s*(?P<quote>"|&quot;)(?P<tip>[^<"\\]+?)(?P=quote)""")  # of a link
_STORIES = (
    *("document.main", "template.main", "document.macroEnabled.main", "template.macroEnabledTemplate.main"),
    *("header", "footer", "footnotes", "endnotes", "comments"),
)


def read(raw: bytes, options: Options) -> Document:
    """Read a DOCX, or a DOCM, DOTX or DOTM. Raises DataError if it is another format, damaged or encrypted."""
    archive = Archive(raw, "DOCX")
    story = _STORY._replace(read=partial(read_story, src_lang=options.src_lang))
    readers = {f"ml.{name}": story for name in _STORIES} | {f"ms-word.{name}": story for name in _STORIES}
    readers |= {"chart": ooxml.DRAWINGS, "diagramData": ooxml.DRAWINGS, "diagramDrawing": ooxml.DRAWINGS}
    readers |= {"core-properties": PROPERTIES}
    return archive.document(list(ooxml.parts(archive, ooxml.types(archive), readers, _STORIES[:4], "DOCX")), PROSE)


def read_story(xml: Xml, src_lang: str | None = None) -> Reading:
    """Return the paragraphs of a member, those of text boxes among them, and the descriptions of pictures."""
    return _Story(xml, src_lang).reading()


_STORY = Reader(
    read_story,
    Frame(
        PREFIXES,
        ["w:p"],
        ignored=["w:r", "w:t", "w:proofErr", *_CHARACTERS],
        skipped=["w:rPr"],
        attributes=TEXT_ATTRIBUTES,
    ),
)


@dataclass(eq=False)
class _Field:
    """A field: code, then a separator and its result."""

    code: str = ""
    in_result: bool = False

    @property
    def is_text(self) -> bool:
        return _is_text_field(self.code)


def _is_text_field(code: str) -> bool:
    return code.split(maxsplit=1)[0].upper() in _TEXT_FIELDS if code.strip() else False


def _owners(xml: Xml) -> dict[int, tuple[_Field, str]]:
    """Return, for each token that is not text of a result, its field and whether it opens or closes it."""
    owners: dict[int, tuple[_Field, str]] = {}
    stories: list[list[_Field]] = [[]]  # text boxes have fields of their own
    for index, (token, name) in enumerate(zip(xml.tokens, xml.names, strict=True)):
        fields = stories[-1]
        if name == "w:txbxContent" and token.kind == "open":
            stories.append([])
        elif name == "w:txbxContent" and token.kind == "close":
            stories.pop()
        elif name == "w:fldChar" and token.kind != "close":
            kind = xml.attribute(index, "fldCharType")
            if kind == "begin":
                fields.append(_Field())
            field = _owner(fields)
            if kind == "separate" and fields:
                fields[-1].in_result = True
            if kind == "end" and fields:
                ended = fields.pop()
                owners[index] = (field, "open") if field else (ended, "close")
            elif field:
                owners[index] = field, "open"
        elif field := _owner(fields):
            owners[index] = field, "open"
            if name == "w:instrText" and token.kind == "open":
                fields[-1].code += xml.content(index)
    return owners


def _owner(fields: list[_Field]) -> _Field | None:
    """Return the outermost field whose result, as far as it has been read, is not text."""
    return next((field for field in fields if not (field.in_result and field.is_text)), None)


class _Story:
    def __init__(self, xml: Xml, src_lang: str | None) -> None:
        self._xml, self._skeleton = xml, Skeleton(xml.text)
        self._foreign = ooxml.foreign_runs(xml, "w:r", src_lang)
        self._formats = Formats(self._xml, self._skeleton, _RUN, _IGNORED_FORMAT)
        self._owners = _owners(self._xml)
        self._style = replace(self._formats.style, write=_write)

    def reading(self) -> Reading:
        """Return the segments."""
        n_paragraphs = 0
        waiting: list[tuple[int, str]] = []  # paragraphs that have begun
        for index, (token, name) in enumerate(zip(self._xml.tokens, self._xml.names, strict=True)):
            if name == "w:p" and token.kind == "open":
                n_paragraphs += 1
                waiting.append((index, f"paragraph {n_paragraphs}"))
            elif name == "w:p" and token.kind == "close":
                first, place = waiting.pop()
                if not self._is_code(first):
                    items = _joined(self._items(first + 1, index))
                    add_paragraph(self._skeleton, items, self._style, place)
            else:
                ooxml.add_attributes(self._skeleton, self._xml, index, f"paragraph {n_paragraphs}")
                if name == "w:instrText" and (tip := _TIP.match(self._xml.text, token.end)):
                    text, place = xml_tokens.unescape(tip["tip"]), f"paragraph {n_paragraphs}"
                    add_text(self._skeleton, *tip.span("tip"), text, place, _write_tip)
        return self._skeleton.reading()

    def _is_code(self, paragraph: int) -> bool:
        """Return whether a paragraph has a style such as "Source Code"."""
        style = _PARAGRAPH_STYLE.match(self._xml.text, self._xml.tokens[paragraph].end)
        return style is not None and is_code_style(style[1])

    def _items(self, index: int, last: int) -> Iterator[tuple[Item, "_Owner | None"]]:
        """Yield the text and the codes between two tokens, and the fields to which they belong."""
        xml = self._xml
        while index < last:
            token, name = xml.tokens[index], xml.names[index]
            if name == "w:r" and token.kind == "open":
                yield from self._of_run(index)
                index = xml.ends[index]
            elif name in _AROUND and token.kind != "empty" and self._is_around(index):
                start, index = index, self._last_of_tag(index)
                yield self._around(start, index), self._owners.get(start)
            elif name and name not in _LEFT_OUT:
                yield self._single(index), self._owners.get(index)
                index = xml.ends[index]
            elif name:
                index = xml.ends[index]
            index += 1

    def _is_around(self, index: int) -> bool:
        """Return whether the tag stands around text, or after it."""
        name, token = self._xml.names[index], self._xml.tokens[index]
        if token.kind == "close":
            return True
        if name == "w:sdt":
            return any(self._is_open(child, "w:sdtContent") for child in self._xml.children(index))
        return name != "w:fldSimple" or _is_text_field(self._xml.attribute(index, "instr"))

    def _is_open(self, index: int, name: str) -> bool:
        return self._xml.names[index] == name and self._xml.tokens[index].kind == "open"

    def _last_of_tag(self, index: int) -> int:
        """Return the last token of the markup that begins here: a content control begins and ends with two tags."""
        xml = self._xml
        if self._is_open(index, "w:sdt"):
            return next(child for child in xml.children(index) if self._is_open(child, "w:sdtContent"))
        if xml.names[index] == "w:sdtContent":
            return next(after for after in range(index, len(xml.names)) if xml.names[after] == "w:sdt")
        return index

    def _around(self, first: int, last: int) -> Item:
        token, name = self._xml.tokens[first], self._xml.names[first].removesuffix("Content")
        start, end = token.start, self._xml.tokens[last].end
        is_link = name in ("w:hyperlink", "w:fldSimple")
        markup = (Raw(None, self._skeleton.raw(start, end)),)
        kind: Kind = "open" if token.kind == "open" else "close"
        return Item(start, end, kind, markup=markup, name=name, has_base=is_link)

    def _single(self, index: int) -> Item:
        """Return the code for an element between runs: deleted text, a formula, one end of a range."""
        name, start, end = self._xml.names[index], self._xml.tokens[index].start, self._xml.end(index)
        item = Item(start, end, "single", markup=(Raw(None, self._skeleton.raw(start, end)),))
        if name not in _RANGES:
            return item
        partner = f"{_RANGES[name]} {self._xml.attribute(index, 'id')}"
        return replace(item, kind="open" if name.endswith("Start") else "close", name=partner, is_soft=True)

    def _of_run(self, run: int) -> Iterator[tuple[Item, "_Owner | None"]]:
        """Yield the text and the codes of a run."""
        xml = self._xml
        start, end, format = xml.tokens[run].start, xml.end(run), self._formats.of(run)
        children, style = xml.children(run), _RUN_STYLE.search(format)
        is_code = style is not None and is_code_style(style[1])
        is_mark = any(xml.names[child] in _NOTES and xml.tokens[child].kind != "close" for child in children)
        for index in children:
            token, name, owner = xml.tokens[index], xml.names[index], self._owners.get(index)
            if not name or name == "w:rPr":
                continue
            if owner is None and is_code:
                owner = _CODE, ""
            if owner is None and not is_mark and (name == "w:t" or name in _CHARACTERS):
                text = self._text(index)
                if has_letters(text) or not _RAISED.search(format):
                    yield self._text_item(run, index, text, format), None
                    continue
            raw = Raw(format, self._skeleton.raw(token.start, xml.end(index)))
            yield Item(start, end, "single", "\n" if name in _BREAKS else "", markup=(raw,)), owner

    def _text_item(self, run: int, index: int, text: str, format: str) -> Item:
        """Return a text of a run; with the run's own properties if they say that it is in another language."""
        xml, lang = self._xml, self._foreign.get(run)
        start, end = xml.tokens[run].start, xml.end(run)
        if lang is None:
            return Item(start, end, "text", text, format)
        first = next(child for child in xml.children(run) if xml.names[child] == "w:rPr")
        properties = xml.text[xml.tokens[run].start : xml.end(first)]
        raw = Raw(properties, self._skeleton.raw(xml.tokens[index].start, xml.end(index)))
        return Item(start, end, "text", text, format, lang=lang, own=(raw,))

    def _text(self, index: int) -> str:
        if self._xml.names[index] != "w:t":
            return _CHARACTERS[self._xml.names[index]]
        if self._xml.tokens[index].kind == "empty":
            return ""
        text = self._xml.content(index).translate(_SPACES)
        return text if self._xml.attribute(index, "space") == "preserve" else text.strip(" ")


_Owner = tuple[_Field, str]
_CODE = _Field()  # stands for runs in a style such as "Verbatim", which become one code
_SPACES = str.maketrans("\t\r\n", "   ")


def _write_tip(text: str) -> str:
    """Return the tooltip of a link as a field has it, within quotes."""
    return xml_tokens.escape(text.replace('"', '\\"'))


def _write(text: str) -> str:
    """Return text as XML. A line break becomes a space, because a code stands there, too."""
    return xml_tokens.escape(re.sub(r" *\n+", " ", text))


def _joined(found: Iterator[tuple[Item, _Owner | None]]) -> list[Item]:
    """Join items that follow each other and belong to one field into one code."""
    items: list[Item] = []
    last: tuple[_Field, str] | None = None
    for item, owner in found:
        field, side = owner or (None, "")
        key = (field, side if field.is_text else "whole") if field else None
        if field is None:
            items.append(item)
        elif key == last:
            before = items[-1]
            items[-1] = replace(before, end=max(before.end, item.end), markup=before.markup + item.markup)
        else:
            kind: Kind = "single" if not field.is_text else "close" if side == "close" else "open"
            name = f"field {id(field)}" if field.is_text else ""
            items.append(replace(item, kind=kind, name=name, text="", has_base=field.is_text, is_soft=False))
        last = key
    return items
