"""From a config to a trained bundle: prepares the data, trains, validates, saves, resumes, averages the best."""

import errno
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from mtkit.config.durations import seconds_of
from mtkit.config.schema import Config, CorpusFiles, TrainConfig
from mtkit.console import log
from mtkit.data.corpus import Pair, read_pairs
from mtkit.data.encoded import EncodedCorpus, encode_corpus
from mtkit.data.feed import Feed
from mtkit.data.special_ids import PAD_ID
from mtkit.data.subwords import SubwordSampler
from mtkit.decoding.bundle import MANIFEST, load_bundle, save_bundle
from mtkit.errors import BundleError, ConfigError, DataError, TrainingError
from mtkit.files import locked, remove_leftovers
from mtkit.model.transformer import Transformer
from mtkit.runtime import choose_device, choose_precision, environment, set_threads
from mtkit.training.auto_batch import with_batch_tokens, with_known_batch_tokens
from mtkit.training.budget import Budget, Timing
from mtkit.training.checkpoint import Checkpoint, Checkpoints
from mtkit.training.curves import plot_curves
from mtkit.training.distillation import with_teachers_text
from mtkit.training.distributed import ALONE, Processes
from mtkit.training.forecast import forecast_validation
from mtkit.training.interruption import StopRequest, stop_request
from mtkit.training.metrics_log import MetricsLog, NoMetricsLog
from mtkit.training.recovery import Divergence, Recovery, Start
from mtkit.training.run_bar import RunBar
from mtkit.training.run_folder import check_run, write_config
from mtkit.training.schedule import fraction_done, learning_rate, limits_reached
from mtkit.training.state import Scored, TrainState
from mtkit.training.stats import Interval, UpdateStats
from mtkit.training.update import Updater
from mtkit.training.validation import DevScores, Validator, bleu_signature
from mtkit.training.warm_start import freeze, inherit, load_start, run_tokenizers

_MAKE_ROOM = "what was saved before is untouched: make room and run the same command again"


@dataclass(frozen=True)
class TrainResult:
    """A finished run."""

    bundle: Path  # RUN/model
    steps: int  # updates made, all starts together
    stopped_by: str  # the limit that ended it, such as "max_steps"; of several "max_steps, max_epochs"
    dev_scores: dict[str, float]  # of the bundle: loss, perplexity, bleu, chrf
    averaged_steps: tuple[int, ...]  # the checkpoints whose weights' mean the bundle holds


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
    since = time.monotonic() if since is None else since
    with disk_full_explained(run_dir), locked(run_dir) if processes.is_main else nullcontext():
        cfg = processes.on_main(lambda: with_teachers_text(cfg))
        checkpoints = Checkpoints(run_dir / "checkpoints")
        cfg = with_known_batch_tokens(inherit(cfg, started=checkpoints.exist()), started=checkpoints.exist())
        checkpoint = processes.on_main(lambda: open_run(cfg, run_dir, checkpoints))
        if checkpoint and (result := processes.on_main(lambda: finished_before(cfg, checkpoint.state))):
            return result
        trainer = prepare(cfg, run_dir, checkpoints, processes)
        trainer.budget = Budget(trainer.cfg.train, since)
        if checkpoint:
            trainer.resume(checkpoint)
            trainer.budget.resume(checkpoint.state.timing)
        processes.on_main(lambda: write_config(trainer.cfg))
        limits = trainer.fit()
        return trainer.finish(limits)


def open_run(cfg: Config, run_dir: Path, checkpoints: Checkpoints) -> Checkpoint | None:
    """Tidy up the run's folder, see whether cfg may go on with it, and find the checkpoint to go on from."""
    for folder in (run_dir, run_dir / "checkpoints", run_dir / "cache"):
        remove_leftovers(folder)
    check_run(cfg, started=checkpoints.exist())
    return checkpoints.newest()


def prepare(cfg: Config, run_dir: Path, checkpoints: Checkpoints, processes: Processes = ALONE) -> "Trainer":
    """Tokenizers, encoded corpora, and a model with initial weights drawn from cfg.seed."""
    processes.check(cfg.train)
    device = processes.device(choose_device(cfg.train.device))
    precision = choose_precision(cfg.train.precision, device)
    n_threads = set_threads(cfg.train.threads or processes.threads)
    cache = run_dir / "cache"
    with processes.main_first():
        dev_pairs = list(read_pairs([cfg.data.dev]))  # before the tokenizers, which take minutes
        require_text("data.dev", [cfg.data.dev], dev_pairs)
        require_text("data.train", cfg.data.train, read_pairs(cfg.data.train))
        tokenizers = run_tokenizers(cfg, run_dir, started=checkpoints.exist())
        corpus = encode_corpus(
            cfg.data.train,
            *tokenizers,
            cache,
            max_tokens=cfg.data.max_tokens,
            max_length_ratio=cfg.data.max_length_ratio,
        )
        longest = cfg.model.max_positions - 1 if cfg.model.positions == "learned" else None
        dev = encode_corpus([cfg.data.dev], *tokenizers, cache, max_tokens=longest, max_length_ratio=None)
    sizes = tokenizers[0].vocab_size, tokenizers[1].vocab_size

    def trial(cfg: Config) -> Updater:
        return Updater(Transformer(cfg.model, *sizes, PAD_ID).to(device), cfg.train, cfg.seed, precision)

    cfg = processes.on_main(lambda: with_batch_tokens(cfg, corpus, trial))
    validator = Validator(cfg, dev, dev_pairs, tokenizers, precision)
    torch.manual_seed(cfg.seed)
    model = Transformer(cfg.model, *sizes, PAD_ID).to(device)
    if cfg.train.init_from and not checkpoints.exist():
        load_start(cfg.train.init_from, model)
    freeze(model, cfg.train.freeze)
    updater = Updater(model, cfg.train, cfg.seed, precision, processes)
    trainer = Trainer(cfg, run_dir, corpus, validator, updater, checkpoints)
    n_weights = sum(parameter.numel() for parameter in model.parameters())
    where = f"{device}, {n_threads} threads" if device.type == "cpu" else str(device)
    log.info(f"model: {n_weights / 1e6:.1f} million weights; {precision} on {where}")
    epoch, about = trainer.epoch_size, "" if trainer.epoch_size.is_exact else "about "
    log.info(
        f"data: {corpus.n_pairs:,} pairs; {about}{epoch.n_batches:,} batches an epoch, {epoch.padding_share:.1%} of "
        "them padding; "
        f"dev: {dev.n_pairs:,} pairs, {len(validator.pairs):,} translated at a validation (BLEU: {bleu_signature()})"
    )
    return trainer


def require_text(key: str, corpora: Sequence[CorpusFiles], pairs: Iterable[Pair]) -> None:
    """Raise DataError, naming the config's key and its files, if no pair has text on both sides."""
    n_read = 0
    for pair in pairs:
        if pair.src.strip() and pair.tgt.strip():
            return
        n_read += 1
    files = [str(path) for corpus in corpora for path in (corpus.src, corpus.tgt, corpus.tsv) if path]
    raise DataError(f"{key}: of {n_read:,} lines in {', '.join(files)} none has text on both sides")


class Trainer:
    """A run under way: `state` says where it stands, `updater` holds model and optimizer."""

    def __init__(
        self,
        cfg: Config,
        run_dir: Path,
        corpus: EncodedCorpus,
        validator: Validator,
        updater: Updater,
        checkpoints: Checkpoints,
    ) -> None:
        self.cfg = cfg
        self.run_dir = run_dir
        self.corpus = corpus
        self.validator = validator
        self.updater = updater
        self.processes = updater.processes
        self.checkpoints = checkpoints
        self.checkpoints.made_with = {
            **environment(updater.device, updater.precision),
            "processes": str(self.processes.size),
        }
        self.budget = Budget(cfg.train)
        self.state = TrainState(train_fingerprint=corpus.fingerprint, dev_fingerprint=validator.corpus.fingerprint)
        self._saved: tuple[int, int] | None = None  # the step, and the last one validated, of the newest checkpoint
        self._start: Start | None = None  # the way back while there is no checkpoint
        self._running_since = time.monotonic()
        self._seconds_before = 0.0
        self.feed = Feed(
            corpus,
            batch_tokens=cfg.train.n_batch_tokens,
            accumulate=cfg.train.accumulate,
            seed=cfg.seed,
            weights=[files.weight for files in cfg.data.train],
            sampler=SubwordSampler.of(cfg, *validator.tokenizers),
            part=(self.processes.rank, self.processes.size),
        )
        self.epoch_size = self.feed.epoch_size()

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

    def fit(self) -> list[str]:
        """Train until a limit is reached, validate and save; returns the limit's key (or keys): ["max_steps"]."""
        cfg = self.cfg.train
        in_time = seconds_of(cfg.budget) / 30 if cfg.budget else 0.0
        model = self.processes.whole(self.updater.kept_model)
        self.budget.begin(
            self.processes.on_main(lambda: forecast_validation(self.validator, model, in_time) if in_time else 0.0)
        )
        self._running_since = time.monotonic()
        if not self.checkpoints.exist() and self.processes.size == 1:
            self._start = Start(self.state, self.updater.model, self.updater.grad_scaler)
        with (
            stop_request() as request,
            (MetricsLog if self.processes.is_main else NoMetricsLog)(
                self.run_dir, self.state.step, self.state.recovery
            ) as self.metrics,
            RunBar(cfg, self.state.progress(), self.epoch_size.n_updates) as bar,
            self.feed,
        ):
            while True:
                if self.processes.of_main(self.budget.validation_due(self.state.step))[0]:
                    self.validate(request)
                self._update_clock()
                if limits := limits_reached(cfg, self.state.progress()):
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
        self.metrics.go_back(recovery.step, recovery)

    def update(self) -> UpdateStats:
        """Make the next update of the plan, and the line of the metrics log if it is time for one.

        Raises Divergence if it cannot be made, or if the loss has exploded.
        """
        cfg, state = self.cfg.train, self.state
        started = time.monotonic()
        batches, position = self.feed.after(state.position)
        lr = learning_rate(cfg, state.step + 1, fraction_done(cfg, state.progress()) or 0.0)
        if state.recovery:
            lr *= state.recovery.lr_factor
        stats = self.updater.update(batches, state.step + 1, lr, self.corpus.line_of)
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
        is_best = self._rank(scores)
        self._report(scores, is_best)
        self.save()
        if self.processes.is_main and self.budget.wants_report():
            with self.budget.measuring("report"):
                self.validator.signed_scores(scores)
                plot_curves(self.run_dir)

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
        self._saved = standing
        self._start = None

    def finish(self, limits: list[str]) -> TrainResult:
        """Write the bundle: the mean of the best checkpoints' weights, or the best alone if it scores higher on dev."""
        model = self.processes.whole(self.updater.model)
        return self.processes.on_main(lambda: self._finish(limits, model))

    def _finish(self, limits: list[str], model: Transformer) -> TrainResult:
        steps, weights, scores = self._choose_weights(model)
        figures, signed = scores.figures(), self.validator.signed_scores(scores)
        training = {
            "step": self.state.step,
            "stopped_by": ", ".join(limits),
            "averaged_steps": list(steps),
            "minutes": round(self.state.seconds / 60, 2),
            "data_fingerprint": self.state.train_fingerprint,
            "dev": figures,
            "dev_metrics": [asdict(score) for score in signed],
        }
        folder = self.run_dir / "model"
        try:
            save_bundle(
                folder, weights, self.cfg, self.run_dir / "src.spm", self.run_dir / "tgt.spm", training=training
            )
        except SafetensorError as error:  # its name for the system's errors
            raise TrainingError(f"{folder}: the model cannot be written: {error}; {_MAKE_ROOM}") from error
        if curves := plot_curves(self.run_dir):
            log.info(f"learning curves: {curves}")
        log.info(
            f"finished after {self.state.step} steps, {self.state.seconds / 60:.1f} minutes "
            f"({_values(self.cfg.train, limits)}); "
            f"dev {_figures(scores)} ({signed[0].signature}); model: {folder}"
        )
        return TrainResult(folder, self.state.step, ", ".join(limits), figures, tuple(steps))

    def _choose_weights(self, model: Transformer) -> tuple[list[int], dict[str, Tensor], DevScores]:
        state, cfg = self.state, self.cfg.train
        wanted = (cfg.average_last and state.last[-cfg.average_last :]) or state.best[: cfg.average_best]
        steps = self.checkpoints.usable([scored.step for scored in wanted])
        whole = (scored for scored in state.best if scored.step in steps or self.checkpoints.has_weights(scored.step))
        best = next(whole, None)
        scores = self._load_average(steps, model)
        if best and steps != [best.step] and self._quality(self._scored(scores)) < self._quality(best):
            log.info(f"the mean of {len(steps)} checkpoints is not better than the best alone: taking that")
            steps = [best.step]
            scores = self._load_average(steps, model)
        log.info(f"the model: weights of step {', '.join(map(str, steps))}{' (mean)' if len(steps) > 1 else ''}")
        return steps, model.state_dict(), scores

    def _load_average(self, steps: list[int], model: Transformer) -> DevScores:
        self.checkpoints.load_average(steps, model)
        return self.validator.run(model)

    def _update_clock(self) -> None:
        seconds = self._seconds_before + time.monotonic() - self._running_since
        self.budget.tick()
        self.state.seconds, *timing = self.processes.of_main(seconds, *astuple(self.budget.timing))
        self.state.timing = self.budget.timing = Timing(*timing)

    def _scored(self, scores: DevScores) -> Scored:
        return Scored(self.state.step, scores.figures()[self.cfg.train.metric], scores.loss)

    def _quality(self, scored: Scored) -> tuple[float, float]:
        """More is better; equal values of the metric are told apart by the loss."""
        return (-scored.value if self.cfg.train.metric == "loss" else scored.value, -scored.loss)

    def _rank(self, scores: DevScores) -> bool:
        """Note the step among the best if it is one; returns whether it is the best of all."""
        state, scored = self.state, self._scored(scores)
        is_best = not state.best or self._quality(scored) > self._quality(state.best[0])
        n_last = self.cfg.train.average_last
        n_best = 1 if n_last else self.cfg.train.average_best
        state.best = sorted([*state.best, scored], key=self._quality, reverse=True)[:n_best]
        state.last = [*state.last, scored][-n_last:] if n_last else []
        state.bad_validations = 0 if is_best else state.bad_validations + 1
        state.validated_step = state.step
        return is_best

    def _report(self, scores: DevScores, is_best: bool) -> None:
        state, patience = self.state, self.cfg.train.patience
        epochs = state.progress().epochs
        note = "the best so far" if is_best else f"{state.bad_validations} since the best"
        if patience is not None and not is_best:
            note += f", at {patience} the run ends"
        lines = [f"step {state.step}, epoch {epochs:.2f}: dev {_figures(scores)} ({note})"]
        lines += [
            f"    {sample.src}\n      -> {sample.translation}\n      (reference: {sample.reference})"
            for sample in self.validator.samples(scores)
        ]
        log.info("\n".join(lines))
        self.metrics.write("validation", state.step, {"epoch": epochs, **scores.figures()})

    def _log_interval(self, lr: float) -> None:
        state = self.state
        self._update_clock()
        values = {"epoch": state.progress().epochs, "lr": lr, **state.interval.means(), "run_s": state.seconds}
        self.metrics.write("train", state.step, values)
        state.interval = Interval()


def finished_before(cfg: Config, state: TrainState) -> TrainResult | None:
    """The result of a run that has reached a limit and has its bundle; None if there is something left to do.

    A bundle that is damaged is named in a warning: it has to be made again.
    """
    assert cfg.run_dir is not None
    limits = limits_reached(cfg.train, state.progress())
    folder = cfg.run_dir / "model"
    if not limits or not (folder / MANIFEST).exists():
        return None
    try:
        training = load_bundle(folder).manifest.get("training", {})
    except BundleError as error:
        log.warning(f"{folder}: the model is damaged and made again from the checkpoints ({error})")
        return None
    if training.get("step") != state.step:
        return None
    log.info(
        f"{cfg.run_dir}: already finished after {state.step} steps ({_values(cfg.train, limits)}); "
        f"raise {' and '.join(f'train.{key}' for key in limits)} to go on"
    )
    return TrainResult(folder, state.step, ", ".join(limits), training["dev"], tuple(training["averaged_steps"]))


@contextmanager
def disk_full_explained(folder: Path) -> Iterator[None]:
    """Turn the system's error for a full disk into one that says where and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise TrainingError(f"{error.filename or folder}: {error.strerror}; {_MAKE_ROOM}") from error


def _values(cfg: TrainConfig, keys: Sequence[str]) -> str:
    return ", ".join(f"train.{key}={getattr(cfg, key)}" for key in keys)


def _figures(scores: DevScores) -> str:
    return (
        f"loss {scores.loss:.3f} (perplexity {scores.perplexity:.2f}), BLEU {scores.bleu:.2f}, chrF {scores.chrf:.2f}"
    )
