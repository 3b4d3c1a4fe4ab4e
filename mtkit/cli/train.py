"""`mtkit train`: train a run from its config, or resume it."""

from __future__ import annotations

import time

from mtkit.cli.options import ConfigOption, SetOption, load_run_config
from mtkit.distributed.launch import processes_of_job
from mtkit.runs import train as training


def train(config_path: ConfigOption, overrides: SetOption = None) -> None:
    """Train a translator, or resume an interrupted run.

    The run is written to the config's run_dir; the command prints the folder of the finished model. To use N GPUs of a
    machine, set train.accumulate to a multiple of N and start:
    torchrun --standalone --nproc-per-node N -m mtkit train --config FILE.
    """
    since = time.monotonic()

    with processes_of_job() as processes:
        config = load_run_config(config_path, overrides)
        result = training.train(config, since, processes)
    if processes.is_main:
        print(result.bundle)
