"""What DOCX, PPTX and XLSX share: the types of members, plain texts, and the paragraphs of drawings."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from mtkit.documents.document import Part
from mtkit.documents.office.archive import Archive
from mtkit.documents.office.runs import Item, Raw, RunStyle, add_paragraph, add_text
from mtkit.documents.reading import parsed_part
from mtkit.documents.skeleton import Reading, Skeleton
from mtkit.errors import DataError
from mtkit.languages import is_another_language
from mtkit.markup import xml_tokens
from mtkit.markup.xml_tree import Frame, Xml
from mtkit.text.inline_tags import without_tags
from mtkit.text.words import has_letters, words_of

_OPEN, _STRICT = "http://schemas.openxmlformats.org/", "http://purl.oclc.org/ooxml/"
PREFIXES: Mapping[str, str] = {
    f"{_OPEN}wordprocessingml/2006/main": "w",
    f"{_STRICT}wordprocessingml/main": "w",
    f"{_OPEN}drawingml/2006/main": "a",
    f"{_STRICT}drawingml/main": "a",
    f"{_OPEN}drawingml/2006/chart": "c",
    f"{_STRICT}drawingml/chart": "c",
    f"{_OPEN}drawingml/2006/picture": "pic",
    f"{_STRICT}drawingml/picture": "pic",
    f"{_OPEN}drawingml/2006/wordprocessingDrawing": "wp",
    f"{_STRICT}drawingml/wordprocessingDrawing": "wp",
    f"{_OPEN}drawingml/2006/spreadsheetDrawing": "xdr",
    f"{_OPEN}presentationml/2006/main": "p",
    f"{_STRICT}presentationml/main": "p",
    f"{_OPEN}spreadsheetml/2006/main": "x",
    f"{_STRICT}spreadsheetml/main": "x",
    f"{_OPEN}markup-compatibility/2006": "mc",
    "urn:schemas-microsoft-com:vml": "v",
    "http://purl.org/dc/elements/1.1/": "dc",
    f"{_OPEN}package/2006/metadata/core-properties": "cp",
    f"{_OPEN}package/2006/content-types": "ct",
    "http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments": "tc",
}
_TYPES = "[Content_Types].xml"
_ALT_OF = frozenset(["wp:docPr", "pic:cNvPr", "p:cNvPr", "xdr:cNvPr", "a:cNvPr", "v:shape", "v:rect", "v:image"])
_LINKS = frozenset(["w:hyperlink", "a:hlinkClick", "a:hlinkHover", "a:hlinkMouseOver"])
_FILE_NAME = re.compile(r"\S+\.\w{3,4}")
_IGNORED_FORMAT = re.compile(
    r"""\s(?:lang|altLang|dirty|err|noProof|smtClean|smtId|kern|spc)\s*=\s*(?:"[^"]*"|'[^']*')"""
)
_EMPTY_FORMAT = re.compile(r"<[\w:.-]+\s*(?:/>|></[\w:.-]+>)")
_LANGUAGE = re.compile(r"""<[\w.-]*:?(?:lang\s[^<>]*?\bval|rPr\s[^<>]*?\blang)=["']([a-zA-Z]{2,3}(?:[-_]\w+)*)["']""")
_NO_LANGUAGE = "zxx"  # for text without a check of spelling
_FEWEST_OTHERS = 3  # words for each one that is marked as in another language; else the marks are wrong
_SHIFTED = re.compile(r"""\sbaseline\s*=\s*["']-?[1-9]|vertAlign\s[^<>]*["'](?:super|sub)script""")
_RAISED = re.compile(r"""\sbaseline\s*=\s*["'][1-9]""")  # numbers in raised runs are marks of notes


def types(archive: Archive) -> dict[str, str]:
    """Return the content type of each member that has one. Raises DataError if the zip is not an office document."""
    xml = member_xml(archive, _TYPES, PREFIXES).parsed
    by_ending: dict[str, str] = {}
    by_name: dict[str, str] = {}
    for index, name in enumerate(xml.names):
        if name == "ct:Default":
            by_ending[xml.attribute(index, "Extension").lower()] = xml.attribute(index, "ContentType")
        elif name == "ct:Override":
            by_name[xml.attribute(index, "PartName").lstrip("/").lower()] = xml.attribute(index, "ContentType")
    found = {}
    for name in archive.names:
        kind = by_name.get(name.lower()) or by_ending.get(name.rpartition(".")[2].lower())
        if kind:
            found[name] = kind
    return found


class Reader(NamedTuple):
    """How a kind of member is read, and what no translation changes in it."""

    read: Callable[[Xml], Reading]
    structure: Frame


def parts(
    archive: Archive, kinds: Mapping[str, str], readers: Mapping[str, Reader], main: Sequence[str], kind: str
) -> Iterator[Part[Xml]]:
    """Yield the members with text.

    kinds: the members' types, as `types` returns them.
    readers: what reads types that end like this, "+xml" left out. main: the document must have a type that ends so.
    """
    if not any(of_member.endswith(f"{end}+xml") for of_member in kinds.values() for end in main):
        raise DataError(
            f"is another kind of file than {kind}, or damaged: {_TYPES} has no {main[0]}; save it as {kind}"
        )
    for name, of_member in kinds.items():
        for end, reader in readers.items():
            if of_member.endswith(f"{end}+xml"):
                yield member_part(archive, name, *reader)
                break


def member_part(archive: Archive, name: str, read: Callable[[Xml], Reading], structure: Frame) -> Part[Xml]:
    """Return a member as XML."""
    raw, declared = archive.member(name), xml_tokens.declared_encoding
    return parsed_part(raw, structure.parse, read, structure, name=name, declared=declared)


def member_xml(archive: Archive, name: str, prefixes: Mapping[str, str]) -> Part[Xml]:
    """Return a member as XML without segments."""
    return member_part(archive, name, lambda xml: Reading(xml.text, ()), Frame(prefixes, ()))


def add_attributes(skeleton: Skeleton, xml: Xml, index: int, place: str) -> None:
    """Add the descriptions of a picture or a shape, or the tooltip of a link, as segments, unless they name files."""
    element = xml.names[index]
    if element not in (*_ALT_OF, *_LINKS) or xml.tokens[index].kind == "close":
        return
    for name, found in xml.tokens[index].attributes.items():
        is_text = name in _ALT if element in _ALT_OF else name.rpartition(":")[2] == "tooltip"
        if is_text and not _FILE_NAME.fullmatch(found.value):
            add_text(skeleton, found.start, found.end, found.value, place, xml_tokens.escape_value)


_ALT = ("descr", "title", "alt")
TEXT_ATTRIBUTES = (*_ALT, r"(?:[\w.-]+:)?tooltip")  # as patterns


def read_texts(names: Collection[str], xml: Xml) -> Reading:
    """Return the texts of those elements with these names that hold only text."""
    skeleton = Skeleton(xml.text)
    for index, name in enumerate(xml.names):
        if name in names and xml.tokens[index].kind == "open":
            add_element(skeleton, xml, index, name.rpartition(":")[2])
    return skeleton.reading()


def add_element(skeleton: Skeleton, xml: Xml, index: int, place: str) -> None:
    """Add the content of an element as a segment, if it is only text."""
    if xml.is_text_only(index):
        start, end = xml.tokens[index].end, xml.tokens[xml.ends[index]].start
        add_text(skeleton, start, end, xml.content(index), place, xml_tokens.escape)


def texts_of(names: Collection[str], prefixes: Mapping[str, str] = PREFIXES) -> Reader:
    """Return a reader of the texts of elements of these names."""
    return Reader(partial(read_texts, names), Frame(prefixes, ()))


PROPERTIES = texts_of(["dc:title", "dc:subject", "dc:description"])


@dataclass(frozen=True)
class Names:
    """What the elements of a run are called."""

    run: str
    properties: str
    text: str
    keeps_space: bool = True  # whether leading and trailing white space needs an attribute to be kept


_RUN = Names("a:r", "a:rPr", "a:t", keeps_space=False)
_NUMBERS = frozenset(["c:numCache", "c:numLit"])  # of a chart; its other values are labels


def read_drawing(xml: Xml, *, placeholders: bool = True, src_lang: str | None = None) -> Reading:
    """Return the paragraphs of slides, charts, diagrams and other drawings, and the descriptions of their pictures.

    placeholders: include the text of placeholder shapes; in a layout that text is never shown. src_lang: text with the
    mark of another language stays as it is.
    """
    skeleton, foreign = Skeleton(xml.text), foreign_runs(xml, "a:r", src_lang)
    formats = Formats(xml, skeleton, _RUN)
    n_paragraphs = paragraph = skipped_until = 0
    for index, (token, name) in enumerate(zip(xml.tokens, xml.names, strict=True)):
        is_hidden = name == "p:sp" and token.kind == "open" and not placeholders and _is_placeholder(xml, index)
        if is_hidden or (name in _NUMBERS and token.kind == "open"):
            skipped_until = xml.ends[index]
        if index < skipped_until:
            continue
        if name == "a:p" and token.kind == "open":
            n_paragraphs += 1
            paragraph = index
        elif name == "a:p" and token.kind == "close":  # after the tooltips in it
            items = list(_items(xml, skeleton, paragraph, formats, foreign))
            add_paragraph(skeleton, items, formats.style, f"paragraph {n_paragraphs}")
        elif name == "c:v" and token.kind == "open":
            add_element(skeleton, xml, index, "label")
        else:
            add_attributes(skeleton, xml, index, f"paragraph {n_paragraphs}")
    return skeleton.reading()


def _is_placeholder(xml: Xml, shape: int) -> bool:
    return "p:ph" in xml.names[shape : xml.ends[shape]]


_DRAWING = Frame(PREFIXES, ["a:p"], ignored=["a:r", "a:t"], skipped=["a:rPr"], attributes=TEXT_ATTRIBUTES)
DRAWINGS = Reader(read_drawing, _DRAWING)
LAYOUTS = Reader(partial(read_drawing, placeholders=False), _DRAWING)


class Formats:
    """The formats of runs: what begins a run of each, and how a run is written."""

    def __init__(self, xml: Xml, skeleton: Skeleton, names: Names, ignored: re.Pattern[str] = _IGNORED_FORMAT) -> None:
        """skeleton: has the tooltips in formats. ignored: what makes no different format, such as the language."""
        self._xml, self._skeleton, self._names, self._ignored = xml, skeleton, names, ignored
        own = xml.own_prefix(names.run.rpartition(":")[0])
        self._run, self._text = (f"{own}{name.rpartition(':')[2]}" for name in (names.run, names.text))
        self._known: dict[str, str] = {}
        self.style = RunStyle(self._close, self._write_text, xml_tokens.escape, _SHIFTED.search)

    def of(self, run: int) -> str:
        """Return what begins a run of the format of this one."""
        properties = next((i for i in self._xml.children(run) if self._xml.names[i] == self._names.properties), None)
        if properties is None:
            return self._known.setdefault("", f"<{self._run}>")
        start, end = self._xml.tokens[properties].start, self._xml.end(properties)
        key = self._ignored.sub("", self._xml.text[start:end])
        raw = self._skeleton.raw(start, end)
        return self._known.setdefault("" if _EMPTY_FORMAT.fullmatch(key) else key, f"<{self._run}>{raw}")

    def _close(self, format: str) -> str:
        return f"</{self._run}>" if format else ""

    def _write_text(self, text: str) -> str:
        space = ' xml:space="preserve"' if self._names.keeps_space and text != text.strip() else ""
        return f"<{self._text}{space}>{text}</{self._text}>"


def foreign_runs(xml: Xml, name_of_run: str, src_lang: str | None) -> dict[int, str]:
    """Return the language of each run in another one than the source.

    Office programs guess languages. So marks count only if most of the text has others, and not for text whose words
    mostly occur in the rest of the text, too.
    """
    if src_lang is None or "lang" not in xml.text:
        return {}
    foreign: dict[int, tuple[str, list[str]]] = {}
    words, n_words, n_foreign = set[str](), 0, 0
    for run, (token, name) in enumerate(zip(xml.tokens, xml.names, strict=True)):
        if name != name_of_run or token.kind != "open":
            continue
        of_run = xml.text[token.start : xml.end(run)]
        found = _LANGUAGE.search(of_run)
        own = [word for word in words_of(without_tags(of_run).casefold()) if word.isalpha()]
        n_words += len(own)
        if found and found[1] != _NO_LANGUAGE and is_another_language(found[1], src_lang):
            foreign[run] = found[1], own
            n_foreign += len(own)
        else:
            words.update(own)
    if n_foreign * _FEWEST_OTHERS > n_words - n_foreign:
        return {}
    return {run: lang for run, (lang, own) in foreign.items() if 2 * sum(word in words for word in own) <= len(own)}


def _items(
    xml: Xml, skeleton: Skeleton, paragraph: int, formats: Formats, foreign: Mapping[int, str]
) -> Iterator[Item]:
    """Yield the text and the codes of a paragraph of a drawing."""
    for index in xml.children(paragraph):
        token, name = xml.tokens[index], xml.names[index]
        end = xml.end(index)
        if name == "a:r" and token.kind == "open":
            text = "".join(
                xml.content(child)
                for child in xml.children(index)
                if xml.names[child] == "a:t" and xml.tokens[child].kind == "open"
            )
            format, lang = formats.of(index), foreign.get(index)
            texts = [child for child in xml.children(index) if xml.names[child] == "a:t"]
            own = skeleton.raw(token.start, xml.tokens[texts[0]].start).rstrip() if lang and texts else format
            markup = tuple(Raw(own, xml.text[xml.tokens[child].start : xml.end(child)]) for child in texts)
            if has_letters(text) or not _RAISED.search(format):
                yield Item(token.start, end, "text", text, format, lang=lang, own=markup if lang else ())
            else:
                yield Item(token.start, end, "single", markup=markup)
        elif name and name not in ("a:endParaRPr", "a:r"):  # PptxGenJS repeats a:pPr before each run
            markup = (Raw(None, skeleton.raw(token.start, end)),)
            yield Item(token.start, end, "single", "\n" if name == "a:br" else "", markup=markup)
