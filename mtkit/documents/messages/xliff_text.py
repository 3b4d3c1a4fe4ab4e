"""Read an XLIFF source element as text with codes for its inline elements, and write the content of its target."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mtkit.documents.messages.message_text import WRITTEN_BREAK, Message, breaks, message_of
from mtkit.documents.pieces import Piece, trimmed
from mtkit.markup.xml_tokens import Token, ends_of, escape, unescape
from mtkit.text.inline import Code, Inline, Kind, inline_of
from mtkit.text.inline_tags import ENTITY
from mtkit.text.placeholders import placeholder_pattern
from mtkit.text.words import has_letters

_AROUND = frozenset(["g", "pc", "mrk"])  # elements whose content is text
_OPENING = {"bpt": "", "bx": "", "sc": "2", "sm": "2m"}  # elements that open a pair, and which kind of pair
_CLOSING = {"ept": "", "ex": "", "ec": "2", "em": "2m"}
_PARTNER = ("startRef", "rid", "id")  # attributes that name the pair, the first that is there
_TAG = re.compile(r"&lt;(?P<slash>/?)(?P<name>[a-zA-Z][\w:-]{0,99})(?:(?!&[lg]t;)[^<>]){0,1000}?(?P<empty>/?)&gt;")


@dataclass(frozen=True)
class SourceText:
    """The text to translate, and the function that writes its translation as the content of a target."""

    inline: Inline
    write: Callable[[str], str]
    content: Callable[[str], str]


def source_text(text: str, tokens: Sequence[Token]) -> SourceText | None:
    """Return the text of a source element, of which these are the tokens inside; None without words."""
    if not tokens:
        return None
    raw = text[tokens[0].start : tokens[-1].end]
    if all(token.kind == "text" for token in tokens) and not WRITTEN_BREAK.search(raw):
        return _of_message(message_of(unescape(raw)), raw, escape)
    if len(tokens) == 1 and tokens[0].kind == "cdata":
        return _of_message(message_of(tokens[0].content), raw, _as_cdata)
    return _with_elements(text, tokens)


def _of_message(message: Message | None, raw: str, write: Callable[[str], str]) -> SourceText | None:
    """Return a text without inline elements; it may have tags of HTML as text."""
    if message is None:
        return None

    def content(written: str) -> str:
        return raw if written == message.inline.source else write(message.translation(written))

    return SourceText(message.inline, message.write, content)


def _as_cdata(text: str) -> str:
    return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"


def _with_elements(text: str, tokens: Sequence[Token]) -> SourceText | None:
    inner = trimmed(text, list(_pieces(text, tokens)))
    if not inner:
        return None
    start, end = inner[0].start, inner[-1].end
    texts = [_parse(text[piece.start : piece.end]) for piece in inner if piece.code is None]
    has_entities = any(map(ENTITY.search, texts))
    parts = [piece.code or _parse(text[piece.start : piece.end], has_entities) for piece in inner]
    inline = inline_of(parts, text[start:end])
    if not has_letters(placeholder_pattern().sub("", inline.text)):
        return None
    before, after = text[tokens[0].start : start], text[end : tokens[-1].end]
    return SourceText(
        inline,
        (lambda written: escape(html.escape(written, quote=False))) if has_entities else escape,
        lambda written: f"{before}{written}{after}",
    )


def _parse(raw: str, has_entities: bool = False) -> str:
    content = raw[len("<![CDATA[") : -len("]]>")] if raw.startswith("<![CDATA[") else unescape(raw)
    return html.unescape(content) if has_entities else content


def _pieces(text: str, tokens: Sequence[Token]) -> Iterator[Piece]:
    ends = ends_of(tokens)
    at = 0
    for index, token in enumerate(tokens):
        if index < at:
            continue
        at = index + 1
        if token.kind == "text":
            yield from _pieces_of_text(text, token.start, token.end)
        elif token.kind == "cdata":
            yield Piece(token.start, token.end)
        elif token.kind == "open" and token.local_name in _AROUND and not is_protected(token):
            yield Piece(token.start, token.end, Code(token.markup, "open", token.local_name))
        elif token.kind == "close":
            yield Piece(token.start, token.end, Code(token.markup, "close", token.local_name))
        else:
            at = _end_of_code(tokens, index, ends) + 1
            end = tokens[at - 1].end
            yield Piece(token.start, end, _code(token, text[token.start : end]))


def is_protected(token: Token) -> bool:
    """Return whether the content of an element must not be translated."""
    return token.get("translate") == "no" or token.get("mtype") == "protected"


def _end_of_code(tokens: Sequence[Token], index: int, ends: dict[int, int]) -> int:
    """Return the index of the last token of a code: its own end, or that of the part that it protects."""
    token = tokens[index]
    if token.local_name == "sm" and is_protected(token):
        for other in range(index, len(tokens)):
            if tokens[other].local_name == "em" and tokens[other].get("startRef") == token.get("id"):
                inside = tokens[index : other + 1]
                is_whole = sum({"open": 1, "close": -1}.get(each.kind, 0) for each in inside) == 0
                return other if is_whole else index
    return ends.get(index, index)


def _code(token: Token, markup: str) -> Code:
    name = token.local_name
    partner = next((token.get(key) for key in _PARTNER if token.get(key)), "")
    if name in _OPENING and "<em" not in markup:
        return Code(markup, "open", f"{_OPENING[name]}-{partner}")
    if name in _CLOSING:
        return Code(markup, "close", f"{_CLOSING[name]}-{partner}")
    is_break = "lb" in (token.get("ctype"), token.get("type"), token.get("subType").rpartition(":")[2])
    return Code(markup, "single", text=" " if is_break else "")


def _pieces_of_text(text: str, first: int, end: int) -> Iterator[Piece]:
    """Yield what a text between elements consists of: tags of HTML that are written as text, and the rest."""
    at = first
    for tag in _TAG.finditer(text, first, end):
        yield from breaks(text, at, tag.start())
        kind: Kind = "close" if tag["slash"] else "single" if tag["empty"] or tag["name"] == "br" else "open"
        yield Piece(*tag.span(), Code(tag[0], kind, f"html {tag['name'].lower()}"))
        at = tag.end()
    yield from breaks(text, at, end)
