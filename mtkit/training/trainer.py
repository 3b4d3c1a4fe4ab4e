"""From a config to a trained bundle: prepares the data, trains, validates, saves, resumes, averages the best."""

import errno
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from mtkit.config.schema import Config, CorpusFiles, TrainConfig
from mtkit.console import log
from mtkit.data.batching import make_batch, padding_share, plan_epoch
from mtkit.data.corpus import Pair, read_pairs
from mtkit.data.encoded import EncodedCorpus, encode_corpus
from mtkit.data.special_ids import PAD_ID
from mtkit.data.tokenizer import train_tokenizers
from mtkit.decoding.bundle import MANIFEST, load_bundle, save_bundle
from mtkit.errors import BundleError, ConfigError, DataError, TrainingError
from mtkit.files import locked, remove_leftovers
from mtkit.model.transformer import Transformer
from mtkit.runtime import choose_device, choose_precision, set_threads
from mtkit.training.checkpoint import Checkpoint, Checkpoints
from mtkit.training.curves import plot_curves
from mtkit.training.interruption import StopRequest, stop_request
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.run_bar import RunBar
from mtkit.training.run_folder import check_run, write_config
from mtkit.training.schedule import fraction_done, learning_rate, limits_reached
from mtkit.training.state import Scored, TrainState
from mtkit.training.stats import Interval, UpdateStats
from mtkit.training.update import Updater
from mtkit.training.validation import DevScores, Validator, bleu_signature

_MAKE_ROOM = "what was saved before is untouched: make room and run the same command again"


@dataclass(frozen=True)
class TrainResult:
    """A finished run."""

    bundle: Path  # RUN/model
    steps: int  # updates made, all starts together
    stopped_by: str  # the limit that ended it, such as "max_steps"; of several "max_steps, max_epochs"
    dev_scores: dict[str, float]  # of the bundle: loss, perplexity, bleu, chrf
    averaged_steps: tuple[int, ...]  # the checkpoints whose weights' mean the bundle holds


def train(cfg: Config) -> TrainResult:
    """Train the model that cfg describes in cfg.run_dir, from where an earlier start of it stopped.

    Makes the tokenizers if the run has none. A run that has reached its limits is left as it is.
    Raises KeyboardInterrupt after saving if the user stops it (Ctrl-C, SIGTERM, SIGHUP), and MtkitError for whatever
    input or the machine makes impossible, and if another process is working in the run.
    """
    run_dir = cfg.run_dir
    if run_dir is None:
        raise ValueError("cfg.run_dir is not set")
    with disk_full_explained(run_dir), locked(run_dir):
        for folder in (run_dir, run_dir / "checkpoints", run_dir / "cache"):
            remove_leftovers(folder)
        checkpoints = Checkpoints(run_dir / "checkpoints")
        check_run(cfg, started=checkpoints.exist())
        checkpoint = checkpoints.newest()
        if checkpoint and (result := finished_before(cfg, checkpoint.state)):
            return result
        trainer = prepare(cfg, run_dir, checkpoints)
        if checkpoint:
            trainer.resume(checkpoint)
        write_config(cfg)
        limits = trainer.fit()
        return trainer.finish(limits)


def prepare(cfg: Config, run_dir: Path, checkpoints: Checkpoints) -> "Trainer":
    """Tokenizers, encoded corpora, and a model with initial weights drawn from cfg.seed."""
    device = choose_device(cfg.train.device)
    precision = choose_precision(cfg.train.precision, device)
    n_threads = set_threads(cfg.train.threads)
    dev_pairs = list(read_pairs([cfg.data.dev]))  # before the tokenizers, which take minutes
    require_text("data.dev", [cfg.data.dev], dev_pairs)
    require_text("data.train", cfg.data.train, read_pairs(cfg.data.train))
    tokenizers = train_tokenizers(cfg, run_dir)
    cache = run_dir / "cache"
    corpus = encode_corpus(
        cfg.data.train,
        *tokenizers,
        cache,
        max_tokens=cfg.data.max_tokens,
        max_length_ratio=cfg.data.max_length_ratio,
    )
    longest = cfg.model.max_positions - 1 if cfg.model.positions == "learned" else None
    dev = encode_corpus([cfg.data.dev], *tokenizers, cache, max_tokens=longest, max_length_ratio=None)
    validator = Validator(cfg, dev, dev_pairs, tokenizers, precision)
    torch.manual_seed(cfg.seed)
    model = Transformer(cfg.model, tokenizers[0].vocab_size, tokenizers[1].vocab_size, PAD_ID).to(device)
    trainer = Trainer(cfg, run_dir, corpus, validator, Updater(model, cfg.train, cfg.seed, precision), checkpoints)
    n_weights = sum(parameter.numel() for parameter in model.parameters())
    where = f"{device}, {n_threads} threads" if device.type == "cpu" else str(device)
    log.info(f"model: {n_weights / 1e6:.1f} million weights; {precision} on {where}")
    padding = padding_share(corpus.src_lengths, corpus.tgt_lengths, trainer.plan)
    log.info(
        f"data: {corpus.n_pairs:,} pairs in {len(trainer.plan):,} batches an epoch, {padding:.1%} of them padding; "
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
        self.checkpoints = checkpoints
        self.state = TrainState(train_fingerprint=corpus.fingerprint, dev_fingerprint=validator.corpus.fingerprint)
        self._saved: tuple[int, int] | None = None  # the step, and the last one validated, of the newest checkpoint
        self._running_since = time.monotonic()
        self._seconds_before = 0.0
        self._plan_epoch()

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go back to a checkpoint.

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
        checkpoint.restore(self.updater.model, self.updater.optimizer)
        if state.grad_scaler:
            self.updater.grad_scaler.load_state_dict(state.grad_scaler)
        self.state = state
        self._seconds_before = state.seconds
        self._plan_epoch()
        log.info(
            f"{self.run_dir}: resuming after step {state.step}, in epoch {state.epoch + 1}, "
            f"{state.seconds / 60:.1f} minutes of training behind"
        )

    def fit(self) -> list[str]:
        """Train until a limit is reached, validate and save; returns the limit's key (or keys): ["max_steps"]."""
        cfg = self.cfg.train
        self._running_since = time.monotonic()
        with (
            stop_request() as request,
            MetricsLog(self.run_dir, self.state.step) as self.metrics,
            RunBar(cfg, self.state.progress(), self.state.epoch_length) as bar,
        ):
            while True:
                if self.state.step % cfg.validate_every == 0:
                    self.validate(request)
                self._update_clock()
                if limits := limits_reached(cfg, self.state.progress()):
                    break
                if request.received:
                    self.save()
                    raise KeyboardInterrupt
                bar.add(self.update(), self.state.progress())
            self.validate(request)
            if request.received:
                raise KeyboardInterrupt
        return limits

    def update(self) -> UpdateStats:
        """Make the next update of the plan, and the line of the metrics log if it is time for one."""
        cfg, state = self.cfg.train, self.state
        started = time.monotonic()
        first = state.updates_in_epoch * cfg.accumulate
        batches = [make_batch(self.corpus, indices) for indices in self.plan[first : first + cfg.accumulate]]
        lr = learning_rate(cfg, state.step + 1, fraction_done(cfg, state.progress()) or 0.0)
        stats = self.updater.update(batches, state.step + 1, lr, self.corpus.line_of)
        state.step += 1
        state.updates_in_epoch += 1
        if state.updates_in_epoch == state.epoch_length:
            state.epoch, state.updates_in_epoch = state.epoch + 1, 0
            self._plan_epoch()
        state.interval.add(stats, time.monotonic() - started)
        if state.step % cfg.log_every == 0:
            self._log_interval(lr)
        return stats

    def validate(self, request: StopRequest) -> None:
        """Score the model on dev, note whether it is among the best, and save; nothing if that is done already.

        Raises KeyboardInterrupt, with the run saved, if the user stops it meanwhile.
        """
        if self.state.step == self.state.validated_step:
            return
        try:
            with request.breaking_off():
                scores = self.validator.run(self.updater.model)
        except KeyboardInterrupt:
            self.save()
            raise
        is_best = self._rank(scores)
        self._report(scores, is_best)
        self.save()

    def save(self) -> None:
        """Write a checkpoint of where the run stands, unless this start of it has done so."""
        standing = self.state.step, self.state.validated_step
        if standing == self._saved:
            return
        self._update_clock()
        self.state.grad_scaler = self.updater.grad_scaler.state_dict()
        self.metrics.sync()
        self.checkpoints.save(self.state, self.updater.model, self.updater.optimizer)
        self._saved = standing

    def finish(self, limits: list[str]) -> TrainResult:
        """Write the bundle: the mean of the best checkpoints' weights, or the best alone if it scores higher on dev."""
        steps, weights, scores = self._choose_weights()
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

    def _choose_weights(self) -> tuple[list[int], dict[str, Tensor], DevScores]:
        best = self.state.best[: self.cfg.train.average_best]
        steps = self.checkpoints.usable([scored.step for scored in best])
        best = [scored for scored in best if scored.step in steps]
        scores = self._load_average(steps)
        if len(steps) > 1 and self._quality(self._scored(scores)) < self._quality(best[0]):
            log.info(f"the mean of the best {len(steps)} checkpoints is not better than the best alone: taking that")
            steps = [best[0].step]
            scores = self._load_average(steps)
        log.info(f"the model: weights of step {', '.join(map(str, steps))}{' (mean)' if len(steps) > 1 else ''}")
        return steps, self.updater.model.state_dict(), scores

    def _load_average(self, steps: list[int]) -> DevScores:
        self.checkpoints.load_average(steps, self.updater.model)
        return self.validator.run(self.updater.model)

    def _plan_epoch(self) -> None:
        lengths = self.corpus.src_lengths, self.corpus.tgt_lengths
        cfg = self.cfg.train
        self.plan = plan_epoch(*lengths, batch_tokens=cfg.batch_tokens, seed=self.cfg.seed, epoch=self.state.epoch)
        self.state.epoch_length = math.ceil(len(self.plan) / cfg.accumulate)

    def _update_clock(self) -> None:
        self.state.seconds = self._seconds_before + time.monotonic() - self._running_since

    def _scored(self, scores: DevScores) -> Scored:
        return Scored(self.state.step, scores.figures()[self.cfg.train.metric], scores.loss)

    def _quality(self, scored: Scored) -> tuple[float, float]:
        """More is better; equal values of the metric are told apart by the loss."""
        return (-scored.value if self.cfg.train.metric == "loss" else scored.value, -scored.loss)

    def _rank(self, scores: DevScores) -> bool:
        """Note the step among the best if it is one; returns whether it is the best of all."""
        state, scored = self.state, self._scored(scores)
        is_best = not state.best or self._quality(scored) > self._quality(state.best[0])
        state.best = sorted([*state.best, scored], key=self._quality, reverse=True)[: self.cfg.train.average_best]
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
