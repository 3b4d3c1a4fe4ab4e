"""Inline HTML in a line of text: tags as codes, entities as characters."""

import html
import re
from collections.abc import Iterator

from mtkit.documents.inline import Code, Inline, Part, inline_of

_MOST = 200  # quoted attributes and pieces between them, in a tag: so that hostile lines take no quadratic time
_TAG = re.compile(
    r"<!--"
    r"|<(?P<close>/?)(?P<name>[a-zA-Z][^\s/<>]{0,99}+)"
    rf"""(?P<rest>(?:"[^"]*+"|'[^']*+'|[^'"<>]++){{0,{_MOST}}}+)>""",
)
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)
_KEPT = frozenset(["code", "kbd", "math", "samp", "script", "style", "svg", "var"])  # what is inside is not language
_NOT_TRANSLATED = re.compile(r"""\stranslate\s*=\s*["']?no\b""", re.IGNORECASE)


def parse(line: str) -> Inline:
    """Return a line's text and tags. Elements such as <code>, and those with translate="no", are codes as a whole."""
    return inline_of(_parts(line), line)


def write(text: str) -> str:
    """Return text as HTML."""
    return html.escape(text, quote=False)


def _parts(line: str) -> Iterator[Part]:
    tags = list(_tags(line))
    ends = _ends(tags)
    at = 0
    for index, (start, end, tag) in enumerate(tags):
        if start < at:  # inside an element that is a code as a whole
            continue
        if start > at:
            yield html.unescape(line[at:start])
        at = end
        if tag is None:
            yield Code(line[start:end], "single")
            continue
        name = tag["name"].lower()
        if tag["close"]:
            yield Code(tag[0], "close", name)
        elif name in _VOID or tag["rest"].endswith("/"):
            yield Code(tag[0], "single", text=" " if name == "br" else "")
        elif name in _KEPT or _NOT_TRANSLATED.search(tag["rest"]):
            at = tags[ends.get(index, index)][1]
            yield Code(line[start:at], "single")
        else:
            yield Code(tag[0], "open", name)
    if at < len(line):
        yield html.unescape(line[at:])


def _tags(line: str) -> Iterator[tuple[int, int, re.Match[str] | None]]:
    """Yield where each tag and comment stands, a comment as None."""
    at, last_comment = 0, line.rfind("-->")
    while (tag := _TAG.search(line, at)) is not None:
        start, at = tag.span()
        if tag["name"]:
            yield start, at, tag
        elif start + 4 <= last_comment:
            at = line.index("-->", start + 4) + 3
            yield start, at, None


def _ends(tags: list[tuple[int, int, re.Match[str] | None]]) -> dict[int, int]:
    """Return the index of the closing tag of each opening one."""
    ends: dict[int, int] = {}
    waiting: dict[str, list[int]] = {}
    for index, (_, _, tag) in enumerate(tags):
        if tag is None:
            continue
        names = waiting.setdefault(tag["name"].lower(), [])
        if not tag["close"]:
            names.append(index)
        elif names:
            ends[names.pop()] = index
    return ends
