"""The tags of a page, by the rules of HTML or, for XHTML, of XML; what looks like tags in template code is none."""

import html.entities
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from mtkit.documents.pages import html_text
from mtkit.documents.pages.html_text import FoundTag
from mtkit.markup import xml_tokens
from mtkit.markup.xml_parser import facts_of
from mtkit.text.inline import Interval
from mtkit.text.inline_tags import TAG
from mtkit.text.templates import TEMPLATE, is_opaque

_HIDING = re.compile(  # what hides tags from HTML
    rf"(?P<template>{TEMPLATE.pattern})|<!--|(?P<doctype><!DOCTYPE[^<>\[]{{0,1000}}\[)"
    rf"|<(?P<raw>(?i:{'|'.join(sorted(html_text.RAW))}))(?=[\s/>])(?:\"[^\"]*+\"|'[^']*+'|[^'\"<>]++){{0,200}}+>",
    re.IGNORECASE,
)
_RAW_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in html_text.RAW}
_SUBSET_END = re.compile(r"\]\s*>")
_CLAIM = re.compile(
    r"\s*(?:<\?xml\s|(?:<!--(?:(?!-->).)*-->|<!DOCTYPE[^<>\[]*(?:\[.*?\]\s*)?>|\s)*"
    r"""<html\b[^<>]*\sxmlns\s*=\s*["']http://www\.w3\.org/1999/xhtml["'])""",
    re.IGNORECASE | re.DOTALL,
)
_CODE = re.compile(rf"&(?P<name>[^\W\d][\w.-]*);|{TEMPLATE.pattern}")
_BEGINNING = re.compile(r"<[/!?]?[a-zA-Z][^\s<>/]{0,99}")  # of whatever could be a tag


def claims_xml(text: str) -> bool:
    """Return whether a page says that it is XHTML, by an XML declaration or the namespace of its first element."""
    return _CLAIM.match(text[:10_000]) is not None


def tags_of(text: str, *, is_xml: bool = False) -> list[FoundTag]:
    """Return all tags, in order; None in place of the tag for comments, declarations and statements of templates."""
    return list(_xml_tags(text) if is_xml else _html_tags(text))


def _xml_tags(text: str) -> Iterator[FoundTag]:
    for token in xml_tokens.tokens(text):
        if token.kind in ("open", "close", "empty"):
            tag = TAG.match(text, token.start)
            yield token.start, token.end, tag if tag and tag.end() == token.end else None
        elif token.kind == "text":
            for found in _CODE.finditer(text, token.start, token.end):
                if is_opaque(found[0]) if found["name"] is None else not is_known(found["name"]):
                    yield *found.span(), None
        elif token.kind != "cdata":
            yield token.start, token.end, None


def is_known(entity: str) -> bool:
    """Return whether an entity of this name is a character to HTML; others belong to the document type of a page."""
    return f"{entity};" in html.entities.html5


def _html_tags(text: str) -> Iterator[FoundTag]:
    codes: list[Interval] = []  # that look like tags or text
    hidden: list[tuple[Interval, str]] = []  # intervals without tags, and what to put there meanwhile
    at = 0
    while (found := _HIDING.search(text, at)) is not None:
        start, at = found.span()
        if found["template"]:
            hidden.append(((start, at), "x"))  # which may be in the name of a tag, or in an attribute
            codes += [(start, at)] if is_opaque(found[0]) else []
        elif found["doctype"]:
            ended = _SUBSET_END.search(text, at)
            at = len(text) if ended is None else ended.end()
            hidden.append(((start, at), " "))
            codes.append((start, at))
        elif found["raw"]:
            ended = _RAW_ENDS[found["raw"].lower()].search(text, at)
            start, at = at, len(text) if ended is None else ended.start()
            hidden.append(((start, at), " "))
        else:
            at = html_text.comment_end(text, start)
    yield from _merged(html_text.tags(_blanked(text, hidden)), codes)


def _blanked(text: str, intervals: Iterable[tuple[Interval, str]]) -> str:
    """Return the text with these characters in the intervals."""
    parts, at = [], 0
    for (start, end), blank in intervals:
        parts += [text[at:start], blank * (end - start)]
        at = end
    return "".join([*parts, text[at:]])


def _merged(tags: Iterable[FoundTag], codes: Iterable[Interval]) -> Iterator[FoundTag]:
    """Yield tags and the codes between them, in order; codes within tags belong to these."""
    at = 0
    for start, end, tag in sorted([*tags, *((*code, None) for code in codes)], key=lambda found: found[0]):
        if start >= at:
            yield start, end, tag
            at = end


def frame_of(text: str, text_attributes: Collection[str], *, is_xml: bool) -> object:
    """Return what no translation may change, found by other rules than those by which a page is read.

    text_attributes: whose values may change. Raises DataError if the page should be XML and is not.
    """
    beginnings, codes = Counter(_BEGINNING.findall(text)), Counter(match[0] for match in TEMPLATE.finditer(text))
    return beginnings, codes, facts_of(text, text_attributes) if is_xml else None
