"""Two texts in, their words out with what differs marked: for people who look at two translations side by side."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from mtkit.quality.faults import words_of

_PIECE = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")  # a word or a mark with the space before it


def word_differences(a: str, b: str) -> tuple[list[str], list[str]]:
    """Each text in parts that are in turn the same in both (perhaps "") and different; joined, they are the text."""
    a_words, b_words = list(_words(a)), list(_words(b))
    matcher = SequenceMatcher(None, [w.strip() for w in a_words], [w.strip() for w in b_words], autojunk=False)
    a_parts, b_parts = [""], [""]
    opcodes = matcher.get_opcodes()
    for number, (kind, a_start, a_end, b_start, b_end) in enumerate(opcodes):
        # A mark that is the same between two differences (Êtes-vous, Es-tu) is better read as a part of one.
        between = 0 < number < len(opcodes) - 1
        same = kind == "equal" and not (between and not words_of("".join(a_words[a_start:a_end])))
        _append(a_parts, a_words[a_start:a_end], same)
        _append(b_parts, b_words[b_start:b_end], same)
    return a_parts, b_parts


def in_brackets(parts: Sequence[str], start: str, end: str) -> str:
    """The parts as plain text, with brackets around those that differ."""
    return "".join(f"{start}{part}{end}" if number % 2 else part for number, part in enumerate(parts))


def _words(text: str) -> Iterator[str]:
    """Words and marks, each with the space before it; of a script that sets no spaces, each character."""
    for piece in _PIECE.findall(text):
        word = piece.lstrip()
        characters = words_of(word)
        if len(characters) > 1 and "".join(characters) == word:
            yield piece[: len(piece) - len(word)] + characters[0]
            yield from characters[1:]
        else:
            yield piece


def _append(parts: list[str], words: Sequence[str], same: bool) -> None:
    """Add words to the part list, which ends with a part of the same kind or of the other one."""
    text = "".join(words)
    if not text:
        return
    if same == (len(parts) % 2 == 1):
        parts[-1] += text
        return
    bare = text if same else text.lstrip()
    parts[-1] += text[: len(text) - len(bare)]  # the space before a difference is none
    if bare:
        parts.append(bare)
