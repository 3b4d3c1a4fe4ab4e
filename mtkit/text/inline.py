"""Text with inline codes: markup that stays as it is while the text around it is translated."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from mtkit.text.brackets import nested_ends_of
from mtkit.text.identifiers import is_identifier
from mtkit.text.lines import text_spans
from mtkit.text.sentences import part_spans, sentence_spans
from mtkit.text.words import has_letters

_LONGEST_PART = 1_000  # characters: more is a list or a page, and would keep one worker of a service busy for long
LONGEST_SENTENCE = 10_000  # characters without the end of a sentence; what is longer is data, and stays as it is
_MOST_LEVELS = 100  # of nested codes; deeper ones count as codes without a partner
Interval = tuple[int, int]  # from, up to
Kind = Literal["open", "close", "single"]


@dataclass(frozen=True)
class Code:
    """Markup inside a segment, such as <b>, </b> or <br>."""

    markup: str
    kind: Kind
    name: str = ""  # a closing code belongs to the last opening one of this name
    text: str = ""  # what the translator reads in its place, such as a space for a line break
    is_text: bool = False  # it is text itself, such as an address, so a space divides it from the words around it


Part = str | Code


@dataclass(frozen=True)
class Span:
    """Codes around the characters start to end of a text; a single code stands at start, which is its end, too."""

    codes: tuple[Code] | tuple[Code, Code]
    start: int
    end: int
    inside: tuple["Span", ...] = ()

    @property
    def n_places(self) -> int:
        """The number of codes and pairs of codes, including itself."""
        return 1 + sum(span.n_places for span in self.inside)

    def all_codes(self) -> Iterator[Code]:
        """Yield its codes and those inside."""
        yield self.codes[0]
        for span in self.inside:
            yield from span.all_codes()
        yield from self.codes[1:]


@dataclass(frozen=True)
class Inline:
    """The content of a segment: its plain text, and where its codes stand in it."""

    source: str  # as it is in the document
    text: str
    spans: tuple[Span, ...]  # the outermost, in their order

    @cached_property
    def sentences(self) -> list[Interval]:
        """Where the sentences stand in the text."""
        return cut(self.text)

    @property
    def n_places(self) -> int:
        """The number of codes and pairs of codes."""
        return sum(span.n_places for span in self.spans)

    def all_codes(self) -> Iterator[Code]:
        """Yield all codes, in the order of the source."""
        for span in self.spans:
            yield from span.all_codes()


@dataclass
class _Open:
    code: Code
    start: int
    inside: list[Span] = field(default_factory=list)


def inline_of(parts: Iterable[Part], source: str | None = None) -> Inline:
    """Separate the codes of a segment from its text.

    source: the segment as it is in the document; default: the parts, one after the other.

    Codes that enclose each other crosswise, and those without a partner, count as single ones.
    """
    parts = tuple(parts)
    brackets = (("", "") if isinstance(part, str) else (part.kind, part.name) for part in parts)
    ends = nested_ends_of(brackets, _MOST_LEVELS)
    partners = {*ends, *ends.values()}
    text, levels = "", [_Open(Code("", "single"), 0)]
    for index, part in enumerate(parts):
        if isinstance(part, str):
            text += part
        elif index in partners and part.kind == "open":
            levels.append(_Open(part, len(text)))
        elif index in partners:
            opened = levels.pop()
            levels[-1].inside.append(Span((opened.code, part), opened.start, len(text), tuple(opened.inside)))
        else:
            levels[-1].inside.append(Span((part,), len(text), len(text)))
            text += part.text
    if source is None:
        source = "".join(part if isinstance(part, str) else part.markup for part in parts)
    return Inline(source, text, tuple(levels[0].inside))


def is_translatable(text: str) -> bool:
    """Return whether a text has words: letters, and more than an identifier."""
    return has_letters(text) and not is_identifier(text)


def has_words_or_numbers(text: str) -> bool:
    """Return whether a text has letters or digits, and more than an identifier."""
    return any(map(str.isalnum, text)) and not is_identifier(text)


def cut(
    text: str,
    *,
    read: str | None = None,
    lines_whole: bool = False,
    is_wanted: Callable[[str], bool] = is_translatable,
) -> list[Interval]:
    """Return the places of a text's sentences; none crosses the end of a line or has white space at its ends.

    The marks of a list belong to no sentence. A very long sentence is cut into parts, but not one of more than
    LONGEST_SENTENCE characters.
    read: the text as its reader sees it, in as many characters, such as one in capitals as ordinary sentences.
    lines_whole: return whole lines, if they are no longer than that.
    is_wanted: of a sentence without white space around it; false: it is left out.
    """
    read = text if read is None else read
    spans = []
    for start, end in text_spans(text):
        if lines_whole and end - start <= LONGEST_SENTENCE:
            spans.append((start, end))
        else:
            spans += _sentences_of(read[start:end], start)
    stripped = (_stripped(text, span) for span in spans)
    return [(start, end) for start, end in stripped if is_wanted(text[start:end])]


def _sentences_of(line: str, offset: int) -> Iterator[Interval]:
    for first, last in sentence_spans(line):
        is_whole = last - first > LONGEST_SENTENCE
        parts = [(0, last - first)] if is_whole else part_spans(line[first:last], _is_short)
        yield from ((offset + first + start, offset + first + end) for start, end in parts)


def _is_short(part: str) -> bool:
    return len(part) <= _LONGEST_PART


def _stripped(text: str, span: Interval) -> Interval:
    part = text[slice(*span)]
    start = span[0] + len(part) - len(part.lstrip())
    return start, start + len(part.strip())
