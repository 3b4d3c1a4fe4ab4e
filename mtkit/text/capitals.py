"""Write text in capitals, and Titles Like This One, as ordinary sentences for a model that has not learnt them.

The case of each word is the one that is most frequent in the training text, so that PARIS becomes Paris and I stays I.
The translation of text in capitals becomes capitals; that of a title keeps the case that its language gives to words.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache

from mtkit.languages import primary_code
from mtkit.text.placeholders import PROSE
from mtkit.text.sentences import FINAL

# Of nats by which a written form must be likelier than that in lower case: He is likelier than he where sentences are
# short, but Paris is much likelier than paris.
_SURELY = 3.0
# Times harder to predict that text in capitals must be than the same text as sentences. In trials with Tatoeba and
# Multi30k (English, French, German), 99 % of the dev sentences were beyond it for tokenizers whose training text had no
# capitals, and at most 8 % where every tenth line was in capitals.
_UNKNOWN = 2.0
# Nats of a word that is so frequent that only a title gives it a capital inside a sentence: of, to, with. In a trial
# with Tatoeba (English, 4,000 pieces), 87 % of the dev sentences had one; names such as New York Times had none.
_FREQUENT = 8.0
_FEWEST_OF_TITLE = 3  # words
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_SENTENCE_START = re.compile(rf"(?:^|[{re.escape(FINAL)}]\s+)\W*\Z")
_MAYBE_KEPT = re.compile(r"[@%{}$<#&:\[_*]|\.\w|(?i:www\.)")  # without such a part, a text has nothing that stays
_LONGEST_GAP = 12  # characters before a word in which the end of a sentence is looked for
_DOTTED = {"tr", "az"}  # languages whose capital of i is İ, and of ı is I


class Capitals:
    """Lowers text in capitals for one model, and raises its translations."""

    def __init__(self, nats: Callable[[str], float], src_lang: str | None, tgt_lang: str | None) -> None:
        """nats: how hard words, with spaces between them, are to predict for the source side of the training text."""
        self._nats = nats
        self._src_lang, self._tgt_lang = src_lang, tgt_lang

    def lowered(self, text: str) -> str | None:
        """Return text in capitals, or a title, as ordinary sentences; None for other text, or if the model knows it.

        Addresses and placeholders stay as they are, and so does the length of the text.
        """
        if is_in_capitals(text):
            lowered = with_words(text, self._lowered)
            own, of_lowered = (self._nats(" ".join(_WORD.findall(_kept().sub(" ", each)))) for each in (text, lowered))
            return lowered if own > _UNKNOWN * of_lowered else None
        return with_words(text, self._lowered) if self._is_title(text) else None

    def _is_title(self, text: str) -> bool:
        """Return whether each word has a capital, also a frequent one that training text surely writes without."""
        if not may_be_title(text):
            return False
        words = list(changeable_words(text))
        return len(words) >= _FEWEST_OF_TITLE and any(
            not _SENTENCE_START.search(text[max(0, word.start() - _LONGEST_GAP) : word.start()])
            and (nats := self._nats(lower(word[0], self._src_lang))) < _FREQUENT
            and nats + _SURELY < self._nats(word[0])
            for word in words
        )

    def raised(self, translation: str) -> str:
        """Return the translation of a lowered text in capitals, but for addresses and placeholders."""
        return in_capitals(translation, self._tgt_lang)

    def _lowered(self, match: re.Match[str], before: str) -> str:
        """Return a word as the training text usually writes it. before: the text before it."""
        word = match[0]
        lowered = lower(word, self._src_lang)
        title = word[0] + lowered[1:]
        forms = [lowered, title, word]
        if len(lowered) != len(word):
            return word
        nats = [self._nats(form) + (0 if form is lowered else _SURELY) for form in forms]
        best = forms[nats.index(min(nats))]
        return title if best == lowered and _SENTENCE_START.search(before) else best


def in_capitals(text: str, lang: str | None) -> str:
    """Return the text in capitals, but for addresses, placeholders and tags."""
    return with_words(text, lambda word, _: upper(word[0], lang))


def may_be_title(text: str) -> bool:
    """Return whether no word begins with a small letter, and not all letters are capitals; decided in a microsecond."""
    return not any(word[0].islower() for word in text.split()) and not text.isupper() and text.lower() != text


def is_in_capitals(text: str) -> bool:
    """Return whether all cased letters of a text are capitals, with two of them in one word at least.

    Addresses and placeholders do not count.
    """
    if not text.isupper() and not any(len(word) > 1 and word.isupper() for word in text.split()):
        return False  # as for most text, which this decides in a microsecond
    text = _kept().sub(" ", text)
    return text.isupper() and any(len(word) > 1 for word in _WORD.findall(text))


def changeable_words(text: str) -> Iterator[re.Match[str]]:
    """Yield the words of a text, without those in addresses, placeholders and tags."""
    at = 0
    for kept in [*(_kept().finditer(text) if _MAYBE_KEPT.search(text) else ()), None]:
        yield from _WORD.finditer(text, at, len(text) if kept is None else kept.start())
        at = len(text) if kept is None else kept.end()


def with_words(text: str, change: Callable[[re.Match[str], str], str]) -> str:
    """Return the text with each changeable word changed.

    change: takes the match of the word, and the text before it.
    """
    parts: list[str] = []
    at = 0
    for word in changeable_words(text):
        parts += [text[at : word.start()], change(word, text[max(0, word.start() - _LONGEST_GAP) : word.start()])]
        at = word.end()
    return "".join([*parts, text[at:]])


@cache
def _kept() -> re.Pattern[str]:
    """Return the pattern of what stays; compiling it takes 50 ms, which most texts need not wait for."""
    return re.compile("|".join((r"<ph\d>", *PROSE)))


def lower(text: str, lang: str | None) -> str:
    """Return the text in lower case, as its language has it."""
    if primary_code(lang or "") in _DOTTED:
        text = text.replace("I", "ı").replace("İ", "i")
    return text.lower()


def upper(text: str, lang: str | None) -> str:
    """Return the text in capitals, as its language has them."""
    if primary_code(lang or "") in _DOTTED:
        text = text.replace("i", "İ")
    return text.upper()
