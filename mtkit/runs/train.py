"""Train a run from its config to its bundle, or resume it: distillation, the training loop, and the end."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from mtkit.augmentation.distillation import with_teachers_text
from mtkit.config.schema import Config
from mtkit.console import log
from mtkit.cores import CpuTime, use_of_others
from mtkit.distributed.communicator import ALONE, Communicator
from mtkit.errors import CheckpointError, ConfigError
from mtkit.files import disk_full_explained, locked, remove_leftovers, write_text
from mtkit.jobs.executors import Executor
from mtkit.model.network import Network
from mtkit.runs.export import add_export, add_int8_scores, cost_in_validations
from mtkit.runs.finish import ENDING, TrainResult, finish, finished_before, rehearse
from mtkit.runs.folder import check_run, check_start, with_its_choices, write_config
from mtkit.runs.record import note_start
from mtkit.runs.report import refresh_report
from mtkit.training.preparation.prepare import check_early, prepare
from mtkit.training.preparation.prepared import Prepared
from mtkit.training.preparation.warm_start import inherit
from mtkit.training.trainer import Observer, Trainer
from mtkit.training.update.checkpoint import Checkpoint, Checkpoints
from mtkit.training.validation.validator import DevScores


def train(
    cfg: Config, since: float | None = None, processes: Communicator = ALONE, executor: Executor | None = None
) -> TrainResult:
    """Train the model of cfg in cfg.run_dir, or resume the run where an earlier start stopped.

    Trains the tokenizers if the run has none. Does not change a run that has reached its limits.
    since: the time.monotonic() from which train.budget counts; default: now.
    processes: the group that trains the model together; each process calls this function.
    executor: runs the translation of the text if distill has teachers; default: distill.workers processes.
    Raises KeyboardInterrupt, after saving, if the user stops the run (Ctrl-C, SIGTERM, SIGHUP), and MtkitError if the
    input or the machine makes training impossible, or if another process works in the run.
    """
    run_dir = cfg.run_dir
    if run_dir is None:
        raise ValueError("cfg.run_dir is not set")
    if run_dir.exists() and not run_dir.is_dir():
        raise ConfigError(f"run_dir={run_dir}: this is a file; choose a folder, or a new name")
    since = time.monotonic() if since is None else since
    began = CpuTime.now()
    with disk_full_explained(run_dir), locked(run_dir) if processes.is_main else nullcontext():
        cfg, checkpoints = inherit(cfg), Checkpoints(run_dir / "checkpoints")
        teachers, started = cfg.distill.teachers, checkpoints.exist()
        if teachers and not started:
            check_early(cfg, processes)
        cfg = processes.on_main(lambda: with_teachers_text(cfg, executor))
        cfg = with_its_choices(cfg, started=started)
        checkpoint = processes.on_main(lambda: _open_run(cfg, run_dir, checkpoints))
        if checkpoint and (result := processes.on_main(lambda: finished_before(cfg, run_dir, checkpoint.state))):
            return result
        validation_s = checkpoint.state.timing.validation if checkpoint else 0.0
        run = prepare(cfg, run_dir, checkpoints, processes, since, validation_s)
        trainer = Trainer(run, since, _RunFolder(run, teachers, began))
        if checkpoint:
            _resume(trainer, checkpoint)
        trainer.budget.timing.export = cost_in_validations(run.cfg, run.updater.device, run.validator.n_sentences)
        try:
            limits = trainer.fit()
        except KeyboardInterrupt:
            if processes.is_main and (steps := checkpoints.kept_steps()):
                log.info(f"step {steps[-1]} is saved; the same command resumes from there")
            raise
        model = trainer.updater.weights.whole(trainer.updater.model)
        return processes.on_main(lambda: _end(trainer, model, limits))


def _resume(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Resume from the checkpoint, or from an earlier one if its content does not fit the run."""
    step = checkpoint.state.step
    try:
        trainer.resume(checkpoint)
    except CheckpointError as error:
        earlier = trainer.processes.on_main(lambda: trainer.checkpoints.newest(before=step))
        if earlier is None or earlier.state.step >= step:
            raise
        log.warning(f"{error}; trying another checkpoint")
        _resume(trainer, earlier)
    else:
        trainer.budget.resume(checkpoint.state.timing)


def _end(trainer: Trainer, model: Network, limits: Sequence[str]) -> TrainResult:
    """Write the bundle with its scores in int8 and its export, and log the time of each part."""
    ending = trainer.run.run_dir / ENDING
    write_text(ending, "mtkit removes this file when model/ is complete\n")
    result = finish(trainer.run, trainer.state, model, limits)
    left = trainer.budget.left_for_export()
    add_int8_scores(trainer.run)
    add_export(trainer.run, left)
    ending.unlink()
    log.info(trainer.budget.account())
    return result


class _RunFolder(Observer):
    """Keeps config.yaml, run.json and report.html of the run up to date."""

    def __init__(self, run: Prepared, teachers: Sequence[Path], began: CpuTime | None) -> None:
        """teachers: the models that translated the training text; began: when this start of the run began."""
        self.run = run
        self.teachers = teachers
        self.began = began

    def started(self, step: int) -> None:
        """Write config.yaml and run.json, and warn if other programs leave the run too little of the machine."""
        updater = self.run.updater
        if updater.device.type == "cpu" and updater.processes.size == 1 and (used := use_of_others(self.began)):
            log.info(f"other programs use {used}; training is slower while they run")
        write_config(self.run.cfg, self.run.reasons, resumed=self.run.checkpoints.exist())
        note_start(self.run, step, self.run.checkpoints.made_with, self.teachers)

    def saved(self) -> None:
        """Write report.html."""
        refresh_report(self.run.run_dir)

    def rehearse_end(self, scores: DevScores) -> None:
        """Write the report in the same way as `finish`."""
        rehearse(self.run, scores)


def _open_run(cfg: Config, run_dir: Path, checkpoints: Checkpoints) -> Checkpoint | None:
    """Remove leftovers from the run's folder, check that cfg can continue the run, and return where to resume."""
    for folder in (run_dir, run_dir / "checkpoints", run_dir / "cache"):
        remove_leftovers(folder)
    check_run(cfg, started=checkpoints.exist())
    checkpoint = checkpoints.newest()
    if checkpoint:
        check_start(cfg, checkpoint.state.start)
    return checkpoint
