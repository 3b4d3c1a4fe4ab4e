"""`mtkit distill`: teachers and a student's config in, the student out, trained on the teachers' translations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mtkit.augmentation import back_translation, distillation
from mtkit.cli.options import ConfigOption, SetOption
from mtkit.cli.train import train
from mtkit.config import loading
from mtkit.errors import UsageError
from mtkit.files import locked


def distill(
    config_path: ConfigOption,
    teachers: Annotated[
        list[Path] | None,
        typer.Option("--teacher", help="Run or bundle folder, for distill.teachers; several are an ensemble."),
    ] = None,
    overrides: SetOption = None,
    data_only: Annotated[
        bool,
        typer.Option("--data-only", help="Stop when the text is translated; print it as data.train would have it."),
    ] = False,
) -> None:
    """Train a student on what teachers make of the training text (Kim and Rush 2016), or go on where that stopped.

    The same as `mtkit train` with a config that names teachers in its section distill.
    """

    named = [str(folder.absolute()) for folder in teachers or []]
    more = [f"distill.teachers={json.dumps(named, ensure_ascii=False)}"] if named else []
    settings = [*(overrides or []), *more]
    config = loading.load_config(config_path, settings)
    if not config.distill.teachers:
        raise UsageError("there is no teacher: give --teacher RUN, or set distill.teachers in the config")
    if not data_only:
        train(config_path, settings)
        return

    assert config.run_dir is not None  # load_config sees to it
    with locked(config.run_dir):
        print(back_translation.as_entries(distillation.with_teachers_text(config).data.train), end="")
