"""The behaviour checks of a suite: each turns sentences into cases and judges their translations.

One group checks the content: numbers, negation, names, emoji, phrases, faults. The other changes properties that must
not matter: the case of letters, punctuation and spaces, the length of a line, a blank line.
"""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, model_validator

from mtkit.config.section import ConfigPath, Section
from mtkit.evaluation.metrics.scores import sentence_scores
from mtkit.pair_files.lines import as_one_line
from mtkit.quality.faults import FOUND_KINDS, FaultKind, FoundKind, find_faults
from mtkit.quality.negation import LANGUAGES, has_negation
from mtkit.quality.number_words import numbers_in_words
from mtkit.quality.numbers import lost_numbers
from mtkit.text.characters import tidied
from mtkit.text.words import n_letters

Row = tuple[str, ...]  # an entry of a suite or a line of a file: a sentence and its further columns
# A list of texts; YAML may give a single text.
_Texts = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]

_PICTURE = (  # with an optional skin colour
    "[\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b00-\u2bff]"
    "[\U0001f3fb-\U0001f3ff]?"
)
_EMOJI = re.compile(  # flags, keycaps, and joined pictures
    rf"[\U0001f1e6-\U0001f1ff]{{2}}|[0-9#*]\u20e3|{_PICTURE}(?:\u200d{_PICTURE})*"
)
_VARIATION_SELECTOR = "\ufe0f"  # asks for a colour emoji; some systems drop it
_FAULTS: dict[FaultKind, str] = {
    "empty": "empty",
    "loop": "repeats itself:",
    "length": "unlikely length:",
    "omission": "leaves out",
    "copy": "copies the source",
    "number": "loses the number",
    "url": "loses the address",
}
_STOP = re.compile(r"[.!。]+\s*$")
_NO_LETTERS = re.compile(r"[\W_]+")


class Languages(NamedTuple):
    """The languages of the suite's sentences and of their translations."""

    src: str
    tgt: str

    def warning(self, src_lang: str, tgt_lang: str) -> str:
        """Return a warning if a model's config has other languages; "" if it has the same or none."""
        if src_lang in (self.src, "src") and tgt_lang in (self.tgt, "tgt"):
            return ""
        return f"translates {src_lang} to {tgt_lang} (see its config), but the suite is for {self.src} to {self.tgt}"


@dataclass(frozen=True)
class Case:
    """Sentences whose translations a check judges together."""

    sources: tuple[str, ...]  # shown in reports
    others: tuple[str, ...] = ()  # translated, but not shown
    wanted: tuple[str, ...] = ()  # accepted translations, if the check knows them

    @property
    def lines(self) -> tuple[str, ...]:
        """Return all lines to translate."""
        return self.sources + self.others


class Check(Section):
    """The keys and methods of all checks."""

    nothing: ClassVar[str] = "is blank"  # why a row gives no case
    items: ClassVar[str] = "sentences"  # key of the rows in the suite
    n_columns: ClassVar[int] = 1  # least number of tab-separated columns in a file

    check: str = Field(description="the kind of check")
    name: str | None = Field(None, min_length=1, description="name in reports; default: its kind")
    threshold: float = Field(1.0, ge=0, le=1, description="share of its cases that must pass; 0: only report")
    file: ConfigPath | None = Field(None, description="text file, or .gz, with a sentence (and columns) on each line")
    n: int | None = Field(None, ge=1, description="number of the file's lines to take, evenly spaced; default: all")

    @model_validator(mode="after")
    def _has_sentences(self) -> Self:
        if not self.rows() and self.file is None:
            raise ValueError(f"the check has no sentences: give {self.items}, or a file")
        if self.n is not None and self.file is None:
            raise ValueError(f"n={self.n} needs a file: give file, or remove n")
        return self

    def rows(self) -> list[Row]:
        """Return the rows that the suite itself contains."""
        raise NotImplementedError

    def cases(self, rows: Sequence[Row], languages: Languages) -> list[tuple[set[int], Case]]:
        """Return the cases, each with the indices of its rows; a row may give none, or several.

        Raises ValueError if the check cannot judge these rows or these languages.
        """
        return [({index}, case) for index, row in enumerate(rows) for case in self.cases_of(row)]

    def cases_of(self, row: Row) -> list[Case]:
        """Return the cases of a single row."""
        sentence = row[0].strip()
        return [Case((sentence,))] if sentence and self.applies(sentence) else []

    def applies(self, sentence: str) -> bool:
        """Return whether the sentence has what the check examines."""
        return True

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Return what is wrong with the translations of the case's lines; "" if they pass."""
        raise NotImplementedError


class SentencesCheck(Check):
    """A check whose rows are single sentences."""

    sentences: list[str] = Field([], description="sentences to translate")

    def rows(self) -> list[Row]:
        """Return each sentence as a row."""
        return [(sentence,) for sentence in self.sentences]


def one_line(row: Row) -> Row:
    """Return the row without line breaks, which YAML may contain."""
    return tuple(as_one_line(text) for text in row)


class SoundCheck(SentencesCheck):
    """The translation has no fault that shows without a reference."""

    check: Literal["sound"] = "sound"
    faults: list[FoundKind] = Field(
        list(FOUND_KINDS),
        min_length=1,
        description=f"faults to look for: {', '.join(FOUND_KINDS)}",
    )

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Return the translation's faults by the rules alone: a suite judges systems without a lexicon alike."""
        faults = find_faults(case.sources[0], texts[0], tgt_lang=languages.tgt)
        shown = [f"{_FAULTS[fault.kind]} {fault.detail}".rstrip(": ") for fault in faults if fault.kind in self.faults]
        return "; ".join(shown)


class NumbersCheck(SentencesCheck):
    """The translation has the source's numbers, in digits or in words, and no others."""

    nothing = "has no number in digits (numbers in words count with in_words: true)"
    check: Literal["numbers"] = "numbers"
    in_words: bool = Field(False, description="also check numbers that the source writes in words, from two on")

    def applies(self, sentence: str) -> bool:
        """Return whether the sentence has a number."""
        return any(c.isdigit() for c in sentence) or bool(self._spelt(sentence))

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Return the numbers that are lost or invented."""
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
    negated: str = Field(min_length=1, description="the sentence with negation")


class NegationCheck(Check):
    """A negated sentence stays negated, and its plain counterpart stays plain."""

    items = "pairs"
    nothing = "lacks one of its two sentences"
    n_columns = 2
    check: Literal["negation"] = "negation"
    pairs: list[NegationPair] = Field([], description="sentences without and with negation")
    words: _Texts = Field([], description="negating words of the target language; default: the built-in ones")

    def rows(self) -> list[Row]:
        """Return the two sentences of each pair."""
        return [(pair.plain, pair.negated) for pair in self.pairs]

    def cases(self, rows: Sequence[Row], languages: Languages) -> list[tuple[set[int], Case]]:
        """Return the cases. Raises ValueError if the target language has neither given nor built-in negating words."""
        if not self.words and has_negation("", languages.tgt) is None:
            known = ", ".join(sorted(LANGUAGES))
            raise ValueError(
                f"mtkit has negating words for {known}, but not for tgt_lang={languages.tgt}; list them as words: [...]"
            )
        return super().cases(rows, languages)

    def cases_of(self, row: Row) -> list[Case]:
        """Return both sentences as one case."""
        plain, negated = (text.strip() for text in row[:2])
        return [Case((plain, negated))] if plain and negated else []

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Return which of the two translations has a wrong negation."""
        plain, negated = (self._is_negated(text, languages) for text in texts)
        problems = ["the first one is negated, but its source is not"] if plain else []
        return "; ".join(problems + ([] if negated else ["the negation is lost"]))

    def _is_negated(self, text: str, languages: Languages) -> bool:
        if self.words:
            return any(_contains(text, word) for word in self.words)
        return bool(has_negation(text, languages.tgt))


class NamesCheck(SentencesCheck):
    """The translation has the source's names, letter by letter."""

    nothing = "contains none of the names"
    check: Literal["names"] = "names"
    names: list[str] = Field(min_length=1, description="the names; separate accepted forms by a bar: London|Londres")

    def applies(self, sentence: str) -> bool:
        """Return whether the sentence has one of the names."""
        return any(_has_name(sentence, name) for name in self.names)

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Return the names that are lost."""
        names = [name for name in self.names if _has_name(case.sources[0], name)]
        return "; ".join(f"{name} is lost" for name in names if not _has_name(texts[0], name))


class EmojiCheck(SentencesCheck):
    """The translation has the source's emoji."""

    nothing = "has no emoji"
    check: Literal["emoji"] = "emoji"

    def applies(self, sentence: str) -> bool:
        """Return whether the sentence has an emoji."""
        return bool(_emoji_in(sentence))

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Return the emoji that are lost."""
        lost = Counter(_emoji_in(case.sources[0])) - Counter(_emoji_in(texts[0]))
        return "; ".join(f"{emoji} is lost" for emoji in lost.elements())


class PhraseCheck(SentencesCheck):
    """Every translation contains, or does not contain, given phrases."""

    check: Literal["phrase"] = "phrase"
    must: _Texts = Field([], description="phrases that must occur, as whole words in any case")
    must_not: _Texts = Field([], description="phrases that must not occur")
    must_match: _Texts = Field([], description="Python regular expressions that must match, case-sensitive")
    must_not_match: _Texts = Field([], description="regular expressions that must not match")

    @model_validator(mode="after")
    def _has_phrases(self) -> Self:
        if not any((self.must, self.must_not, self.must_match, self.must_not_match)):
            raise ValueError("the check has no phrases: give must, must_not, must_match or must_not_match")
        for key in ("must_match", "must_not_match"):
            for pattern in getattr(self, key):
                try:
                    re.compile(pattern)
                except re.error as error:
                    raise ValueError(f"{key}={pattern} is not a regular expression: {error}") from None
        return self

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Return the missing and the forbidden phrases."""
        text = texts[0]
        missing = [phrase for phrase in self.must if not _contains(text, phrase)]
        missing += [pattern for pattern in self.must_match if not re.search(pattern, text)]
        forbidden = [phrase for phrase in self.must_not if _contains(text, phrase)]
        forbidden += [match[0] for pattern in self.must_not_match if (match := re.search(pattern, text))]
        return "; ".join(
            [*(f"without “{phrase}”" for phrase in missing), *(f"with “{phrase}”" for phrase in forbidden)]
        )


class Expectation(Section):
    """A sentence and its accepted translations."""

    src: str = Field(min_length=1, description="the sentence")
    one_of: _Texts = Field(min_length=1, description="its accepted translations")


class ExpectedCheck(Check):
    """The translation is one of the accepted ones."""

    items = "translations"
    nothing = "lacks a sentence or its translation"
    n_columns = 2
    check: Literal["expected"] = "expected"
    translations: list[Expectation] = Field([], description="sentences with their accepted translations")

    def rows(self) -> list[Row]:
        """Return each sentence with its accepted translations."""
        return [(expectation.src, *expectation.one_of) for expectation in self.translations]

    def cases_of(self, row: Row) -> list[Case]:
        """Return the sentence with its accepted translations."""
        src, *wanted = (text.strip() for text in row)
        return [Case((src,), wanted=tuple(wanted))] if src and any(wanted) else []

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Return the accepted translations if this is none of them; spaces do not count."""
        if tidied(texts[0]) in map(tidied, case.wanted):
            return ""
        return "not " + " or ".join(f"“{text}”" for text in case.wanted)


def _emoji_in(text: str) -> list[str]:
    return _EMOJI.findall(text.replace(_VARIATION_SELECTOR, ""))


def _contains(text: str, phrase: str) -> bool:
    """Return whether the text contains the phrase as whole words, in any case."""
    text, phrase = tidied(text).casefold(), tidied(phrase).casefold()
    starts = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    ends = r"(?!\w)" if re.search(r"\w$", phrase) else ""
    return re.search(starts + re.escape(phrase) + ends, text) is not None


def _has_name(text: str, name: str) -> bool:
    """Return whether the text has one of the name's forms, also as a genitive."""
    forms = "|".join(re.escape(tidied(form)) for form in name.split("|"))
    return re.search(rf"(?<!\w)(?:{forms})(?:['’]?s)?(?!\w)", tidied(text)) is not None


class _HarmlessCheck(SentencesCheck):
    """A check of changes that must not matter: the translation stays the same, or almost the same."""

    min_chrf: float = Field(100.0, ge=0, le=100, description="least chrF between both translations; 100: equal")

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Return the similarity of both translations if it is too low, or ""."""
        original, changed = map(self.compared, texts)
        if original == changed:
            return ""
        [chrf] = sentence_scores([changed], original, "chrf")
        return "" if chrf >= self.min_chrf < 100 else f"not the same translation (chrF {chrf:.0f})"

    def compared(self, text: str) -> str:
        """Return the part of a translation that must stay the same."""
        raise NotImplementedError

    def variants(self, sentence: str) -> list[str]:
        """Return the changed sentences."""
        raise NotImplementedError

    def cases_of(self, row: Row) -> list[Case]:
        """Return the sentence with each changed one that differs from it."""
        sentence = row[0].strip()
        changed = dict.fromkeys(self.variants(sentence)) if sentence else ()
        return [Case((sentence, other)) for other in changed if other != sentence]


class CaseCheck(_HarmlessCheck):
    """The case of letters does not matter."""

    nothing = "does not change with the case of its letters"
    check: Literal["case"] = "case"
    changes: list[Literal["lower", "upper", "title", "first"]] = Field(
        ["lower", "upper"],
        min_length=1,
        description="changes to try: lower, upper, title (capitalise each word), first (swap the first letter's case)",
    )

    def variants(self, sentence: str) -> list[str]:
        """Return the sentence with each change of case."""
        changed = {
            "lower": sentence.lower(),
            "upper": sentence.upper(),
            "title": re.sub(r"\w+('\w+)?", lambda word: word[0].capitalize(), sentence),
            "first": sentence[:1].swapcase() + sentence[1:],
        }
        return [changed[change] for change in self.changes]

    def compared(self, text: str) -> str:
        """Return the case-folded text."""
        return " ".join(text.casefold().split())


class PunctuationCheck(_HarmlessCheck):
    """Punctuation and spaces do not matter."""

    nothing = "has no punctuation or spaces to change"
    check: Literal["punctuation"] = "punctuation"
    changes: list[Literal["no_stop", "exclamation", "spaces", "apostrophes"]] = Field(
        ["no_stop", "exclamation", "spaces", "apostrophes"],
        min_length=1,
        description="changes to try: no_stop (no full stop), exclamation (! for it), spaces (double them), apostrophes "
        "(the other kind)",
    )

    def variants(self, sentence: str) -> list[str]:
        """Return the sentence with each change of punctuation or spaces."""
        curly, straight = sentence.replace("'", "\u2019"), sentence.replace("\u2019", "'")
        changed = {
            "no_stop": _STOP.sub("", sentence),
            "exclamation": _STOP.sub("!", sentence),
            "spaces": "  ".join(re.split(r" +", sentence)),
            "apostrophes": straight if sentence == curly else curly,
        }
        return [changed[change] for change in self.changes]

    def compared(self, text: str) -> str:
        """Return the case-folded words."""
        return _NO_LETTERS.sub(" ", text.casefold()).strip()


class BlankCheck(SentencesCheck):
    """A blank line stays blank."""

    nothing = "is not blank"
    check: Literal["blank"] = "blank"
    sentences: list[str] = Field(["", "  ", "\t"], description="blank lines, in double quotes")

    def cases_of(self, row: Row) -> list[Case]:
        """Return the line if it is blank."""
        return [] if row[0].strip() else [Case((row[0],))]

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Return whether the blank line got a translation."""
        return "text for a blank line" if texts[0].strip() else ""


class LongCheck(SentencesCheck):
    """The translation of a very long line is as long as its sentences' translations together, without loops."""

    check: Literal["long"] = "long"
    min_letters: int = Field(600, ge=1, description="least length of the lines into which sentences are joined")
    tolerance: float = Field(
        0.2, gt=0, lt=1, description="largest relative difference from the length of the sentences' translations"
    )

    def cases(self, rows: Sequence[Row], languages: Languages) -> list[tuple[set[int], Case]]:
        """Return lines of consecutive sentences; the last line may continue with the first sentence."""
        sentences = [(index, row[0].strip()) for index, row in enumerate(rows) if row[0].strip()]
        n = n_letters(" ".join(sentence for _, sentence in sentences))
        if sentences and n < self.min_letters:  # a repeated sentence would make a loop in the translation look right
            raise ValueError(
                f"all sentences have {n:,.0f} letters, min_letters={self.min_letters}: give more sentences"
            )
        cases: list[tuple[set[int], Case]] = []
        line: list[tuple[int, str]] = []
        for count, sentence in enumerate(itertools.cycle(sentences), start=1):
            line.append(sentence)
            parts = tuple(text for _, text in line)
            if n_letters(" ".join(parts)) >= self.min_letters:
                cases.append(({index for index, _ in line}, Case((" ".join(parts),), others=parts)))
                line = []
                if count >= len(sentences):
                    break
        return cases

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Return a loop in the line's translation, or how its length differs from its sentences' translations."""
        loops = [fault for fault in find_faults(case.sources[0], texts[0]) if fault.kind == "loop"]
        if loops:
            return f"repeats itself: {loops[0].detail}".removesuffix(": ")
        n, n_alone = n_letters(texts[0]), n_letters(" ".join(texts[1:]))
        if 1 - self.tolerance <= n / max(n_alone, 1) <= 1 + self.tolerance:
            return ""
        word = "cut" if n < n_alone else "too long"
        return f"{word}: {n:,.0f} letters, while its sentences translated separately have {n_alone:,.0f}"
