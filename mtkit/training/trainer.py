"""From a config to a trained bundle: trains, validates, saves, goes back after a divergence, resumes."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import astuple
from pathlib import Path

from mtkit.augmentation.distillation import with_teachers_text
from mtkit.config.durations import seconds_of
from mtkit.config.schema import Config
from mtkit.console import log
from mtkit.distributed.processes import ALONE, Processes
from mtkit.errors import ConfigError
from mtkit.files import disk_full_explained, locked, remove_leftovers
from mtkit.model.transformer import Transformer
from mtkit.runs.finish import TrainResult, finish, finished_before, rehearse
from mtkit.runs.folder import check_run, with_its_choices, write_config
from mtkit.runs.record import note_start
from mtkit.runs.report import refresh_report
from mtkit.runtime import environment
from mtkit.training.budget import Budget, Timing
from mtkit.training.checkpoint import Checkpoint, Checkpoints
from mtkit.training.divergence import Divergence, Recovery, Start
from mtkit.training.forecast import forecast_validation
from mtkit.training.interruption import StopRequest, stop_request
from mtkit.training.metrics_log import MetricsLog, NoMetricsLog
from mtkit.training.prepare import Prepared, check_early, prepare
from mtkit.training.run_bar import RunBar
from mtkit.training.schedule import fraction_done, learning_rate, limits_reached, r_drop_weight
from mtkit.training.state import Interval, TrainState, UpdateStats
from mtkit.training.validation import DevScores, rank
from mtkit.training.warm_start import inherit


def train(cfg: Config, since: float | None = None, processes: Processes = ALONE) -> TrainResult:
    """Train the model that cfg describes in cfg.run_dir, from where an earlier start of it stopped.

    Makes the tokenizers if the run has none. A run that has reached its limits is left as it is.
    since: the value of time.monotonic() from which train.budget counts; without it, now. processes: those that train
    the model together; each of them has to call this.
    Raises KeyboardInterrupt after saving if the user stops it (Ctrl-C, SIGTERM, SIGHUP), and MtkitError for whatever
    input or the machine makes impossible, and if another process is working in the run.
    """
    run_dir = cfg.run_dir
    if run_dir is None:
        raise ValueError("cfg.run_dir is not set")
    if run_dir.exists() and not run_dir.is_dir():
        raise ConfigError(f"run_dir={run_dir}: this is a file; give a folder, or a name that is not there yet")
    since = time.monotonic() if since is None else since
    with disk_full_explained(run_dir), locked(run_dir) if processes.is_main else nullcontext():
        cfg, checkpoints = inherit(cfg), Checkpoints(run_dir / "checkpoints")
        teachers, started = cfg.distill.teachers, checkpoints.exist()
        if teachers and not started:
            check_early(cfg, processes)
        cfg = processes.on_main(lambda: with_teachers_text(cfg))
        cfg = with_its_choices(cfg, started=started)
        checkpoint = processes.on_main(lambda: open_run(cfg, run_dir, checkpoints))
        if checkpoint and (result := processes.on_main(lambda: finished_before(cfg, run_dir, checkpoint.state))):
            return result
        trainer = Trainer(prepare(cfg, run_dir, checkpoints, processes), since)
        if checkpoint:
            trainer.resume(checkpoint)
            trainer.budget.resume(checkpoint.state.timing)
        processes.on_main(lambda: trainer.note_start(teachers))
        try:
            limits = trainer.fit()
        except KeyboardInterrupt:
            if processes.is_main and (steps := checkpoints.kept_steps()):
                log.info(f"step {steps[-1]} is saved; the same command goes on from there")
            raise
        model = processes.whole(trainer.updater.model)
        return processes.on_main(lambda: finish(trainer.run, trainer.state, model, limits))


def open_run(cfg: Config, run_dir: Path, checkpoints: Checkpoints) -> Checkpoint | None:
    """Tidy up the run's folder, see whether cfg may go on with it, and find the checkpoint to go on from."""
    for folder in (run_dir, run_dir / "checkpoints", run_dir / "cache"):
        remove_leftovers(folder)
    check_run(cfg, started=checkpoints.exist())
    return checkpoints.newest()


class Trainer:
    """A run under way: `state` says where it stands, `updater` holds model and optimizer."""

    def __init__(self, run: Prepared, since: float | None = None) -> None:
        """since: the value of time.monotonic() from which train.budget counts; without it, now."""
        self.run = run
        self.cfg, self.run_dir, self.checkpoints = run.cfg, run.run_dir, run.checkpoints
        self.corpus, self.feed, self.epoch_size = run.corpus, run.feed, run.epoch_size
        self.validator, self.updater = run.validator, run.updater
        self.processes = run.updater.processes
        machine = environment(self.updater.device, self.updater.precision)
        self.checkpoints.made_with = {**machine, "processes": str(self.processes.size)}
        self.budget = Budget(run.cfg.train, since)
        self.state = TrainState(
            train_fingerprint=run.corpus.fingerprint, dev_fingerprint=run.validator.corpus.fingerprint
        )
        self._saved: tuple[int, int] | None = None  # the step, and the last one validated, of the newest checkpoint
        self._start: Start | None = None  # the way back while there is no checkpoint
        self._running_since = time.monotonic()
        self._seconds_before = 0.0
        self._r_drop: float | None = None  # the weight of the update before, of this start

    def resume(self, checkpoint: Checkpoint | Start) -> None:
        """Go back to a checkpoint, or to the start.

        Raises ConfigError if it was made with other text.
        """
        state, now = checkpoint.state, self.state
        for part in ("train", "dev"):
            key = f"{part}_fingerprint"
            if getattr(state, key) != getattr(now, key):
                raise ConfigError(
                    f"{self.run_dir}: the text of data.{part}, or a tokenizer, is not what this run was started with; "
                    "start a new run (another run_dir), or restore it"
                )
        if isinstance(checkpoint, Start):
            checkpoint.restore(self.updater.model, self.updater.optimizer, self.updater.average)
        else:
            self.processes.restore(checkpoint, self.updater)
        if state.grad_scaler:
            self.updater.grad_scaler.load_state_dict(state.grad_scaler)
        self.updater.batch_limit = state.batch_limit
        self.state = state
        self._seconds_before = state.seconds
        log.info(
            f"{self.run_dir}: resuming after step {state.step}, in epoch {state.position.epoch + 1}, "
            f"{state.seconds / 60:.1f} minutes of training behind"
        )

    def note_start(self, teachers: Sequence[Path] = ()) -> None:
        """Write config.yaml and run.json, which tell what the run works with; teachers: who translated its text."""
        write_config(self.cfg)
        note_start(self.run, self.state.step, self.checkpoints.made_with, teachers)

    def fit(self) -> list[str]:
        """Train until a limit is reached, validate and save; returns the limit's key (or keys): ["max_steps"]."""
        self._begin()
        with (
            stop_request() as request,
            self._metrics_log() as self.metrics,
            RunBar(self.cfg.train, self.state.progress(), self.epoch_size.n_updates) as bar,
            self.feed,
        ):
            while True:
                if self.processes.of_main(self.budget.validation_due(self.state.step))[0]:
                    self.validate(request)
                self._update_clock()
                if limits := limits_reached(self.cfg.train, self.state.progress()):
                    break
                if self.processes.any(request.received):
                    self.save()
                    raise KeyboardInterrupt
                try:
                    bar.add(self.update(), self.state.progress())
                except Divergence as error:
                    self.go_back(error)
            self.validate(request)
            if self.processes.any(request.received):
                raise KeyboardInterrupt
        return limits

    def _begin(self) -> None:
        """Plan the budget's end, and keep the weights of the start while there is no checkpoint to go back to."""
        budget, model = self.cfg.train.budget, self.processes.whole(self.updater.kept_model)
        # a start that goes on with a budget knows from the one before how long a validation takes
        in_time = seconds_of(budget) / 30 if budget is not None and not self.state.timing.validation else 0.0
        self.processes.on_main(  # whose clock counts
            lambda: self.budget.begin(forecast_validation(self.validator, model, in_time) if in_time else 0.0)
        )
        self._running_since = time.monotonic()
        if not self.checkpoints.exist():
            self._start = Start(self.state, self.updater.model, self.updater.grad_scaler)

    def _metrics_log(self) -> MetricsLog:
        kind = MetricsLog if self.processes.is_main else NoMetricsLog
        return kind(self.run_dir, self.state.step, self.state.recovery, self.state.validated_step)

    def go_back(self, error: Divergence) -> None:
        """After a divergence, go on from a checkpoint before it with a lower learning rate; the second time, raise."""
        if self.state.recovery:
            raise error
        failed_step = self.state.step
        before = failed_step - self.state.loss_watch.n_high
        place = self.processes.on_main(lambda: self.checkpoints.newest(before=before)) or self._start
        if place is None:
            raise error
        self._update_clock()
        seconds = self.state.seconds
        self.resume(place)
        self._seconds_before, self._running_since = seconds, time.monotonic()
        recovery = Recovery(self.state.step, failed_step, error.finding)
        self.state.recovery = recovery
        log.warning(
            f"{error.finding}\nThe run went back to step {recovery.step} and goes on from there with the learning rate "
            f"x {recovery.lr_factor:g}; should it diverge again, it stops"
        )
        if isinstance(place, Checkpoint):
            self._saved = None
            self.save()
        self.metrics.go_back(recovery, self.state.validated_step)

    def update(self) -> UpdateStats:
        """Make the next update of the plan, and the line of the metrics log if it is time for one.

        Raises Divergence if it cannot be made, or if the loss has exploded.
        """
        cfg, state = self.cfg.train, self.state
        started = time.monotonic()
        batches, position = self.feed.next_after(state.position)
        fraction = fraction_done(cfg, state.progress()) or 0.0
        lr = learning_rate(cfg, state.step + 1, fraction)
        if state.recovery:
            lr *= state.recovery.lr_factor
        r_drop = self._r_drop_of(fraction)
        stats = self.updater.update(batches, state.step + 1, lr, self.corpus.line_of, r_drop)
        state.step += 1
        state.position = position
        state.interval.add(stats, time.monotonic() - started)
        self.budget.updated(time.monotonic() - started)
        if state.step % cfg.log_every == 0:
            self._log_interval(lr)
        state.batch_limit, nll = self.updater.batch_limit, stats.nll_sum / stats.n_tgt_tokens
        if state.loss_watch.add(nll, self.updater.model.output.weight.shape[0]):
            raise state.loss_watch.divergence(state.step, nll, lr)
        return stats

    def _r_drop_of(self, fraction: float) -> float:
        """R-Drop's weight for the next update; where it is another than before, that is said."""
        cfg = self.cfg.train
        weight = r_drop_weight(cfg, fraction)
        if cfg.r_drop_from and weight != self._r_drop:
            until = f"without R-Drop until {cfg.r_drop_from:.0%} of the run"
            log.info(f"step {self.state.step + 1}: {f'with R-Drop (train.r_drop={weight:g})' if weight else until}")
        self._r_drop = weight
        return weight

    def validate(self, request: StopRequest) -> None:
        """Score the model on dev, note whether it is among the best, and save; nothing if that is done already.

        Raises KeyboardInterrupt, with the run saved, if the user stops it meanwhile.
        """
        if self.state.step == self.state.validated_step:
            return
        model = self.processes.whole(self.updater.kept_model)
        try:
            with self.budget.measuring("validation"):
                scores = self.processes.on_main(lambda: self._scores(request, model))
        except KeyboardInterrupt:
            self.save()
            raise
        is_best = rank(self.state, scores, self.cfg.train)
        self._report(scores, is_best)
        self.save()
        if self.processes.is_main and self.budget.wants_report():
            with self.budget.measuring("report"):
                rehearse(self.run, scores)

    def _scores(self, request: StopRequest, model: Transformer) -> DevScores:
        with request.breaking_off():
            return self.validator.run(model)

    def save(self) -> None:
        """Write a checkpoint of where the run stands, unless this start of it has done so."""
        standing = self.state.step, self.state.validated_step
        if standing == self._saved:
            return
        self._update_clock()
        self.state.grad_scaler = self.updater.grad_scaler.state_dict()
        self.metrics.sync()
        self.processes.check_equal(self.updater.model, self.state.step)
        model = self.processes.whole(self.updater.model)
        optimizer = self.processes.whole_optimizer(self.updater.optimizer)
        with self.budget.measuring("save"):
            self.processes.on_main(lambda: self.checkpoints.save(self.state, model, optimizer, self.updater.average))
            self.processes.on_main(lambda: refresh_report(self.run_dir))
        self._saved = standing
        self._start = None

    def _update_clock(self) -> None:
        seconds = self._seconds_before + time.monotonic() - self._running_since
        self.budget.tick()
        self.state.seconds, *timing = self.processes.of_main(seconds, *astuple(self.budget.timing))
        self.state.timing = self.budget.timing = Timing(*timing)

    def _report(self, scores: DevScores, is_best: bool) -> None:
        state, patience = self.state, self.cfg.train.patience
        epochs = state.progress().epochs
        note = "the best so far" if is_best else f"{state.bad_validations} since the best"
        if patience is not None and not is_best:
            note += f", at {patience} the run ends"
        samples = self.validator.samples(scores)
        lines = [f"step {state.step}, epoch {epochs:.2f}: dev {scores} ({note})"]
        lines += [
            f"    {sample.src}\n      -> {sample.translation}\n      (reference: {sample.reference})"
            for sample in samples
        ]
        log.info("\n".join(lines))
        self.metrics.write_samples(state.step, samples)
        self.metrics.write("validation", state.step, {"epoch": epochs, **scores.figures()})

    def _log_interval(self, lr: float) -> None:
        state = self.state
        self._update_clock()
        values = {"epoch": state.progress().epochs, "lr": lr, **state.interval.means(), "run_s": state.seconds}
        self.metrics.write("train", state.step, values)
        state.interval = Interval()
