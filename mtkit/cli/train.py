"""`mtkit train`: train a run from its config, or resume it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, get_args

from mtkit.cli.options import ConfigOption, SetOption, load_run_config
from mtkit.console import log
from mtkit.distributed.launch import processes_of_job
from mtkit.interop.support import Target, export_problems
from mtkit.runs import train as training

if TYPE_CHECKING:
    from mtkit.config.schema import ModelConfig


def train(config_path: ConfigOption, overrides: SetOption = None) -> None:
    """Train a translator, or resume an interrupted run.

    The run is written to the config's run_dir; the command prints the folder of the finished model. To use N GPUs of a
    machine, set train.accumulate to a multiple of N and start:
    torchrun --standalone --nproc-per-node N -m mtkit train --config FILE.
    """
    since = time.monotonic()

    with processes_of_job() as processes:
        config = load_run_config(config_path, overrides)
        if config.run_dir and not config.run_dir.exists():
            _say_exports(config.model)

        result = training.train(config, since, processes)
    if processes.is_main:
        print(result.bundle)


def _say_exports(cfg: ModelConfig) -> None:
    """Log the formats that cannot hold the model, before hours of training."""
    for target in get_args(Target):
        if problems := export_problems(cfg, target):
            log.info(f"this model will not export to {target}: {'; '.join(problems)}")
