"""Misspell words as people do who type, and read such words as those of the training text that they stand for.

A word is read as another one if the training text never has it, and if one typo, or accents that were left out, make it
of a frequent word that is clearly likelier than others. Words with a capital may be names: only those that begin a
sentence are read so, as words that are usually small. In a text with as many other unknown words, they are probably
right, so all stay.
"""

import re
import unicodedata
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

from mtkit.languages import primary_code
from mtkit.text.capitals import changeable_words, is_in_identifier, starts_sentence
from mtkit.text.characters import without_accents
from mtkit.text.scripts import scripts_of

# How often the training text must have a word that another one is read as: in all, and as a share of its words. In
# trials with Tatoeba (English, German, French), 2 instead of 10 times changed two to four times as many right words.
FEWEST = 10
_LEAST_SHARE = 1e-5
_MOST_REMEMBERED = 100_000  # unknown words
CLEARLY = 3  # times as frequent as the next word that it may stand for
_IN_WORDS = {"Mn", "Mc", "Me", "Cf"}  # categories of characters inside words: accents, vowel signs, soft hyphens
SHORTEST = 3  # letters of a word in which a typo can be told from another word
# Letters that keys write one by one: Latin to Arabic, Georgian, and Latin and Greek with accents.
TYPED = re.compile(r"[^\W\d_\u0700-\u109f\u1100-\u1dff\u2000-\U0010ffff]+(?:['’][^\W\d_\u0700-\U0010ffff]+)*")
# The rows of letters of keyboards by script and, where they differ, by language; each row begins further to the right.
_QWERTZ = "qwertzuiop", "asdfghjkl", "yxcvbnm"
_ROWS = {
    "Latin": ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    "Cyrillic": ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"),
    "Greek": (" ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ"),
    **dict.fromkeys(("de", "cs", "sk", "sl", "hr", "hu", "sq"), _QWERTZ),
    "fr": ("azertyuiop", "qsdfghjklm", "wxcvbn"),
}


def misspelt(word: str, random: Random, lang: str | None) -> str:
    """Return a word with one typo; the first letter stays, because people rarely get it wrong."""
    i = random.randrange(1, len(word))
    before, letter, after = word[:i], word[i], word[i + 1 :]
    kind = random.choice(("neighbour", "doubled", "missing", "swapped"))
    if kind == "neighbour" and (keys := neighbours(lang).get(letter.lower())):
        key = random.choice(keys)
        return before + (key.upper() if letter.isupper() else key) + after
    if kind == "doubled":
        return before + 2 * letter + after
    if kind == "swapped" and after and letter != after[0]:
        return before + after[0] + letter + after[1:]
    return before + after


@cache
def neighbours(lang: str | None) -> dict[str, str]:
    """Return the keys around each key on the keyboard of a language; {} if mtkit does not know it."""
    script = (scripts_of(lang) or ("Latin",))[0]
    rows: Sequence[str] = _ROWS.get(primary_code(lang or "")) or _ROWS.get(script) or ()
    keys = {(row, i): key for row, letters in enumerate(rows) for i, key in enumerate(letters) if key != " "}
    steps = (0, -1), (0, 1), (1, -1), (1, 0), (-1, 0), (-1, 1)
    return {
        key: "".join(keys[place] for down, right in steps if (place := (row + down, i + right)) in keys)
        for (row, i), key in keys.items()
    }


def _once_mistyped(word: str, letters: str, lang: str | None) -> Iterator[str]:
    """Yield the words that `misspelt` may make this one of. letters: those that may be missing."""
    keys = neighbours(lang)
    for i in range(1, len(word)):
        before, letter, after = word[:i], word[i], word[i + 1 :]
        yield from (before + key + after for key in keys.get(letter, ""))
        if letter == before[-1]:
            yield before + after
        if after:
            yield before + after[0] + letter + after[1:]
    yield from (word[:i] + letter + word[i:] for i in range(1, len(word) + 1) for letter in letters)


def checksum(word: str) -> int:
    """Return the number by which a rare word is known, so that a bundle does not list names and the like."""
    return zlib.crc32(word.lower().encode("utf-8", "replace"))


def _is_fragment(word: re.Match[str]) -> bool:
    """Return whether letters are only a part of a word, because an accent or a soft hyphen stands next to them."""
    before, after = word.string[max(0, word.start() - 1) : word.start()], word.string[word.end() : word.end() + 1]
    return any(unicodedata.category(character) in _IN_WORDS for character in before + after)


def frequent_words(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the words of a text that others may be read as. counts: of its words."""
    least = max(FEWEST, _LEAST_SHARE * sum(counts.values()))
    return {word: n for word, n in counts.items() if n >= least}


class Respelt(NamedTuple):
    """A text as it is read."""

    text: str
    words: tuple[tuple[str, str], ...] = ()  # that are read as others: as they are written, as they are read


class Spelling:
    """Reads words with a typo as words of the training text."""

    def __init__(self, counts: Mapping[str, int], lang: str | None, rare: Collection[int] = ()) -> None:
        """counts: how often the training text has each word. lang: of that text, which decides about the keyboard.

        rare: checksums of further words of the text.
        """
        self._lang, self._rare = lang, rare
        self._known = {word.lower() for word in counts}
        self._frequent = frequent_words(counts)
        self._longest = max(map(len, self._frequent), default=0)
        self._letters = "".join(sorted({letter for word in self._frequent for letter in word.lower()}))
        self._accented: dict[str, list[str]] = {}
        for word in self._frequent:
            if (plain := without_accents(word)) != word:
                self._accented.setdefault(plain, []).append(word)
        self._meant: dict[str, str | None] = {}

    def read(self, text: str, kept: Sequence[str] = (), known: Collection[str] = (), before: str = "") -> Respelt:
        """Return the text as it is read.

        kept: parts of it whose words stay. known: words that stay, in lower case. before: what stands before the text.
        """
        parts: list[str] = []
        words: list[tuple[str, str]] = []
        at = n_unknown = 0
        for match in changeable_words(text):
            word, lowered = match[0], match[0].lower()
            if lowered in self._known or lowered in known or len(word) < SHORTEST or is_in_identifier(match):
                continue
            if checksum(word) in self._rare or _is_fragment(match):
                continue
            is_small = word.islower()
            if not is_small and not (word[1:].islower() and starts_sentence(before + text[: match.start()])):
                continue
            if not TYPED.fullmatch(word) or any(word in part for part in kept):
                continue
            meant = self._meant_by(word) if is_small else self._meant_at_start(word)
            if meant is None:
                n_unknown += 1
                continue
            parts += [text[at : match.start()], meant]
            at = match.end()
            words.append((word, meant))
        return Respelt("".join([*parts, text[at:]]), tuple(words)) if len(words) > n_unknown else Respelt(text)

    def _meant_at_start(self, word: str) -> str | None:
        """Return what a word with a capital stands for: one that the text often has with a capital, and without it."""
        meant = self._meant_by(word.lower())
        title = None if meant is None else meant[0].upper() + meant[1:]
        return title if title in self._frequent else None

    def _meant_by(self, word: str) -> str | None:
        """Return what an unknown word in small letters stands for; None if that is not clear."""
        if len(word) > self._longest + 1:
            return None
        meant = self._meant.get(word, "")  # at once, because another thread may clear what is remembered
        if meant == "":
            if len(self._meant) >= _MOST_REMEMBERED:  # a service sees new words for as long as it runs
                self._meant.clear()
            likely = {each for each in _once_mistyped(word, self._letters, self._lang) if each in self._frequent}
            likely.update(self._accented.get(without_accents(word), ()))
            best = sorted(likely, key=lambda each: self._frequent[each], reverse=True)[:2]
            counts = [self._frequent[each] for each in best]
            meant = best[0] if len(best) == 1 or (best and counts[0] >= CLEARLY * counts[1]) else None
            self._meant[word] = meant
        return meant
