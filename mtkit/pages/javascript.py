"""Write Python's regular expressions as those of JavaScript, so that a rule of text has one definition.

They match the same text, of code points that both versions of Unicode know. JavaScript's \\w, \\b and \\s are other
characters, and it has no possessive repeats.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

WORD = r"\p{L}\p{N}_"  # what \w of the module re matches, for the inside of a class
WORD_OF_REGEX = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}"  # of the package regex
_PLACES = {sre.AT_BEGINNING: "^", sre.AT_BEGINNING_STRING: "^", sre.AT_END_STRING: "$", sre.AT_END: r"(?=\n?$)"}
_REPEATS = {sre.MAX_REPEAT: "", sre.MIN_REPEAT: "?", sre.POSSESSIVE_REPEAT: ""}
_IN_OTHER_CASE = "\u017f\u212a"  # which Python and JavaScript also take for s and k


def javascript_regex(pattern: re.Pattern[str], word: str = WORD) -> str:
    """Return the source of a regular expression of JavaScript, for its flag u. Group 1 is named g1, and so on.

    word: what \\w matches, for the inside of a class. Raises ValueError for what cannot be written so.
    """
    if pattern.flags & ~(re.UNICODE | re.IGNORECASE):
        raise ValueError(f"{pattern!r}: flags")
    tree = parser.parse(pattern.pattern, pattern.flags)
    names = {number: name for name, number in tree.state.groupdict.items()}
    return _Writer(names, word).sequence(tree, bool(pattern.flags & re.IGNORECASE))


def class_of(is_member: Callable[[str], bool], codes: Iterable[int]) -> str:
    """Return the characters of these code points, in order, that are members, for the inside of a class."""
    ranges: list[list[int]] = []
    for code in codes:
        if not is_member(chr(code)):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(_range(first, last) for first, last in ranges)


def _character(code: int) -> str:
    return chr(code) if code < 128 and chr(code).isalnum() else rf"\x{code:02x}" if code < 256 else rf"\u{{{code:x}}}"


def _range(first: int, last: int) -> str:
    return _character(first) if first == last else f"{_character(first)}-{_character(last)}"


_LAST_SPACE = 0x3000
_SPACE = class_of(str.isspace, range(_LAST_SPACE + 1))
_NO_SPACE = class_of(lambda character: not character.isspace(), range(_LAST_SPACE)) + _range(_LAST_SPACE + 1, 0x10FFFF)
_CATEGORIES = {sre.CATEGORY_DIGIT: r"\p{Nd}", sre.CATEGORY_NOT_DIGIT: r"\P{Nd}"}
_CATEGORIES |= {sre.CATEGORY_SPACE: _SPACE, sre.CATEGORY_NOT_SPACE: _NO_SPACE}


class _Writer:
    """Writes the parts of one expression."""

    def __init__(self, names: dict[int, str], word: str) -> None:
        self._names, self._word = names, word
        self._n_atomic = 0

    def sequence(self, items: Iterable[tuple[Any, Any]], any_case: bool) -> str:
        return "".join(self._item(kind, value, any_case) for kind, value in items)

    def _item(self, kind: Any, value: Any, any_case: bool) -> str:
        if kind is sre.LITERAL:
            return _one_of(_cases(value)) if any_case else _character(value)
        if kind is sre.NOT_LITERAL:
            return _one_of(_cases(value) if any_case else [value], negated=True)
        if kind is sre.ANY:
            return r"[^\n]"
        if kind is sre.IN:
            return self._class(value, any_case)
        if kind is sre.AT and value is sre.AT_BOUNDARY:
            return f"(?:(?<=[{self._word}])(?![{self._word}])|(?<![{self._word}])(?=[{self._word}]))"
        if kind is sre.AT and value in _PLACES:
            return _PLACES[value]
        if kind is sre.BRANCH:
            return f"(?:{'|'.join(self.sequence(branch, any_case) for branch in value[1])})"
        if kind is sre.SUBPATTERN:
            number, added, removed, inside = value
            any_case = (any_case or bool(added & re.IGNORECASE)) and not removed & re.IGNORECASE
            opening = "?:" if number is None else f"?<{self._name(number)}>"
            return f"({opening}{self.sequence(inside, any_case)})"
        if kind is sre.GROUPREF:
            return rf"\k<{self._name(value)}>"
        if kind in (sre.ASSERT, sre.ASSERT_NOT):
            direction, inside = value
            sign = "=" if kind is sre.ASSERT else "!"
            return f"(?{'<' if direction < 0 else ''}{sign}{self.sequence(inside, any_case)})"
        if kind is sre.ATOMIC_GROUP:
            return self._atomic(self.sequence(value, any_case))
        if kind in _REPEATS:
            least, most, inside = value
            many = f"{{{least},{'' if most is sre.MAXREPEAT else most}}}"
            repeated = f"(?:{self.sequence(inside, any_case)}){many}{_REPEATS[kind]}"
            return self._atomic(repeated) if kind is sre.POSSESSIVE_REPEAT else repeated
        raise ValueError(f"{kind} {value}: JavaScript has no such part of a regular expression")

    def _name(self, number: int) -> str:
        return self._names.get(number, f"g{number}")

    def _atomic(self, inside: str) -> str:
        """Return what matches once and for all: a look ahead is never tried again."""
        self._n_atomic += 1
        return rf"(?:(?=(?<a{self._n_atomic}>{inside}))\k<a{self._n_atomic}>)"

    def _class(self, items: Sequence[tuple[Any, Any]], any_case: bool) -> str:
        """Return a class of characters. \\W cannot be in one, so it becomes an alternative."""
        negated, beside_words, members = False, False, ""
        for kind, value in items:
            if kind is sre.NEGATE:
                negated = True
            elif kind is sre.LITERAL:
                members += "".join(map(_character, _cases(value) if any_case else [value]))
            elif kind is sre.RANGE and not any_case:
                members += _range(*value)
            elif kind is sre.RANGE:
                members += "".join(_character(case) for code in range(value[0], value[1] + 1) for case in _cases(code))
            elif value is sre.CATEGORY_NOT_WORD:
                beside_words = True
            else:
                members += self._word if value is sre.CATEGORY_WORD else _CATEGORIES[value]
        if not beside_words:
            return f"[{'^' if negated else ''}{members}]"
        if negated:
            return f"(?:(?![{members}])[{self._word}])"
        return f"(?:[{members}]|[^{self._word}])"


def _cases(code: int) -> list[int]:
    """Return the code points that match this one in any case."""
    letter = chr(code)
    others = {*letter, *letter.lower(), *letter.upper(), *letter.upper().lower(), *_IN_OTHER_CASE}
    is_same = re.compile(re.escape(letter), re.IGNORECASE).fullmatch
    return sorted(ord(other) for other in others if is_same(other))


def _one_of(codes: Sequence[int], *, negated: bool = False) -> str:
    if len(codes) == 1 and not negated:
        return _character(codes[0])
    return f"[{'^' if negated else ''}{''.join(map(_character, codes))}]"
