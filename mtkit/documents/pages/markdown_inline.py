"""Inline Markdown: where emphasis, links, code spans, tags and the like stand in the text of a block.

The rules are those of CommonMark 0.31 (https://spec.commonmark.org/0.31.2/#inlines) with strikethrough, footnotes and
task lists as on GitHub; formulas in dollars, {% tags %} of templates, {#attributes} and :emoji: are codes, too.
"""

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from html.entities import html5
from typing import NamedTuple

from markdown_it.common.utils import normalizeReference

from mtkit.documents.inline import Code, Kind
from mtkit.documents.pages import html_text
from mtkit.documents.pieces import Piece

_MOST_PARENTHESES = 32  # within each other, in the target of a link; as in cmark
_MOST_IN_LABEL = 999  # characters of a link label
_ESCAPE = re.compile(r"\\[!-/:-@\[-`{-~]")
_ENTITY = re.compile(r"&(?:#[xX][0-9a-fA-F]{1,6}|#[0-9]{1,7}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_AUTOLINK = re.compile(
    r"<(?:[a-zA-Z][a-zA-Z0-9+.-]{1,31}:[^\s<>]*+|[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*)>"
)
_VALUE = r"""(?:[^\s"'=<>`]++|'[^']*+'|"[^"]*+")"""
_TAG = re.compile(
    rf"<(?:/[a-zA-Z][a-zA-Z0-9-]*+\s*+|[a-zA-Z][a-zA-Z0-9-]*+(?:\s++[a-zA-Z_:][\w.:-]*+(?:\s*+=\s*+{_VALUE})?)*+\s*+/?)>"
)
_OTHER_TAGS = (("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>"))
_EMPTY_COMMENT = re.compile("<!---?>")
_DECLARATION = re.compile(r"<![a-zA-Z][^<>]{0,2000}>")
_FOOTNOTE = re.compile(r"\[\^[^\s\[\]]{1,99}\](?!\()")
_AT_START = re.compile(r"\[\^[^\s\[\]]{1,99}\]:[ \t]*|\[[ xX]\][ \t]+|\[![A-Z]{1,20}\][+-]?(?:[ \t]*\n|$)")
_LABEL = re.compile(rf"\[((?:[^\[\]\\]|\\.){{0,{_MOST_IN_LABEL}}})\]", re.DOTALL)
_TITLE = re.compile(r'"((?:[^"\\]|\\.)*+)"' r"|'((?:[^'\\]|\\.)*+)'" r"|\(((?:[^()\\]|\\.)*+)\)", re.DOTALL)
_SPACES = re.compile(r"[ \t]*\n?[ \t]*")
_TEMPLATE = re.compile(
    r"\{%[^\n]{0,500}?%\}|\{\{[<%][^\n]{0,500}?[>%]\}\}|\{:[^{}\n]{0,500}\}|\{[#.][A-Za-z][^{}\n]{0,500}\}"
)
_FORMULA = re.compile(r"\$\$[^$`]{1,2000}+\$\$|(?<![\w$])\$[^\s$`](?:[^$`\n]{0,500}[^\s$`])?\$(?!\w)")
_EMOJI = re.compile(r"(?<![\w:]):[a-z0-9_+-]*[a-z][a-z0-9_+-]*:(?![\w:])")
_SPECIAL = re.compile(r"[\\`<&!\[\]*_~\n${:]")

Interval = tuple[int, int]


class Mark(NamedTuple):
    """Markup at characters start to end."""

    start: int
    end: int
    kind: Kind
    name: str = ""
    text: str = ""  # what is read in its place
    is_text: bool = False  # it is no code: an escaped character, an entity, the end of a line
    alt: Interval | None = None  # where the description of an image stands
    title: Interval | None = None  # where the title of a link stands, without quotes
    label: str | None = None  # of a link whose text is its label


@dataclass
class _Run:
    """Delimiters of one kind side by side, as far as they have not become markup."""

    start: int
    end: int
    char: str
    can_open: bool
    can_close: bool
    length: int = field(init=False)  # at first

    def __post_init__(self) -> None:
        self.length = self.end - self.start


class _Bracket(NamedTuple):
    start: int
    is_image: bool
    n_runs: int  # before it


def marks_of(text: str, labels: Container[str] = ()) -> list[Mark]:
    """Return the markup of a block's text, in order, without overlap.

    text: without what stands before its lines, such as > of a quotation; lines end in a newline.
    labels: of link reference definitions, as `normalizeReference` makes them.
    """
    return _Parser(text, labels).parse()


def pieces_of(text: str, marks: Sequence[Mark]) -> Iterator[Piece]:
    """Yield the codes and the text between; escapes and entities are pieces without a code.

    A link whose text is its label gets the label, so that another text leads to the same place.
    """
    at = 0
    for mark in marks:
        if at < mark.start:
            yield Piece(at, mark.start)
        at = mark.end
        markup = f"][{mark.label}]" if mark.label is not None and mark.kind == "close" else text[mark.start : at]
        yield Piece(mark.start, at, None if mark.is_text else Code(markup, mark.kind, mark.name, mark.text))
    if at < len(text):
        yield Piece(at, len(text))


def destination_and_title(text: str, at: int) -> tuple[int, Interval | None] | None:
    """Return where the target of a link that begins at a character ends, its title included, and where this stands.

    Returns None if there is no target.
    """
    end = _destination(text, at)
    if end is None:
        return None
    spaces = _SPACES.match(text, end)
    if spaces and spaces.end() > end and (title := _TITLE.match(text, spaces.end())):
        assert title.lastindex is not None
        return title.end(), title.span(title.lastindex)
    return end, None


def _destination(text: str, at: int) -> int | None:
    if text[at : at + 1] == "<":
        end = re.compile(r"<(?:[^<>\n\\]|\\.)*+>").match(text, at)
        return end.end() if end else None
    depth, index = 0, at
    while index < len(text) and text[index] > " ":
        if text[index] == "\\" and _ESCAPE.match(text, index):
            index += 1
        elif text[index] == "(":
            depth += 1
            if depth > _MOST_PARENTHESES:
                return None
        elif text[index] == ")":
            if depth == 0:
                break
            depth -= 1
        index += 1
    return index if depth == 0 else None


class _Parser:
    def __init__(self, text: str, labels: Container[str]) -> None:
        self.text, self.labels = text, labels
        self.marks: list[Mark] = []
        self.runs: list[_Run] = []
        self.brackets: list[_Bracket] = []
        self.n_inactive = 0  # so many of the first brackets stand before a link, so they begin none
        self.backticks: dict[int, list[int]] = {}  # where runs of each length start
        for run in re.finditer("`+", text):
            self.backticks.setdefault(len(run[0]), []).append(run.start())
        self.last = {end: text.rfind(end) for _, end in _OTHER_TAGS}
        self.tags: list[html_text.FoundTag] = []

    def parse(self) -> list[Mark]:
        at = 0
        if start := _AT_START.match(self.text):
            at = self._single(start)
        steps: dict[str, Callable[[int], int]] = {
            "\\": self._escape, "`": self._code, "<": self._tag, "&": self._entity, "!": self._bang,
            "[": self._open_bracket, "]": self._close_bracket, "*": self._delimiters, "_": self._delimiters,
            "~": self._delimiters, "\n": self._newline, "$": self._other(_FORMULA), "{": self._other(_TEMPLATE),
            ":": self._other(_EMOJI),
        }  # fmt: skip
        while special := _SPECIAL.search(self.text, at):
            at = steps[special[0]](special.start())
        self._emphasis(0)
        return _without_elements(sorted(self.marks), self.tags)

    def _single(self, match: re.Match[str], text: str = "") -> int:
        self.marks.append(Mark(*match.span(), "single", text=text))
        return match.end()

    def _as_text(self, start: int, end: int, text: str) -> int:
        self.marks.append(Mark(start, end, "single", text=text, is_text=True))
        return end

    def _escape(self, at: int) -> int:
        if self.text[at + 1 : at + 2] == "\n":
            self.marks.append(Mark(at, at + 2, "single", text="\n"))
            return at + 2
        return self._as_text(at, at + 2, self.text[at + 1]) if _ESCAPE.match(self.text, at) else at + 1

    def _code(self, at: int) -> int:
        end = at
        while self.text[end : end + 1] == "`":
            end += 1
        starts = self.backticks.get(end - at, [])  # none for what an escape has left of a run
        following = bisect_right(starts, at)
        if following == len(starts):
            return end
        stop = starts[following] + end - at
        self.marks.append(Mark(at, stop, "single"))
        return stop

    def _tag(self, at: int) -> int:
        if link := _AUTOLINK.match(self.text, at):
            return self._single(link)
        if tag := _TAG.match(self.text, at):
            found = html_text.TAG.match(self.text, at)
            if found is not None and found.end() == tag.end():
                self.tags.append((*found.span(), found))
            return self._single(tag)
        if comment := _EMPTY_COMMENT.match(self.text, at):
            return self._single(comment)
        for begin, end in _OTHER_TAGS:
            if self.text.startswith(begin, at) and self.last[end] >= at + len(begin):
                stop = self.text.index(end, at + len(begin)) + len(end)
                self.marks.append(Mark(at, stop, "single"))
                return stop
        declaration = _DECLARATION.match(self.text, at)
        return self._single(declaration) if declaration else at + 1

    def _entity(self, at: int) -> int:
        entity = _ENTITY.match(self.text, at)
        if entity is None:
            return at + 1
        if entity[0][1] != "#" and entity[0][1:] not in html5:
            return at + 1
        return self._as_text(at, entity.end(), html.unescape(entity[0]))

    def _other(self, pattern: re.Pattern[str]) -> Callable[[int], int]:
        def step(at: int) -> int:
            match = pattern.match(self.text, at)
            return self._single(match) if match else at + 1

        return step

    def _newline(self, at: int) -> int:
        start = at
        while start > 0 and self.text[start - 1] == " " and (not self.marks or self.marks[-1].end < start):
            start -= 1
        if at - start >= 2:
            self.marks.append(Mark(start, at + 1, "single", text="\n"))
        else:
            self._as_text(start, at + 1, " ")
        return at + 1

    def _bang(self, at: int) -> int:
        if self.text[at + 1 : at + 2] != "[" or _FOOTNOTE.match(self.text, at + 1):
            return at + 1
        self.brackets.append(_Bracket(at, True, len(self.runs)))
        return at + 2

    def _open_bracket(self, at: int) -> int:
        if footnote := _FOOTNOTE.match(self.text, at):
            return self._single(footnote)
        self.brackets.append(_Bracket(at, False, len(self.runs)))
        return at + 1

    def _close_bracket(self, at: int) -> int:
        if not self.brackets:
            return at + 1
        bracket = self.brackets.pop()
        is_active = bracket.is_image or len(self.brackets) >= self.n_inactive
        self.n_inactive = min(self.n_inactive, len(self.brackets))
        target = self._target(bracket, at) if is_active else None
        if target is None:
            return at + 1
        end, title, label = target
        first = bracket.start + (2 if bracket.is_image else 1)
        if bracket.is_image:
            del self.runs[bracket.n_runs :]
            while self.marks and self.marks[-1].start >= bracket.start:
                self.marks.pop()
            while self.tags and self.tags[-1][0] >= bracket.start:
                self.tags.pop()
            self.marks.append(Mark(bracket.start, end, "single", alt=(first, at), title=title, label=label))
        else:
            self._emphasis(bracket.n_runs)
            self.marks.append(Mark(bracket.start, first, "open", "link"))
            self.marks.append(Mark(at, end, "close", "link", title=title, label=label))
            self.n_inactive = len(self.brackets)
        return end

    def _target(self, bracket: _Bracket, at: int) -> tuple[int, Interval | None, str | None] | None:
        """Return where the link whose text ends at a character ends, where its title stands, and its label."""
        if self.text[at + 1 : at + 2] == "(":
            start = _end_of(_SPACES, self.text, at + 2)
            found = destination_and_title(self.text, start)
            if found is not None:
                end = _end_of(_SPACES, self.text, found[0])
                if self.text[end : end + 1] == ")":
                    return end + 1, found[1], None
        end = at + 1
        is_full = False
        label = self.text[bracket.start + 1 + bracket.is_image : at] if at - bracket.start <= _MOST_IN_LABEL else ""
        if full := _LABEL.match(self.text, at + 1):
            end = full.end()
            is_full = full[1] != ""
            label = full[1] or label
        is_label = label.strip() and _LABEL.fullmatch(f"[{label}]")
        if not is_label or normalizeReference(label) not in self.labels:
            return None
        return end, None, None if is_full else label

    def _delimiters(self, at: int) -> int:
        char, end = self.text[at], at
        while self.text[end : end + 1] == char:
            end += 1
        before, after = self.text[at - 1 : at] if at else "\n", self.text[end : end + 1] or "\n"
        left = not after.isspace() and (not is_punctuation(after) or before.isspace() or is_punctuation(before))
        right = not before.isspace() and (not is_punctuation(before) or after.isspace() or is_punctuation(after))
        if char == "_":
            left, right = left and (not right or is_punctuation(before)), right and (not left or is_punctuation(after))
        if char != "~" or end - at == 2:
            self.runs.append(_Run(at, end, char, left, right))
        return end

    def _emphasis(self, first: int) -> None:
        """Make markup of the delimiters from the run of an index on."""
        waiting: list[_Run] = []
        bottoms: dict[tuple[str, bool, int], int] = {}  # of those waiting, so many fit no closing run of the kind
        for run in self.runs[first:]:
            key = run.char, run.can_open, run.length % 3
            while run.can_close and run.start < run.end:
                index = len(waiting) - 1
                while index >= bottoms.get(key, 0) and not _fit(waiting[index], run):
                    index -= 1
                if index < bottoms.get(key, 0):
                    bottoms[key] = len(waiting)
                    break
                del waiting[index + 1 :]
                self._pair(waiting[index], run)
                if waiting[index].start == waiting[index].end:
                    del waiting[index]
                bottoms = {kind: min(bottom, len(waiting)) for kind, bottom in bottoms.items()}
            if run.can_open and run.start < run.end:
                waiting.append(run)
        del self.runs[first:]

    def _pair(self, opening: _Run, closing: _Run) -> None:
        n = 2 if min(opening.end - opening.start, closing.end - closing.start) >= 2 else 1
        opening.end -= n
        start, name = opening.end, opening.char * n
        self.marks.append(Mark(start, start + n, "open", name))
        self.marks.append(Mark(closing.start, closing.start + n, "close", name))
        closing.start += n


def is_punctuation(character: str) -> bool:
    """Return whether a character counts as punctuation next to a delimiter."""
    return unicodedata.category(character)[0] in "PS"


def _fit(opening: _Run, closing: _Run) -> bool:
    if opening.char != closing.char:
        return False
    if opening.char == "~":
        return True
    odd = opening.can_close or closing.can_open
    return not (odd and (opening.length + closing.length) % 3 == 0 and (opening.length % 3 or closing.length % 3))


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None
    return match.end()


def _without_elements(marks: Sequence[Mark], tags: Sequence[html_text.FoundTag]) -> list[Mark]:
    """Tell apart opening and closing tags; make one code of each element whose content is no language."""
    by_start = {start: index for index, (start, _, _) in enumerate(tags)}
    ends = html_text.ends_of(tags)
    kept: list[Mark] = []
    at = 0
    for mark in marks:
        if mark.start < at:
            continue
        at = mark.end
        index = by_start.get(mark.start, -1)
        tag = tags[index][2] if index >= 0 else None
        if tag is None:
            kept.append(mark)
            continue
        code = html_text.code_of(tag)
        if code is None:
            at = tags[ends.get(index, index)][1]
            kept.append(Mark(mark.start, at, "single"))
        else:
            kept.append(Mark(mark.start, mark.end, code.kind, code.name, code.text))
    return kept
