"""The `clean` section of the config: which pairs `mtkit data clean` keeps, and how it repairs their text."""

from typing import Literal, Self

from pydantic import Field, model_validator

from mtkit.config.section import ConfigPath, Section

RepairStep = Literal["unicode", "spaces", "mojibake", "entities"]


class CleanConfig(Section):
    """Repairs of the text of a corpus, and the rules that drop pairs, in the order in which they apply."""

    repair: list[RepairStep] = Field(
        ["unicode", "spaces", "mojibake", "entities"],
        description="what to repair in the text before the rules judge it. unicode: compose characters (NFC); "
        "spaces: one space between words, no control or invisible characters; mojibake: text read in the wrong "
        "encoding, such as Ã© for é (ftfy); entities: character names of HTML, such as &amp;amp; for &, in lines "
        "without tags",
    )
    encoding: bool = Field(
        True, description="drop pairs with traces of a wrong encoding: U+FFFD, C1 controls, private-use characters"
    )
    max_letters: int | None = Field(
        1000,
        ge=1,
        le=10**9,
        description="drop pairs with more letters than this on a side, including spaces and punctuation; a Chinese "
        "character counts as 3, kana and Hangul as 2; null: drop only pairs with more than 20,000 characters on "
        "a side",
    )
    max_word_letters: int | None = Field(
        60,
        ge=1,
        le=10**9,
        description="drop pairs with a word longer than this, in characters; addresses and languages without spaces "
        "between words are exempt; null: off",
    )
    max_length_ratio: float | None = Field(
        2.5,
        gt=1,
        description="drop pairs with one side more than this many times as long as the other, in letters as in "
        "max_letters; the limit is higher for short pairs (times e^(2/sqrt(n)), where the shorter side has n "
        "letters); null: off",
    )
    min_letters_share: float | None = Field(
        0.3,
        gt=0,
        le=1,
        description="drop pairs in which the share of letters among the characters of a side, without spaces, is "
        "below this; a number such as a telephone number counts as one character; null: off",
    )
    min_script_share: float | None = Field(
        0.6,
        gt=0,
        le=1,
        description="drop pairs in which the share of letters in the script of a side's language is below this; "
        "null: off",
    )
    language: bool = Field(
        True,
        description="drop pairs with a side in another language; mtkit judges short lines together with their "
        "neighbours, and keeps doubtful lines",
    )
    copies: bool = Field(
        True,
        description="drop pairs with the same or almost the same words on both sides, except names, numbers and "
        "addresses",
    )
    numbers: bool = Field(
        True,
        description="drop pairs with a number that is missing from the other side in every form (digits, words, "
        "other format, or converted to another unit)",
    )
    urls: bool = Field(True, description="drop pairs with a web or e-mail address that is missing from the other side")
    placeholders: bool = Field(
        True, description="drop pairs with different program placeholders, such as {name}, %s or ${HOME}"
    )
    tags: bool = Field(True, description="drop pairs with different markup, such as <b> on one side only")
    repetition: bool = Field(True, description="drop pairs in which only one side repeats words or characters")
    score: ConfigPath | None = Field(
        None,
        description="file with a classifier's score of each pair: a number at the start of each line, one line per "
        "pair, for all corpora in order (mtkit ignores columns after a tab); plain or .gz",
    )
    min_score: float | None = Field(None, description="drop pairs with a score lower than this")

    duplicates: bool = Field(True, description="drop pairs that equal an earlier pair of the corpora after the repairs")
    near_duplicates: bool = Field(
        False,
        description="drop pairs that are almost the same as an earlier pair: they share 80 % of the character "
        "4-grams of both sides, regardless of case, punctuation and numbers; for crawled text, logs and messages",
    )
    translations: Literal["all", "first", "most_frequent"] = Field(
        "all",
        description="for a source with several translations, keep all pairs, or only those with its first or its "
        "most frequent translation",
    )

    @model_validator(mode="after")
    def _a_score_has_a_limit(self) -> Self:
        if (self.score is None) != (self.min_score is None):
            one, other = ("min_score", "score") if self.score is None else ("score", "min_score")
            raise ValueError(f"{one} is set without {other}: set both, or neither")
        return self
