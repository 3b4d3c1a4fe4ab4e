"""What the commands that judge systems share: the test set of their options or configs, and how models translate it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

import mtkit
from mtkit.cli.translating import load_translator
from mtkit.config import loading, schema
from mtkit.data import corpus
from mtkit.errors import DataError, UsageError
from mtkit.evaluation.comparison import systems
from mtkit.evaluation.metrics.settings import TokenizerName

SourceOption = Annotated[
    Path | None, typer.Option("--src", help="What was translated; default: the --split of the models' configs.")
]
ReferencesOption = Annotated[
    list[Path] | None, typer.Option("--ref", help="Reference translations, line by line; repeat for several.")
]
Split = Literal["test", "dev"]
SplitOption = Annotated[
    Split, typer.Option(help="Which set of the models' configs to translate: choose settings on dev, report test.")
]
TokenizeOption = Annotated[
    TokenizerName | None,
    typer.Option(
        help="How BLEU cuts text into words; default: zh or char for languages without spaces between words, else 13a. "
        "none is for tokenized text, such as published scores are of."
    ),
]
_REMEDY = "give --src and --ref"


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

    def loader(self, settings: Sequence[str]) -> Callable[..., mtkit.Translator]:
        """A function from a bundle folder, or those of an ensemble, to its translator.

        settings: what comes from the test set, and yields to the options.
        """

        changes = [*settings, *self.overrides, *([f"decode.engine={self.engine}"] if self.engine else [])]
        return lambda *folders: load_translator(
            folders, overrides=changes, beam_size=self.beam_size, device=self.device
        )


def check_usage(
    src: Path | None, refs: Sequence[Path], split: Split, translating: Translating, *, any_model: bool, src_needed: bool
) -> None:
    """Raise UsageError where the options do not give a test set, or are for models and there are none."""
    if any_model and (src is None) != (not refs):
        raise UsageError("give both --src and --ref, or neither for the test set of the model's config")
    if split != "test" and (src is not None or not any_model):
        why = "--src and --ref name the files" if src is not None else "no system is a model"
        raise UsageError(f"--split {split} is a set of a model's config, but {why}: leave it out")
    if any_model:
        return
    if translating.is_changed:
        raise UsageError("no system is a model: leave out --beam-size, --engine, --device and --set")
    if not refs or (src_needed and src is None):
        what = "--src and --ref" if src_needed else "--ref"
        raise UsageError(f"files of translations do not say what was translated, and how it should read: give {what}")


def find_test_set(
    folders: Sequence[Path], src: Path | None, refs: Sequence[Path], split: Split
) -> tuple[systems.TestSet, list[str]]:
    """The test set, and the settings that translate it as its config means.

    It is what the options name, else this split of the configs of these models, which then must agree.
    """

    settings = []
    if src is not None:
        files: schema.CorpusFiles | None = schema.CorpusFiles(src=src, tgt=refs[0])
        refs = refs[1:]
    elif folders:
        files = _files_of_configs(folders, split)
        settings = [f"decode.tag={files.tag or 'null'}"]
    else:
        files = None
    test_set = systems.read_test_set(files, refs)
    test_set.warn_of_blanks()
    return test_set, settings


def _files_of_configs(folders: Sequence[Path], split: Split) -> schema.CorpusFiles:
    key = f"data.{split}"
    found: list[schema.CorpusFiles | None] = [
        getattr(loading.load_config(folder / "config.yaml").data, split) for folder in folders
    ]
    for folder, files in zip(folders, found, strict=True):
        if files is None:
            raise DataError(f"{folder / 'config.yaml'}: no test set ({key}); {_REMEDY}")
        corpus.require_files(key, [files], config=folder / "config.yaml", remedy=_REMEDY)
        if files != found[0]:
            raise DataError(f"{folders[0]} and {folder} have unlike {split} sets in their configs ({key}); {_REMEDY}")
    assert found[0] is not None
    return found[0]
