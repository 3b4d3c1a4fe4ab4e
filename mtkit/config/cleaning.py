"""The `clean` section of the config: which pairs `mtkit data clean` keeps, and how it repairs their text."""

from typing import Literal, Self

from pydantic import Field, model_validator

from mtkit.config.section import ConfigPath, Section

RepairStep = Literal["unicode", "spaces", "mojibake", "entities"]


class CleanConfig(Section):
    """Repairs of a corpus' text, and the rules by which pairs are dropped, in the order in which they apply."""

    repair: list[RepairStep] = Field(
        ["unicode", "spaces", "mojibake", "entities"],
        description="what to repair in the text before the rules see it. unicode: compose characters (NFC); "
        "spaces: one space between words, no control or invisible characters; mojibake: text read in the wrong "
        "encoding, such as Ã© for é (ftfy); entities: HTML's names of characters, such as &amp;amp; for &, in lines "
        "without tags",
    )
    encoding: bool = Field(
        True, description="drop pairs with characters lost in a wrong encoding: U+FFFD, C1 controls, private ones"
    )
    max_letters: int | None = Field(
        1000,
        ge=1,
        le=10**9,
        description="drop pairs with a side of more letters than this, spaces and marks included; a Chinese character "
        "counts as 3, kana and Hangul as 2; null: only those with a side of more than 20,000 characters",
    )
    max_word_letters: int | None = Field(
        60,
        ge=1,
        le=10**9,
        description="drop pairs with a longer word on a side, in characters; addresses and languages without spaces "
        "between words are exempt; null: off",
    )
    max_length_ratio: float | None = Field(
        2.5,
        gt=1,
        description="drop pairs with one side more than this many times as long as the other, in letters as in "
        "max_letters; short pairs may differ more (times e^(2/sqrt(n)), n letters of the shorter side); null: off",
    )
    min_letters_share: float | None = Field(
        0.3,
        gt=0,
        le=1,
        description="drop pairs with a side where fewer of the characters, spaces apart, are letters; a telephone "
        "number or the like counts as one character; null: off",
    )
    min_script_share: float | None = Field(
        0.6,
        gt=0,
        le=1,
        description="drop pairs with a side where fewer of the letters are of its language's script; null: off",
    )
    language: bool = Field(
        True,
        description="drop pairs with a side in another language; short lines are judged with their neighbours, and "
        "lines of which that leaves a doubt are kept",
    )
    copies: bool = Field(
        True,
        description="drop pairs whose sides have the same words, or nearly; names, numbers and addresses alone may be "
        "the same",
    )
    numbers: bool = Field(
        True,
        description="drop pairs with a number that the other side has in no form (digits, words, other format, or "
        "converted to another unit)",
    )
    urls: bool = Field(True, description="drop pairs with a web or e-mail address that the other side does not have")
    placeholders: bool = Field(
        True, description="drop pairs with different placeholders of programs, such as {name}, %s or ${HOME}"
    )
    tags: bool = Field(True, description="drop pairs with different markup, such as <b> on one side only")
    repetition: bool = Field(
        True, description="drop pairs in which one side repeats words or characters as the other does not"
    )
    score: ConfigPath | None = Field(
        None,
        description="file with a number at the start of each line, one line a pair of all corpora in order (columns "
        "after a tab are ignored): the result of a classifier; plain or .gz",
    )
    min_score: float | None = Field(None, description="drop pairs with a lower number in score")

    duplicates: bool = Field(
        True, description="drop pairs that are the same as an earlier pair of the corpora, after the repairs"
    )
    near_duplicates: bool = Field(
        False,
        description="drop pairs that are nearly the same as an earlier pair: with 80 % of the character 4-grams of "
        "both sides in common, whatever their case, punctuation and numbers; for crawled text, logs and messages",
    )
    translations: Literal["all", "first", "most_frequent"] = Field(
        "all",
        description="of a source with several translations, keep all pairs, or only those with its first or its most "
        "frequent translation",
    )

    @model_validator(mode="after")
    def _a_score_has_a_limit(self) -> Self:
        if (self.score is None) != (self.min_score is None):
            one, other = ("min_score", "score") if self.score is None else ("score", "min_score")
            raise ValueError(f"{one} is set without {other}: set both, or neither")
        return self
