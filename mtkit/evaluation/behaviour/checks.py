"""What every behaviour check is: a section of a suite; it makes cases of sentences and judges their translations."""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, model_validator

from mtkit.config.schema import ConfigPath, Section
from mtkit.data.corpus import as_one_line
from mtkit.evaluation.metrics.scores import sentence_scores
from mtkit.quality.faults import FaultKind, find_faults, n_letters
from mtkit.quality.negation import LANGUAGES, has_negation
from mtkit.quality.number_words import numbers_in_words
from mtkit.quality.numbers import lost_numbers

Row = tuple[str, ...]  # one entry of a suite, or line of a file: a sentence, and what belongs to it
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
_STOP = re.compile(r"[.!。]+\s*$")
_NO_LETTERS = re.compile(r"[\W_]+")


class Languages(NamedTuple):
    """Of the suite's sentences, and of their translations."""

    src: str
    tgt: str

    def warning(self, src_lang: str, tgt_lang: str) -> str:
        """What to say if a model's languages, by its config, are others; "" if they are the same or not given there."""
        if src_lang in (self.src, "src") and tgt_lang in (self.tgt, "tgt"):
            return ""
        return f"translates {src_lang} to {tgt_lang} by its config, but the suite is for {self.src} to {self.tgt}"


@dataclass(frozen=True)
class Case:
    """What is translated to be judged together."""

    sources: tuple[str, ...]  # shown to people
    others: tuple[str, ...] = ()  # translated besides
    wanted: tuple[str, ...] = ()  # the translations that are accepted, where that is known

    @property
    def lines(self) -> tuple[str, ...]:
        """All that is translated."""
        return self.sources + self.others


class Check(Section):
    """What all checks have in common."""

    nothing: ClassVar[str] = "is blank"  # what is the matter with a row that gives no case
    items: ClassVar[str] = "sentences"  # the key of the rows that stand in the suite
    n_columns: ClassVar[int] = 1  # of a file, at least; with tabs between

    check: str = Field(description="the kind of check")
    name: str | None = Field(None, min_length=1, description="what reports call it; default: its kind")
    threshold: float = Field(1.0, ge=0, le=1, description="share of its cases that must pass; 0: only reported")
    file: ConfigPath | None = Field(None, description="text file, .gz too, with a sentence a line (or further columns)")
    n: int | None = Field(None, ge=1, description="so many of the file's lines, at equal distances; default: all")

    @model_validator(mode="after")
    def _has_sentences(self) -> Self:
        if not self.rows() and self.file is None:
            raise ValueError(f"there is nothing to translate: give {self.items}, or a file")
        if self.n is not None and self.file is None:
            raise ValueError(f"n={self.n} chooses lines of a file: give file, or leave it out")
        return self

    def rows(self) -> list[Row]:
        """What stands in the suite itself."""
        raise NotImplementedError

    def cases(self, rows: Sequence[Row], languages: Languages) -> list[tuple[set[int], Case]]:
        """What is translated, each with the numbers of the rows that it is made of; a row may give none, or several.

        Raises ValueError if these rows, or this check in these languages, cannot be judged.
        """
        return [({number}, case) for number, row in enumerate(rows) for case in self.cases_of(row, languages)]

    def cases_of(self, row: Row, languages: Languages) -> list[Case]:
        """The cases of a single row."""
        return [Case((row[0].strip(),))] if row[0].strip() else []

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """What is wrong with the translations of the case's lines; "" if they pass."""
        raise NotImplementedError


class SentencesCheck(Check):
    """A check whose rows are single sentences."""

    sentences: list[str] = Field([], description="what is translated")

    def rows(self) -> list[Row]:
        """Each sentence by itself."""
        return [(sentence,) for sentence in self.sentences]


def one_line(row: Row) -> Row:
    """The row without line breaks, which YAML may hold."""
    return tuple(as_one_line(text) for text in row)


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


class _HarmlessCheck(SentencesCheck):
    """A check of changes that should not matter: the translation stays the same, or nearly."""

    min_chrf: float = Field(
        100.0, ge=0, le=100, description="how alike both translations must be, by chrF; 100: what is compared is equal"
    )

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """How far the second translation is from the first."""
        original, changed = map(self.compared, texts)
        if original == changed:
            return ""
        [chrf] = sentence_scores([changed], original, "chrf")
        return "" if chrf >= self.min_chrf < 100 else f"not the same translation (chrF {chrf:.0f})"

    def compared(self, text: str) -> str:
        """What of a translation has to stay."""
        raise NotImplementedError

    @staticmethod
    def variants(sentence: str, changed: Sequence[str]) -> list[Case]:
        """The sentence with each of those that differ from it."""
        return [Case((sentence, other)) for other in dict.fromkeys(changed) if other != sentence] if sentence else []


class CaseCheck(_HarmlessCheck):
    """Small and capital letters do not matter."""

    nothing = "does not change with the case of its letters"
    check: Literal["case"] = "case"
    changes: list[Literal["lower", "upper", "title", "first"]] = Field(
        ["lower", "upper"],
        min_length=1,
        description="all in small letters, in capitals, capitals at each word's beginning, or the first letter's other "
        "case: lower, upper, title, first",
    )

    def cases_of(self, row: Row, languages: Languages) -> list[Case]:
        """The sentence with each change."""
        sentence = row[0].strip()
        changed = {
            "lower": sentence.lower(),
            "upper": sentence.upper(),
            "title": re.sub(r"\w+('\w+)?", lambda word: word[0].capitalize(), sentence),
            "first": sentence[:1].swapcase() + sentence[1:],
        }
        return self.variants(sentence, [changed[change] for change in self.changes])

    def compared(self, text: str) -> str:
        """The text whatever the case."""
        return " ".join(text.casefold().split())


class PunctuationCheck(_HarmlessCheck):
    """Marks and spaces do not matter."""

    nothing = "has nothing that could be changed"
    check: Literal["punctuation"] = "punctuation"
    changes: list[Literal["no_stop", "exclamation", "spaces", "apostrophes"]] = Field(
        ["no_stop", "exclamation", "spaces", "apostrophes"],
        min_length=1,
        description="no full stop, an exclamation mark for it, more spaces, the other kind of apostrophes: no_stop, "
        "exclamation, spaces, apostrophes",
    )

    def cases_of(self, row: Row, languages: Languages) -> list[Case]:
        """The sentence with each change."""
        sentence = row[0].strip()
        curly, straight = sentence.replace("'", "\u2019"), sentence.replace("\u2019", "'")
        changed = {
            "no_stop": _STOP.sub("", sentence),
            "exclamation": _STOP.sub("!", sentence),
            "spaces": "  ".join(re.split(r" +", sentence)),
            "apostrophes": straight if sentence == curly else curly,
        }
        return self.variants(sentence, [changed[change] for change in self.changes])

    def compared(self, text: str) -> str:
        """The words, whatever their case."""
        return _NO_LETTERS.sub(" ", text.casefold()).strip()


class BlankCheck(SentencesCheck):
    """A blank line stays blank."""

    nothing = "is not blank"
    check: Literal["blank"] = "blank"
    sentences: list[str] = Field(["", "  ", "\t"], description="blank lines, in double quotes")

    def cases_of(self, row: Row, languages: Languages) -> list[Case]:
        """The line if it is blank."""
        return [] if row[0].strip() else [Case((row[0],))]

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Whether something was made of nothing."""
        return "text for a blank line" if texts[0].strip() else ""


class LongCheck(SentencesCheck):
    """A very long line is translated to its end, once: as long as its sentences make when translated one by one."""

    check: Literal["long"] = "long"
    min_letters: int = Field(600, ge=1, description="sentences are joined to lines of at least so many characters")
    tolerance: float = Field(
        0.2, gt=0, lt=1, description="by which share a line's translation may be shorter or longer than its sentences'"
    )

    def cases(self, rows: Sequence[Row], languages: Languages) -> list[tuple[set[int], Case]]:
        """Lines of the sentences in turn; the last begins anew with the first sentence where there are not enough."""
        sentences = [(number, row[0].strip()) for number, row in enumerate(rows) if row[0].strip()]
        n = n_letters(" ".join(sentence for _, sentence in sentences))
        if (
            sentences and n < self.min_letters
        ):  # a line that repeats itself would make its translation's loops look right
            raise ValueError(
                f"all sentences make {n:,.0f} letters, min_letters={self.min_letters}: give more sentences"
            )
        found: list[tuple[set[int], Case]] = []
        line: list[tuple[int, str]] = []
        for count, one in enumerate(itertools.cycle(sentences), start=1):
            line.append(one)
            parts = tuple(sentence for _, sentence in line)
            if n_letters(" ".join(parts)) >= self.min_letters:
                found.append(({number for number, _ in line}, Case((" ".join(parts),), others=parts)))
                line = []
                if count >= len(sentences):
                    break
        return found

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Whether the line's translation has a length of its own, or a loop."""
        loops = [fault for fault in find_faults(case.sources[0], texts[0]) if fault.kind == "loop"]
        if loops:
            return f"repeats itself: {loops[0].detail}".removesuffix(": ")
        n, n_alone = n_letters(texts[0]), n_letters(" ".join(texts[1:]))
        if 1 - self.tolerance <= n / max(n_alone, 1) <= 1 + self.tolerance:
            return ""
        word = "cut" if n < n_alone else "too long"
        return f"{word}: {n:,.0f} letters, while its sentences one by one make {n_alone:,.0f}"
