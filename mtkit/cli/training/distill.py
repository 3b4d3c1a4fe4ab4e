"""`mtkit distill`: train a student on its teachers' translations of the training text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import ConfigOption, SetOption
from mtkit.cli.sharing import ExecutorOption, RayAddressOption, Where, workers_option
from mtkit.cli.training.train import train_run
from mtkit.errors import UsageError
from mtkit.files import locked

WorkersOption = Annotated[
    int | None,
    workers_option(
        "Number of processes on this machine's processor, each with the teachers. Default: distill.workers (1)."
    ),
]


def distill(
    config_path: ConfigOption,
    teachers: Annotated[
        list[Path] | None,
        typer.Option(
            "--teacher",
            metavar="FOLDER",
            help="Teacher, a run or bundle; replaces distill.teachers; repeat for an ensemble.",
        ),
    ] = None,
    overrides: SetOption = None,
    data_only: Annotated[
        bool,
        typer.Option("--data-only", help="Only translate the text, and print the entries for data.train."),
    ] = False,
    workers: WorkersOption = None,
    executor: ExecutorOption = "local",
    ray_address: RayAddressOption = None,
) -> None:
    """Train a student on its teachers' translations of the training text (Kim and Rush 2016), or resume it.

    This is the same as `mtkit train` with a config that sets distill.teachers, but other processes and machines can
    share the translation. Only this process trains.
    """
    from mtkit.augmentation import back_translation, distillation
    from mtkit.config.reading import loading, problems

    named = [str(folder.absolute()) for folder in teachers or []]
    options = " ".join(f"--teacher {folder}" for folder in teachers or [])
    teachers_text = f"distill.teachers={json.dumps(named, ensure_ascii=False)}"
    more = [problems.Setting(teachers_text, options)] if named else []
    settings = [*(overrides or []), *more]
    config = loading.load_config(config_path, settings)
    if not config.distill.teachers:
        raise UsageError("no teacher: give --teacher RUN, or set distill.teachers in the config")
    chosen = Where(workers, executor, ray_address).executor_for(config.distill.workers)
    if not data_only:
        train_run(config_path, settings, chosen)
        return

    assert config.run_dir is not None  # load_config sets it
    with locked(config.run_dir):
        print(back_translation.as_entries(distillation.with_teachers_text(config, chosen).data.train), end="")
