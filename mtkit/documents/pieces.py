"""Make a segment of a run of text and codes, without what only surrounds the text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mtkit.documents.skeleton import Segment
from mtkit.text.brackets import ends_of
from mtkit.text.inline import Code, inline_of
from mtkit.text.words import has_letters

_SPACES = " \t\r\n\f"


@dataclass(frozen=True)
class Piece:
    """Characters start to end of a document: a code, or text if `code` is None."""

    start: int
    end: int
    code: Code | None = None


@dataclass(frozen=True)
class Markup:
    """How a format writes text."""

    parse: Callable[[str], str]  # turns what stands in the document into text
    write: Callable[[str], str]  # and back


def segment_of(text: str, pieces: Sequence[Piece], markup: Markup, place: Callable[[int], str]) -> Segment | None:
    """Return the segment of consecutive pieces; None if they have no text.

    place: names the place of a character. White space and codes around the text stay out of the segment, unless they
    belong to codes within it.
    """
    inner = trimmed(text, pieces)
    if not inner:
        return None
    start, end = inner[0].start, inner[-1].end
    parts = [piece.code or markup.parse(text[piece.start : piece.end]) for piece in inner]
    if not any(isinstance(part, str) and has_letters(part) for part in parts):
        return None
    return Segment.at(start, end, inline_of(parts, text[start:end]), place(start), write=markup.write)


def trimmed(text: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Leave out white space and codes before and after all text, and pairs of codes around all of it."""
    partners = partners_of(pieces)
    start, stop = 0, len(pieces)
    while start < stop:
        first, last = pieces[start], pieces[stop - 1]
        if _is_left_out(text, first, start in partners):
            start += 1
        elif _is_left_out(text, last, stop - 1 in partners):
            stop -= 1
        elif start < stop - 1 and partners.get(start) == stop - 1:
            start, stop = start + 1, stop - 1
        else:
            break
    inner = list(pieces[start:stop])
    if inner and inner[0].code is None:
        raw = text[inner[0].start : inner[0].end]
        inner[0] = Piece(inner[0].end - len(raw.lstrip(_SPACES)), inner[0].end)
    if inner and inner[-1].code is None:
        raw = text[inner[-1].start : inner[-1].end]
        inner[-1] = Piece(inner[-1].start, inner[-1].start + len(raw.rstrip(_SPACES)))
    return inner


def _is_left_out(text: str, piece: Piece, has_partner: bool) -> bool:
    """Return whether a piece at an end is white space, or a code that belongs to no other and is not text itself."""
    if piece.code is not None:
        return not has_partner and not piece.code.is_text
    return not text[piece.start : piece.end].strip(_SPACES)


def partners_of(pieces: Sequence[Piece]) -> dict[int, int]:
    """Return the index of the code that closes, or opens, the one at each index."""
    ends = ends_of((piece.code.kind, piece.code.name) if piece.code else ("", "") for piece in pieces)
    return ends | {end: start for start, end in ends.items()}
