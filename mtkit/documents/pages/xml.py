"""A piece of XML with any tags: some separate texts, the others are codes within them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mtkit.documents.document import Document
from mtkit.documents.pieces import Markup, Piece, segment_of
from mtkit.documents.places import line_of
from mtkit.documents.reading import parsed_part
from mtkit.documents.skeleton import Reading
from mtkit.markup.xml_parser import check
from mtkit.markup.xml_tokens import Token, ends_of, escape, tokens, unescape
from mtkit.text.inline import Code, Kind
from mtkit.text.placeholders import PROSE

_SPACES = re.compile(r"[ \t\r\n]+")
_KINDS: Mapping[str, Kind] = {"open": "open", "close": "close"}
_TAGS = frozenset(["open", "close", "empty"])


@dataclass(frozen=True)
class XmlRules:
    """What the tags mean, by their names with prefixes.

    An element is taken for a part of a text if the element around it has text of its own, or is itself such a part;
    else it separates texts.
    """

    separate: frozenset[str] = frozenset()  # elements that separate texts in any case
    inline: frozenset[str] = frozenset()  # elements that are parts of a text in any case
    kept: frozenset[str] = frozenset()  # elements whose content is not translated
    guess: bool = True  # False: all elements that are not in `separate` are parts of a text


def read_xml(text: str, rules: XmlRules) -> Document:
    """Read a whole document or a fragment, with or without an element around it. Raises DataError if it is not XML."""

    def read(found: Sequence[Token]) -> Reading:
        place = line_of(text)
        segments = (segment_of(text, run, _MARKUP, place) for run in _runs(found, rules))
        return Reading(text, [segment for segment in segments if segment is not None])

    part = parsed_part(text.encode("utf-8"), _tokens, read, _structure)
    _ = part.parsed  # so that an error is raised now
    return Document([part], placeholders=PROSE)


def _tokens(text: str) -> Sequence[Token]:
    """Return the tokens of a text. A declaration or DOCTYPE can only begin a whole document."""
    check(text, is_fragment=not text.lstrip().startswith(("<?xml ", "<!DOCTYPE")))
    return list(tokens(text))


def _structure(found: Sequence[Token]) -> object:
    """Return what no translation may change: all that is not text, whatever its order."""
    return Counter(token.markup for token in found if token.kind != "text")


def _parse(raw: str) -> str:
    return unescape(_SPACES.sub(" ", raw))


_MARKUP = Markup(_parse, escape)


def _runs(found: Sequence[Token], rules: XmlRules) -> Iterator[list[Piece]]:
    """Yield the pieces between elements that separate texts."""
    ends = ends_of(found)
    inline = _inline_tags(found, ends, rules)
    run: list[Piece] = []
    next_index = 0
    for index, token in enumerate(found):
        if index < next_index:  # inside an element that is kept
            continue
        last = ends[index] if token.kind == "open" and token.name in rules.kept else index
        next_index = last + 1
        if token.kind in _TAGS and index not in inline:
            yield run
            run = []
        elif token.kind == "text":
            run.append(Piece(token.start, token.end))
        else:
            kind = _KINDS.get(token.kind, "single") if last == index else "single"
            markup = "".join(one.markup for one in found[index : last + 1])
            run.append(Piece(token.start, found[last].end, Code(markup, kind, token.name)))
    yield run


def _inline_tags(found: Sequence[Token], ends: Mapping[int, int], rules: XmlRules) -> set[int]:
    """Return the indices of the tags of elements that are parts of a text."""
    parents = _parents(found)
    with_text = {parents[index] for index, token in enumerate(found) if token.content.strip()}
    inline: set[int] = set()
    for index, end in sorted(ends.items()):
        name, parent = found[index].name, parents[index]
        is_part = not rules.guess or parent in with_text or parent in inline
        if name not in rules.separate and (name in rules.inline or is_part):
            inline |= {index, end}
    return inline


def _parents(found: Sequence[Token]) -> list[int]:
    """Return the index of the opening tag around each token; -1 around the outermost."""
    parents: list[int] = []
    around = [-1]
    for index, token in enumerate(found):
        if token.kind == "close":
            around.pop()
        parents.append(around[-1])
        if token.kind == "open":
            around.append(index)
    return parents
