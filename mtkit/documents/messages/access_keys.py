"""Remove the marks of access keys from labels of programs, such as &File and _File, and add them to translations."""

import re
from collections.abc import Sequence

from mtkit.text.inline_tags import ENTITY
from mtkit.text.placeholders import placeholder_pattern

_MOST_WORDS = 8  # of a label
_MOST_CHARACTERS = 200
_MARK = re.compile(r"(?P<mark>[&_])(?P<letter>[^\W_])")
_BEHIND = re.compile(r" ?\((?P<mark>[&_])(?P<letter>[^\W_])\)")  # as in Chinese: 文件(&F)
_KEYLESS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")  # no key writes these
_END = re.compile(r"[\s.:…。:]*\Z")


def without_key(text: str, marks: str = "&_") -> tuple[str, str]:
    """Return a label without the mark of its access key, and mark and letter, such as "&F"; "" if there is none.

    A mark occurs once, before a letter of a word: not as in AT&T, file_name, %{file_name} or &amp;.
    marks: the characters that are marks.
    """
    if len(text) > _MOST_CHARACTERS or len(text.split()) > _MOST_WORDS:
        return text, ""
    if not any(mark in text for mark in marks):
        return text, ""
    kept = [match.span() for match in placeholder_pattern().finditer(text)]
    for pattern in (_BEHIND, _MARK):
        for found in pattern.finditer(text):
            if found["mark"] not in marks or _is_in(found.start("mark"), kept):
                continue
            if text.count(found["mark"]) == 1 and (pattern is _BEHIND or _is_key(text, found)):
                mark = found.end() if pattern is _BEHIND else found.start() + 1
                return text[: found.start()] + text[mark:], found["mark"] + found["letter"]
    return text, ""


def _is_key(text: str, found: re.Match[str]) -> bool:
    start = found.start()
    if "://" in text or (found["mark"] == "&" and ENTITY.match(text, start)):
        return False
    if start == 0 or not (text[start - 1].isalnum() or text[start - 1] in "_%$&#@=?{-./\\"):
        return True
    is_label = text[:1].isupper() and len(text.split()) <= _MOST_WORDS // 2
    return text[start - 1].isalpha() and found["letter"].islower() and (found["mark"] == "&" or is_label)


def with_key(text: str, key: str, taken: Sequence[tuple[int, int]] = ()) -> str:
    """Return a label with an access key: the letter of the source if the label has it, or else its first letter.

    key: mark and letter; a label in a script that no key writes gets them in brackets behind it.
    taken: parts of the text that must not get a mark, such as tags. A text that already has the mark is unchanged.
    """
    mark, letter = key[0], key[1]
    if mark in text:
        return text
    free = [index for index, character in enumerate(text) if character.isalnum() and not _is_in(index, taken)]
    like = [index for index in free if text[index].lower() == letter.lower()]
    first = [index for index in free if index == 0 or not text[index - 1].isalnum()]
    best = [*[index for index in first if index in like], *like]
    if not best and _KEYLESS.search(text):
        end = _END.search(text)
        assert end is not None
        return f"{text[: end.start()]}({key.upper()}){text[end.start() :]}"
    places = [*best, *first]
    return f"{text[: places[0]]}{mark}{text[places[0] :]}" if places else text


def _is_in(index: int, intervals: Sequence[tuple[int, int]]) -> bool:
    return any(start <= index < end for start, end in intervals)
