"""What every behaviour check is: a section of a suite; it makes cases of sentences and judges their translations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

from pydantic import Field, model_validator

from mtkit.config.schema import ConfigPath, Section
from mtkit.data.corpus import as_one_line

Row = tuple[str, ...]  # one entry of a suite, or line of a file: a sentence, and what belongs to it


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
