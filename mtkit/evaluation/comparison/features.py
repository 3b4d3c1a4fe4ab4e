"""Sort the sentences of a test set into buckets by features: length, rarity, names, numbers, negation, questions.

All features are simple rules that need no model. Each sentence is in one bucket of every feature.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mtkit.languages import primary_code
from mtkit.quality import number_words
from mtkit.quality.negation import has_negation
from mtkit.text.sentences import FINAL, QUESTIONS, final_marks, without_closing
from mtkit.text.words import LETTERS, words_of

_LENGTHS = (5, 10, 20, 40)  # largest number of words in each length bucket but the last
_FREQUENCIES = (1, 10, 100, 1000)  # smallest count in each rarity bucket but the first
NO_WORDS = "no words"
_INVERTED_QUESTION = re.compile(r"\s*[\"'“‘«(]?¿")
_GREEK_QUESTION = ";"
_CAPITALISED_NOUNS = frozenset({"de", "lb"})  # languages that capitalise every noun
_SENTENCE_START = re.compile(rf"(?:^|[{FINAL}:;：；]|\s[-–—])[\s\"'“”‘’«»„‚(\[¿¡-]*$")
_NAME = re.compile(rf"{LETTERS}(?:['’-]{LETTERS})*")
_MIN_LETTERS = 3  # the reference may have shorter capitalised words by chance
_CAPITAL_PRONOUNS = frozenset({"i"})  # English capitalises it


@dataclass(frozen=True)
class Feature:
    """A property that sorts sentences into buckets."""

    name: str
    how: str  # how it is determined, for reports
    buckets: tuple[str, ...]  # in their natural order, each with at least one sentence
    bucket_of: tuple[str, ...]  # of each sentence

    def indices(self, bucket: str) -> list[int]:
        """Return the indices of the sentences in this bucket."""
        return [index for index, name in enumerate(self.bucket_of) if name == bucket]


class TrainingWords:
    """The counts of a test set's words in the training text."""

    def __init__(self, sources: Iterable[str]) -> None:
        self.counts: Counter[str] = Counter()
        self._wanted = {word for source in sources for word in _plain_words(source)}
        self.n_lines = 0

    def add(self, line: str) -> None:
        """Count the words of the next line of training text."""
        self.n_lines += 1
        self.counts.update(word for word in _plain_words(line) if word in self._wanted)


def find_features(
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    src_lang: str | None = None,
    training: TrainingWords | None = None,
) -> list[Feature]:
    """Return the features of a test set, without those that need missing information.

    references: one or more whole sets. src_lang: such as "en", for negation; training: for rarity.
    """
    features = [_source_length(sources)]
    if training is not None:
        features.append(_rarest_word(sources, training))
    features.append(_numbers(sources, src_lang))
    if (names := _names(sources, references, src_lang)) is not None:
        features.append(names)
    if src_lang is not None and has_negation("", src_lang) is not None:
        how = f"a negating word of the language {src_lang!r} in the source"
        negated = [bool(has_negation(source, src_lang)) for source in sources]
        features.append(_yes_or_no("negation", how, "negated", "not negated", negated))
    how = "a question mark at the end of the source"
    questions = [is_question(source, src_lang) for source in sources]
    features.append(_yes_or_no("questions", how, "question", "no question", questions))
    return features


def is_question(text: str, lang: str | None = None) -> bool:
    """Return whether the text ends with a question mark of any script, or begins with an inverted one."""
    if lang == "el" and without_closing(text).endswith(_GREEK_QUESTION):
        return True
    return not QUESTIONS.isdisjoint(final_marks(text)) or _INVERTED_QUESTION.match(text) is not None


def names_in(source: str, references: Sequence[str], lang: str | None = None) -> list[str]:
    """Return the words of the source that look like names.

    These are capitalised words within a sentence, and capitalised words anywhere that a reference has, too. In
    languages that capitalise every noun only the second rule counts. A text in capitals, or in a script without them,
    has no names by these rules.
    """
    if source.upper() == source:
        return []
    of_references = {_without_s(word) for reference in references for word in _NAME.findall(reference)}
    names = []
    for match in _NAME.finditer(source):
        word = match[0]
        if not word[0].isupper() or word.split("'")[0].split("’")[0].casefold() in _CAPITAL_PRONOUNS:
            continue
        inside = lang not in _CAPITALISED_NOUNS and not _SENTENCE_START.search(source[: match.start()])
        if inside or (len(word) >= _MIN_LETTERS and _without_s(word) in of_references):
            names.append(word)
    return names


def _without_s(word: str) -> str:
    """Return Tom for Tom's."""
    return re.sub(r"['’]s$", "", word)


def _source_length(sources: Sequence[str]) -> Feature:
    names = _ranges(1, [most + 1 for most in _LENGTHS], "words")

    def bucket(source: str) -> str:
        n = len(words_of(source))
        return NO_WORDS if not n else names[sum(n > most for most in _LENGTHS)]

    return _feature("source length", "words of the source", (NO_WORDS, *names), map(bucket, sources))


def _rarest_word(sources: Sequence[str], training: TrainingWords) -> Feature:
    names = ["never seen", *_ranges(_FREQUENCIES[0], _FREQUENCIES[1:], "times")]

    def bucket(source: str) -> str:
        words = _plain_words(source)
        if not words:
            return NO_WORDS
        rarest = min(training.counts[word] for word in words)
        return names[sum(rarest >= fewest for fewest in _FREQUENCIES)]

    how = f"count of the source's rarest word (without digits) in the {training.n_lines:,} training lines"
    return _feature("rarest word", how, (*names, NO_WORDS), map(bucket, sources))


def _names(sources: Sequence[str], references: Sequence[Sequence[str]], lang: str | None) -> Feature | None:
    """Return the feature; None for a script without capital letters."""
    if not any(c.isupper() or c.islower() for source in sources for c in source):
        return None
    language = primary_code(lang)
    inside = "" if language in _CAPITALISED_NOUNS else "a capitalised word within a sentence, or "
    how = f"{inside}a capitalised word that the reference has, too"
    given = zip(*references, strict=True)
    named = [bool(names_in(source, refs, language)) for source, refs in zip(sources, given, strict=True)]
    return _yes_or_no("names", how, "with names", "without names", named)


def _numbers(sources: Sequence[str], lang: str | None) -> Feature:
    knows_words = primary_code(lang) in number_words.LANGUAGES
    in_digits, in_words, none = "in digits", "in words only", "without numbers"

    def bucket(source: str) -> str:
        if _has_digit(source):
            return in_digits
        # "one" is a pronoun, and in other languages an article, too
        return in_words if knows_words and any(n > 1 for n in number_words.numbers_in_words(source)) else none

    how = "a digit in the source" + (", or a number of two and more in words" if knows_words else "")
    return _feature("numbers", how, (in_digits, in_words, none), map(bucket, sources))


def _yes_or_no(name: str, how: str, yes: str, no: str, is_so: Sequence[bool]) -> Feature:
    return _feature(name, how, (yes, no), (yes if holds else no for holds in is_so))


def _feature(name: str, how: str, buckets: Sequence[str], bucket_of: Iterable[str]) -> Feature:
    by_sentence = tuple(bucket_of)
    return Feature(name, how, tuple(bucket for bucket in buckets if bucket in by_sentence), by_sentence)


def _has_digit(text: str) -> bool:
    return any(c.isdigit() for c in text)


def _plain_words(text: str) -> list[str]:
    """Return the words that count for rarity: case-folded, without words that contain digits."""
    return [word for word in words_of(text.casefold()) if not _has_digit(word)]


def _ranges(first: int, starts: Sequence[int], unit: str) -> list[str]:
    """Return bucket names such as "1–5 words", "6–10 words", "11+ words"."""
    bounds = [first, *starts, math.inf]
    names = []
    for low, high in itertools.pairwise(bounds):
        names.append(f"{low:,}+ {unit}" if high == math.inf else f"{low:,}–{high - 1:,} {unit}")
    return names
