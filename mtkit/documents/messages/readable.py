"""Separate strings that people read from identifiers, addresses, formats and the like."""

import html
import re

from mtkit.text.inline_tags import without_tags
from mtkit.text.placeholders import placeholder_pattern

_LETTER = re.compile(r"[^\W\d_]")
_MAYBE_KEPT = re.compile(r"[{%$@<&]|://")
_STRFTIME = re.compile(r"%[-_^0#]?[A-Za-z]")
_DATE_LETTERS = re.compile(
    r"([yYMdDEeHhkKmsSaAzZXxGQLqcwWu])\1*|Do|LTS?|(?:y{2,4}|Y{2,4}|M{2,4}|dd|DD|HH|hh|mm|ss|S{1,3})+"
)
_DATE_FIELD = re.compile(r"yy|YY|MM|dd|DD|HH|hh|mm|\bh:mm|\bH:mm|\bLTS?\b")
_WORDS = re.compile(r"[^\W\d_]+")
_CODE = re.compile(  # with or without spaces
    r"(?:rgba?|hsla?|url|calc|var|linear-gradient|cubic-bezier|matrix|translate[XYZ3]?d?|scale|rotate)\(.*\)"
    r"|[MmLlHhVvCcSsQqTtAaZz\d\s,.+-]*\d[MmLlHhVvCcSsQqTtAaZz\d\s,.+-]*[zZ]"  # the path of a drawing
    r"|(?:[-+]?\d[\d.]*(?:px|r?em|pt|vh|vw|ms|deg|%|s)?\s*)+"  # CSS
    r"|(?:text|image|audio|video|application|font|multipart)/[\w.+*-]+(?:\s*;.*)?"
    r"|[MmLl][\d\s,.+-]+",
    re.DOTALL,
)
_IDENTIFIER = re.compile(
    r"[a-z]{2,3}[-_](?:[A-Z][a-z]{3}[-_]?)?(?:[A-Z]{2}|\d{3})?"  # a locale
    r"|[A-Za-z]*[a-z][A-Z]\w*"  # camelCase, PascalCase
    r"|\w+(?:[.:]+\w+)+(?:\(\))?"  # dotted
    r"|[\w.:-]*_[\w.:-]*|[a-z\d]+(?:-[a-z\d]+)+"  # snake_case, kebab-case
    r"|[\w.-]*\d[\w.-]*"  # 4f2a, v1.2, utf-8
    r"|(?:[\w.-]+:)?[./\\~#@$*\w-]*[/\\#@$*=~][./\\~#@$*=?&%+:;,\w-]*"  # a path, a colour, a pattern
    r"|-{1,2}[a-z][\w-]*|\d[\w:.+-]*"
)
_ADDRESS = re.compile(r"(?:mailto|tel|sms|data|javascript):\S*|:[a-z_]\w*")  # or a symbol of Ruby
_EITHER_OR = re.compile(r"[^\W\d_]{2,}(?:/[^\W\d_]{2,}){1,3}")  # Yes/No
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)(?:-[^\W\d_]+)*")
_TECHNICAL_KEYS = re.compile(
    r"(?:.*[-_.])?(?:id|ids|uuid|slug|key|type|kind|lang|locale|language|dir|direction|icon|class|className|url|href"
    r"|src|path|file|format|color|colour|charset|encoding|version|schema|mode|variant|target|method|extends|ref|state|status)"
    r"(?:\[\d+\])*"
)
_ENDS = " \t\r\n.,;:!?…()\"'"
_EDGES = " \t\r\n.,;:!?…()[]{}\"'«»“”‘’„‹›*•·-–—|<>&"


def is_language(text: str, key: str = "") -> bool:
    """Return whether a string of a program is text that people read.

    key: the name under which it stands. In doubt it is text: a single word such as Cancel is. One in lower case is not
    if its key, such as "type", names what programs read.
    """
    if not _LETTER.search(text):
        return False
    whole = text.strip()
    if _MAYBE_KEPT.search(text):
        text = html.unescape(without_tags(_STRFTIME.sub("", placeholder_pattern().sub("", text))))
    core = text.strip(_EDGES)
    if not _LETTER.search(core) or _CODE.fullmatch(whole) or _is_date_format(core):
        return False
    if any(map(str.isspace, core)):
        return True
    if not core.isascii() and not ("/" in core and "." in core):
        return True
    if _IDENTIFIER.fullmatch(text.strip(_ENDS)) or _ADDRESS.fullmatch(whole):
        return bool(_ORDINAL.fullmatch(core) or (core[0].isupper() and _EITHER_OR.fullmatch(core)))
    return not (core == text and core.islower() and _TECHNICAL_KEYS.fullmatch(key))


def _is_date_format(core: str) -> bool:
    """Return whether all letters are fields such as YYYY or mm."""
    return _DATE_FIELD.search(core) is not None and all(map(_DATE_LETTERS.fullmatch, _WORDS.findall(core)))
