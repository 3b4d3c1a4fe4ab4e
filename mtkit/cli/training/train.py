"""`mtkit train`: train a run from its config, or resume it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.cli.options import ConfigOption, SetOption, load_run_config
from mtkit.distributed.launch import processes_of_job

if TYPE_CHECKING:
    from mtkit.jobs.executors import Executor


def train(config_path: ConfigOption, overrides: SetOption = None) -> None:
    """Train a translator, or resume an interrupted run.

    The command writes the run to the config's run_dir, and prints the folder of the finished model. To use N GPUs of a
    machine, set train.accumulate to a multiple of N and run: torchrun --standalone --nproc-per-node N -m mtkit train
    --config FILE.
    """
    train_run(config_path, overrides)


def train_run(config_path: Path, overrides: list[str] | None, executor: Executor | None = None) -> None:
    """Train a run, for `train` and `distill`. executor: runs the teachers' translations, if there are teachers."""
    since = time.monotonic()
    with processes_of_job() as processes:
        config = load_run_config(config_path, overrides)
        from mtkit.runs import train as training  # after the config has been checked: it takes a second

        result = training.train(config, since, processes, executor)
    if processes.is_main:
        print(result.bundle)
