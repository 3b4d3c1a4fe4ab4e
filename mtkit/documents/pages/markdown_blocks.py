"""The blocks of a Markdown text according to markdown-it-py, with the place of each line in the document."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise, takewhile
from typing import Any, Literal

from markdown_it import MarkdownIt, rules_block
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from mtkit.documents.pages.markdown_inline import Mark, is_formula, marks_of
from mtkit.documents.places import Source
from mtkit.errors import DataError
from mtkit.text.lines import NEWLINE, line_spans
from mtkit.text.templates import EXPRESSIONS

_MOST_LEVELS = 100  # of quotations and lists within each other, two for an item of a list
_FRONT_MATTER = re.compile(
    r"(?P<fence>---|\+\+\+)[ \t]*(?:\r\n?|\n)"
    r"(?=\s*(?:#|[\"']?[\w.-]+[\"']?[ \t]*[:=]|\[|(?P=fence)))"  # else it is a rule between texts
    r"(?:.*?(?:\r\n?|\n))?(?P=fence)[ \t]*(?=[\r\n]|\Z)",
    re.DOTALL,
)
_OWN_LINE = re.compile(
    r":{3,}[ \t]*[\w-]*(?:[ \t]*\{[^{}]*\})?[ \t]*"  # of a container, with its title behind it
    r"|:[ \t]+"  # a definition
    r"|\{[:%][^{}]*%?\}[ \t]*$|\{\{.*\}\}[ \t]*$"  # attributes, tags of templates
)
_INDENTED = re.compile(  # of MkDocs: the line before an indented admonition, details or tab
    r"""(?P<kind>(?:!!!|\?\?\?\+?)[ \t]+[\w-]+(?:[ \t]+[\w-]+)*|===[!+]?(?=[ \t]+"))"""
    r"""(?:[ \t]+"(?P<title>[^\n]*)")?[ \t]*$"""
)
_UNDERLINE = re.compile(r"(?:=+|-+)[ \t]*")  # of a heading
_MOST_LINES = 100  # of a heading
_INDENT = 4  # of what belongs to such a line
_MODULE_CODE = re.compile(  # of MDX: statements and expressions between blank lines
    r"(?:\A|(?<=\A\n)|(?<=\A\r\n)|(?<=\n\n)|(?<=\n\r\n))"
    r"(?:(?:import\s+(?:(?:[\w$*, \t]|\{[^{}'\"]{0,2000}\}){1,500}\sfrom\s+)?['\"][^'\"\n]+['\"]\s*;?[ \t\r]*$"
    r"|export\s+(?:(?:const|let|var)\s+[\w{\[][^=\n]*=|(?:default\s+)?(?:async\s+)?(?:function\b|class\s)|[{*]"
    r"|default\s[^\n]*[;{(>][ \t\r]*$)).*(?:\n(?!```|~~~|.*</script).*\S.*)*"
    rf"|{EXPRESSIONS}[ \t\r]*$)",
    re.MULTILINE,
)
_FORMULA_ENDS = {"$$": "$$", r"\[": r"\]"}  # and those of \begin{...}
_FORMULA_START = re.compile(r"\$\$|\\\[|\\begin\{[a-zA-Z]{1,20}\*?\}")
_BEHIND_FORMULA = re.compile(r"[ \t.,;]*(?:\{[^{}]*\}|\([\w.]+\))?[ \t]*")  # its label or number
_FOOTNOTE = re.compile(r"\[\^[^\s\[\]]{1,99}\]:")
_BLANK = " \t"
Kind = Literal["paragraph", "heading", "cell", "html", "definition"]


@dataclass(frozen=True)
class Block:
    """A paragraph, a heading, a cell, a piece of HTML or a link definition."""

    kind: Kind
    source: Source
    is_at_start: bool = True  # it is the first on its line, apart from > and list marks


@dataclass(frozen=True)
class Blocks:
    """The blocks of a document."""

    text: str  # of the document
    blocks: Sequence[Block]
    tokens: Sequence[Token]  # of markdown-it-py
    labels: Collection[str]  # of link reference definitions
    targets: Sequence[tuple[str, str]]  # labels and targets of these

    @cached_property
    def marks(self) -> Sequence[Sequence[Mark]]:
        """The inline markup of each block; none of HTML and definitions, which have other markup."""
        return [
            () if block.kind in ("html", "definition") else marks_of(block.source.text, self.labels)
            for block in self.blocks
        ]


def blocks_of(text: str) -> Blocks:
    """Return the blocks of a text. Raises DataError if they are nested too deeply."""
    lines = list(line_spans(text))
    front_matter = _FRONT_MATTER.match(text)
    n_skipped = len(NEWLINE.findall(front_matter[0])) if front_matter else 0
    skipped = front_matter.end() if front_matter else 0
    env: dict[str, Any] = {}
    parser = _parser()
    without_code = _MODULE_CODE.sub(lambda code: "\n" * code[0].count("\n"), text[skipped:])
    tokens = parser.parse("\n" * n_skipped + without_code, env)
    for token in tokens:
        if token.nesting == 1 and token.level + 1 >= _MOST_LEVELS and token.type in _CONTAINERS:
            line = token.map[0] + 1 if token.map else 1
            raise DataError(f"line {line}: quotations and lists are more than {_MOST_LEVELS} levels deep; flatten them")
    references = env.get("references", {})
    blocks = [*_blocks(text, lines, tokens), *_definitions(text, lines, env.get("definitions", []))]
    blocks.sort(key=lambda block: block.source.starts[0])
    targets = sorted((label, reference["href"]) for label, reference in references.items())
    return Blocks(text, blocks, tokens, frozenset(references), targets)


_CONTAINERS = frozenset(["blockquote_open", "list_item_open", "indented_open"])


def _blocks(text: str, lines: Sequence[tuple[int, int]], tokens: Sequence[Token]) -> Iterator[Block]:
    row: list[tuple[int, int, Source]] = []  # the cells that are left of a row
    for index, token in enumerate(tokens):
        if token.type == "tr_open":
            row = list(_cells(text, *_line(token, 0, lines)))
        if token.type not in ("inline", "html_block") or token.map is None:
            continue
        found = [_line(token, number, lines) for number in range(token.map[1] - token.map[0])]
        before = tokens[index - 1]
        if token.type == "html_block":
            yield Block("html", Source.of_lines(text, found))
        elif before.type in ("th_open", "td_open"):
            if row:
                start, _, source = row.pop(0)
                if source.text:
                    yield Block("cell", source, start == found[0][0])
        elif before.type == "indented_open":
            start, _ = found[0]
            yield Block("heading", Source.of_lines(text, [(start, start + len(token.content))]), False)
        elif before.type == "heading_open" and before.markup.startswith("#"):
            start, end = found[0]
            if token.content:
                first = text.index(token.content, start + len(before.markup), end)
                yield Block("heading", Source.of_lines(text, [(first, first + len(token.content))]), False)
        else:
            yield from _paragraphs(text, found)


def _paragraphs(text: str, lines: Sequence[tuple[int, int]]) -> Iterator[Block]:
    """Yield a paragraph, split where an extension of Markdown needs a line to itself."""
    run: list[tuple[int, int]] = []
    for start, end in lines:
        own = _OWN_LINE.match(text[start:end])
        if own is None:
            if _FOOTNOTE.match(text[start:end]):
                yield from _paragraph(text, run)
                run = []
            run.append((start, end))
            continue
        yield from _paragraph(text, run)
        yield from _paragraph(text, [(start + own.end(), end)])
        run = []
    yield from _paragraph(text, run)


def _paragraph(text: str, lines: Sequence[tuple[int, int]]) -> Iterator[Block]:
    if lines:
        start, end = lines[-1]
        last = start, start + len(text[start:end].rstrip(_BLANK))
        yield Block("paragraph", Source.of_lines(text, [*lines[:-1], last]))


def _cells(text: str, start: int, end: int) -> Iterator[tuple[int, int, Source]]:
    """Yield the cells of a row: where each stands, and its text without the backslashes before |."""
    raw = text[start:end]
    end = start + len(raw.rstrip(_BLANK))
    bars = [match.start() + start for match in re.finditer(r"(?<!\\)\|", text[start:end])]
    borders = [start - 1, *bars, end]
    intervals = [(a + 1, b) for a, b in pairwise(borders)]
    if intervals and intervals[0][0] == intervals[0][1]:
        del intervals[0]
    if intervals and intervals[-1][0] == intervals[-1][1]:
        del intervals[-1]
    for first, last in intervals:
        cell = text[first:last]
        first += len(cell) - len(cell.lstrip(_BLANK))
        last = max(first, first + len(cell.strip(_BLANK)))
        yield first, last, _cell_source(text, first, last)


def _cell_source(text: str, start: int, end: int) -> Source:
    parts, firsts, starts, ends = [], [], [], []
    at, length = start, 0
    for bar in [*re.finditer(r"\\\|", text[start:end]), None]:
        stop = end if bar is None else start + bar.start()
        for part, first, last in ((text[at:stop], at, stop), ("|" if bar else "", stop, stop + 2)):
            if part:
                parts.append(part)
                firsts.append(length)
                starts.append(first)
                ends.append(last)
                length += len(part)
        at = stop + 2
    return Source("".join(parts), firsts, starts, ends)


def _definitions(text: str, lines: Sequence[tuple[int, int]], found: Sequence[Token]) -> Iterator[Block]:
    for token in found:
        assert token.map is not None
        of_token = [_line(token, number, lines) for number in range(token.map[1] - token.map[0])]
        yield Block("definition", Source.of_lines(text, of_token))


def _line(token: Token, number: int, lines: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return where the text of a token's line starts and ends in the document."""
    assert token.map is not None
    start, end = lines[token.map[0] + number]
    return min(start + token.meta["columns"][number], end), end


Rule = Callable[[StateBlock, int, int, bool], bool]


@cache
def _parser() -> MarkdownIt:
    """Return a parser of blocks whose tokens have the column in which the text of each line starts."""
    parser = MarkdownIt("commonmark", {"maxNesting": _MOST_LEVELS})
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # a link to a file is a link
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.enable("table")
    of_others = {"heading": ["paragraph", "reference", "blockquote"], "table": ["paragraph", "reference"]}
    of_others["html_block"] = ["paragraph", "reference", "blockquote"]
    for name in ("table", "heading", "lheading", "paragraph", "html_block"):
        rule = _with_columns(getattr(rules_block, name))
        parser.block.ruler.at(name, rule, {"alt": of_others.get(name, [])})
    parser.block.ruler.at("reference", _reference, {"alt": []})
    parser.block.ruler.before("fence", "formula", _formula, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.block.ruler.before("fence", "indented", _indented, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    return parser


def _with_columns(rule: Rule) -> Rule:
    def with_columns(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        n_tokens = len(state.tokens)
        if not rule(state, start, end, silent):
            return False
        for token in state.tokens[n_tokens:]:
            if token.map is not None:
                token.meta["columns"] = _columns(state, *token.map)
        return True

    return with_columns


def _columns(state: StateBlock, start: int, end: int) -> list[int]:
    """Return where the text of each line starts, counted from the start of the line."""
    places = (state.bMarks[line] + state.tShift[line] for line in range(start, end))
    return [place - (state.src.rfind("\n", 0, place) + 1) for place in places]


def _reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Note link reference definitions, but not footnotes such as [^1]:, which are paragraphs."""
    place = state.bMarks[start] + state.tShift[start]
    if state.src.startswith("[^", place) or not rules_block.reference(state, start, end, silent):
        return False
    if not silent:
        token = Token("definition", "", 0, map=[start, state.line])
        token.meta["columns"] = _columns(state, start, state.line)
        state.env.setdefault("definitions", []).append(token)
    return True


def _formula(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a formula that has its lines to itself, because some of them may look like those of other blocks."""
    first = None if state.is_code_block(start) else _FORMULA_START.match(_text(state, start))
    if not first:
        return False
    closing = _FORMULA_ENDS.get(first[0]) or first[0].replace("begin", "end")
    inner, last = _text(state, start)[first.end() :], start
    while closing not in inner:
        last += 1
        if last == end or state.isEmpty(last) or state.sCount[last] < state.blkIndent:
            return False
        inner += f"\n{_text(state, last)}"
    inner, _, behind = inner.partition(closing)
    if not is_formula(first[0] + inner + closing) or not _BEHIND_FORMULA.fullmatch(behind):
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.map, token.content = [start, last + 1], state.getLines(start, last + 1, state.blkIndent, False)
        state.line = last + 1
    return True


def _text(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _indented(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a line such as `!!! note "Title"` with the indented blocks below it, which MkDocs shows in a box."""
    place = state.bMarks[start] + state.tShift[start]
    found = None if state.is_code_block(start) else _INDENTED.match(state.src[place : state.eMarks[start]])
    if not found:
        return False
    indent, last = state.sCount[start] + _INDENT, start + 1
    while last < end and (state.isEmpty(last) or state.sCount[last] >= indent):
        last += 1
    while last > start + 1 and state.isEmpty(last - 1):
        last -= 1
    others = range(last, min(end, last + _MOST_LINES))
    behind = (_text(state, line) for line in takewhile(lambda line: not state.isEmpty(line), others))
    if last == start + 1 and (found["title"] is None or any(map(_UNDERLINE.fullmatch, behind))):
        return False
    if silent:
        return True
    opening = state.push("indented_open", "div", 1)
    opening.map, opening.markup = [start, last], found["kind"]
    if title := found["title"]:
        token = state.push("inline", "", 0)
        token.map, token.content, token.children = [start, start + 1], title, []
        token.meta["columns"] = [_columns(state, start, start + 1)[0] + found.start("title")]
    outer = state.parentType, state.lineMax, state.blkIndent
    state.parentType, state.lineMax, state.blkIndent = "blockquote", last, indent
    state.md.block.tokenize(state, start + 1, last)
    state.parentType, state.lineMax, state.blkIndent = outer
    state.push("indented_close", "div", -1)
    state.line = last
    return True
