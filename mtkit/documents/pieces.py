"""Cut the content of an element into segments: runs of text with inline codes, without what surrounds the text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mtkit.documents.document import Segment
from mtkit.documents.inline import Code, inline_of

_SPACES = " \t\r\n\f"


@dataclass(frozen=True)
class Piece:
    """Characters start to end of a document: a code, or text."""

    start: int
    end: int
    code: Code | None = None


@dataclass(frozen=True)
class Markup:
    """How a format writes text."""

    parse: Callable[[str], str]  # turns what stands in the document into text
    write: Callable[[str], str]  # and back


def segment_of(text: str, pieces: Sequence[Piece], markup: Markup, place: Callable[[int], str]) -> Segment | None:
    """Return the segment of pieces that stand one after the other; None if they have no text.

    place: names the place of a character. White space and codes around the text stay out of the segment, unless they
    belong to codes within it.
    """
    inner = trimmed(text, pieces)
    if not inner:
        return None
    start, end = inner[0].start, inner[-1].end
    parts = [piece.code or markup.parse(text[piece.start : piece.end]) for piece in inner]
    if not any(isinstance(part, str) and any(map(str.isalpha, part)) for part in parts):
        return None
    return Segment.at(start, end, inline_of(parts, text[start:end]), place(start), markup.write)


def trimmed(text: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Leave out white space and codes before and after all text, and pairs of codes around all of it."""
    inner = list(pieces)
    while inner:
        first, last = inner[0], inner[-1]
        if first.code is None and not text[first.start : first.end].strip(_SPACES):
            del inner[0]
        elif last.code is None and not text[last.start : last.end].strip(_SPACES):
            del inner[-1]
        elif first.code is not None and _is_alone(inner, 0):
            del inner[0]
        elif last.code is not None and _is_alone(inner, len(inner) - 1):
            del inner[-1]
        elif first.code is not None and _partner(inner, 0) == len(inner) - 1 > 0:
            del inner[-1], inner[0]
        else:
            break
    if inner and inner[0].code is None:
        raw = text[inner[0].start : inner[0].end]
        inner[0] = Piece(inner[0].end - len(raw.lstrip(_SPACES)), inner[0].end)
    if inner and inner[-1].code is None:
        raw = text[inner[-1].start : inner[-1].end]
        inner[-1] = Piece(inner[-1].start, inner[-1].start + len(raw.rstrip(_SPACES)))
    return inner


def _is_alone(pieces: Sequence[Piece], index: int) -> bool:
    code = pieces[index].code
    assert code is not None
    return code.kind == "single" or _partner(pieces, index) is None


def _partner(pieces: Sequence[Piece], index: int) -> int | None:
    """Return the index of the code that closes, or opens, the one at index, which stands at an end of the pieces."""
    code = pieces[index].code
    assert code is not None
    step = 1 if code.kind == "open" else -1
    depth = 0
    for other in range(index, len(pieces) if step > 0 else -1, step):
        found = pieces[other].code
        if found is not None and found.kind != "single" and found.name == code.name:
            depth += 1 if found.kind == code.kind else -1
            if depth == 0:
                return other
    return None
