"""Checks of what a translation holds: numbers, negation, names, emoji, phrases, and that nothing looks broken."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from mtkit.config.schema import Section
from mtkit.evaluation.behaviour.check import Case, Check, Languages, Row, SentencesCheck
from mtkit.quality.faults import FaultKind, find_faults
from mtkit.quality.negation import LANGUAGES, has_negation
from mtkit.quality.number_words import numbers_in_words
from mtkit.quality.numbers import lost_numbers

# A single text may stand for a list of one.
_Texts = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]

_PICTURE = (  # with its skin colour
    "[\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b00-\u2bff]"
    "[\U0001f3fb-\U0001f3ff]?"
)
_EMOJI = re.compile(  # flags, keys, and pictures joined to one
    rf"[\U0001f1e6-\U0001f1ff]{{2}}|[0-9#*]\u20e3|{_PICTURE}(?:\u200d{_PICTURE})*"
)
_DRAWN_IN_COLOUR = "\ufe0f"  # how an emoji asks to be drawn; some systems drop it
_FAULTS: dict[FaultKind, str] = {
    "empty": "empty",
    "loop": "repeats itself:",
    "length": "unlikely length:",
    "copy": "copies the source",
    "number": "loses the number",
    "url": "loses the address",
}


class SoundCheck(SentencesCheck):
    """Nothing looks broken that can be seen without a reference."""

    check: Literal["sound"] = "sound"
    faults: list[FaultKind] = Field(
        ["empty", "loop", "length", "copy", "number", "url"],
        min_length=1,
        description="what is looked for: empty, loop, length, copy, number, url",
    )

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """The faults that are found."""
        found = find_faults(case.sources[0], texts[0], tgt_lang=languages.tgt)
        shown = [f"{_FAULTS[fault.kind]} {fault.detail}".rstrip(": ") for fault in found if fault.kind in self.faults]
        return "; ".join(shown)


class NumbersCheck(SentencesCheck):
    """Numbers are kept, whether in digits or in words, and none are made up."""

    nothing = "has no number in digits (numbers in words count with in_words: true)"
    check: Literal["numbers"] = "numbers"
    in_words: bool = Field(False, description="look at numbers that the source spells out, too, from two on")

    def cases_of(self, row: Row, languages: Languages) -> list[Case]:
        """The row if it holds a number."""
        holds_one = any(c.isdigit() for c in row[0]) or self._spelt(row[0])
        return super().cases_of(row, languages) if holds_one else []

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """The numbers that are lost or made up."""
        src, text = case.sources[0], texts[0]
        lost = lost_numbers(src, text, tgt_lang=languages.tgt)
        lost += [value for value in self._spelt(src) if lost_numbers(value, text, tgt_lang=languages.tgt)]
        made_up = lost_numbers(text, src, tgt_lang=languages.src)
        return "; ".join([*(f"{n} is lost" for n in lost), *(f"{n} is not in the source" for n in made_up)])

    def _spelt(self, text: str) -> list[str]:
        return [str(value) for value in numbers_in_words(text) if value >= 2] if self.in_words else []


class NegationPair(Section):
    """Two sentences that differ in a negation."""

    plain: str = Field(min_length=1, description="the sentence without negation")
    negated: str = Field(min_length=1, description="the sentence with it")


class NegationCheck(Check):
    """A negated sentence stays negated, its counterpart does not become it."""

    items = "pairs"
    nothing = "lacks one of its two sentences"
    n_columns = 2
    check: Literal["negation"] = "negation"
    pairs: list[NegationPair] = Field([], description="sentences without and with negation")
    words: _Texts = Field([], description="words that deny in the target language, in place of those known for it")

    def rows(self) -> list[Row]:
        """The two sentences of each pair."""
        return [(pair.plain, pair.negated) for pair in self.pairs]

    def cases(self, rows: Sequence[Row], languages: Languages) -> list[tuple[set[int], Case]]:
        """As for any check; words that deny have to be known."""
        if not self.words and has_negation("", languages.tgt) is None:
            known = ", ".join(sorted(LANGUAGES))
            raise ValueError(
                f"words that deny are known for {known}, not for tgt_lang={languages.tgt}; list them as words: [...]"
            )
        return super().cases(rows, languages)

    def cases_of(self, row: Row, languages: Languages) -> list[Case]:
        """Both sentences together."""
        plain, negated = (text.strip() for text in row[:2])
        return [Case((plain, negated))] if plain and negated else []

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Which of the two translations is on the wrong side."""
        plain, negated = (self._denies(text, languages) for text in texts)
        problems = ["the first is negated, its source is not"] if plain else []
        return "; ".join(problems + ([] if negated else ["the negation is lost"]))

    def _denies(self, text: str, languages: Languages) -> bool:
        if self.words:
            return any(_holds(text, word) for word in self.words)
        return bool(has_negation(text, languages.tgt))


class NamesCheck(SentencesCheck):
    """Names are kept, letter by letter."""

    nothing = "holds none of the names"
    check: Literal["names"] = "names"
    names: list[str] = Field(
        min_length=1, description="the names; forms that are accepted with a bar between: London|Londres"
    )

    def cases_of(self, row: Row, languages: Languages) -> list[Case]:
        """The row if it holds a name."""
        return super().cases_of(row, languages) if any(_name_in(row[0], name) for name in self.names) else []

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """The names that are lost."""
        names = [name for name in self.names if _name_in(case.sources[0], name)]
        return "; ".join(f"{name} is lost" for name in names if not _name_in(texts[0], name))


class EmojiCheck(SentencesCheck):
    """Emoji are kept."""

    nothing = "has no emoji"
    check: Literal["emoji"] = "emoji"

    def cases_of(self, row: Row, languages: Languages) -> list[Case]:
        """The row if it holds an emoji."""
        return super().cases_of(row, languages) if _emoji_in(row[0]) else []

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """The emoji that are lost."""
        lost = Counter(_emoji_in(case.sources[0])) - Counter(_emoji_in(texts[0]))
        return "; ".join(f"{emoji} is lost" for emoji in lost.elements())


class PhraseCheck(SentencesCheck):
    """Every translation holds, or does not hold, given phrases."""

    check: Literal["phrase"] = "phrase"
    must: _Texts = Field([], description="phrases that must occur, as whole words in any case")
    must_not: _Texts = Field([], description="phrases that must not occur")
    must_match: _Texts = Field([], description="regular expressions (Python's) that must be found, case counts")
    must_not_match: _Texts = Field([], description="regular expressions that must not be found")

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        if not any((self.must, self.must_not, self.must_match, self.must_not_match)):
            raise ValueError("there is nothing to look for: give must, must_not, must_match or must_not_match")
        for key in ("must_match", "must_not_match"):
            for pattern in getattr(self, key):
                try:
                    re.compile(pattern)
                except re.error as error:
                    raise ValueError(f"{key}={pattern} is no regular expression: {error}") from None
        return self

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """The phrases that are missing or should not be there."""
        text = texts[0]
        missing = [phrase for phrase in self.must if not _holds(text, phrase)]
        missing += [pattern for pattern in self.must_match if not re.search(pattern, text)]
        found = [phrase for phrase in self.must_not if _holds(text, phrase)]
        found += [match[0] for pattern in self.must_not_match if (match := re.search(pattern, text))]
        return "; ".join([*(f"without “{phrase}”" for phrase in missing), *(f"with “{phrase}”" for phrase in found)])


class Expectation(Section):
    """A sentence and what may become of it."""

    src: str = Field(min_length=1, description="the sentence")
    one_of: _Texts = Field(min_length=1, description="the translations that are accepted")


class ExpectedCheck(Check):
    """The translation is one of those given."""

    items = "translations"
    nothing = "lacks a sentence or its translation"
    n_columns = 2
    check: Literal["expected"] = "expected"
    translations: list[Expectation] = Field([], description="sentences with the translations that are accepted")

    def rows(self) -> list[Row]:
        """Each sentence, and what is accepted."""
        return [(one.src, *one.one_of) for one in self.translations]

    def cases_of(self, row: Row, languages: Languages) -> list[Case]:
        """The sentence with what is accepted."""
        src, *wanted = (text.strip() for text in row)
        return [Case((src,), wanted=tuple(wanted))] if src and any(wanted) else []

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """What was wanted; spaces do not count."""
        if _plain(texts[0]) in map(_plain, case.wanted):
            return ""
        return "not " + " or ".join(f"“{text}”" for text in case.wanted)


def _emoji_in(text: str) -> list[str]:
    return _EMOJI.findall(text.replace(_DRAWN_IN_COLOUR, ""))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", " ".join(text.split()))


def _holds(text: str, phrase: str) -> bool:
    """Whether the phrase stands in the text as whole words, in any case."""
    text, phrase = _plain(text).casefold(), _plain(phrase).casefold()
    starts = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    ends = r"(?!\w)" if re.search(r"\w$", phrase) else ""
    return re.search(starts + re.escape(phrase) + ends, text) is not None


def _name_in(text: str, name: str) -> bool:
    """Whether the text holds one of the name's forms, also as a genitive."""
    forms = "|".join(re.escape(_plain(form)) for form in name.split("|"))
    return re.search(rf"(?<!\w)(?:{forms})(?:['’]?s)?(?!\w)", _plain(text)) is not None
