"""The training loop: update, validate, save, recover from a divergence, stop at a limit or on request."""

import time
from dataclasses import astuple

from mtkit.config.durations import duration_of
from mtkit.console import counted, log
from mtkit.data.batching import BATCH_ORDER
from mtkit.data.corpus import corpus_name
from mtkit.data.feed import Position
from mtkit.data.mixture import uses
from mtkit.errors import CheckpointError, TrainingError
from mtkit.model.network import Network
from mtkit.runtime import environment, is_out_of_memory
from mtkit.training.interruption import StopRequest, stop_request
from mtkit.training.metrics_log import MetricsLog, NoMetricsLog
from mtkit.training.preparation.pace import Outlook, worth_of
from mtkit.training.preparation.prepared import Prepared
from mtkit.training.run_bar import RunBar, estimated_steps
from mtkit.training.update.budget import Budget, Timing, expected_updates, least_updates
from mtkit.training.update.checkpoint import Checkpoint, Start, check_fits
from mtkit.training.update.divergence import Divergence, Recovery
from mtkit.training.update.schedule import (
    fraction_done,
    learning_rate,
    limits_reached,
    r_drop_weight,
    share_of_updates,
)
from mtkit.training.update.state import Interval, TrainState, UpdateStats
from mtkit.training.validation.validator import DevScores, rank

_SPEED_KNOWN = 20  # updates, after which a run knows its speed


class Observer:
    """Receives the events of a trainer, in process 0. Its methods do nothing; subclasses override them."""

    def started(self, step: int) -> None:
        """Handle the start of training, after `step` updates in earlier starts."""

    def saved(self) -> None:
        """Handle a new checkpoint."""

    def rehearse_end(self, scores: DevScores) -> None:
        """Do the work of the run's end once, in a run with a budget, so that the trainer can measure it."""


class Trainer:
    """A run in progress: `state` holds its progress, `updater` the model and the optimizer."""

    def __init__(self, run: Prepared, since: float | None = None, observer: Observer | None = None) -> None:
        """since: the time.monotonic() from which train.budget counts; default: now."""
        self.run = run
        self.observer = observer or Observer()
        self.cfg, self.run_dir, self.checkpoints = run.cfg, run.run_dir, run.checkpoints
        self.corpus, self.feed, self.epoch_size = run.corpus, run.feed, run.epoch_size
        self.validator, self.updater = run.validator, run.updater
        self.processes = run.updater.processes
        machine = environment(self.updater.device, self.updater.precision)
        self.checkpoints.made_with = {**machine, "processes": str(self.processes.size)}
        self.budget = Budget(run.cfg.train, since)
        self.state = TrainState(
            train_fingerprint=run.train_fingerprint, dev_fingerprint=run.validator.fingerprint, start=run.start
        )
        self._saved: tuple[int, int] | None = None  # the newest checkpoint's step, and the last one validated by then
        self._outlook = Outlook(run.epoch_size.n_updates, run.text.worth, run.expected_bleu)
        self._start: Start | None = None  # to go back to while there is no checkpoint
        self._running_since = time.monotonic()
        self._seconds_before = 0.0
        self._step_before = 0  # of earlier starts
        self._r_drop: float | None = None  # the weight of the previous update of this start
        self._least_updates = 0  # of a run that only train.patience ends, until it has logged how long they take

    def resume(self, start: Checkpoint | Start) -> None:
        """Go back to a checkpoint, or to the start. Raises ConfigError if the checkpoint belongs to other text."""
        state = start.state
        state.check_text(self.run_dir, self.state.train_fingerprint, self.state.dev_fingerprint)
        try:
            self._load(start)
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:  # undamaged, but forged
            place, reason = getattr(start, "folder", self.run_dir), str(error).strip().partition("\n")[0]
            if isinstance(error, RuntimeError) and is_out_of_memory(error):
                raise TrainingError(
                    f"{place}: not enough memory to load the checkpoint ({reason}); close other programs and run the "
                    "same command again"
                ) from error
            raise CheckpointError(f"{place}: does not fit this run ({reason})") from error
        if state.batch_order != BATCH_ORDER and (state.position.window or state.position.update):
            log.warning(
                f"{self.run_dir}: this version of mtkit groups pairs into other batches than the version that wrote "
                f"step {state.step}, so the rest of epoch {state.position.epoch + 1} repeats some pairs and skips "
                "others"
            )
        state.batch_order = BATCH_ORDER
        self.state = state
        self._seconds_before = state.seconds
        log.info(
            f"{self.run_dir}: resuming after step {state.step}, in epoch {state.position.epoch + 1}, after "
            f"{state.seconds / 60:.1f} minutes of training"
        )

    def _load(self, start: Checkpoint | Start) -> None:
        updater, optimizer_state = self.updater, start.optimizer_state()
        check_fits(optimizer_state, updater.optimizer)
        updater.weights.load(updater.model, start.weights())
        updater.weights.load_optimizer(updater.optimizer, optimizer_state)
        if updater.average:
            updater.weights.load(updater.average.model, start.average())
        if start.state.grad_scaler:
            updater.grad_scaler.load_state_dict(start.state.grad_scaler)
        updater.batch_limit = start.state.batch_limit

    def fit(self) -> list[str]:
        """Train until a limit is reached, validate and save; return the keys of the limits: ["max_steps"]."""
        self._begin()
        with (
            stop_request() as request,
            self._metrics_log() as self.metrics,
            RunBar(self.cfg.train, self.state.progress(), self.epoch_size.n_updates, self.corpus.words.target) as bar,
            self.feed,
        ):
            if self.state.step == 0:
                self.validate(request)
            while True:
                if self._validation_is_due():
                    self.validate(request)
                if limits := self._limits_reached():
                    break
                self._stop_if_asked(request)
                if self.cfg.train.init_from is None:
                    self._outlook.look(self.state.step, share_of_updates(self.cfg.train, self.state.progress()))
                try:
                    bar.add(self.update(), self.state.progress())
                except Divergence as error:
                    self.go_back(error)
                self._log_least_time()
            self.validate(request)
            self._stop_if_asked(request)
        return limits

    def _begin(self) -> None:
        """Plan the end of the budget, and keep a copy of the start until the run has a checkpoint."""
        self.processes.on_main(lambda: self.observer.started(self.state.step))
        self.processes.on_main(lambda: self.budget.begin(self.run.validation_s, self.run.text_s))  # whose clock counts
        self._running_since, self._step_before = time.monotonic(), self.state.step
        n_updates: int | None
        if self.run.update_s:  # only now, because what is left of the budget is known when all is prepared
            n_updates, _ = expected_updates(self.cfg.train, self.budget.timing, self.run.update_s)
        else:
            n_updates = estimated_steps(
                self.cfg.train, self.state.progress(), self.epoch_size.n_updates, share_of_updates
            )
        if n_updates and self.cfg.train.init_from is None:  # a trained model needs few
            self._outlook.begin(n_updates)
        elif self.cfg.train.has_no_limit and self.cfg.train.patience:
            self._least_updates = least = least_updates(self.cfg.train)
            epochs = least / self.epoch_size.n_updates
            worth = worth_of(least, self.run.text.worth) if self.cfg.train.init_from is None else ""
            tell = log.warning if worth else log.info
            tell(
                f"this run ends after {counted(self.cfg.train.patience, 'validation')} without improvement "
                f"(train.patience), and makes at least {least:,} updates, {epochs:.1f} epochs"
                + (f": {worth}" if worth else "")
            )
        if n_updates and len(self.run.corpus.sizes) > 1:
            for use in self.run.uses_in(n_updates):
                log.info(f"mix: {use.described(self.corpus.words.one)}")
        if not self.checkpoints.exist():
            self.state.grad_scaler = self.updater.grad_scaler.state_dict()
            weights, optimizer_state, _ = self.updater.values_to_save()
            self._start = Start(self.state, weights, optimizer_state)

    def _log_least_time(self) -> None:
        """Log, once the speed is known, how long a run that only train.patience ends takes at least."""
        done, left = self.state.step - self._step_before, self._least_updates - self.state.step
        if left <= 0 or done < _SPEED_KNOWN:
            return
        seconds = left * (time.monotonic() - self._running_since) / done
        log.info(
            f"at this speed, the next {left:,} updates take {duration_of(seconds)}, not counting validations; to "
            "limit the time, begin a new run with train.budget"
        )
        self._least_updates = 0

    def _validation_is_due(self) -> bool:
        """Return whether process 0 requests a validation now."""
        return bool(self.processes.of_main(self.budget.validation_due(self.state.step))[0])

    def _limits_reached(self) -> list[str]:
        self._update_clock()
        return limits_reached(self.cfg.train, self.state.progress())

    def _stop_if_asked(self, request: StopRequest) -> None:
        """Save and raise KeyboardInterrupt if the user has asked to stop."""
        if self.processes.any(request.received):
            self.save()
            raise KeyboardInterrupt

    def _metrics_log(self) -> MetricsLog:
        kind = MetricsLog if self.processes.is_main else NoMetricsLog
        return kind(self.run_dir, self.state.step, self.state.recovery, self.state.validated_step)

    def go_back(self, error: Divergence) -> None:
        """Go back to a checkpoint before the divergence and lower the rate; the second time, raise the error."""
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
            f"{error.finding}\nThe run went back to step {recovery.step} and continues from there with the learning "
            f"rate x {recovery.lr_factor:g}; if it diverges again, it stops"
        )
        if isinstance(place, Checkpoint):
            self._saved = None
            self.save()
        self.metrics.go_back(recovery, self.state.validated_step)

    def update(self) -> UpdateStats:
        """Make the next update, and write a line of the metrics log every train.log_every updates.

        Raises Divergence if the update is impossible, or if the loss has exploded.
        """
        cfg, state = self.cfg.train, self.state
        started = time.monotonic()
        fraction = fraction_done(cfg, state.progress()) or 0.0
        batches, position = self.feed.next_after(self._position_at(fraction))
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

    def _position_at(self, fraction: float) -> Position:
        """Return the stage of the run after this share of it; log it if a new stage begins there."""
        before = self.state.position
        position = before.in_stage(self.feed.stage_at(fraction))
        if position.stage != before.stage:
            log.info(f"step {self.state.step + 1}: {self._stage_begins(position.stage)}")
        return position

    def _stage_begins(self, stage: int) -> str:
        """Describe a stage's mix of corpora by their shares."""
        names = list(map(corpus_name, self.run.cfg.data.train))
        shares = uses(names, [self.run.draws[stage]], [1.0])
        one = self.corpus.words.one
        listed = ", ".join(
            f"{use.batch_share:.1%} {use.name} ({counted(use.n_pairs, one)})" for use in shares if use.passes
        )
        return f"stage {stage + 1} of {len(self.run.mixtures)} begins: batches of {listed}"

    def _r_drop_of(self, fraction: float) -> float:
        """Return R-Drop's weight for the next update; log it if it has changed."""
        cfg = self.cfg.train
        weight = r_drop_weight(cfg, fraction)
        if cfg.r_drop_from and weight != self._r_drop:
            until = f"without R-Drop until {cfg.r_drop_from:.0%} of the run"
            log.info(f"step {self.state.step + 1}: {f'with R-Drop (train.r_drop={weight:g})' if weight else until}")
        self._r_drop = weight
        return weight

    def validate(self, request: StopRequest) -> None:
        """Score the model on dev, rank it among the best, and save; do nothing if this step is validated.

        Step 0 is validated only with train.init_from, because random weights are useless.
        Raises KeyboardInterrupt, after saving, if the user stops the run meanwhile.
        """
        is_start = self.cfg.train.init_from is not None and not self.state.best
        if self.state.step == self.state.validated_step and not is_start:
            return
        try:
            with self.updater.kept_weights(), self.budget.measuring("validation"):
                model = self.updater.weights.whole(self.updater.eval_model)
                scores = self.processes.on_main(lambda: self._scores(request, model))
        except KeyboardInterrupt:
            self.save()
            raise
        is_best = rank(self.state, scores, self.cfg.train)
        self._report(scores, is_best)
        self.save()
        if self.processes.is_main and self.budget.wants_report():
            with self.budget.measuring("report"):
                self.observer.rehearse_end(scores)

    def _scores(self, request: StopRequest, model: Network) -> DevScores:
        with request.breaking_off():
            return self.validator.run(model)

    def save(self) -> None:
        """Write a checkpoint, unless this start has written one for the present state."""
        present = self.state.step, self.state.validated_step
        if present == self._saved:
            return
        self._update_clock()
        self.state.grad_scaler = self.updater.grad_scaler.state_dict()
        self.metrics.sync()
        self.updater.weights.check_equal(self.state.step)
        values = self.updater.values_to_save()
        with self.budget.measuring("save"):
            self.processes.on_main(lambda: self.checkpoints.save(self.state, *values))
            self.processes.on_main(self.observer.saved)
        self._saved = present
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
        if state.step == 0:
            note = "the model that the run starts from"
        if patience is not None and not is_best:
            note += f"; the run ends at {patience}"
        samples = self.validator.samples(scores)
        lines = [f"step {state.step}, epoch {epochs:.2f}: dev {scores} ({note})"]
        right = "right label" if self.cfg.task == "classify" else "reference"
        lines += [
            f"    {sample.src}\n      -> {sample.translation}\n      ({right}: {sample.reference})"
            for sample in samples
        ]
        log.info("\n".join(lines))
        self.metrics.write_samples(state.step, samples)
        self.metrics.write("validation", state.step, {**self._place(), **scores.figures()})

    def _place(self) -> dict[str, float]:
        """Return the number of epochs so far and, if there are several stages, the stage, from 0."""
        stage = {"stage": self.state.position.stage} if len(self.run.mixtures) > 1 else {}
        return {"epoch": self.state.progress().epochs, **stage}

    def _log_interval(self, lr: float) -> None:
        state = self.state
        self._update_clock()
        values = {**self._place(), "lr": lr, **state.interval.means(), "run_s": state.seconds}
        self.metrics.write("train", state.step, values)
        state.interval = Interval()
