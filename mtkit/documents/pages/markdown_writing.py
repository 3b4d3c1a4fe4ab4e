"""Write a translation as Markdown: escaped only where it would be markup, and wrapped as the source was."""

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from mtkit.documents.pages.markdown_inline import Mark, marks_of
from mtkit.text.inline import Code

_TEXT = "\U000ffffb"  # private: the punctuation behind it is text
_SPACE = "\U000ffffa"  # private: a space in a code, where no line ends
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_STAND_INS = {  # private, for delimiters of emphasis until it is known which ones do
    ("*", "open"): "\U000ffff0", ("*", "close"): "\U000ffff1", ("_", "open"): "\U000ffff2", ("_", "close"): "\U000ffff3"
}  # fmt: skip
PRIVATE = re.compile("[\U000ffff0-\U000ffff3\U000ffffa\U000ffffb]")  # what no document may have
_AS_THEY_ARE = {stand_in: char for (char, _), stand_in in _STAND_INS.items()}
_ASTERISKS = dict.fromkeys(_AS_THEY_ARE, "*")  # which count beside letters, too
_OPEN, _CLOSE = "[\U000ffff0\U000ffff2]", "[\U000ffff1\U000ffff3]"
_NO_CLOSE = re.compile(rf"(?<=[^\w\s{_TEXT}])({_CLOSE}+)(?=\w)")  # a delimiter that counts only before a space
_NO_OPEN = re.compile(rf"(?<=\w)({_OPEN}+)(?={_TEXT}|[^\w\s])")
_QUOTED = re.compile(r"""(?<==)(?:"[^"]*+"|'[^']*+')""")
_MOST_ROUNDS = 8  # of escaping; then all that could be markup is escaped
_BRACKETS, _ALL = "[]", "\\`*_[]<>&~!${:"
_BEGINS_BLOCK = re.compile(
    r"(?:#{1,6}|[-+])(?=\s|$)|(?:\*)(?=\s|$)|\d{1,9}(?P<at>[.)])(?=\s|$)|>|(?:-[ \t]*){3,}$|(?:\*[ \t]*){3,}$"
    r"|(?:_[ \t]*){3,}$|`{3,}[^`]*$|~{3,}|<[a-zA-Z/!?]|\[[^\]]*\]:|:{3,}|:\s|\{[:%]"
)
_CONTINUES_OTHERWISE = re.compile(r"=+[ \t]*$|-+[ \t]*$|[|:-][-:| \t]*$")  # of a line that is not the first
_CLOSES_HEADING = re.compile(r"(?:^|(?<=[ \t]))#+$")


@dataclass(frozen=True)
class Surroundings:
    """Where in a block a text stands."""

    before: str  # in the block
    after: str
    labels: Container[str]  # of link reference definitions
    expected: Sequence[Mark]  # the markup of the block in the source
    block: str  # its text in the source
    is_at_start: bool = True  # the block is the first on its line, apart from > and list marks
    is_heading: bool = False  # which # could close
    is_cell: bool = False
    width: int | None = None  # of lines, in characters; None: do not wrap
    column: int = 0  # of the first character, counted from the start of its line
    indent: int = 0  # of the lines that follow

    @cached_property
    def wanted(self) -> Counter[str]:
        """The codes of the block, each as often as in the source."""
        return codes_in(self.block, self.expected)


class Encoded(NamedTuple):
    """A translation as Markdown."""

    text: str  # with signs before what is not escaped
    marks: Sequence[Mark]  # the markup of the block in which it stands
    has_all: bool  # whether all its codes take effect


def marked(text: str) -> str:
    """Return a translation with a sign before each punctuation mark, so that `written` can escape it."""
    return _PUNCTUATION.sub(rf"{_TEXT}\1", text)


def stand_in(code: Code) -> Code:
    """Return a code in whose place `encoded` puts a delimiter of emphasis that takes effect where it stands."""
    if code.name[:1] not in ("*", "_") or (code.name[0], code.kind) not in _STAND_INS:
        return code
    return Code(_STAND_INS[code.name[0], code.kind] * len(code.markup), code.kind, code.name)


def written(found: Encoded, where: Surroundings) -> list[str]:
    """Return the lines of a translation."""
    first, *others = _protected(found, where).split("\n")
    lines = [*_wrapped(first, where, where.column), *(line for part in others for line in _wrapped(part, where))]
    is_first = where.is_at_start and not where.before.strip()
    lines = [_start_escaped(line, is_first, number) for number, line in enumerate(lines)]
    if where.is_heading and not where.after.strip():
        lines = [_end_escaped(line) for line in lines]
    if where.is_cell:
        lines = [line.replace("|", "\\|") for line in lines]
    return [_plain(line).replace(_SPACE, " ") for line in lines]


def encoded(text: str, where: Surroundings) -> Encoded:
    """Escape a translation, in which `marked` has signed text, and codes are those of `stand_in`.

    Some codes may not take effect where they stand, however it is escaped.
    """
    spaced = _NO_OPEN.sub(r" \1", _NO_CLOSE.sub(r"\1 ", text))
    for variant, delimiters in ((text, _AS_THEY_ARE), (text, _ASTERISKS), (spaced, _ASTERISKS)):
        found = _escaped(_replaced(variant, delimiters), where)
        if found.has_all:
            return found
    as_it_is = _replaced(text, _AS_THEY_ARE)
    for characters in (_BRACKETS, _ALL):
        found = _escaped(_with_backslashes(as_it_is, characters), where)
        if found.has_all:
            return found
    return _escaped(as_it_is, where)


def written_value(text: str, labels: Container[str]) -> str:
    """Return text as the description of an image: on its own, but within brackets."""
    where = Surroundings("", "", labels, (), "")
    escaped = _escaped(marked(text), where).text
    depth = lowest = 0
    for bracket in re.findall(rf"{_TEXT}([\[\]])", escaped):
        depth += 1 if bracket == "[" else -1
        lowest = min(depth, lowest)
    return _plain(_with_backslashes(escaped, _BRACKETS) if depth or lowest else escaped)


def codes_in(text: str, marks: Sequence[Mark]) -> Counter[str]:
    """Count the codes of a text, whichever character marks emphasis and wherever lines end in codes."""
    return Counter(
        mark.kind + " ".join(mark.name.replace("_", "*").split() if mark.name[:1] in ("*", "_") else _bare(text, mark))
        for mark in marks
        if not mark.is_text
    )


def _bare(text: str, mark: Mark) -> list[str]:
    """Return the words of a code without those that are translated."""
    found, at = "", mark.start
    for interval in (mark.alt, mark.title):
        if interval is not None:
            found += text[at : interval[0]] + "\0"
            at = interval[1]
    markup = found + (text[at : mark.end] if mark.label is None else f"][{mark.label}]")
    if markup.startswith("<"):  # attributes may be translated, too
        markup = _QUOTED.sub('""', markup)
    return ["\n"] if mark.text == "\n" else markup.split()


def _replaced(text: str, delimiters: Mapping[str, str]) -> str:
    return text.translate({ord(stand_in): delimiter for stand_in, delimiter in delimiters.items()})


def _plain(text: str) -> str:
    return text.replace(_TEXT, "")


def _escaped(text: str, where: Surroundings) -> Encoded:
    """Put a backslash before punctuation that would begin or end markup."""
    for _ in range(_MOST_ROUNDS):
        whole = where.before + _plain(text) + where.after
        marks = marks_of(whole, where.labels)
        begun = {mark.start - len(where.before) for mark in marks if mark.kind != "close"}
        ended = {mark.start - len(where.before) for mark in marks if mark.kind == "close"}
        new = _with_backslashes_at(text, begun)
        new = _with_backslashes_at(text, ended) if new == text else new
        if new == text:
            return Encoded(text, marks, codes_in(whole, marks) == where.wanted)
        text = new
    text = _with_backslashes(text, _ALL)
    whole = where.before + _plain(text) + where.after
    marks = marks_of(whole, where.labels)
    return Encoded(text, marks, codes_in(whole, marks) == where.wanted)


def _with_backslashes_at(text: str, places: Container[int]) -> str:
    """Put a backslash before the signed punctuation at these places, which count characters without the signs."""
    parts = text.split(_TEXT)
    at, new = len(parts[0]), parts[0]
    for part in parts[1:]:
        new += ("\\" if at in places else _TEXT) + part
        at += len(part)
    return new


def _with_backslashes(text: str, characters: str) -> str:
    return re.sub(rf"{_TEXT}([{re.escape(characters)}])", r"\\\1", text)


def _protected(found: Encoded, where: Surroundings) -> str:
    """Put a sign in the place of each space in a code, so that no line is broken there."""
    plain = where.before + _plain(found.text) + where.after
    in_codes = set[int]()
    for mark in found.marks:
        if not mark.is_text and " " in plain[mark.start : mark.end]:
            in_codes |= {index for index in range(mark.start, mark.end) if plain[index] == " "}
    if not in_codes:
        return found.text
    at, parts = len(where.before), []
    for character in found.text:
        parts.append(_SPACE if at in in_codes and character == " " else character)
        at += character != _TEXT
    return "".join(parts)


def _wrapped(text: str, where: Surroundings, column: int | None = None) -> Iterator[str]:
    """Yield the lines of a text; none begins with a word that would begin a block. column: of its first character."""
    if where.width is None:
        yield text
        return
    line, length = "", where.indent if column is None else column
    for word in text.split(" "):
        plain = _plain(word).replace(_SPACE, " ")
        begins = _BEGINS_BLOCK.match(plain) or _CONTINUES_OTHERWISE.match(plain)
        if line and length + 1 + len(plain) > where.width and plain and not begins:
            yield line
            line, length = word, where.indent + len(plain)
        else:
            length += len(plain) + (1 if line else 0)
            line = f"{line} {word}" if line else word
    yield line


def _start_escaped(line: str, is_first: bool, number: int) -> str:
    """Put a backslash before what would begin a block at the start of a line."""
    if number == 0 and not is_first:
        return line
    plain = _plain(line).replace(_SPACE, " ")
    found = _BEGINS_BLOCK.match(plain) or (_CONTINUES_OTHERWISE.match(plain) if number else None)
    if found is None:
        return line
    at = found.start("at") if found.re is _BEGINS_BLOCK and found["at"] else 0
    index = line.find(_TEXT)
    return f"{line[:index]}\\{line[index + 1 :]}" if index == at else line


def _end_escaped(line: str) -> str:
    found = _CLOSES_HEADING.search(_plain(line))
    if found is None:
        return line
    n = len(found[0])
    head, signs = line[: len(line) - 2 * n], line[len(line) - 2 * n :]
    return f"{head}\\{signs[1:]}" if signs == f"{_TEXT}#" * n else line
