"""Options of the commands that judge systems: the test set, and how systems that are models translate it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

import mtkit
from mtkit.cli.options import TEXT
from mtkit.cli.translating import load_translator, option_overrides
from mtkit.errors import UsageError
from mtkit.evaluation.metrics.settings import TokenizerName

METRIC = "Metrics and tests"  # a heading of options

SourceOption = Annotated[
    Path | None,
    typer.Option("--src", rich_help_panel=TEXT, help="Source text. Default: the --split of the models' configs."),
]
ReferencesOption = Annotated[
    list[Path] | None,
    typer.Option("--ref", rich_help_panel=TEXT, help="Reference translations, line by line; repeat for several."),
]
SplitOption = Annotated[
    Literal["test", "dev"],
    typer.Option(
        rich_help_panel=TEXT, help="Which set of the models' configs to translate: choose settings on dev, report test."
    ),
]
SrcLangOption = Annotated[
    str | None,
    typer.Option(
        "--src-lang",
        metavar="CODE",
        rich_help_panel=TEXT,
        help="Source language, such as en. Default: from a model's config, else from the name of --src.",
    ),
]
TgtLangOption = Annotated[
    str | None,
    typer.Option(
        "--tgt-lang",
        metavar="CODE",
        rich_help_panel=TEXT,
        help="Target language, such as fr. Default: from a model's config, else from the name of --ref.",
    ),
]
TrainTextOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--train-text",
        rich_help_panel=TEXT,
        help="Source side of the training text, to find rare words; repeat for several. "
        "Default: the training text of a model's config.",
    ),
]
ScoresOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        metavar="NAME=FILE",
        rich_help_panel=METRIC,
        help="Scores from elsewhere, such as COMET or human judgements: one number a line, higher is better. With "
        "several systems a file for each, in their order: NAME=FILE,FILE. Repeat for several kinds of scores.",
    ),
]
TokenizeOption = Annotated[
    TokenizerName | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=METRIC,
        help="How BLEU cuts text into words: 13a, none, intl, char, zh, ja-mecab, ko-mecab, flores101 or flores200. "
        "Default: zh or char for languages without spaces between words, else 13a. Use none for text that is "
        "already tokenized.",
    ),
]


@dataclass(frozen=True)
class Translating:
    """The options that say how systems that are models translate."""

    beam_size: int | None
    engine: str | None
    device: str
    overrides: Sequence[str]

    @property
    def is_changed(self) -> bool:
        """Whether any of them is given."""
        return bool(self.beam_size or self.engine or self.overrides or self.device != "auto")

    def check(self, any_model: bool) -> None:
        """Raise UsageError if these options are given and no system is a model."""
        if self.is_changed and not any_model:
            raise UsageError("no system is a model: leave out --beam-size, --engine, --device and --set")

    def load(self, folders: Sequence[Path], overrides: Sequence[str] = ()) -> mtkit.Translator:
        """Load a translator. overrides: what the test set asks for; the options go before it."""
        changes = [*overrides, *self.overrides, *option_overrides({"engine": self.engine})]
        return load_translator(folders, overrides=changes, beam_size=self.beam_size, device=self.device)
