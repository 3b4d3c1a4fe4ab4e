"""HTML and XHTML: block elements separate segments, inline elements are codes, and some attributes are text."""

import html
import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from mtkit.documents.document import Document, Part
from mtkit.documents.pages import html_tags, html_text
from mtkit.documents.pages.html_text import FoundTag
from mtkit.documents.pieces import Markup, Piece, segment_of
from mtkit.documents.places import line_of
from mtkit.documents.reading import Options, parsed_part
from mtkit.documents.skeleton import Reading, Segment, hold_out, without_held_out
from mtkit.errors import DataError
from mtkit.text.inline import Code, Inline, Kind
from mtkit.text.inline_tags import without_tags
from mtkit.text.placeholders import PROSE
from mtkit.text.templates import outside_templates, writer
from mtkit.text.words import has_letters

_INLINE = frozenset(
    (
        "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark math nobr q rp rt "
        + "ruby s samp small span strike strong sub sup svg time tt u var wbr"
    ).split()
)
_SKIPPED = html_text.RAW | {"pre", "metadata"}
_MOST_IN_CUSTOM = 20  # tags of a custom element that is part of a sentence
_SHOWN = frozenset(["pre", "textarea", "xmp", "iframe"])
_ATTRIBUTE = re.compile(
    r"""\s(?P<name>[\w:-]+)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'=<>`]+))"""
)
_TEXT_ATTRIBUTES = frozenset(
    f"aria-{name}" for name in ("description", "label", "placeholder", "roledescription", "valuetext")
) | {"alt", "placeholder", "title"}
_MAYBE_TEXT = _TEXT_ATTRIBUTES | {"content", "label", "value"}  # the last three of some elements only
_META_NAMES = re.compile(
    r"""\s(?:name|property)\s*=\s*(["']?)(?:og:|twitter:)?(?:description|title|image:alt)\1(?=[\s/>]|$)""",
    re.IGNORECASE,
)
_BUTTON = re.compile(r"""\stype\s*=\s*["']?(?:submit|button|reset)\b""", re.IGNORECASE)
_CHARSET = re.compile(
    r"""<meta[^>]+?charset\s*=\s*["']?([\w:.-]+)|<\?xml[^>]+?encoding\s*=\s*["']([\w:.-]+)""", re.IGNORECASE
)
_SPACES = re.compile(r"[ \t\r\n\f]+")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_ENTITY = re.compile(r"&([^\W\d][\w.-]*);")
Language = tuple[int, str | None]  # from this character on; None: as the whole page
Value = tuple[int, int, Callable[[str], str]]  # where it stands, and what writes it


def read(raw: bytes, options: Options) -> Document:
    """Read a page. A byte order mark gives its encoding, else its own declaration; the default is UTF-8."""
    part = page_part(raw, options)
    return Document([part], placeholders=PROSE, remarks=part.parsed.remarks)


def page_part(raw: bytes, options: Options, *, name: str = "", claims_xml: bool = False) -> "Part[Page]":
    """Return a page. name: of a member of an archive. claims_xml: it should be XML, whatever it says itself."""
    parse = partial(Page.of, claims_xml=claims_xml)
    read = partial(read_page, src_lang=options.src_lang)
    return parsed_part(raw, parse, read, structure, options, name=name, declared=declared)


@dataclass(frozen=True)
class Page:
    """A page, or a part of one, whose attributes with text, and texts in drawings, are held out."""

    source: str
    is_xml: bool  # it is XHTML and well-formed
    values: Sequence[Value]  # of those attributes, and texts in drawings
    text: str  # with tokens in their places
    runs: Sequence[Sequence[Piece]]  # of `text`: what stands between each two block elements
    languages: Sequence[Language]  # of the elements in `text`
    value_languages: Sequence[Language]  # of those in `source`
    remarks: Sequence[str] = ()  # what the user should know about the reading

    @classmethod
    def of(cls, source: str, *, claims_xml: bool = False) -> "Page":
        """Parse a page; XHTML that is not well-formed as HTML."""
        is_xml, remarks = claims_xml or html_tags.claims_xml(source), []
        try:
            html_tags.frame_of(source, (), is_xml=is_xml)
        except DataError as error:
            is_xml, remarks = False, [f"{error}; so mtkit reads this page by the rules of HTML"]
        tags = html_tags.tags_of(source, is_xml=is_xml)
        values = list(values_in(source, tags, is_xml=is_xml))
        text = hold_out(source, [(start, end) for start, end, _ in values])
        tags_of_text = html_tags.tags_of(text, is_xml=is_xml)
        runs = list(_runs(text, tags_of_text, is_xml=is_xml))
        of_text, of_values = (list(_languages(each, is_xml=is_xml)) for each in (tags_of_text, tags))
        remarks += _remarks(source, tags, is_xml=is_xml)
        return cls(source, is_xml, values, text, runs, of_text, of_values, remarks)


def read_page(page: Page, src_lang: str | None = None) -> Reading:
    """Return a page's segments. src_lang: text that the page marks as another language is not translated."""
    place = line_of(page.source)
    values = [
        replace(
            Segment.at(start, end, value_of(page.source[start:end]), place(start), write=write),
            lang=_language_at(page.value_languages, start),
        )
        for start, end, write in page.values
    ]
    found = _segments(page.text, page.runs, line_of(page.text), page.languages, src_lang)
    return Reading(page.text, list(found), values)


def segments(text: str, place: Callable[[int], str], src_lang: str | None = None) -> Iterator[Segment]:
    """Yield the segments of a page or of a part of one, attributes aside. place: names the place of a character."""
    tags = html_tags.tags_of(text)
    return _segments(text, _runs(text, tags), place, list(_languages(tags)), src_lang)


def _segments(
    text: str,
    runs: Iterable[Sequence[Piece]],
    place: Callable[[int], str],
    languages: Sequence[Language] = (),
    src_lang: str | None = None,
) -> Iterator[Segment]:
    for run in runs:
        pieces, foreign = html_text.with_foreign(text, run, src_lang)
        segment = segment_of(text, html_text.with_notes(text, pieces), _MARKUP, place)
        if segment is not None:
            write = writer(segment.inline.source, html_text.write)
            yield replace(segment, write=write, lang=_language_of(text, pieces, languages), foreign=foreign)


def language_of(text: str, pieces: Sequence[Piece]) -> str | None:
    """Return the language that elements give the beginning of a text with inline tags."""
    return _language_of(text, pieces, list(_languages(html_tags.tags_of(text)))) if "lang" in text else None


def _language_of(text: str, pieces: Sequence[Piece], languages: Sequence[Language]) -> str | None:
    at = next((each.start for each in pieces if each.code is None and has_letters(text[each.start : each.end])), 0)
    return _language_at(languages, at)


def _language_at(languages: Sequence[Language], at: int) -> str | None:
    index = bisect_right(languages, at, key=lambda change: change[0]) - 1
    return languages[index][1] if index >= 0 else None


def _languages(tags: Sequence[FoundTag], *, is_xml: bool = False) -> Iterator[Language]:
    """Yield where the language changes that elements give their text.

    That of the whole page does not count, because many a page gives itself a wrong one.
    """
    ends = html_text.ends_of(tags, is_xml=is_xml)
    around: list[tuple[int, str | None]] = [(sys.maxsize, None)]  # the ends of the elements, and their languages
    for index, (start, _, tag) in enumerate(tags):
        while around[-1][0] <= start:
            end, _ = around.pop()
            yield end, around[-1][1]
        if tag is None or tag["close"] or tag["name"].lower() in ("html", "body"):
            continue
        if (lang := html_text.language_of(tag["rest"])) is None:
            continue
        around.append((tags[ends.get(index, index)][1], lang))  # of an image alone: its attributes
        yield start, lang
    for depth in range(len(around) - 1, 0, -1):
        yield around[depth][0], around[depth - 1][1]


def value_of(raw: str) -> Inline:
    """Return the value of an attribute, or a text in a drawing, as text."""
    return Inline(raw, outside_templates(raw, html.unescape), ())


def structure(page: Page) -> object:
    """Return the codes between each two block elements, whatever their order, and the frame of the page."""
    codes = ((without_held_out(piece.code.markup) for piece in run if piece.code) for run in page.runs)
    frame = html_tags.frame_of(page.source, _MAYBE_TEXT, is_xml=page.is_xml)
    return len(page.values), [Counter(of_run) for of_run in codes], frame


def _parse(raw: str) -> str:
    raw = _CDATA.sub(lambda section: html.escape(section[1], quote=False), raw)
    return outside_templates(raw, lambda text: html.unescape(_SPACES.sub(" ", text)))


def _quoted(write: Callable[[str], str], text: str) -> str:
    return f'"{write(text)}"'


_MARKUP = Markup(_parse, html_text.write)


def declared(beginning: str) -> str | None:
    """Return the encoding that the beginning of a page names."""
    found = _CHARSET.search(beginning)
    return (found[1] or found[2]) if found else None


def _is_skipped(tag: re.Match[str]) -> bool:
    """Return whether an element's content is not to be translated, except for parts marked as translatable."""
    name, translate = tag["name"].lower(), html_text.translates(tag)
    if translate is False:
        return True
    return (name in _SKIPPED or name in html_text.KEPT) and not (translate and name in html_text.MAY_BE_LANGUAGE)


class _Kept(NamedTuple):
    """A stretch of a page that stays as it is."""

    end: int
    is_rest: bool  # it goes on, behind an element within it that is to be translated
    kind: Kind = "single"  # around such elements it opens and closes
    name: str = ""

    def code(self, text: str, start: int) -> Code:
        """Return the stretch, which starts there, as a code."""
        return Code(text[start : self.end], self.kind, self.name)


def _kept(tags: Sequence[FoundTag], ends: Mapping[int, int], *, is_xml: bool) -> dict[int, _Kept]:
    """Return the untranslatable parts by their start (Internationalization Tag Set 2.0, section 8.1)."""
    kept: dict[int, _Kept] = {}
    around: dict[int, int] = {}  # of the closing tag of an element to translate: the end of the one around it
    at = 0
    for index, (start, end, tag) in enumerate(tags):
        if start < at or tag is None:
            continue
        if index in around:
            start, last = end, around[index]
        elif html_text.kind_of(tag, is_xml=is_xml) == "open" and _is_skipped(tag):
            last = tags[ends.get(index, index)][1]
        else:
            continue
        at = last
        for i in range(index + 1, len(tags)):
            first, _, inner = tags[i]
            if first >= last:
                break
            if inner is not None and i in ends and html_text.translates(inner):
                at, around[ends[i]] = first, last
                break
        is_rest = index in around
        kind: Kind = "open" if at < last and not is_rest else "close" if at == last and is_rest else "single"
        kept[start] = _Kept(at, is_rest, kind, "" if kind == "single" else f"kept until {last}")
    return kept


def values_in(text: str, tags: Sequence[FoundTag], *, is_xml: bool = False) -> Iterator[Value]:
    """Yield the texts inside codes: the values of some attributes, and texts in drawings and formulas."""
    ends = html_text.ends_of(tags, is_xml=is_xml)
    kept = _kept(tags, ends, is_xml=is_xml)
    until = end_of_drawing = 0
    for index, (start, end, tag) in enumerate(tags):
        name = "" if tag is None else tag["name"].lower()
        if tag is not None and not tag["close"] and start >= until:
            is_kept = html_text.translates(tag) is False
            if name == "svg" and not is_kept:
                end_of_drawing = max(end_of_drawing, tags[ends.get(index, index)][0])
            elif _is_skipped(tag) and (is_kept or name != "math"):
                until = kept[start].end if start in kept else tags[ends.get(index, index)][1]
            yield from () if is_kept else _attributes(tag, is_xml=is_xml)
        if start >= until and end in kept and kept[end].is_rest:
            until = kept[end].end
        if until <= end < len(text) and (end <= end_of_drawing or (name == "mtext" and tag and not tag["close"])):
            raw = text[end : tags[index + 1][0] if index + 1 < len(tags) else len(text)]
            if _is_text(raw, is_xml=is_xml):
                first = end + len(raw) - len(raw.lstrip())
                yield first, first + len(raw.strip()), writer(raw, html_text.write)


def _attributes(tag: re.Match[str], *, is_xml: bool) -> Iterator[Value]:
    names, offset = _text_attributes(tag), tag.start("rest")
    for attribute in _ATTRIBUTE.finditer(tag["rest"]):
        if attribute["name"].lower() in names:
            kind = next(kind for kind in ("double", "single", "bare") if attribute[kind] is not None)
            if _is_text(attribute[kind], is_xml=is_xml):
                write = writer(attribute[kind], html.escape)
                if kind == "bare":
                    write = partial(_quoted, write)
                yield offset + attribute.start(kind), offset + attribute.end(kind), write


def _is_text(raw: str, *, is_xml: bool) -> bool:
    """Return whether characters in a code are text, without entities of the page's own document type."""
    has_own_entity = is_xml and not all(map(html_tags.is_known, _ENTITY.findall(raw)))
    return has_letters(html.unescape(raw)) and not has_own_entity


def _remarks(text: str, tags: Sequence[FoundTag], *, is_xml: bool) -> Iterator[str]:
    """Yield the elements that are not translated although they have words that a reader may see."""
    ends = html_text.ends_of(tags, is_xml=is_xml)
    n_left = Counter[str]()
    until = 0
    for index, (start, end, tag) in enumerate(tags):
        if start < until:
            continue
        if tag is None:
            is_for_some = text.startswith("<!--[if", start)  # which some browsers and mail programs show
            n_left["conditional comment"] += is_for_some and has_letters(
                without_tags(text[start + len("<!--[if") : end])
            )
            continue
        if html_text.kind_of(tag, is_xml=is_xml) != "open" or not _is_skipped(tag):
            continue
        name, last = tag["name"].lower(), ends.get(index)
        until = tags[index if last is None else last][1]
        if last is None and name in html_text.RAW:
            yield f"{line_of(text)(start)}: <{name}> is never closed, so all behind it stays as it is"
        elif last is not None and name in _SHOWN and html_text.translates(tag) is None:
            n_left[f"<{name}>"] += has_letters(text[end : tags[last][0]])
    if left := [f"{n} {name}" for name, n in n_left.items() if n]:
        yield f"the text in {', '.join(left)} stays as it is"


def _text_attributes(tag: re.Match[str]) -> frozenset[str]:
    """Return the names of a tag's attributes that hold text."""
    name, rest = tag["name"].lower(), tag["rest"]
    if name == "meta" and _META_NAMES.search(rest):
        return _TEXT_ATTRIBUTES | {"content"}
    if name == "input" and _BUTTON.search(rest):
        return _TEXT_ATTRIBUTES | {"value"}
    return _TEXT_ATTRIBUTES | {"label"} if name in ("option", "optgroup", "track") else _TEXT_ATTRIBUTES


def _runs(text: str, tags: Sequence[FoundTag], *, is_xml: bool = False) -> Iterator[list[Piece]]:
    """Yield the pieces between block elements."""
    ends = html_text.ends_of(tags, is_xml=is_xml)
    custom = _custom_parts(text, tags, ends)
    kept = _kept(tags, ends, is_xml=is_xml)
    run: list[Piece] = []
    n_open = Counter[str]()  # inline elements in this run, by name
    at = 0
    for index, (start, end, tag) in enumerate(tags):
        if start < at:
            continue
        run += [Piece(at, start)] if start > at else []
        at = end
        if tag is None:
            run.append(Piece(start, end, Code(text[start:end], "single")))
            continue
        name, kind = tag["name"].lower(), html_text.kind_of(tag, is_xml=is_xml)
        is_inline = _is_inline(tag) or index in custom
        if kind == "open" and _is_skipped(tag):
            is_all = index not in ends and name in html_text.RAW  # never closed: to a browser, all the rest is in it
            at = len(text) if is_all else kept[start].end
            code = Code(text[start:at], "single") if is_all else kept[start].code(text, start)
            is_break = not is_inline
        else:
            code = Code(text[start:end], kind, name, "\n" if name == "br" else "")
            is_break = not is_inline or (name == "br" and not n_open.total())
        if is_break:
            yield run
            run, n_open = [], Counter[str]()
        else:
            run.append(Piece(start, at, code))
            if code.kind == "open" and start not in kept:
                n_open[name] += 1
            elif code.kind == "close" and n_open[name]:
                n_open[name] -= 1
        if at == end and end in kept and kept[end].is_rest:
            at = kept[end].end
            run.append(Piece(end, at, kept[end].code(text, end)))
    yield [*run, *([Piece(at, len(text))] if at < len(text) else [])]


def _is_inline(tag: re.Match[str]) -> bool:
    name = tag["name"].lower()
    return name in _INLINE or (name.partition(":")[2] or "-") in _INLINE


def _custom_parts(text: str, tags: Sequence[FoundTag], ends: Mapping[int, int]) -> set[int]:
    """Return the tags of custom elements, such as <my-link>, with text next to them and no block element inside."""
    found: set[int] = set()
    for index, (start, _, tag) in enumerate(tags):
        last = ends.get(index)
        if tag is None or last is None or "-" not in tag["name"] or last > index + _MOST_IN_CUSTOM:
            continue
        inside = (each for _, _, each in tags[index + 1 : last] if each is not None)
        before = text[tags[index - 1][1] if index else 0 : start]
        after = text[tags[last][1] : tags[last + 1][0] if last + 1 < len(tags) else len(text)]
        if (before + after).strip() and all(_is_inline(each) or "-" in each["name"] for each in inside):
            found |= {index, last}
    return found
