"""Inline HTML in a line of text: tags as codes, entities as characters."""

import html
import re
from collections.abc import Iterator, Sequence

from mtkit.documents.pieces import Piece, partners_of
from mtkit.languages import is_another_language
from mtkit.text import brackets
from mtkit.text.inline import Code, Inline, Kind, Part, inline_of
from mtkit.text.inline_tags import TAG
from mtkit.text.templates import outside_templates
from mtkit.text.words import has_letters

_BARE_VALUE = re.compile(r"""=\s*[^\s"'=<>`]+/$""")  # a value without quotes, whose slash closes nothing
_COMMENT_END = re.compile("--!?>")
VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
RAW = frozenset(["script", "style", "textarea", "xmp", "iframe", "noembed", "noframes"])  # whose content has no tags
KEPT = frozenset(["code", "kbd", "math", "samp", "script", "style", "svg", "var"])  # what is inside is not language
MAY_BE_LANGUAGE = frozenset(["code", "kbd", "pre", "samp", "var"])  # if they say so
_ANNOTATIONS = frozenset(["rt", "rp", "rtc"])  # of ruby text: how its base is read
_MARK = re.compile(r"[(\[]?(?:\d{1,4}|[*†‡§¶#°]{1,4}|\[[a-z]\])[)\]]?")
_LETTER_MARK = re.compile(r"[a-z]|[ivx]{1,5}")
_TO_NOTE = re.compile(r"""\shref\s*=\s*["']?[^"'\s>]*\#|\bnoteref\b""")
_GAP = re.compile(r"\s*(?P<bracket>[(\[]?)\Z")
_CLOSING = {"(": ")", "[": "]"}
_MOST_IN_NOTE = 8  # pieces
_LANGUAGE = re.compile(r"""\s(?:xml:)?lang\s*=\s*["']?([a-zA-Z]{2,3}(?:[-_]\w+)*)""", re.IGNORECASE)
_TRANSLATE = re.compile(r"""\stranslate\s*=\s*(?:["'](yes|no|)["']|(yes|no)(?=[\s/]|$))""", re.IGNORECASE)
_NO_TRANSLATE = re.compile(r"""\sclass\s*=\s*(?:["'][^"']*(?<![\w-]))?notranslate(?![\w-])""", re.IGNORECASE)

FoundTag = tuple[int, int, re.Match[str] | None]  # from, up to; None for a comment


def parse(line: str) -> Inline:
    """Return the text and tags of a line. Elements such as <code> and those with translate="no" are one code each."""
    return inline_of(_parts(line), line)


def write(text: str) -> str:
    """Return text as HTML."""
    return html.escape(text, quote=False)


def _parts(line: str) -> Iterator[Part]:
    for piece in with_notes(line, list(pieces(line))):
        yield piece.code or outside_templates(line[piece.start : piece.end], html.unescape)


def pieces(line: str) -> Iterator[Piece]:
    """Yield the tags and the texts between them, in order."""
    found = list(tags(line))
    ends = ends_of(found)
    at = 0
    for index, (start, end, tag) in enumerate(found):
        if start < at:  # inside an element that is a code as a whole
            continue
        if start > at:
            yield Piece(at, start)
        at = end
        code = Code(line[start:end], "single") if tag is None else code_of(tag)
        if code is None:
            at = found[ends.get(index, index)][1]
        yield Piece(start, at, code or Code(line[start:at], "single"))
    if at < len(line):
        yield Piece(at, len(line))


def with_notes(text: str, found: Sequence[Piece]) -> list[Piece]:
    """Make one code of each mark of a note, such as <sup>1</sup>, exponent, and annotation of ruby text.

    Brackets around a mark, and the space before it, belong to its code, so that it stays behind its word.
    """
    partners = partners_of(found)
    joined: list[Piece] = []
    at = index = 0
    while index < len(found):
        piece = found[index]
        last = _last_of_note(text, found, index, partners.get(index, index))
        if last is None:
            joined += [Piece(max(piece.start, at), piece.end, piece.code)] if piece.end > at else []
            index += 1
            continue
        start, at, index = piece.start, found[last].end, last + 1
        assert piece.code is not None
        before = joined[-1] if joined else None
        if piece.code.name in _ANNOTATIONS:
            name = "annotation"
            if before and before.code and before.code.name == name:
                start = joined.pop().start
        else:
            name = ""
            follows = index < len(found) and found[index].code is None
            if before and before.code is None and not (follows and text[at].isalnum()):
                gap = _GAP.search(text, before.start, start)
                if gap is not None and (not gap["bracket"] or (follows and text[at] == _CLOSING[gap["bracket"]])):
                    start, at = gap.start(), at + len(gap["bracket"])
                joined[-1:] = [Piece(before.start, start)] if start > before.start else []
        joined.append(Piece(start, at, Code(text[start:at], "single", name)))
    return joined


def with_foreign(text: str, found: Sequence[Piece], src_lang: str | None) -> tuple[list[Piece], tuple[str, ...]]:
    """Make each element in another language a single code of the text; also return the words of these elements."""
    partners = partners_of(found)
    joined: list[Piece] = []
    phrases: list[str] = []
    index = 0
    while index < len(found):
        piece, last = found[index], partners.get(index, index)
        if last > index and piece.code and is_another_language(language_of(piece.code.markup), src_lang):
            inside = (text[each.start : each.end] for each in found[index:last] if each.code is None)
            phrases.append(" ".join(html.unescape("".join(inside)).split()))
            code = Code(text[piece.start : found[last].end], "single", is_text=True)
            piece = Piece(piece.start, found[last].end, code)
        else:
            last = index
        joined.append(piece)
        index = last + 1
    is_within = any(piece.code is None and has_letters(text[piece.start : piece.end]) for piece in joined)
    return (joined, tuple(filter(has_letters, phrases))) if is_within else (list(found), ())


def language_of(tag: str) -> str | None:
    """Return the language that a tag, or its part behind the name, gives its element."""
    found = _LANGUAGE.search(tag)
    return found[1] if found else None


def _last_of_note(text: str, found: Sequence[Piece], index: int, partner: int) -> int | None:
    """Return the last piece of a note's mark, or of an annotation of ruby text, that begins at this index."""
    code = found[index].code
    if code is None or code.kind != "open":
        return None
    if code.name in _ANNOTATIONS:
        if partner > index:
            return partner
        names = (piece.code.name if piece.code else "" for piece in found[index + 1 :])
        return next((index + i for i, name in enumerate(names) if name in _ANNOTATIONS or name == "ruby"), None)
    if not index < partner <= index + _MOST_IN_NOTE:
        return None
    inside = (html.unescape(text[piece.start : piece.end]) for piece in found[index:partner] if piece.code is None)
    mark = "".join(inside).strip()
    if code.name == "sup":
        return partner if not has_letters(mark) or _LETTER_MARK.fullmatch(mark) else None
    return partner if _MARK.fullmatch(mark) and _TO_NOTE.search(code.markup) else None


def code_of(tag: re.Match[str]) -> Code | None:
    """Return the code that a tag is; None if it opens an element that is a code as a whole."""
    name, kind = tag["name"].lower(), kind_of(tag)
    if kind == "single":
        return Code(tag[0], kind, text=" " if name == "br" else "")
    translate = translates(tag)
    if kind == "open" and (translate is False or (name in KEPT and not (translate and name in MAY_BE_LANGUAGE))):
        return None
    return Code(tag[0], kind, name)


def translates(tag: re.Match[str]) -> bool | None:
    """Return whether a tag says that its element is to be translated; None if it says nothing."""
    if found := _TRANSLATE.search(tag["rest"]):
        return (found[1] or found[2] or "yes").lower() == "yes"
    return False if _NO_TRANSLATE.search(tag["rest"]) else None


def tags(line: str) -> Iterator[FoundTag]:
    """Yield where each tag, comment, declaration and instruction stands, all but the tags as None."""
    at = 0
    while (tag := TAG.search(line, at)) is not None:
        start, at = tag.span()
        if tag[0] == "<!--":
            at = comment_end(line, start)
        yield start, at, tag if tag["name"] else None


def comment_end(text: str, start: int) -> int:
    """Return where a comment ends. As in a browser, a comment that is never closed lasts to the end of the text."""
    ended = _COMMENT_END.search(text, start + len("<!"))
    return len(text) if ended is None else ended.end()


def kind_of(tag: re.Match[str], *, is_xml: bool = False) -> Kind:
    """Return what a tag does. To HTML, `/>` closes no script."""
    if tag["close"]:
        return "close"
    name = tag["name"].lower()
    closes_itself = tag["rest"].endswith("/") and (is_xml or not (name in RAW or _BARE_VALUE.search(tag["rest"])))
    return "single" if closes_itself or name in VOID else "open"


def ends_of(tags: Sequence[FoundTag], *, is_xml: bool = False) -> dict[int, int]:
    """Return the index of the closing tag of each opening one."""
    return brackets.ends_of((kind_of(tag, is_xml=is_xml), tag["name"].lower()) if tag else ("", "") for *_, tag in tags)
