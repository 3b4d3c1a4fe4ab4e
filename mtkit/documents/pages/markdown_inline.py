"""Inline Markdown: where emphasis, links, code spans, tags and the like stand in the text of a block.

The inline rules of markdown-it-py do the parsing. Each rule is traced, because its tokens do not have offsets.
CommonMark is extended by strikethrough, footnotes and task lists as on GitHub, and by H~2~O and 5^th^ as in Pandoc.
Formulas in dollars, \\( \\) or \\[ \\], the statements of templates, {#attributes} and :emoji: are codes, too.
"""

import re
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from markdown_it import MarkdownIt, rules_inline
from markdown_it.helpers import parseLinkDestination, parseLinkLabel, parseLinkTitle
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Delimiter

from mtkit.documents.pages import html_text
from mtkit.documents.pieces import Piece
from mtkit.text.inline import Code, Interval, Kind
from mtkit.text.inline_tags import TAG
from mtkit.text.templates import EXPRESSIONS, FORMULA, STATEMENTS
from mtkit.text.words import has_letters

_MOST_LEVELS = 20  # of brackets within each other that are tried as links; the time grows with it
_FOOTNOTE = r"\[\^[^\s\[\]]{1,99}\](?!\()"
_TEMPLATE = rf"{STATEMENTS}|{EXPRESSIONS}|\{{:[^{{}}\n]{{0,500}}\}}|\{{[#.][A-Za-z][^{{}}\n]{{0,500}}\}}"
_FORMULA = r"\$\$[^$`]{1,2000}+\$\$|(?<![\w$])\$[^\s$`](?:[^$`\n]{0,500}[^\s$`])?\$(?!\w)"
_EMOJI = r"(?<![\w:]):[a-z0-9_+-]*[a-z][a-z0-9_+-]*:(?![\w:])"
_EXTENSION = re.compile("|".join((_FOOTNOTE, _TEMPLATE, _FORMULA, _EMOJI)))
_SHIFTED = re.compile(r"(?<![~^])([~^])(?:[^\W_]|[-+−–=.,()]){1,40}\1(?![~^])")
_LATEX = re.compile(FORMULA)
_LIKE_FORMULA = re.compile(r"[\\^_={}<>+|]")  # the brackets of other text are escaped, too
_WORD = re.compile(r"[^\W\d_]{2}")
_AT_START = re.compile(r"\[\^[^\s\[\]]{1,99}\]:[ \t]*|\[[ xX]\][ \t]+|\[![A-Z]{1,20}\][+-]?(?:[ \t]*\n|$)")
_SPACES = re.compile(r"[ \t\n]*")
_ESCAPE = re.compile(r"\\[\n!-/:-@\[-`{-~]")

Rule = Callable[[StateInline, bool], bool]


class Mark(NamedTuple):
    """Markup at characters start to end."""

    start: int
    end: int
    kind: Kind
    name: str = ""
    text: str = ""  # what is read in its place
    is_text: bool = False  # not a code: an escaped character, an entity, the end of a line
    alt: Interval | None = None  # where the description of an image stands
    title: Interval | None = None  # where the title of a link stands, without quotes
    label: str | None = None  # of a link whose text is its label


def marks_of(text: str, labels: Container[str] = ()) -> list[Mark]:
    """Return the markup of a block's text, in order, without overlap.

    text: without what stands before its lines, such as > of a quotation; lines end in a newline.
    labels: of link reference definitions, as `normalizeReference` makes them.
    """
    state = _State(text, labels)
    if start := _AT_START.match(text):
        state.marks.append(Mark(*start.span(), "single"))
        state.pos = start.end()
    state.md.inline.tokenize(state)
    for rule in state.md.inline.ruler2.getRules(""):
        rule(state)
    marks = [*state.marks, *_emphasis(state)]
    return _without_elements(sorted(marks, key=lambda mark: mark.start), state.tags)


def pieces_of(text: str, marks: Sequence[Mark]) -> Iterator[Piece]:
    """Yield the codes and the text between them. Escapes and entities are pieces without a code.

    A link whose text is its label gets the label, so that a translated text leads to the same place.
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


def title_of(text: str, at: int) -> Interval | None:
    """Return where the title of a link stands whose target begins at a character; None if it has none."""
    target = parseLinkDestination(text, at, len(text))
    if not target.ok:
        return None
    start = _end_of_spaces(text, target.pos)
    title = parseLinkTitle(text, start, len(text))
    return (start + 1, title.pos - 1) if title.ok and start > target.pos else None


class _State(StateInline):
    """What the rules share while they parse a text, and the markup that they have found."""

    def __init__(self, text: str, labels: Container[str]) -> None:
        super().__init__(text, _parser(), {"references": _References(labels)}, [])
        self.marks: list[Mark] = []
        self.tags: list[html_text.FoundTag] = []


class _References:
    """The link reference definitions, as the rules look them up; where they lead does not matter."""

    def __init__(self, labels: Container[str]) -> None:
        self._labels = labels

    def get(self, label: str, default: None = None) -> dict[str, str] | None:
        return {"href": "", "title": ""} if label in self._labels else default


@cache
def _parser() -> MarkdownIt:
    """Return a parser whose inline rules note the markup in the state, if this is a `_State`."""
    parser = MarkdownIt("commonmark", {"maxNesting": _MOST_LEVELS}).enable("strikethrough")
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # a link to a file is a link
    parser.normalizeLink = parser.normalizeLinkText = str  # type: ignore[method-assign,assignment]
    parser.inline.ruler2.disable("fragments_join")  # which would lose the places of tokens
    rules: dict[str, tuple[Rule, Callable[[_State, int], None]]] = {
        "newline": (rules_inline.newline, _note_newline),
        "escape": (_escape, _note_character),
        "backticks": (rules_inline.backtick, _note_single),
        "strikethrough": (_strikethrough, _note_delimiters),
        "emphasis": (rules_inline.emphasis.tokenize, _note_delimiters),
        "link": (rules_inline.link, _note_link),
        "image": (rules_inline.image, _note_image),
        "autolink": (rules_inline.autolink, _note_single),
        "html_inline": (rules_inline.html_inline, _note_tag),
        "entity": (rules_inline.entity, _note_character),
    }
    for name, (rule, note) in rules.items():
        parser.inline.ruler.at(name, _traced(rule, note))
    parser.inline.ruler.before("link", "extension", _traced(_extension, _note_single))
    parser.inline.ruler.before("escape", "latex", _traced(_latex, _note_single))
    parser.inline.ruler.before("strikethrough", "shifted", _traced(_shifted, _note_shifted))
    return parser


def _traced(rule: Rule, note: Callable[[_State, int], None]) -> Rule:
    """Return the rule with a note of the markup that it finds. note: takes the start of the markup."""

    def traced(state: StateInline, silent: bool) -> bool:
        start, n_tokens = state.pos, len(state.tokens)
        if not rule(state, silent):
            return False
        if isinstance(state, _State) and len(state.tokens) > n_tokens:
            note(state, start)
        return True

    return traced


def _escape(state: StateInline, silent: bool) -> bool:
    """Apply the rule only to what can be escaped: it would also take a space, which may belong to a line break."""
    return bool(_ESCAPE.match(state.src, state.pos)) and rules_inline.escape(state, silent)


def _strikethrough(state: StateInline, silent: bool) -> bool:
    """Treat two tildes as a delimiter, and more of them as text, as GitHub does."""
    if silent or state.src[state.pos] != "~":
        return False
    found = state.scanDelims(state.pos, True)
    if found.length == 2:
        state.push("text", "", 0).content = "~~"
        index = len(state.tokens) - 1
        state.delimiters.append(Delimiter(ord("~"), 0, index, end=-1, open=found.can_open, close=found.can_close))
    else:
        state.pending += "~" * found.length
    state.pos += found.length
    return True


def _extension(state: StateInline, silent: bool) -> bool:
    """Treat an extension of CommonMark as one code."""
    return _take(state, silent, _EXTENSION.match(state.src, state.pos))


def _latex(state: StateInline, silent: bool) -> bool:
    """Treat a formula such as \\(a + b\\) as one code."""
    found = _LATEX.match(state.src, state.pos)
    return _take(state, silent, found if found and is_formula(found[0]) else None)


def _shifted(state: StateInline, silent: bool) -> bool:
    """Treat text between two tildes as a subscript, and between two carets as a superscript, as Pandoc does."""
    return _take(state, silent, _SHIFTED.match(state.src, state.pos))


def is_formula(text: str) -> bool:
    """Return whether a text is a formula; in Markdown, brackets around words may be escaped like those of formulas."""
    if text.startswith("\\["):
        return bool(_LIKE_FORMULA.search(text[2:-2]))
    return not text.startswith("\\(") or bool(_LIKE_FORMULA.search(text[2:-2])) or not _WORD.search(text)


def _take(state: StateInline, silent: bool, found: re.Match[str] | None) -> bool:
    if found is None or found.end() > state.posMax:
        return False
    if not silent:
        state.push("extension", "", 0)
    state.pos = found.end()
    return True


def _note_single(state: _State, start: int) -> None:
    state.marks.append(Mark(start, state.pos, "single"))


def _note_shifted(state: _State, start: int) -> None:
    end = state.pos - 1
    if state.src[start] == "^" and not has_letters(state.src[start:end]):  # the mark of a note, or an exponent
        _note_single(state, start)
    else:
        state.marks.append(Mark(start, start + 1, "open", state.src[start]))
        state.marks.append(Mark(end, end + 1, "close", state.src[start]))


def _note_character(state: _State, start: int) -> None:
    """Note an escaped character or an entity; a backslash before a newline is a code."""
    if state.tokens[-1].type == "hardbreak":
        state.marks.append(Mark(start, start + 2, "single", text="\n"))
    else:
        state.marks.append(Mark(start, state.pos, "single", text=state.tokens[-1].content, is_text=True))


def _note_newline(state: _State, at: int) -> None:
    start, is_hard = at, state.tokens[-1].type == "hardbreak"
    while start > 0 and state.src[start - 1] == " " and (not state.marks or state.marks[-1].end < start):
        start -= 1
    state.marks.append(Mark(start, at + 1, "single", text="\n" if is_hard else " ", is_text=not is_hard))


def _note_delimiters(state: _State, start: int) -> None:
    """Note where the tokens of delimiters stand: of tildes there is one, of others one for each character."""
    n = 1 if state.src[start] == "~" else state.pos - start
    for index, token in enumerate(state.tokens[-n:]):
        token.meta["at"] = start + index


def _note_tag(state: _State, start: int) -> None:
    _note_single(state, start)
    found = TAG.match(state.src, start)
    if found is not None and found.end() == state.pos:
        state.tags.append((*found.span(), found if found["name"] else None))


def _note_link(state: _State, start: int) -> None:
    end, stop = parseLinkLabel(state, start, True), state.pos
    title, label = _target(state, start + 1, end)
    state.marks.append(Mark(start, start + 1, "open", "link"))
    state.marks.append(Mark(end, stop, "close", "link", title=title, label=label))


def _note_image(state: _State, start: int) -> None:
    first = start + 2
    end = first + len(state.tokens[-1].content)
    title, label = _target(state, first, end)
    state.marks.append(Mark(start, state.pos, "single", alt=(first, end), title=title, label=label))


def _target(state: _State, start: int, end: int) -> tuple[Interval | None, str | None]:
    """Return where the title of a link stands, and its label if this is its text, which stands from start to end."""
    behind = state.src[end + 1 : state.pos]
    if behind.startswith("("):
        return title_of(state.src, _end_of_spaces(state.src, end + 2)), None
    return None, state.src[start:end] if behind in ("", "[]") else None


def _end_of_spaces(text: str, at: int) -> int:
    found = _SPACES.match(text, at)
    assert found is not None
    return found.end()


def _emphasis(state: _State) -> Iterator[Mark]:
    """Yield the delimiters that have become markup."""
    for token in state.tokens:
        if token.type in _DELIMITERS:
            first = token.meta["at"] - (token.type == "strong_open")  # the inner one of two has the token
            kind: Kind = "open" if token.nesting == 1 else "close"
            yield Mark(first, first + len(token.markup), kind, token.markup)


_DELIMITERS = frozenset(f"{name}_{side}" for name in ("em", "strong", "s") for side in ("open", "close"))


def _without_elements(marks: Sequence[Mark], tags: Sequence[html_text.FoundTag]) -> list[Mark]:
    """Distinguish opening from closing tags; turn each element whose content is not language into one code."""
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
