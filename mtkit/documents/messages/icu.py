"""Parse ICU MessageFormat: the places of the arguments in a message, and the messages of their branches.

https://unicode-org.github.io/icu/userguide/format_parse/messages/ describes the syntax; `choice` is that of Java.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

_MOST_LEVELS = 12  # of branches in branches
_NAME = r"""[^\s{},#'"|<>]{1,100}+"""
_COMPLEX = re.compile(rf"\{{\s*+{_NAME}\s*+,\s*+(?:plural|select|selectordinal|choice)\s*+,")
_ARGUMENT = re.compile(rf"\{{\s*+(?P<name>{_NAME})\s*+(?:\}}|,\s*+(?P<kind>\w++)\s*+(?P<end>[,}}]))")
_SELECTOR = re.compile(r"\s*+(?:offset\s*+:\s*+\d++\s++)?(?P<name>[^\s{}'\"]{1,100}+)\s*+\{")
_END = re.compile(r"\s*+\}")
_LIMIT = re.compile(r"\s*+[-+]?[\d.∞]++\s*+[#<≤]")
QUOTES_BEFORE_SYNTAX = re.compile(r"''|'[{}#][^']*+(?:''[^']*+)*+(?:'|\Z)")  # ICU: an apostrophe elsewhere is itself
QUOTES_ALWAYS = re.compile(r"''|'[^']++(?:''[^']*+)*+(?:'|\Z)")  # java.text.MessageFormat


@dataclass(frozen=True)
class Branch:
    """A text among which an argument chooses."""

    selector: str  # such as "one", "=0" or "female"
    message: "Message"


@dataclass(frozen=True)
class Argument:
    """Characters start to end of a text: an argument with its braces. A simple one has no branches."""

    start: int
    end: int
    name: str
    branches: tuple[Branch, ...] = ()


@dataclass(frozen=True)
class Message:
    """Characters start to end of a text: a message with its arguments, in order.

    numbers: where a # stands for the number of a plural.
    """

    start: int
    end: int
    arguments: tuple[Argument, ...]
    numbers: tuple[int, ...] = ()

    def shows(self, name: str) -> bool:
        """Return whether people see the number of the plural of which it is a branch. name: of the argument."""
        return bool(self.numbers) or any(each.name.partition(",")[0] == name for each in self.arguments)

    @cached_property
    def outline(self) -> object:
        """The parts that a translation must keep: the arguments, in any order, and their branches, in order."""
        of_arguments = [
            (each.name, tuple((branch.selector, branch.message.outline) for branch in each.branches))
            for each in self.arguments
        ]
        return sorted(of_arguments, key=repr), len(self.numbers)


def has_branches(text: str) -> bool:
    """Return whether a text looks as if it had an argument with branches."""
    return "{" in text and _COMPLEX.search(text) is not None


def parse(text: str, quotes: re.Pattern[str] = QUOTES_BEFORE_SYNTAX) -> Message | None:
    """Return the arguments of a message, or None if its syntax is damaged or nested too deeply.

    quotes: the meaning of an apostrophe.
    """
    try:
        return _Parser(text, quotes).message(0, 0, is_plural=False, closing="")
    except _DamagedError:
        return None


class _DamagedError(Exception):
    pass


class _Parser:
    def __init__(self, text: str, quotes: re.Pattern[str]) -> None:
        self.text = text
        self.special = re.compile(rf"(?P<quoted>{quotes.pattern})|(?P<mark>[{{}}#|])")

    def message(self, start: int, level: int, *, is_plural: bool, closing: str) -> Message:
        """Return the message that begins at start and ends before one of the closing characters, or with the text."""
        if level > _MOST_LEVELS:
            self.fail()
        arguments: list[Argument] = []
        numbers: list[int] = []
        at = start
        while (found := self.special.search(self.text, at)) is not None:
            at = found.end()
            mark = found["mark"]
            if mark is None:
                continue
            if mark in closing:
                return Message(start, found.start(), tuple(arguments), tuple(numbers))
            if mark == "{":
                arguments.append(self.argument(found.start(), level))
                at = arguments[-1].end
            elif mark == "}":
                self.fail()
            elif mark == "#" and is_plural:
                numbers.append(found.start())
        if closing:
            self.fail()
        return Message(start, len(self.text), tuple(arguments), tuple(numbers))

    def argument(self, start: int, level: int) -> Argument:
        found = _ARGUMENT.match(self.text, start)
        if found is None:
            self.fail()
        name, kind = found["name"], found["kind"]
        if kind is None or found["end"] == "}":
            return Argument(start, found.end(), f"{name},{kind}" if kind else name)
        if kind == "choice":
            return self.choice(start, found.end(), name, level)
        if kind in ("plural", "select", "selectordinal"):
            return self.branches(start, found.end(), f"{name},{kind}", level, is_plural=kind != "select")
        end = self.message(found.end(), level + 1, is_plural=False, closing="}").end + 1
        return Argument(start, end, self.text[start:end])

    def branches(self, start: int, at: int, name: str, level: int, *, is_plural: bool) -> Argument:
        branches: list[Branch] = []
        while (end := _END.match(self.text, at)) is None:
            selector = _SELECTOR.match(self.text, at)
            if selector is None:
                self.fail()
            message = self.message(selector.end(), level + 1, is_plural=is_plural, closing="}")
            branches.append(Branch(selector["name"], message))
            at = message.end + 1
        if not branches:
            self.fail()
        return Argument(start, end.end(), name, tuple(branches))

    def choice(self, start: int, at: int, name: str, level: int) -> Argument:
        """Return an argument such as {0,choice,0#no files|1#one file|1<{0} files}."""
        branches: list[Branch] = []
        while True:
            limit = _LIMIT.match(self.text, at)
            if limit is None:
                self.fail()
            message = self.message(limit.end(), level + 1, is_plural=False, closing="}|")
            branches.append(Branch(limit[0].strip(), message))
            at = message.end + 1
            if self.text[message.end] == "}":
                return Argument(start, at, f"{name},choice", tuple(branches))

    def fail(self) -> NoReturn:
        raise _DamagedError
