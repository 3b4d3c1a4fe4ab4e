"""Patterns of program placeholders, such as {name}, %s and $HOME, which a translation must keep exactly."""

import re
from functools import cache

from mtkit.text import templates
from mtkit.text.addresses import ADDRESS
from mtkit.text.words import MARKS, UNSPACED

# Each alternative begins with a character of its own, and looks back only behind it, so that a search is fast.
_BRACED = (
    r"\{[\w.:$@#!,<>^=+*%\[\]-]{0,60}\}"  # Python, C#, shells
    r"|\{\s{0,9}[\w.-]{1,60}\s{0,9}"  # ICU
    r"(?:,\s{0,9}(?:number|date|time|spellout|ordinal|duration|list)\b[^{}\n]{0,80})?\}"
)
_DOLLAR = rf"\$(?:{_BRACED}|\([\w.]{{1,60}}\)|(?<![\w$]\$)[A-Z_][A-Z0-9_]{{2,60}}\b)"  # shells, make; $US is money
_TEMPLATE = f"{templates.STATEMENTS}|{templates.VALUES}|{templates.MERGE_TAGS}"
_VARIABLE = rf"{_TEMPLATE}|{_BRACED}|{_DOLLAR}|%\{{[\w.-]{{1,60}}\}}"  # also of Ruby

# The printf family. C: flags, width, precision, length, conversion (ISO C11, 7.21.6.1), but no space as a flag, since
# people write 50 % off. Objective-C: %@. POSIX: %2$s. Python: %(name)s. Ruby: %<name>s. Java: %,d %tY. Windows: %I64d.
_NUMBER = r"(?:\d+|\*(?:\d+\$)?)"
_OPTIONS = rf"[-+#0',]*{_NUMBER}?(?:\.{_NUMBER}?)?(?:hh?|ll?|[jztLq]|I(?:32|64))?"
_CONVERSION = r"(?:[tT][a-zA-Z]|[diouxXeEfFgGaAcCsSpnrb@])"
_NAMED = rf"%(?:(?:\([^()\s]{{1,60}}\)|\d{{1,3}}\$){_OPTIONS}{_CONVERSION}|<\w{{1,60}}>(?:{_OPTIONS}{_CONVERSION})?)"
_QT = r"L?\d{1,2}(?!\d)"
_END = "(?![a-z0-9])"  # not in a word, nor in an escaped byte, such as %C3
_DATE_FIELD = f"[-_^#0EO]?[a-zA-Z]{_END}"  # strftime
_PERCENT = rf"{_NAMED}|%(?:{_OPTIONS}{_CONVERSION}{_END}|{_DATE_FIELD}|(?<!\d%)[sd]|{_QT}|%)"  # %shere, too
# In other text, % also means per cent, and a bare letter behind it may be a field of a date, which translators adapt.
_PERCENT_IN_LINE = (
    rf"{_NAMED}|%(?<![\d%]%)(?:(?:(?=[^a-zA-Z@]|[hlqjztLI]){_OPTIONS}{_CONVERSION}|[sdifuxXcn@])(?![^\W_])|{_QT})"
)

_OPTION = r"(?<![\w-])(?:--[a-zA-Z][\w-]*|-[a-zA-Z0-9](?![\w-]))"  # of a command, such as --help
_NESTED = r"\$t\([^()\n]{1,200}\)|@(?:\.\w{1,40})?:(?:\([\w.-]{1,100}\)|\w[\w-]*(?:\.\w[\w-]*)*)"  # i18next, Vue
_VUE_ADDRESS = r"[\w.+-]{1,64}\{'@'\}[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}"  # me{'@'}example.org

# Of posts: people and tags are links there, and a code stands for a picture. A tag of digits alone is a number.
_NAME = rf"[^\W{UNSPACED}]+(?:[.-][^\W{UNSPACED}]+)*"
_POSTS = (
    rf"(?<![\w@.%$/])@{_NAME}(?:@{_NAME})?"
    rf"|(?<![\w#&/])#(?=\d*[^\W\d])[\w{MARKS}]{{1,100}}"
    r"|(?<![\w:]):(?=[0-9_-]*[a-zA-Z+])[a-zA-Z0-9_+-]{1,50}:(?![\w:])"
)

_ATTRIBUTE = r"""\s{1,9}[\w:.-]{1,60}=(?:"[^"<>]{0,200}"|'[^'<>]{0,200}')"""
_HTML = rf"</?[a-zA-Z][\w:-]{{0,60}}(?:{_ATTRIBUTE})*\s{{0,9}}/?>|&(?:[a-zA-Z]{{2,10}}|#\d{{1,6}});"  # in plain text

_BLANKS = r"(?<!_)_{3,200}(?:[/.-]_{2,200}){0,5}|(?<!\.)\.{4,200}"  # of forms, to be filled in, and leaders to a page

# Of text for people.
PROSE = (ADDRESS, _VARIABLE, _PERCENT_IN_LINE, templates.IN_PROSE, templates.FORMULA, _POSTS, _HTML, _BLANKS)
_MARK = re.compile(r"[^\w\s.,;!?'’()\"“”«»-]|_|\.(?!\s|\Z)")  # each match of PROSE has one of them
_OF_PROGRAMS = (ADDRESS, _VARIABLE, _PERCENT, _OPTION, _NESTED, _VUE_ADDRESS)
STRINGS = (*_OF_PROGRAMS, templates.FORMULA, _POSTS, _BLANKS)  # of the messages of programs


@cache
def placeholder_pattern() -> re.Pattern[str]:
    """Return the pattern of a placeholder in the messages of programs; compiling it takes 15 ms."""
    return re.compile("|".join(_OF_PROGRAMS))


@cache
def placeholder_pattern_in_line() -> re.Pattern[str]:
    """Return the pattern of a placeholder in text of unknown origin."""
    return re.compile(f"{_VARIABLE}|{_PERCENT_IN_LINE}")


def may_have_prose(text: str) -> bool:
    """Return whether patterns of PROSE can match in a text: most sentences have none of the marks that they need.

    To look for a mark takes a fortieth of the time that the patterns take.
    """
    return _MARK.search(text) is not None
