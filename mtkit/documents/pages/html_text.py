"""Inline HTML in a line of text: tags as codes, entities as characters."""

import html
import re
from collections.abc import Iterator, Sequence

from mtkit.documents.pieces import Piece
from mtkit.text import brackets
from mtkit.text.inline import Code, Inline, Part, inline_of
from mtkit.text.inline_tags import TAG

_COMMENT_END = re.compile("--!?>")
VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
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
    name = tag["name"].lower()
    if tag["close"]:
        return Code(tag[0], "close", name)
    if name in VOID or tag["rest"].endswith("/"):
        return Code(tag[0], "single", text=" " if name == "br" else "")
    if name in KEPT or NOT_TRANSLATED.search(tag["rest"]):
        return None
    return Code(tag[0], "open", name)


def tags(line: str) -> Iterator[FoundTag]:
    """Yield where each tag, comment, declaration and instruction stands, all but the tags as None."""
    at, last_comment = 0, max(line.rfind("-->"), line.rfind("--!>"))
    while (tag := TAG.search(line, at)) is not None:
        start, at = tag.span()
        if tag["name"]:
            yield start, at, tag
        elif tag[0] != "<!--":
            yield start, at, None
        elif start + 4 <= last_comment:
            ended = _COMMENT_END.search(line, start + 4)
            assert ended is not None
            at = ended.end()
            yield start, at, None
        else:  # never closed: to a browser, all the rest is a comment
            yield start, len(line), None
            return


def ends_of(tags: Sequence[FoundTag]) -> dict[int, int]:
    """Return the index of the closing tag of each opening one."""
    kinds = ((("close" if tag["close"] else "open"), tag["name"].lower()) if tag else ("", "") for _, _, tag in tags)
    return brackets.ends_of(kinds)
