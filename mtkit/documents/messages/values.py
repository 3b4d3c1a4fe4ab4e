"""Split a string of a program into the texts that people read: its text, or those of its plural forms and choices."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from mtkit.documents.messages import icu
from mtkit.documents.messages.message_text import Message, message_of
from mtkit.documents.pages import html_text
from mtkit.text.placeholders import placeholder_pattern

Nodes = tuple["str | int", ...]  # characters, and indices of texts that stand between them

DAMAGED = "its plural or select syntax is damaged or nested too deeply; correct it, or translate it by hand"
LOST = "its translation loses or changes a placeholder"
BROKEN = "its translation would break the syntax of the message"
_NUMBER = "{#}"  # in the texts, for the # of a plural
_PIPE = "|"
_ACCESS_KEYS = "&"  # not _, which is part of names in these files
_BEFORE_BRACE = re.compile(r"'(?=[{}])")
_TOKEN = re.compile(r"\{[\w#-]{1,60}\}")
_SIMPLE = re.compile(r"(?<![{$%#])\{\s{0,9}[\w.]{1,60}\s{0,9}[,}](?!\})")
_BRACES = re.compile(r"\{[^{}\n]{0,200}\}")
_LETTERS = re.compile(r"\w{1,40}")
_LITERAL = r"'\{[\w.-]{0,60}\}'|'\{'[\w.-]{1,60}'\}'|'[{}#|]'"  # braces that people read, to ICU
_LITERALS = re.compile(_LITERAL)
_PAIR = re.compile(r"[^\W\d_]''[^\W\d_]")  # an apostrophe to people, as ICU and Java read it
_WITH_SUFFIX = re.compile(r"#([A-Za-z]{1,3})(?!\w)")  # as in #st or #h


class Apostrophes(Enum):
    """The meaning of an apostrophe to the program that reads a string."""

    THEMSELVES = auto()
    ICU = auto()  # quotes what follows if that is a brace
    PAIRED = auto()  # ICU, in a text that writes two for each one that people see
    DOUBLED = auto()  # java.text.MessageFormat: always quotes; two are one to people
    ONE_OF_TWO = auto()  # THEMSELVES or ICU
    ANY = auto()  # any of these

    @property
    def are_parsed(self) -> bool:
        """Whether the string is parsed as a message with quotes."""
        return self in (Apostrophes.ICU, Apostrophes.PAIRED, Apostrophes.DOUBLED)

    @property
    def quotes(self) -> re.Pattern[str]:
        """What is quoted."""
        return icu.QUOTES_ALWAYS if self is Apostrophes.DOUBLED else icu.QUOTES_BEFORE_SYNTAX

    def write(self, text: str) -> str:
        """Escape apostrophes so that readers see each one."""
        if self in (Apostrophes.DOUBLED, Apostrophes.PAIRED):
            return text.replace("'", "''")
        if self is Apostrophes.ANY:
            return text.replace("'", "’")
        if self is Apostrophes.ICU:  # a brace may follow the text, and before # an apostrophe quotes, too
            text = f"{text[:-1]}’" if text.endswith("'") else text
            text = text.replace("'#", "’#")
        return text if self is Apostrophes.THEMSELVES else _BEFORE_BRACE.sub("’", text)


@dataclass(frozen=True)
class Text:
    """One text of a string.

    message: its text, in which a token such as {count} stands for each argument with branches.
    source: its form in the string.
    tokens: the values of the tokens.
    """

    message: Message
    source: Nodes
    tokens: Mapping[str, Nodes]
    apostrophes: Apostrophes

    def refuse(self, written: str) -> str:
        """Return the reason why a translation, with its codes, cannot replace the text; "" if it can."""
        wanted = self.message.translation(self.message.inline.source)
        found = self.message.translation(written)
        if _placeholders(wanted) != _placeholders(found):
            return LOST
        return "" if self._outline(wanted) == self._outline(found) else BROKEN

    def _outline(self, text: str) -> object:
        if not self.apostrophes.are_parsed:
            return [text.count(mark) for mark in "{}|"]
        parsed = icu.parse(self.apostrophes.write(text.replace(_NUMBER, "")), self.apostrophes.quotes)
        return None if parsed is None else (parsed.outline, [text.count(mark) for mark in "{}|#"])


def _placeholders(text: str) -> list[str]:
    return sorted(placeholder_pattern().findall(text))


@dataclass(frozen=True)
class Template:
    """A string with its texts."""

    texts: Sequence[Text]
    nodes: Nodes

    def filled(self, translations: Mapping[int, str]) -> str:
        """Return the string with translations of some texts, with their codes, by their indices."""
        return self._rendered(self.nodes, translations)

    def _rendered(self, nodes: Nodes, translations: Mapping[int, str]) -> str:
        return "".join(node if isinstance(node, str) else self._text(node, translations) for node in nodes)

    def _text(self, index: int, translations: Mapping[int, str]) -> str:
        text = self.texts[index]
        written = translations.get(index)
        if written is None or written == text.message.inline.source:
            return self._rendered(text.source, translations)
        whole = text.apostrophes.write(text.message.translation(written))
        return _TOKEN.sub(lambda token: self._rendered(text.tokens.get(token[0], (token[0],)), translations), whole)


def lacks_placeholder(text: str, other: str) -> bool:
    """Return whether another text, such as another plural form, has a placeholder that a text lacks."""
    return bool(Counter(_placeholders(other)) - Counter(_placeholders(text)))


def template_of(
    text: str, apostrophes: Apostrophes = Apostrophes.THEMSELVES, *, is_one_shared: bool = False
) -> Template | None:
    """Return a string with its texts; None if it looks like a message with branches but is damaged.

    The branches of a plural, a select or a choice are texts of their own, and so is what stands around the argument.
    apostrophes: their meaning in the file; in a string with branches, quotes have at least that of ICU.
    is_one_shared: the branch "one" of a plural is for other numbers than 1, too, so without a number of its own it gets
    the text of "other".
    """
    has_branches = icu.has_branches(text)
    literals = list(_LITERALS.finditer(text)) if apostrophes is Apostrophes.THEMSELVES else []
    if apostrophes is not Apostrophes.DOUBLED and (has_branches or apostrophes is Apostrophes.THEMSELVES):
        if _PAIR.search(text):
            apostrophes = Apostrophes.PAIRED
        elif has_branches:
            apostrophes = Apostrophes.ICU
        elif literals or ("'{" not in text and _SIMPLE.search(text)):
            apostrophes = Apostrophes.ONE_OF_TWO
    if apostrophes.are_parsed:
        message = icu.parse(text, apostrophes.quotes)
        if message is not None:
            builder = _Builder(text, apostrophes, is_one_shared)
            return Template(builder.texts, builder.nodes_of(message, is_outermost=True))
        if has_branches:
            return None
        apostrophes = Apostrophes.THEMSELVES
    builder = _Builder(text, apostrophes, is_one_shared)
    inserts = [_literal(literal) for literal in literals]
    return Template(builder.texts, builder.pieces_of(0, len(text), inserts, is_outermost=True))


Insert = tuple[int, int, str, Nodes]  # from, up to, its token and what this stands for


def _literal(found: re.Match[str]) -> Insert:
    return (*found.span(), "{quoted}", (found[0],))


@dataclass
class _Builder:
    text: str
    apostrophes: Apostrophes
    is_one_shared: bool
    texts: list[Text] = field(default_factory=list)

    def nodes_of(self, message: icu.Message, *, is_outermost: bool) -> Nodes:
        """Add the texts of a message, inner ones first; return how the message is made of them."""
        inserts = [self._number(at) for at in message.numbers]
        inserts += [
            self._argument(each)
            for each in message.arguments
            if each.branches or "'" in self.text[each.start : each.end]
        ]
        inserts += self._quoted(message)
        return self.pieces_of(message.start, message.end, sorted(inserts), is_outermost=is_outermost)

    def _argument(self, argument: icu.Argument) -> Insert:
        nodes: list[str | int] = []
        made: dict[icu.Message, Nodes] = {}
        at = argument.start
        for branch in argument.branches:
            message = self._message_for(branch, argument)
            if message not in made:
                made[message] = self.nodes_of(message, is_outermost=False)
            nodes += [self.text[at : branch.message.start], *made[message]]
            at = branch.message.end
        name = argument.name.partition(",")[0]
        token = f"{{{name}}}" if _LETTERS.fullmatch(name) else "{argument}"
        return argument.start, argument.end, token, (*nodes, self.text[at : argument.end])

    def _message_for(self, branch: icu.Branch, argument: icu.Argument) -> icu.Message:
        """Return the message that a branch translates: its own, unless another number needs that of "other"."""
        name, _, kind = argument.name.partition(",")
        other = next((each.message for each in argument.branches if each.selector == "other"), branch.message)
        is_shared = self.is_one_shared and kind == "plural" and branch.selector == "one"
        return other if is_shared and other.shows(name) and not branch.message.shows(name) else branch.message

    def _number(self, at: int) -> Insert:
        found = _WITH_SUFFIX.match(self.text, at)
        return (*found.span(), f"{{number-{found[1]}}}", (found[0],)) if found else (at, at + 1, _NUMBER, ("#",))

    def _quoted(self, message: icu.Message) -> list[Insert]:
        """Return the quoted parts of a message, without its arguments."""
        found: list[Insert] = []
        at = message.start
        quotes = re.compile(rf"{_LITERAL}|{self.apostrophes.quotes.pattern}")
        for until, next_at in [(each.start, each.end) for each in message.arguments] + [(message.end, message.end)]:
            for match in quotes.finditer(self.text, at, until):
                if any(mark in match[0] for mark in "{}#|"):
                    found.append(_literal(match))
            at = next_at
        return found

    def pieces_of(self, start: int, end: int, inserts: Sequence[Insert], *, is_outermost: bool) -> Nodes:
        """Add the texts of characters start to end, which | separates outside branches."""
        nodes: list[str | int] = []
        at, first = start, 0
        pipes = self._pipes(start, end, inserts) if is_outermost else []
        for pipe in [*pipes, end]:
            last = first
            while last < len(inserts) and inserts[last][0] < pipe:
                last += 1
            nodes += [*self._text(at, pipe, inserts[first:last]), *([_PIPE] if pipe < end else [])]
            at, first = pipe + 1, last
        return tuple(nodes)

    def _pipes(self, start: int, end: int, inserts: Sequence[Insert]) -> list[int]:
        if _PIPE not in self.text[start:end]:
            return []
        taken = [(first, last) for first, last, _, _ in inserts]
        taken += [match.span() for match in placeholder_pattern().finditer(self.text, start, end)]
        taken += [match.span() for match in _BRACES.finditer(self.text, start, end)]
        taken += [(first, last) for first, last, _ in html_text.tags(self.text)]
        return _outside([at for at in range(start, end) if self.text[at] == _PIPE], taken)

    def _text(self, start: int, end: int, inserts: Sequence[Insert]) -> Nodes:
        """Add the text of these characters, if it has words, and return how it is made."""
        tokens: dict[str, Nodes] = {}
        source: list[str | int] = []
        shown, at = "", start
        raw = self.text[start:end]
        for number, (first, last, token, nodes) in enumerate(inserts):
            if token != _NUMBER and (token in tokens or token in raw):
                token = f"{token[:-1]}-{number}}}"
            tokens[token] = nodes
            source += [self.text[at:first], *nodes]
            shown += self._plain(self.text[at:first]) + token
            at = last
        source.append(self.text[at:end])
        message = message_of(shown + self._plain(self.text[at:end]), _ACCESS_KEYS)
        if message is None:
            return tuple(source)
        self.texts.append(Text(message, tuple(source), tokens, self.apostrophes))
        return (len(self.texts) - 1,)

    def _plain(self, raw: str) -> str:
        """Return characters without quotes."""
        if self.apostrophes is Apostrophes.DOUBLED:
            return raw.replace("''", "\0").replace("'", "").replace("\0", "'")
        return raw.replace("''", "'") if self.apostrophes in (Apostrophes.ICU, Apostrophes.PAIRED) else raw


def _outside(places: Sequence[int], intervals: Sequence[tuple[int, int]]) -> list[int]:
    """Return the places, in order, that are in none of the intervals."""
    outside: list[int] = []
    ordered = sorted(intervals)
    index, reach = 0, 0
    for place in places:
        while index < len(ordered) and ordered[index][0] <= place:
            reach = max(reach, ordered[index][1])
            index += 1
        if place >= reach:
            outside.append(place)
    return outside
