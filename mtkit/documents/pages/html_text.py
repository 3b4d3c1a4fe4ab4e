"""Inline HTML in a line of text: tags as codes, entities as characters."""

import html
import re
from collections.abc import Iterator, Sequence

from mtkit.documents.pieces import Piece
from mtkit.text import brackets
from mtkit.text.inline import Code, Inline, Kind, Part, inline_of
from mtkit.text.inline_tags import TAG

_BARE_VALUE = re.compile(r"""=\s*[^\s"'=<>`]+/$""")  # a value without quotes, whose slash closes nothing
_COMMENT_END = re.compile("--!?>")
VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
RAW = frozenset(["script", "style", "textarea", "xmp", "iframe", "noembed", "noframes"])  # whose content has no tags
KEPT = frozenset(["code", "kbd", "math", "samp", "script", "style", "svg", "var"])  # what is inside is not language
NOT_TRANSLATED = re.compile(r"""\stranslate\s*=\s*["']?no\b""", re.IGNORECASE)

FoundTag = tuple[int, int, re.Match[str] | None]  # from, up to; None for a comment


def parse(line: str) -> Inline:
    """Return the text and tags of a line. Elements such as <code> and those with translate="no" are one code each."""
    return inline_of(_parts(line), line)


def write(text: str) -> str:
    """Return text as HTML."""
    return html.escape(text, quote=False)


def _parts(line: str) -> Iterator[Part]:
    for piece in pieces(line):
        yield piece.code or html.unescape(line[piece.start : piece.end])


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


def code_of(tag: re.Match[str]) -> Code | None:
    """Return the code that a tag is; None if it opens an element that is a code as a whole."""
    name, kind = tag["name"].lower(), kind_of(tag)
    if kind == "single":
        return Code(tag[0], kind, text=" " if name == "br" else "")
    if kind == "open" and (name in KEPT or NOT_TRANSLATED.search(tag["rest"])):
        return None
    return Code(tag[0], kind, name)


def tags(line: str) -> Iterator[FoundTag]:
    """Yield where each tag, comment, declaration and instruction stands, all but the tags as None."""
    at = 0
    while (tag := TAG.search(line, at)) is not None:
        start, at = tag.span()
        if tag[0] == "<!--":
            at = comment_end(line, start)
        yield start, at, tag if tag["name"] else None


def comment_end(text: str, start: int) -> int:
    """Return where a comment ends; one that is never closed is all the rest, as to a browser."""
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
