"""The `data` section of the config: the text for training, validation and test."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from mtkit.config.section import ConfigPath, Section
from mtkit.config.tags import check_tag
from mtkit.languages import language_in_name, languages_in_name


class CorpusFiles(Section):
    """Parallel text: two files with equal numbers of lines, or one file with both sides; `.gz`, `.xz`, `.zst`, too."""

    src: ConfigPath | None = Field(None, description="source text, one sentence per line")
    tgt: ConfigPath | None = Field(None, description="target text; line n translates line n of src")
    tsv: ConfigPath | None = Field(
        None,
        description="instead of src and tgt: one file with source, tab, target on each line; more columns are ignored",
    )
    file: ConfigPath | None = Field(
        None,
        description="instead of src and tgt: one file with both sides, whose name tells its format: .tsv, .csv, "
        ".jsonl, .tmx, .xlf, .xliff, .po, or .zip (as from OPUS)",
    )
    langs: tuple[str, str] | None = Field(
        None,
        description="source and target language in `file`, such as [en, de], if its format tells languages; default: "
        "data.src_lang and data.tgt_lang, else the file's own two",
    )
    tag: str | None = Field(
        None,
        description="token put before each source sentence, such as <2de> or <news>: names the target language or "
        "the domain; several tags are separated by spaces, such as <2de> <bt>",
    )

    @model_validator(mode="after")
    def _two_files_or_one(self) -> Self:
        check_tag(self.tag)
        given = tuple(key for key in ("src", "tgt", "tsv", "file") if getattr(self, key) is not None)
        if given not in (("src", "tgt"), ("tsv",), ("file",)):
            raise ValueError("must have either both src and tgt, or tsv, or file")
        if self.langs and not self.file:
            raise ValueError("langs needs file: only formats such as TMX tell their languages")
        if self.langs and self.langs[0] == self.langs[1]:
            raise ValueError(f"langs: source and target are both {self.langs[0]}")
        return self

    @property
    def paths(self) -> list[Path]:
        """The files, the source side's first."""
        return [path for path in (self.src, self.tgt, self.tsv, self.file) if path is not None]


class TrainCorpus(CorpusFiles):
    """Parallel text to train on."""

    weight: float = Field(
        1.0,
        gt=0,
        le=1000,
        description="how often an epoch uses each pair: 2 is twice; 0.5 uses one half of the pairs, the next epoch "
        "the other",
    )


class DataConfig(Section):
    """The text for training, validation and test."""

    src_lang: str = Field(
        "src",
        min_length=1,
        description="source language code, such as en: for reports and for sorting test sentences (negation, names); "
        "default: the ending of dev's source file, or else of the training files (en for dev.en.gz)",
    )
    tgt_lang: str = Field(
        "tgt",
        min_length=1,
        description="target language code, such as fr: for reports, for BLEU (which splits zh, ja, th and similar "
        "languages into characters) and for finding lost numbers; default: as for src_lang",
    )
    train: list[TrainCorpus] = Field(min_length=1, description="training text: one or several corpora")
    dev: CorpusFiles = Field(description="validation text: decides when to stop early and which checkpoints to keep")
    test: CorpusFiles | None = Field(
        None, description="test text: never used in training; the default of `mtkit evaluate`"
    )
    max_tokens: int = Field(
        128,
        ge=1,
        le=100_000,
        description="training pairs with more tokens than this on a side are left out (and counted)",
    )
    max_length_ratio: float | None = Field(
        None,
        ge=1,
        description="training pairs are left out if one side has more than this many times the tokens of the other; "
        "tags do not count",
    )

    @model_validator(mode="after")
    def _languages_from_names(self) -> Self:
        """Set languages that are not named to the codes in the files' names."""
        for side in ("src", "tgt"):
            if getattr(self, f"{side}_lang") == side:
                in_dev, *in_train = (_language(files, side) for files in (self.dev, *self.train))
                code = in_dev or (in_train[0] if len(set(in_train)) == 1 else None)
                object.__setattr__(self, f"{side}_lang", code or side)  # the section is not in use yet
        if self.src_lang not in ("src", self.tgt_lang) and self.tgt_lang != "tgt":
            for corpus in filter(None, (*self.train, self.dev, self.test)):
                if corpus.file and not corpus.langs:
                    corpus.__dict__["langs"] = self.src_lang, self.tgt_lang  # likewise
        return self


def _language(files: CorpusFiles, side: Literal["src", "tgt"]) -> str | None:
    """Return the language of a side in the files' names."""
    if files.file:
        return (languages_in_name(files.file) or (None, None))[side == "tgt"]
    path = files.src if side == "src" else files.tgt
    return language_in_name(path) if path else None
