"""Paragraphs of runs in office formats: the format of most of the text is the base, and other formats are codes."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from mtkit.documents.pieces import Piece, trimmed
from mtkit.documents.skeleton import Skeleton
from mtkit.text.inline import Code, Inline, Kind, Part, inline_of
from mtkit.text.transfer import SHIFTED
from mtkit.text.words import has_letters

_CODE_STYLE = re.compile(
    "(?:html|inline|program|source)?code(?:char)?|verbatim(?:char)?|programlisting|html(?:sample|keyboard|preformatted)"
    "|preformatted(?:text)?|sourcetext"
)
_CODE = re.compile(r"<([0-9]+)>")  # in a translation: the text around it is escaped


def is_code_style(name: str) -> bool:
    """Return whether a style is for program code, such as "Source_20_Text" or "VerbatimChar"."""
    return bool(_CODE_STYLE.fullmatch(re.sub("_20_|[ _-]", "", name.lower())))


class Raw(NamedTuple):
    """Markup, as it stands in the document."""

    format: str | None  # what begins the run in which it stands; None if it stands between runs
    markup: str


@dataclass(frozen=True)
class Item:
    """Text of one format, or a code."""

    start: int  # of the run in which it stands, or of the code
    end: int
    kind: Literal["text"] | Kind
    text: str = ""  # also what the translator reads in the place of a code
    format: str = ""  # of text: what begins its run
    markup: tuple[Raw, ...] = ()
    name: str = ""  # of a code with a partner
    is_soft: bool = False  # a code that may cross others, as a range of a comment does
    has_base: bool = False  # a code whose text has a base format of its own, as that of a link
    is_text: bool = False  # a code that is text itself, as `Code.is_text`
    lang: str | None = None  # of text in another language than that of the document
    own: tuple[Raw, ...] = ()  # text in another language, with the markup that the document has there


@dataclass(frozen=True)
class RunStyle:
    """How a format writes runs."""

    close: Callable[[str], str]  # what ends a run, by what begins it
    text: Callable[[str], str]  # puts text, which is escaped, into a run
    write: Callable[[str], str]  # escapes text
    is_shifted: Callable[[str], object] = lambda format: False  # whether a format is that of sub- or superscripts


class _Action(NamedTuple):
    """What to write for a code of a segment."""

    markup: tuple[Raw, ...] = ()
    base: str | None = None  # the base format from here on
    is_end: bool = False  # go back to the format before the code's partner


def add_paragraph(skeleton: Skeleton, items: Sequence[Item], style: RunStyle, place: str) -> None:
    """Add a segment from the first item with text to the last one."""
    items, foreign, lang = _with_foreign(items)
    kept = [item for item in _uncrossed(items) if item.kind != "text" or item.text]
    first, end = _trim(kept)
    if not any(item.kind == "text" and has_letters(item.text) for item in kept[first:end]):
        return
    start, stop = kept[first].start, max(item.end for item in kept[first:end])
    before = [item for item in kept[:first] if item.start >= start]  # in the same runs
    after = [item for item in kept[end:] if item.start < stop]
    inner = _even(kept[first:end])
    base, parts, actions = _coded(inner, style)
    inline = inline_of(parts, skeleton.raw(start, stop))

    def render(translation: str) -> str:
        writer = _Writer(style)
        writer.items(before)
        _write(writer, translation, base, actions)
        writer.items(after)
        return writer.done()

    skeleton.add(start, stop, inline, place, style.write, render, lang=lang, foreign=foreign)


def _with_foreign(items: Sequence[Item]) -> tuple[Sequence[Item], tuple[str, ...], str | None]:
    """Make codes of text in another language; also return this text, or its language if there is no other text."""
    texts = [item for item in items if item.kind == "text" and has_letters(item.text)]
    if not any(item.lang for item in texts) or all(item.lang for item in texts):
        return items, (), texts[0].lang if texts else None
    found: list[Item] = []
    phrases: list[str] = []
    for item in items:
        follows = bool(found) and found[-1].is_text
        if not item.lang or not (follows or has_letters(item.text)):
            found.append(item)
        elif follows:
            found[-1] = replace(found[-1], end=item.end, markup=found[-1].markup + item.own)
            phrases[-1] += item.text
        else:
            found.append(Item(item.start, item.end, "single", markup=item.own, is_text=True))
            phrases.append(item.text)
    return found, tuple(phrase.strip() for phrase in phrases), None


def _uncrossed(items: Sequence[Item]) -> list[Item]:
    """Make soft codes that cross other codes single ones."""
    found = list(items)
    waiting: list[int] = []
    for index, item in enumerate(items):
        if item.kind == "open":
            waiting.append(index)
        elif item.kind == "close":
            partner = next((i for i in reversed(waiting) if items[i].name == item.name), None)
            if partner is None:
                continue
            if item.is_soft and waiting[-1] != partner:
                waiting.remove(partner)
                found[partner] = replace(items[partner], kind="single")
                found[index] = replace(item, kind="single")
                continue
            while (last := waiting.pop()) != partner:
                found[last] = replace(items[last], kind="single")
    return found


def _trim(items: Sequence[Item]) -> tuple[int, int]:
    """Return the first item and the end of the rest after removing white space and codes around the text."""
    text, pieces = "", []
    for item in items:
        code = None if item.kind == "text" else Code("", item.kind, item.name, is_text=item.is_text)
        width = item.text if item.kind == "text" else "-"
        pieces.append(Piece(len(text), len(text) + len(width), code))
        text += width
    inner = trimmed(text, pieces)
    if not inner:
        return 0, 0
    first = next(index for index, piece in enumerate(pieces) if piece.end > inner[0].start)
    return first, first + len(inner)


def _even(items: Sequence[Item]) -> list[Item]:
    """Give white space between two texts of one format this format, because another one hardly shows there."""
    found = list(items)
    for index in range(1, len(items) - 1):
        before, item, after = found[index - 1], items[index], items[index + 1]
        if {before.kind, item.kind, after.kind} == {"text"} and item.text.isspace() and before.format == after.format:
            found[index] = replace(item, format=before.format)
    return found


def _bases(items: Sequence[Item]) -> dict[int | None, str]:
    """Return the format of most of the text inside each code that has a base, by index, and of that in none (None)."""
    counts: dict[int | None, Counter[str]] = {None: Counter()}
    inside: list[int | None] = [None]
    for index, item in enumerate(items):
        if item.has_base and item.kind == "open":
            inside.append(index)
            counts[index] = Counter()
        elif item.has_base and item.kind == "close" and len(inside) > 1:
            inside.pop()
        elif item.kind == "text":
            counts[inside[-1]][item.format] += sum(map(str.isalnum, item.text)) + 1
    overall = max(counts.values(), key=Counter.total)
    return {index: max(count or overall, key=(count or overall).__getitem__) for index, count in counts.items()}


def _coded(items: Sequence[Item], style: RunStyle) -> tuple[str, list[Part], list[_Action]]:
    """Return the base format, the items as text and codes, and what each code, by its number, means."""
    bases = _bases(items)
    stack = [bases[None]]
    parts: list[Part] = []
    actions: list[_Action] = []
    now = stack[-1]  # the format of the last text

    def code(kind: Kind, name: str, action: _Action, text: str = "", is_text: bool = False) -> None:
        parts.append(Code(f"<{len(actions)}>", kind, name, text, is_text))
        actions.append(action)

    def name_of(format: str) -> str:
        return SHIFTED[0] if style.is_shifted(format) else "format"

    def change(wanted: str) -> None:
        nonlocal now
        if now != wanted and now != stack[-1]:
            code("close", name_of(now), _Action(is_end=True))
        if now != wanted and wanted != stack[-1]:
            code("open", name_of(wanted), _Action(base=wanted))
        now = wanted

    for index, item in enumerate(items):
        if item.kind == "text":
            change(item.format)
            parts.append(item.text)
            continue
        if _next_format(items, index) != now:
            change(stack[-1])
        base = None
        if item.has_base and item.kind == "open":
            base = now = bases[index]
            stack.append(base)
        elif item.has_base and item.kind == "close" and len(stack) > 1:
            stack.pop()
            now = stack[-1]
        code(
            item.kind,
            item.name,
            _Action(item.markup, base, item.has_base and item.kind == "close"),
            item.text,
            item.is_text,
        )
    change(stack[-1])
    return bases[None], parts, actions


def _next_format(items: Sequence[Item], index: int) -> str | None:
    """Return the format of the text behind single codes; None if a code with a partner comes first."""
    for item in items[index:]:
        if item.kind != "single":
            return item.format if item.kind == "text" else None
    return None


def _write(writer: "_Writer", translation: str, base: str, actions: Sequence[_Action]) -> None:
    formats, at = [base], 0
    for match in _CODE.finditer(translation):
        writer.text(formats[-1], translation[at : match.start()])
        at = match.end()
        action = actions[int(match[1])]
        for raw in action.markup:
            writer.raw(raw)
        if action.base is not None:
            formats.append(action.base)
        elif action.is_end and len(formats) > 1:
            formats.pop()
    writer.text(formats[-1], translation[at:])


class _Writer:
    """Writes text and markup into as few runs as possible."""

    def __init__(self, style: RunStyle) -> None:
        self._style = style
        self._parts: list[str] = []
        self._format: str | None = None  # of the run that is open
        self._text = ""

    def items(self, items: Sequence[Item]) -> None:
        for item in items:
            if item.kind == "text":
                self.text(item.format, self._style.write(item.text))
            for raw in item.markup:
                self.raw(raw)

    def text(self, format: str, text: str) -> None:
        if text:
            self._into(format)
            self._text += text

    def raw(self, raw: Raw) -> None:
        self._into(raw.format)
        self._parts += [*self._flushed(), raw.markup]

    def done(self) -> str:
        self._into(None)
        return "".join(self._parts)

    def _flushed(self) -> Iterator[str]:
        if self._text:
            yield self._style.text(self._text)
            self._text = ""

    def _into(self, format: str | None) -> None:
        if format == self._format:
            return
        self._parts += self._flushed()
        if self._format is not None:
            self._parts.append(self._style.close(self._format))
        if format is not None:
            self._parts.append(format)
        self._format = format


def add_text(skeleton: Skeleton, start: int, end: int, text: str, place: str, write: Callable[[str], str]) -> None:
    """Add plain text as a segment, if it has letters."""
    if has_letters(text):
        skeleton.add(start, end, Inline(skeleton.raw(start, end), text, ()), place, write)
