"""Write text in capitals, Titles Like This One, and text without capitals, as ordinary sentences for the model.

The case of each word is the one that is most frequent in the training text, so that PARIS and paris become Paris, and I
stays I. The translation of text in capitals becomes capitals; that of a heading or the like without capitals begins
with a small letter if its first word usually has one; others keep the case that their language gives to words.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Literal, NamedTuple

from mtkit.languages import primary_code
from mtkit.text.placeholders import PROSE
from mtkit.text.sentences import FINAL, ends_with_abbreviation, final_marks
from mtkit.text.words import LETTERS

# Of nats by which a written form must be likelier than that in lower case: He is likelier than he where sentences are
# short, but Paris is much likelier than paris.
_SURELY = 3.0
# Times harder to predict that text in capitals must be than the same text as sentences. In trials with Tatoeba and
# Multi30k (English, French, German), 99 % of the dev sentences were beyond it for tokenizers whose training text had no
# capitals, and at most 8 % where every tenth line was in capitals.
_UNKNOWN = 2.0
# Nats of a word that is so frequent that only a title gives it a capital inside a sentence: of, to, with. In a trial
# with Tatoeba (English, 4,000 pieces), 87 % of the dev sentences had one; names such as New York Times had none. With
# the other rule of `Capitals._is_title`, 96 % are read as sentences (English; French 92 %, German 90 %).
_FREQUENT = 8.0
_FEWEST_OF_TITLE = 3  # words
WORD = re.compile(rf"{LETTERS}(?:['’]{LETTERS})*")
_FINAL_SPACED = rf"[{re.escape(FINAL)}]\s"
_SENTENCE_START = re.compile(rf"(?:^\W*|{_FINAL_SPACED}(?:(?!{_FINAL_SPACED})\W)*)\Z")  # from the last one: linear
_MAYBE_KEPT = re.compile(r"[@%{}$<#&:\[_*]|\.\w|(?i:www\.)")  # without such a part, a text has nothing that stays
_LONGEST_GAP = 12  # characters before a word in which the end of a sentence is looked for
_POLITE = {  # pronouns that mean "you" with a capital, and something else without it
    "da": {"de", "dem", "deres", "i"},
    "de": {"sie", "ihnen", "ihr", "ihre", "ihrem", "ihren", "ihrer", "ihres"},
    "it": {"lei"},
}
_DOTTED = {"tr", "az"}  # languages whose capital of i is İ, and of ı is I


Case = Literal["capitals", "small", "sentence"]  # all are capitals or small; small letters that end with a final mark


class PartOf(NamedTuple):
    """The text that a part of it belongs to."""

    before: str  # what stands before the part
    case: Case | None  # see `Usual`


class Usual(NamedTuple):
    """A text as a model is to read it."""

    text: str
    case: Case | None  # which `Capitals.like` gives to the translation; None: it stays as it is


class Capitals:
    """Gives text the case that one model has learnt, and its translations that of the text."""

    def __init__(
        self,
        nats: Callable[[str], float],
        src_lang: str | None,
        tgt_lang: str | None,
        tgt_nats: Callable[[str], float] | None = None,
    ) -> None:
        """nats: how hard words, with spaces between them, are to predict for the source side of the training text.

        tgt_nats: the same for its target side; None: translations keep their first letter.
        """
        self._nats, self._tgt_nats = nats, tgt_nats
        self._src_lang, self._tgt_lang = src_lang, tgt_lang

    def usual(self, text: str, part_of: PartOf | None = None) -> Usual | None:
        """Return text in capitals, a title, or text without capitals, as ordinary sentences; None for other text.

        None, too, for text in capitals or a title that the model knows. Addresses and placeholders stay as they are,
        and so does the length of the text. part_of: the longer text that it is cut from; if it has capitals, a
        part without them stays as it is.
        """
        if is_in_small_letters(text):
            before, case = part_of or ("", "small")
            if case not in ("small", "sentence"):
                return None
            case, near = "sentence" if final_marks(text) else case, before[-_LONGEST_GAP:]
            raised = with_words(text, lambda word, before: self._raised(word, near + before))
            return Usual(raised, case) if part_of or raised != text else None
        if is_in_capitals(text):
            lowered = with_words(text, self._lowered)
            own, of_lowered = (self._nats(" ".join(WORD.findall(_kept().sub(" ", each)))) for each in (text, lowered))
            return Usual(lowered, "capitals") if own > _UNKNOWN * of_lowered else None
        return Usual(with_words(text, self._lowered), None) if self._is_title(text) else None

    def _is_title(self, text: str) -> bool:
        """Return whether each word has a capital, also those that the training text surely writes without.

        One frequent word of these is enough, or any if the text ends with a final mark and begins with a frequent word,
        as sentences do and names do not.
        """
        if not may_be_title(text):
            return False
        words = list(changeable_words(text))
        if len(words) < _FEWEST_OF_TITLE:
            return False
        inside = [w for w in words if not _SENTENCE_START.search(text[max(0, w.start() - _LONGEST_GAP) : w.start()])]
        nats = [(self._nats(lower(word[0], self._src_lang)), self._nats(word[0])) for word in inside]
        small = [of_small for of_small, of_title in nats if of_small + _SURELY < of_title]
        if min(small, default=_FREQUENT) < _FREQUENT:
            return True
        first = min(map(self._nats, (words[0][0], lower(words[0][0], self._src_lang))))
        return bool(small) and first < _FREQUENT and bool(final_marks(text))

    def like(self, case: Case, translation: str) -> str:
        """Return the translation of a text that was in this case; that of a sentence keeps its capitals.

        Addresses and placeholders stay as they are.
        """
        if case == "capitals":
            return in_capitals(translation, self._tgt_lang)
        first = WORD.match(translation)
        if case == "sentence" or first is None or self._tgt_nats is None or self._may_be_polite(first[0]):
            return translation
        small = lower(first[0][0], self._tgt_lang) + first[0][1:]
        is_usual = self._tgt_nats(small) <= self._tgt_nats(first[0]) + _SURELY
        return small + translation[len(first[0]) :] if is_usual else translation

    def _may_be_polite(self, word: str) -> bool:
        """Return whether a word means you, and another person without its capital."""
        return lower(word, None) in _POLITE.get(primary_code(self._tgt_lang or ""), ())

    def _raised(self, match: re.Match[str], before: str) -> str:
        """Return a word in small letters as the training text usually writes it. before: the text before it."""
        word = match[0]
        capitals, initial = upper(word, self._src_lang), upper(word[0], self._src_lang)
        if len(initial) != 1 or is_in_identifier(match):
            return word
        title = initial + word[1:]
        forms = (word, title, capitals) if len(capitals) == len(word) else (word, title)  # ß becomes SS
        nats = {form: self._nats(form) + (0 if form is word else _SURELY) for form in forms}
        best = min(nats, key=nats.__getitem__)
        return title if best == word and starts_sentence(before) else best

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
        # In small letters, because DOG. would look like an abbreviation such as Mr.
        return title if best == lowered and starts_sentence(lower(before, self._src_lang)) else best


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
    return text.isupper() and any(len(word) > 1 for word in WORD.findall(text))


def is_in_small_letters(text: str) -> bool:
    """Return whether most letters of a text have case, and none is a capital; decided in microseconds."""
    return text.islower() and 2 * sum(map(str.islower, text)) > sum(map(str.isalpha, text))


def is_in_identifier(word: re.Match[str]) -> bool:
    """Return whether a word is a part of something like order_id, 3rd, $name, foo.py or `ls`."""
    text = word.string
    before, after = text[max(0, word.start() - 1) : word.start()], text[word.end() : word.end() + 2]
    is_dotted = before == "." or (after[:1] == "." and after[1:].isalnum())
    return is_dotted or any(letter.isdigit() or letter in "_/\\@$`" for letter in before + after[:1])


def starts_sentence(before: str) -> bool:
    """Return whether a sentence starts behind this text, such as the last characters before a word."""
    return bool(_SENTENCE_START.search(before)) and not ends_with_abbreviation(before)


def changeable_words(text: str) -> Iterator[re.Match[str]]:
    """Yield the words of a text, without those in addresses, placeholders and tags."""
    at = 0
    for kept in [*(_kept().finditer(text) if _MAYBE_KEPT.search(text) else ()), None]:
        yield from WORD.finditer(text, at, len(text) if kept is None else kept.start())
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


def patterns() -> dict[str, re.Pattern[str]]:
    """Return the patterns by which `changeable_words` and `starts_sentence` decide, for the page of browsers."""
    return {"word": WORD, "sentenceStart": _SENTENCE_START, "maybeKept": _MAYBE_KEPT, "kept": _kept()}


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
