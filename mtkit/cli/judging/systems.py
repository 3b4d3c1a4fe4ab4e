"""Options of the commands that judge systems: the test set, and the settings of models that translate it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

import mtkit
from mtkit.cli.models import load_translator, option_overrides
from mtkit.cli.options import TEXT
from mtkit.errors import UsageError
from mtkit.evaluation.metrics.settings import TokenizerName

Split = Literal["test", "dev"]
_Result = TypeVar("_Result")
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
    Split,
    typer.Option(
        rich_help_panel=TEXT,
        help="Set of the models' configs to translate: use dev to choose settings, and test for reports.",
    ),
]
DevSetOption = Annotated[
    str | None,
    typer.Option(
        "--dev-set",
        metavar="NAME",
        rich_help_panel=TEXT,
        help="Use this one of several dev sets, by its name in data.dev, instead of --split dev.",
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
        "several systems, give one file for each, in their order: NAME=FILE,FILE. Repeat for several kinds of "
        "scores.",
    ),
]
TokenizeOption = Annotated[
    TokenizerName | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=METRIC,
        help="How BLEU splits text into words: 13a, none, intl, char, zh, ja-mecab, ko-mecab, flores101 or flores200. "
        "Default: zh or char for languages without spaces between words, else 13a. Use none for text that is "
        "already tokenized.",
    ),
]


def dev_sets(folder: Path | None, split: Split, dev_set: str | None) -> list[str | None]:
    """Return the names of the dev sets to score on: the given one, else each of the model's; None for its only set.

    folder: the model's folder, None without a model. Any split except dev is a single set.
    """
    from mtkit.config.reading import loading

    if dev_set is not None or split != "dev" or folder is None:
        return [dev_set]
    return [corpus.name for corpus in loading.load_config(folder / "config.yaml").data.dev]


def check_single_set(sets: Sequence[str | None], given: Mapping[str, object]) -> None:
    """Raise UsageError for options that apply to one set if there are several. given: option to its value."""
    if len(sets) > 1 and (of_one := [option for option, value in given.items() if value]):
        names = ", ".join(map(str, sets))
        raise UsageError(
            f"{', '.join(of_one)}: applies to one of the {len(sets)} dev sets; choose it with --dev-set: {names}"
        )


def print_by_set(
    results: Mapping[str | None, _Result],
    *,
    as_json: bool,
    as_record: Callable[[_Result], dict[str, Any]],
    as_text: Callable[[_Result], Iterable[str]],
) -> None:
    """Print the result; for several dev sets, print the name and the result of each in turn."""
    if as_json:
        records = {name: as_record(result) for name, result in results.items()}
        [record] = records.values() if len(records) == 1 else [{"dev_sets": records}]
        print(json.dumps(record, indent=2, ensure_ascii=False))
        return
    for index, (name, result) in enumerate(results.items()):
        if len(results) > 1:
            print(("\n" if index else "") + f"dev ({name})")
        print("\n".join(as_text(result)))


@dataclass(frozen=True)
class Translating:
    """The options that control how models translate the test set."""

    beam_size: int | None
    engine: str | None
    device: str
    overrides: Sequence[str]

    @property
    def is_changed(self) -> bool:
        """Return whether the user gave any of them."""
        return bool(self.beam_size or self.engine or self.overrides or self.device != "auto")

    def check(self, any_model: bool) -> None:
        """Raise UsageError if the user gave these options but no system is a model."""
        if self.is_changed and not any_model:
            raise UsageError("no system is a model: leave out --beam-size, --engine, --device and --set")

    def load(self, folders: Sequence[Path], overrides: Sequence[str] = ()) -> mtkit.Translator:
        """Load a translator. overrides: settings for the test set, over which the options take precedence."""
        changes = [*overrides, *self.overrides, *option_overrides({"engine": self.engine})]
        return load_translator(folders, overrides=changes, beam_size=self.beam_size, device=self.device)
