"""Markdown: paragraphs, headings, list items, cells, titles and image descriptions are text; code and targets stay."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from mtkit.documents.document import Document
from mtkit.documents.pages import html as pages
from mtkit.documents.pages import html_text
from mtkit.documents.pages.html_tags import tags_of
from mtkit.documents.pages.markdown_blocks import Block, Blocks, blocks_of
from mtkit.documents.pages.markdown_inline import Mark, marks_of, pieces_of, title_of
from mtkit.documents.pages.markdown_writing import (
    PRIVATE,
    Encoded,
    Surroundings,
    codes_in,
    encoded,
    marked,
    stand_in,
    written,
    written_value,
)
from mtkit.documents.pieces import Piece, trimmed
from mtkit.documents.places import Source, line_of
from mtkit.documents.reading import Options, parsed_part
from mtkit.documents.skeleton import Edit, Filled, Put, Reading, Segment, hold_out
from mtkit.errors import DataError
from mtkit.text.inline import Inline, Interval, Part, inline_of
from mtkit.text.placeholders import PROSE
from mtkit.text.words import has_letters

_WRAPPED = 40  # characters: a paragraph with a longer line is wrapped again
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_ENTITY_LIKE = re.compile(r"&(?=#?[a-zA-Z0-9]+;)")
_LABEL = re.compile(r"\[(?:[^\[\]\\]|\\.){1,999}\]:\s*", re.DOTALL)

Place = Callable[[int], str]


def read(raw: bytes, options: Options) -> Document:
    """Read a Markdown text."""
    read_blocks = partial(_read_blocks, src_lang=options.src_lang)
    return Document([parsed_part(raw, _parse, read_blocks, _structure, options, is_markup=False)], placeholders=PROSE)


def _parse(text: str) -> Blocks:
    """Return the blocks of a text. Raises DataError if it is nested too deeply or has private characters."""
    if private := PRIVATE.search(text):
        raise DataError(f"contains the private character U+{ord(private[0]):X}; remove it")
    return blocks_of(text)


def _read_blocks(found: Blocks, src_lang: str | None) -> Reading:
    text, place = found.text, line_of(found.text)
    values = sorted(
        (
            value
            for block, marks in zip(found.blocks, found.marks, strict=True)
            for value in _values(text, block, marks, found, place)
        ),
        key=lambda value: value[0],
    )
    kept = hold_out(text, [interval for interval, _ in values])
    if values:
        found, place = blocks_of(kept), line_of(kept)
    segments = [
        segment
        for block, marks in zip(found.blocks, found.marks, strict=True)
        for segment in _segments(kept, block, marks, found, place, src_lang)
    ]
    return Reading(kept, segments, [segment for _, segment in values])


def _values(
    text: str, block: Block, marks: Sequence[Mark], found: Blocks, place: Place
) -> Iterator[tuple[Interval, Segment]]:
    """Yield the texts inside codes: descriptions of images, titles, attributes of tags."""
    source = block.source
    for start, end, inline, write in _values_in(block, marks, found):
        if has_letters(inline.text):
            first, last = source.interval(start, end)
            raw = Inline(text[first:last], inline.text, inline.spans)
            yield (first, last), Segment.at(first, last, raw, place(first), write=_for(block, write))


Value = tuple[int, int, Inline, Callable[[str], str]]


def _for(block: Block, write: Callable[[str], str]) -> Callable[[str], str]:
    return (lambda text: write(text).replace("|", "\\|")) if block.kind == "cell" else write


def _values_in(block: Block, marks: Sequence[Mark], found: Blocks) -> Iterator[Value]:
    text = block.source.text
    if block.kind == "html":
        for start, end, write in pages.values_in(text, tags_of(text)):
            yield start, end, pages.value_of(text[start:end]), write
    elif block.kind == "definition":
        label = _LABEL.match(text)
        title = title_of(text, label.end()) if label else None
        if title:
            yield _title(text, *title)
    else:
        for mark in marks:
            if mark.alt and (description := _description(text, mark, mark.alt, found)):
                yield description
            if mark.title:
                yield _title(text, *mark.title)
            if text[mark.start] == "<":
                code = text[mark.start : mark.end]
                for start, end, write in pages.values_in(code, tags_of(code)):
                    yield mark.start + start, mark.start + end, pages.value_of(code[start:end]), write


def _title(text: str, start: int, end: int) -> Value:
    """Return the title of a link as text."""
    quotes = "()" if text[start - 1] == "(" else text[start - 1]
    title = html.unescape(_ESCAPE.sub(r"\1", " ".join(text[start:end].split("\n"))))

    def write(text: str) -> str:
        text = re.sub(rf"\\(?=[!-/:-@\[-`{{-~])|[{re.escape(quotes)}]", r"\\\g<0>", text)
        return _ENTITY_LIKE.sub("&amp;", text)

    return start, end, Inline(text[start:end], title, ()), write


def _description(text: str, image: Mark, alt: Interval, found: Blocks) -> Value | None:
    """Return the description of an image as text. If it is also the label of the target, put the label behind it."""
    raw = text[slice(*alt)]
    marks = marks_of(raw, found.labels)
    inner = trimmed(raw, list(pieces_of(raw, marks)))
    if not inner:
        return None
    parts = list(_parts(raw, inner, marks))
    if image.label is None:
        return alt[0] + inner[0].start, alt[0] + inner[-1].end, inline_of(parts), _write_description(found, "")
    inline = inline_of(part for part in parts if isinstance(part, str))
    return alt[0], image.end - 1, inline, _write_description(found, f"][{image.label}")


def _write_description(found: Blocks, label: str) -> Callable[[str], str]:
    return lambda text: written_value(text, found.labels) + label


def _parts(text: str, pieces: Sequence[Piece], marks: Sequence[Mark]) -> Iterator[Part]:
    """Yield the text, with entities and escapes resolved, and the codes."""
    read_as = {mark.start: mark.text for mark in marks if mark.is_text}
    for piece in pieces:
        yield piece.code or read_as.get(piece.start, text[piece.start : piece.end])


def _segments(
    text: str, block: Block, marks: Sequence[Mark], found: Blocks, place: Place, src_lang: str | None
) -> Iterator[Segment]:
    """Yield the segments of a block: any number for a block of HTML, at most one for others."""
    source = block.source
    if block.kind == "html":
        for segment in pages.segments(source.text, lambda index: place(source.place(index)), src_lang):
            yield replace(segment, put=_put_html(text, source, segment))
    elif block.kind != "definition":
        pieces, foreign = html_text.with_foreign(source.text, list(pieces_of(source.text, marks)), src_lang)
        lang = pages.language_of(source.text, pieces)
        pieces = _with_labels(html_text.with_notes(source.text, pieces), marks, source.text)
        parts = list(_parts(source.text, pieces, marks))
        if any(isinstance(part, str) and has_letters(part) for part in parts):
            start, end = source.interval(pieces[0].start, pieces[-1].end)
            inline = inline_of((part if isinstance(part, str) else stand_in(part) for part in parts), text[start:end])
            where = _surroundings(text, block, found, marks, (pieces[0].start, pieces[-1].end))
            encode = lru_cache(1)(partial(encoded, where=where))  # to refuse a translation, and to put it in
            refuse = _refuse(inline.source, encode)
            put = _put(text, source, (start, end), where, encode)
            yield Segment(inline, place(start), put=put, write=marked, refuse=refuse, lang=lang, foreign=foreign)


def _with_labels(pieces: list[Piece], marks: Sequence[Mark], text: str) -> list[Piece]:
    """Leave out codes around the whole text, except a link whose text is its label: the label is added behind it."""
    inner = trimmed(text, pieces)
    labelled = [mark for mark in marks if mark.label is not None and mark.kind == "close"]
    last = next((mark for mark in reversed(labelled) if inner and mark.start >= inner[-1].end), None)
    if last is None:
        return inner
    first = max(mark.start for mark in marks if mark.name == "link" and mark.kind == "open" and mark.start < last.start)
    return [piece for piece in pieces if first <= piece.start and piece.end <= last.end]


def _surroundings(text: str, block: Block, found: Blocks, marks: Sequence[Mark], characters: Interval) -> Surroundings:
    source = block.source
    start, end = characters
    width, column, indent = None, 0, 0
    if block.kind == "paragraph" and len(source.starts) > 1:
        column = source.place(start) - _line_start(text, source.place(start))
        indent = len(_separator(text, source).lstrip("\r\n"))
        longest = max(last - _line_start(text, first) for first, last in zip(source.starts, source.ends, strict=True))
        width = longest if longest > _WRAPPED else None
    return Surroundings(
        source.text[:start], source.text[end:], found.labels, marks, source.text, block.is_at_start,
        is_heading=block.kind == "heading", is_cell=block.kind == "cell", width=width, column=column, indent=indent,
    )  # fmt: skip


def _line_start(text: str, index: int) -> int:
    return max(text.rfind("\n", 0, index), text.rfind("\r", 0, index)) + 1


def _separator(text: str, source: Source) -> str:
    """Return what separates the lines of a block: a line break, and what stands before the next line, such as >."""
    return text[source.ends[0] : source.starts[1]] if len(source.starts) > 1 else "\n"


def _put(text: str, source: Source, interval: Interval, where: Surroundings, encode: Callable[[str], Encoded]) -> Put:
    def put(filled: Filled) -> list[Edit]:
        if filled.text == text[slice(*interval)]:
            return []
        return [Edit(*interval, _separator(text, source).join(written(encode(filled.text), where)))]

    return put


def _refuse(source: str, encode: Callable[[str], Encoded]) -> Callable[[str], str]:
    why = "its markup, such as **, would not take effect next to the words to which it belongs"
    return lambda text: why if text != source and not encode(text).has_all else ""


def _put_html(text: str, source: Source, segment: Segment) -> Put:
    def put(filled: Filled) -> list[Edit]:
        if filled.text == segment.inline.source:
            return []
        edits = segment.put(filled)
        between = _separator(text, source)
        return [Edit(*source.interval(start, end), between.join(new.split("\n"))) for start, end, new in edits]

    return put


_CODE = frozenset(["fence", "code_block", "formula"])


def _structure(found: Blocks) -> object:
    """Return the blocks as markdown-it-py sees them, with their code and codes, and the targets of links."""
    tokens = [
        (
            token.type,
            token.tag,
            token.level,
            token.markup,
            *((token.info, token.content) if token.type in _CODE else ()),
        )
        for token in found.tokens
    ]
    codes = [codes_in(block.source.text, marks) for block, marks in zip(found.blocks, found.marks, strict=True)]
    pieces = [pages.structure(pages.Page.of(block.source.text)) for block in found.blocks if block.kind == "html"]
    return tokens, found.targets, codes, pieces
