"""`mtkit diversify`: add the training text, translated again by models of both directions, to the training text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mtkit.cli.options import MODEL, OUTPUT, BeamSizeOption, ConfigOption, DeviceOption, SetOption, check_other_folder
from mtkit.cli.sharing import ExecutorOption, RayAddressOption, Where, workers_option
from mtkit.console import log
from mtkit.errors import UsageError

WorkersOption = Annotated[
    int | None,
    workers_option("Number of processes on this machine's processor, each with its own model. Default: 1."),
]


def _models_option(name: str, direction: str) -> Any:
    """Return an option for the models that translate in a direction."""
    return typer.Option(
        name, metavar="FOLDER", rich_help_panel=MODEL, help=f"{direction} model, a run or bundle; repeat for several."
    )


def diversify(
    config_path: ConfigOption,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            rich_help_panel=OUTPUT,
            help="Folder for the new pairs and for the config to train with, FOLDER.yaml.",
        ),
    ],
    forward: Annotated[list[Path] | None, _models_option("--forward", "Source-to-target")] = None,
    backward: Annotated[list[Path] | None, _models_option("--backward", "Target-to-source")] = None,
    beam_size: BeamSizeOption = None,
    overrides: SetOption = None,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
    executor: ExecutorOption = "local",
    ray_address: RayAddressOption = None,
) -> None:
    """Translate the training text again, in both directions, and add the new pairs to it (Nguyen et al. 2020).

    Each forward model translates the sources of data.train, and each backward model the targets. The command leaves out
    duplicates, suspect translations, and pairs whose source is in dev or test. It prints the entries for data.train,
    and writes a config with them. The same command resumes an interrupted job. To add a model, give all models again;
    only the new one translates.
    """
    from mtkit.augmentation import back_translation, diversification
    from mtkit.config.reading import loading

    check_other_folder(output, "--output")
    if not forward and not backward:
        raise UsageError("no model: give --forward RUN, --backward RUN or both, each once or several times")
    config = loading.load_config(config_path, overrides or [])
    models = [
        *diversification.read_models(config, forward or [], "forward", beam_size),
        *diversification.read_models(config, backward or [], "backward", beam_size),
    ]
    where = Where(workers, executor, ray_address).executor_for(1)
    corpora = diversification.diversify(config, models, output.absolute(), where, device=device)
    new_config = output / f"{output.resolve().name}.yaml"
    diversification.write_config(config, corpora, new_config)
    log.info(f"{new_config}: this config trains on all of them: mtkit train {new_config}")
    print(back_translation.as_entries(corpora), end="")
