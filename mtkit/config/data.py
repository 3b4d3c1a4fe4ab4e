"""The `data` section of the config: the text for training, validation and test."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    WrapSerializer,
    model_validator,
)

from mtkit.config.section import ConfigPath, Section
from mtkit.config.stages import ScoreSchedule, Stage, WeightSchedule, begins_with_the_run, changes, value_at
from mtkit.config.tags import Tag
from mtkit.languages import code_of_name, language_in_name, languages_in_name

UNNAMED = ("src", "tgt")  # the languages of a text whose languages are not known
_TSV = (".tsv", ".tsv.gz", ".tsv.xz", ".tsv.zst")
_FORMATS = (*(".gz", ".xz", ".zst"), *(".tsv", ".csv", ".jsonl", ".tmx", ".xlf", ".xliff", ".po", ".zip", ".txt"))


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class CorpusFiles(Section):
    """Parallel text: two files with equal numbers of lines, or one file with both sides; `.gz`, `.xz`, `.zst`, too."""

    src: ConfigPath | None = Field(None, description="source text, one sentence per line")
    tgt: ConfigPath | None = Field(None, description="target text; line n translates line n of src")
    tsv: ConfigPath | None = Field(
        None,
        description="instead of src and tgt: one file with source, tab, target on each line; mtkit ignores further "
        "columns. classify: text, tab, label, or source, tab, target, tab, label",
    )
    file: ConfigPath | None = Field(
        None,
        description="instead of src and tgt: one file with both sides, in the format of its file extension: .tsv, "
        ".csv, .jsonl, .tmx, .xlf, .xliff, .po, or .zip (as from OPUS)",
    )
    langs: Annotated[tuple[str, str] | None, BeforeValidator(_as_tuple)] = Field(
        None,
        description="source and target language in `file`, such as [en, de], if its format names languages; "
        "default: data.src_lang and data.tgt_lang, or else the two languages in the file",
    )
    tag: Tag | None = Field(
        None,
        description="token before each source sentence, such as <2de> or <news>, for the target language or the "
        "domain; separate several tags by spaces, such as <2de> <bt>",
    )

    @model_validator(mode="after")
    def _two_files_or_one(self) -> Self:
        given = tuple(key for key in ("src", "tgt", "tsv", "file") if getattr(self, key) is not None)
        if given not in (("src", "tgt"), ("tsv",), ("file",)) and not self.is_untranslated:
            raise ValueError("must have either both src and tgt, or tsv, or file")
        if self.langs and not self.file:
            raise ValueError("langs needs file: only formats such as TMX name their languages")
        if self.langs and self.langs[0] == self.langs[1]:
            raise ValueError(f"langs: source and target are both {self.langs[0]}")
        return self

    @property
    def is_untranslated(self) -> bool:
        """Whether this is text in the source language alone."""
        return False

    @property
    def paths(self) -> list[Path]:
        """The files, the source side's first."""
        return [path for path in (self.src, self.tgt, self.tsv, self.file) if path is not None]


class TrainCorpus(CorpusFiles):
    """Parallel text for training; with distill.teachers, also text in the source language alone."""

    tgt: ConfigPath | None = Field(
        None,
        description="target text; line n translates line n of src. Set it to null for text that only "
        "distill.teachers translate",
    )
    weight: Annotated[Annotated[float, Field(gt=0, le=1000)] | WeightSchedule, AfterValidator(begins_with_the_run)] = (
        Field(
            1.0,
            description="how often an epoch uses each pair: 2 is twice; 0.5 uses one half of the pairs, and the "
            "other half in the next epoch. {0: 1, 0.8: 5}: 1, and 5 in the last fifth of the run; a weight of 0 "
            "leaves the corpus out",
        )
    )
    scores: ConfigPath | None = Field(
        None,
        description="file with a score of each pair: a number at the start of line n for line n of the text (mtkit "
        "ignores columns after a tab); higher is better; may end in `.gz`, `.xz` or `.zst`",
    )
    min_score: Annotated[float | ScoreSchedule | None, AfterValidator(begins_with_the_run)] = Field(
        None,
        description="train on the pairs with at least this score. {0: 0.9, 0.3: 0.5, 0.8: null}: 0.9, then 0.5 "
        "after 30 % of the run, and all pairs in the last fifth",
    )

    @model_validator(mode="after")
    def _scores_have_lines(self) -> Self:
        if self.scores is None and self.min_score is not None:
            raise ValueError("min_score needs scores: set it to the file with a score of each pair")
        if self.scores and self.file and not self.file.name.lower().endswith(_TSV):
            raise ValueError(
                f"scores={self.scores}: line n scores line n of the text, but file={self.file} does not have one "
                "pair per line; convert it to TSV with mtkit data convert"
            )
        return self

    @property
    def is_untranslated(self) -> bool:
        """Whether this is text in the source language alone, whose tgt is null and not just forgotten."""
        return self.paths == [self.src] and "tgt" in self.model_fields_set

    def moved_to(self, tsv: Path) -> Self:
        """Return the entry with this file of pairs in place of its own files."""
        return self.model_copy(update={"src": None, "tgt": None, "file": None, "langs": None, "tsv": tsv})

    def times(self, factor: float) -> Self:
        """Return the corpus with its weight, or each of its weights, multiplied."""
        weight = self.weight
        product = (
            {key: factor * value for key, value in weight.items()} if isinstance(weight, dict) else factor * weight
        )
        return self.model_copy(update={"weight": product})


class DevCorpus(CorpusFiles):
    """Parallel text for validation."""

    name: str | None = Field(
        None,
        description="name of this dev set in curves and reports, if dev is a list of several; default: the name of "
        "its file, such as news for news.en.gz",
    )

    @property
    def label(self) -> str:
        """The name of the set in messages: dev, or dev (NAME) if there are several."""
        return f"dev ({self.name})" if self.name else "dev"

    @property
    def key(self) -> str:
        """The name of the set in messages about the config: data.dev, or data.dev (NAME) if there are several."""
        return f"data.{self.label}"


def _as_list(value: object) -> object:
    """Put a single corpus into a list; null stays null, so that the check for missing values sees it."""
    if isinstance(value, CorpusFiles) and not isinstance(value, DevCorpus):
        value = DevCorpus(**{key: getattr(value, key) for key in CorpusFiles.model_fields})
    return value if isinstance(value, list) or value is None else [value]


def _single_as_section(corpora: list[DevCorpus], write: SerializerFunctionWrapHandler) -> Any:
    written = write(corpora)
    return written[0] if len(written) == 1 else written


DevCorpora = Annotated[
    list[DevCorpus],
    BeforeValidator(_as_list, json_schema_input_type=DevCorpus | list[DevCorpus]),
    WrapSerializer(_single_as_section),
]


def _checked_pattern(pattern: str) -> str:
    """Return the pattern; raise ValueError if it is not a regular expression, or if it matches the empty text."""
    import regex  # here: few configs need it

    try:
        compiled = regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{pattern!r} is not a regular expression ({error}); write \\ before a special character that you mean "
            "literally, and put the expression in single quotes"
        ) from None
    if compiled.search("") or compiled.fullmatch(""):
        raise ValueError(f"{pattern!r} also matches the empty text; change it to match at least one character")
    return pattern


def _as_code(language: str) -> str:
    return code_of_name(language) or language


LanguageCode = Annotated[str, AfterValidator(_as_code)]  # a name, such as Chinese, becomes its code


class DataConfig(Section):
    """The text for training, validation and test."""

    src_lang: LanguageCode = Field(
        UNNAMED[0],
        min_length=1,
        description="source language code, such as en: for reports and for sorting test sentences (negation, names); "
        "default: the extension of dev's source file, or else of the training files (en for dev.en.gz)",
    )
    tgt_lang: LanguageCode = Field(
        UNNAMED[1],
        min_length=1,
        description="target language code, such as fr: for reports, for BLEU (which splits zh, ja, th and similar "
        "languages into characters) and for finding lost numbers; default: as for src_lang",
    )
    train: list[TrainCorpus] = Field(min_length=1, description="training text: one or several corpora")
    temperature: float = Field(
        1.0,
        ge=1,
        le=1000,
        description="temperature T of sampling (Arivazhagan et al. 2019): a corpus of n pairs gets a share of each "
        "epoch proportional to weight x n^(1/T). 1: by size; 5: common for languages of very different sizes; "
        "1000: by weight alone",
    )
    dev: DevCorpora = Field(
        min_length=1,
        description="validation text: decides when to stop early and which checkpoints to keep; or a list of "
        "several: mtkit scores each separately, and their mean, or train.metric_on, decides",
    )
    test: CorpusFiles | None = Field(
        None, description="test text: mtkit never trains on it; `mtkit evaluate` uses it by default"
    )
    max_tokens: int = Field(
        128,
        ge=1,
        le=100_000,
        description="leave out (and count) training pairs with more tokens than this on a side",
    )
    max_length_ratio: float | None = Field(
        None,
        ge=1,
        description="leave out training pairs in which one side has more than this many times the tokens of the "
        "other; tags do not count",
    )
    placeholders: list[Annotated[str, AfterValidator(_checked_pattern)]] = Field(
        [],
        description="regular expressions, such as '\\{\\w+\\}' for {name}: each match is one token for the model, "
        "which learns to copy it, so that it appears unchanged in the translation; [] for none",
    )
    labels: list[str] = Field(
        [],
        description="classify: the labels; default: the labels in the training text, in alphabetical order. If you "
        "set them, any other label in the text is an error",
    )
    pairs: bool | None = Field(
        None,
        description="classify: whether a row has two texts (source, target, label) or one (text, label); default: as "
        "the first row of the training text",
    )

    @property
    def stages(self) -> list[Stage]:
        """The parts of a run between changes of weight or min_score; a single one if nothing changes."""
        begins = changes(value for corpus in self.train for value in (corpus.weight, corpus.min_score))
        return [
            Stage(
                begin,
                end,
                [value_at(corpus.weight, begin) for corpus in self.train],
                [value_at(corpus.min_score, begin) for corpus in self.train],
            )
            for begin, end in pairwise([*begins, 1.0])
        ]

    @model_validator(mode="after")
    def _every_stage_has_text(self) -> Self:
        for stage in self.stages:
            if not any(stage.weights):
                raise ValueError(
                    f"train: every corpus has weight 0 from {stage}: set a weight above 0 for one of them there"
                )
        return self

    @model_validator(mode="after")
    def _dev_sets_have_names(self) -> Self:
        """Name each of several dev sets, by default after its file."""
        if len(self.dev) == 1:
            self.dev[0].__dict__["name"] = None  # which has no use; the section is not in use yet
            return self
        given = [corpus.name or _name_of_file(corpus.paths[0]) for corpus in self.dev]
        for i, (name, corpus) in enumerate(zip(given, self.dev, strict=True)):
            if not re.fullmatch(r"\w[\w-]*", name):
                what = f"dev.{i}.name={name}" if corpus.name else f"dev.{i}: the file's name, {corpus.paths[0].name},"
                raise ValueError(
                    f"{what} cannot be the name of a dev set: set dev.{i}.name to letters, digits, - and _"
                )
            if name in given[:i]:
                both = f"dev.{given.index(name)} and dev.{i}"
                raise ValueError(f"dev: {both} are both named {name}: set dev.{i}.name, for example to {name}{i + 1}")
            corpus.__dict__["name"] = name
        return self

    @model_validator(mode="after")
    def _languages_from_names(self) -> Self:
        """Set missing languages to the codes in the files' names."""
        for side in ("src", "tgt"):
            if getattr(self, f"{side}_lang") == side:
                in_dev, in_train = ({_language(files, side) for files in part} for part in (self.dev, self.train))
                code = next((codes.pop() for codes in (in_dev - {None}, in_train) if len(codes) == 1), None)
                object.__setattr__(self, f"{side}_lang", code or side)  # the section is not in use yet
        if self.src_lang not in ("src", self.tgt_lang) and self.tgt_lang != "tgt":
            for corpus in filter(None, (*self.train, *self.dev, self.test)):
                if corpus.file and not corpus.langs:
                    corpus.__dict__["langs"] = self.src_lang, self.tgt_lang  # likewise
        return self


def _name_of_file(path: Path) -> str:
    """Return the file's name without the extensions for formats, compression and languages."""
    name, suffix = path.name, path.suffix
    while suffix in _FORMATS:
        name = name.removesuffix(suffix)
        suffix = Path(name).suffix
    return (Path(name).stem if language_in_name(Path(name)) else name).replace(".", "-")


def _language(files: CorpusFiles, side: Literal["src", "tgt"]) -> str | None:
    """Return the language of a side from the files' names."""
    if files.file:
        return (languages_in_name(files.file) or (None, None))[side == "tgt"]
    path = files.src if side == "src" else files.tgt
    return language_in_name(path) if path else None
