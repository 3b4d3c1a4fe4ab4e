"""Repair the text of many lines at once: Unicode forms, spaces, mojibake, HTML entities."""

import html
import re
import unicodedata
from collections.abc import Callable, Sequence

from mtkit.config.cleaning import RepairStep
from mtkit.errors import UsageError
from mtkit.text.characters import without_invisible
from mtkit.text.inline_tags import ENTITY

# White space that is dropped or becomes a space: all but the no-break spaces and the ideographic space, which are
# typography when they stand alone.
_ODD_SPACE = re.compile("[\t\v\f\r\x1c-\x1f\x85\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f]")
_SPACES = re.compile("[ \xa0\u2007\u202f\u3000]{2,}")
_AT_ENDS = re.compile("^[ \xa0\u2007\u202f\u3000]+|[ \xa0\u2007\u202f\u3000]+$", re.MULTILINE)
_MOST_ESCAPES = 3  # how often text may have been escaped: &amp;amp;quot;
# UTF-8 read as a one-byte encoding has two characters beyond ASCII in a row, or a lead byte before a space (from A0).
_MAYBE_MOJIBAKE = re.compile("[^\0-\x7f]{2}|[\xc2\xc3\xe2] ")


def repair(lines: Sequence[str], steps: Sequence[RepairStep]) -> list[str]:
    """Return the lines, repaired by these steps, always in the same order; a line's result depends on it alone.

    Raises UsageError if ftfy is not installed, which mojibake needs.
    """
    if not steps or not lines:
        return list(lines)
    text = "\n".join(lines)
    if text.count("\n") >= len(lines):  # lines of a format in which a sentence may have several
        text = "\n".join(line.replace("\n", " ") for line in lines)
    for step in ("entities", "mojibake", "unicode", "spaces"):  # entities may hide characters that the others repair
        if step in steps:
            text = _STEPS[step](text)
    return text.split("\n")


def check_steps(steps: Sequence[RepairStep]) -> None:
    """Raise UsageError if a step needs a package that is not installed."""
    if "mojibake" in steps:
        _ftfy()


def _ftfy() -> Callable[[str], str]:
    try:
        from ftfy import fix_encoding
    except ImportError:
        raise UsageError(
            "repair: mojibake needs ftfy: pip install 'mtkit[data]', or leave it out: "
            "--set clean.repair=[unicode,spaces,entities]"
        ) from None
    return fix_encoding


def _without_entities(text: str) -> str:
    if "&" not in text:
        return text
    return "\n".join(_unescaped(line) if "&" in line and "<" not in line else line for line in text.split("\n"))


def _unescaped(line: str) -> str:
    for _ in range(_MOST_ESCAPES):
        before, line = line, ENTITY.sub(_character, line)
        if line == before:
            break
    return line


def _character(entity: re.Match[str]) -> str:
    text = html.unescape(entity[0])
    return " ".join(text.splitlines()) or (" " if text else entity[0])  # a line break is a space


def _without_mojibake(text: str) -> str:
    if text.isascii() or not _MAYBE_MOJIBAKE.search(text):
        return text
    fix = _ftfy()
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if not line.isascii() and _MAYBE_MOJIBAKE.search(line):
            lines[index] = fix(line).replace("\n", " ")
    return "\n".join(lines)


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _spaced(text: str) -> str:
    text = without_invisible(_ODD_SPACE.sub(" ", text))
    return _AT_ENDS.sub("", _SPACES.sub(" ", text))


_STEPS: dict[str, Callable[[str], str]] = {
    "entities": _without_entities,
    "mojibake": _without_mojibake,
    "unicode": _composed,
    "spaces": _spaced,
}
