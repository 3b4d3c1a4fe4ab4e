"""A config in, what training it will mean out: size, memory, steps, time, disk; from a probe of real updates.

Nothing is left in the run's folder: the probe works in a scratch folder, with the run's tokenizers and encoded text if
it has them.
"""

import math
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from mtkit.config.durations import seconds_of
from mtkit.config.schema import Config, DistillConfig, TrainConfig
from mtkit.console import progress_bar
from mtkit.data.special_ids import UNK_ID
from mtkit.distributed.communicator import ALONE
from mtkit.evaluation.metrics.scores import evaluate
from mtkit.files import disk_full_explained
from mtkit.runs.curves import plot_curves
from mtkit.runs.folder import with_its_choices
from mtkit.runs.memory_growth import Growth, resident_now, shapes_of_run
from mtkit.runs.record import parameters_by_part
from mtkit.training.auto_batch import longest_batch, resident_memory
from mtkit.training.budget import VALIDATE_EVERY, Timing, check_budget, expected_ending, expected_validations
from mtkit.training.checkpoint import Checkpoints
from mtkit.training.forecast import forecast_validation
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.prepare import prepare
from mtkit.training.schedule import learning_rate, r_drop_shares
from mtkit.training.trainer import Trainer
from mtkit.training.update import Updater
from mtkit.training.warm_start import inherit

_WARM_UP = 3  # updates that are not timed
_TOKENS_LOOKED_AT = 5_000_000  # of each side, for the shares of bytes and unknown tokens
_LINE_BYTES = 330  # of metrics.jsonl
_SAMPLES_BYTES = 1_500  # of its lines with translations
_CURVES_BYTES = 120_000
_REPORT_BYTES = 150_000
_BYTES = 4  # of a weight, of its gradient, of each of Adam's two means


@dataclass(frozen=True)
class SidePlan:
    """One side's text as the tokenizer cuts it."""

    vocab_size: int
    tokens_per_sentence: float
    byte_share: float  # of the training tokens: single bytes, of characters without a piece
    unknown_share: float  # of the training tokens: text that is lost


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes at the height of training."""

    estimated: int  # weights, gradients, optimizer, activations of the largest batch
    measured: int  # in the probe; on a CPU of the whole process, the interpreter and its libraries counted
    peak: int  # to be expected in the run: what was measured, and on a CPU what further shapes of batches will add


@dataclass(frozen=True)
class DiskPlan:
    """Bytes that the run's folder will hold."""

    checkpoint: int  # one that can be resumed from
    n_checkpoints: int
    best: int  # the weights of one that is kept for averaging
    n_best: int
    bundle: int
    cache: int  # the encoded text
    other: int  # tokenizers, metrics, curves
    total: int  # at the end of the run
    peak: int  # while the next checkpoint is written beside the others


@dataclass(frozen=True)
class TimePlan:
    """Seconds; of the whole command."""

    preparing: float  # from the start of the command to the first update
    update: float  # one
    validation: float  # one, of a trained model
    saving: float  # one checkpoint
    ending: float  # averaging, last scores, writing the model
    n_validations: int | None
    total: float | None  # None: only train.patience will tell


@dataclass(frozen=True)
class RunPlan:
    """What training a config will mean on this machine."""

    device: str
    precision: str
    n_threads: int
    parameters: dict[str, int]  # by part, and `total`; a shared matrix counts where it comes first
    batch_tokens: int
    pairs: dict[str, int]  # read, blank, too_long, ratio (left out for these), kept
    src: SidePlan
    tgt: SidePlan
    padding_share: float
    tgt_tokens_per_s: float
    steps_per_epoch: int
    steps: int | None  # in all
    ends: dict[str, int | None]  # each limit with the step at which it is reached; None: not to be foreseen
    memory: MemoryPlan
    time: TimePlan
    disk: DiskPlan
    left_out: list[str]  # what the figures do not contain, in words


def make_plan(cfg: Config, seconds: float = 30.0, since: float | None = None) -> RunPlan:
    """What training cfg from the beginning will mean; the updates of the probe take so many seconds.

    since: the value of time.monotonic() when the command began. Raises MtkitError for whatever would stop training.
    """
    run_dir = cfg.run_dir
    if run_dir is None:
        raise ValueError("cfg.run_dir is not set")
    since = time.monotonic() if since is None else since
    started = Checkpoints(run_dir / "checkpoints").exist()
    cfg = with_its_choices(inherit(cfg), started=started)
    if started:  # all that it took from another model is in its folder; that model may be gone
        cfg = cfg.model_copy(update={"train": cfg.train.model_copy(update={"init_from": None})})
    left_out = []
    if cfg.distill.teachers:
        left_out.append("the time in which the teachers translate (their text is taken to be as long as the given one)")
        cfg = _as_if_distilled(cfg)
    with tempfile.TemporaryDirectory(prefix="mtkit-plan-") as name, disk_full_explained(Path(name)):
        scratch = Path(name)
        _borrow(run_dir, scratch)
        cfg = cfg.model_copy(update={"run_dir": scratch})
        trainer = Trainer(prepare(cfg, scratch, Checkpoints(scratch / "checkpoints")))
        return replace(_Probe(trainer, preparing=time.monotonic() - since).plan(seconds), left_out=left_out)


def _as_if_distilled(cfg: Config) -> Config:
    """The config with as much text as it has after distillation, the translations being those of the given text."""
    distill = cfg.distill
    times = distill.original_weight + (distill.n_best if distill.choose == "all" else 1)
    train = [corpus.model_copy(update={"weight": corpus.weight * times}) for corpus in cfg.data.train]
    data = cfg.data.model_copy(update={"train": train})
    return cfg.model_copy(update={"data": data, "distill": DistillConfig()})


def _borrow(run_dir: Path, scratch: Path) -> None:
    """Let the scratch folder begin with what the run's folder has: copies of tokenizers, links to encoded text."""
    for name in ("src.spm", "tgt.spm", "tokenizers.json"):
        if (run_dir / name).exists():
            shutil.copy(run_dir / name, scratch / name)
    (scratch / "cache").mkdir()
    for folder in (run_dir / "cache").glob("[!.]*"):
        (scratch / "cache" / folder.name).symlink_to(folder, target_is_directory=True)


class _Probe:
    """A trainer that has just been prepared, and what is found out with it."""

    def __init__(self, trainer: Trainer, preparing: float) -> None:
        self.trainer = trainer
        self.cfg: TrainConfig = trainer.cfg.train
        self.timing = Timing(prepared=preparing)
        self.update_by_clock = 0.0  # seconds of an update in a run whose shares, of r_drop_from, are of its time
        self.tokens_per_update = 0.0
        self.growth = Growth()

    def plan(self, seconds: float) -> RunPlan:
        trainer, timing = self.trainer, self.timing
        self._time_updates(seconds)
        timing.validation = forecast_validation(trainer.validator, trainer.updater.eval_model, seconds / 2)
        checkpoint = self._time_save()
        timing.report = self._time_report()
        steps_per_epoch = trainer.epoch_size.n_updates
        ends, steps, n_validations = self._ends(steps_per_epoch)
        ending = expected_ending(self.cfg, timing)
        parts = None if steps is None or n_validations is None else (steps, n_validations)
        return RunPlan(
            device=str(trainer.updater.device),
            precision=trainer.updater.precision,
            n_threads=torch.get_num_threads(),
            parameters=parameters_by_part(trainer.updater.model),
            batch_tokens=self.cfg.n_batch_tokens,
            pairs={name.removeprefix("n_"): number for name, number in asdict(trainer.corpus.counts).items()},
            src=self._side(0),
            tgt=self._side(1),
            padding_share=trainer.epoch_size.padding_share,
            tgt_tokens_per_s=self.tokens_per_update / timing.update,
            steps_per_epoch=steps_per_epoch,
            steps=steps,
            ends=ends,
            memory=self._memory(steps),
            time=TimePlan(
                preparing=timing.prepared,
                update=timing.update,
                validation=timing.validation,
                saving=timing.save,
                ending=ending,
                n_validations=n_validations,
                total=parts and self._seconds(*parts) + ending,
            ),
            disk=self._disk(checkpoint, steps, n_validations),
            left_out=[],
        )

    def _time_updates(self, seconds: float) -> None:
        trainer = self.trainer
        longest = longest_batch(trainer.corpus, self.cfg.n_batch_tokens)
        trainer.updater.update([longest] * self.cfg.accumulate, 1, 0.0)  # the height of memory use
        self.growth.note([longest], resident_now(), self.cfg.r_drop)
        shares = r_drop_shares(self.cfg)
        n_updates, n_tokens, took = 0, 0, {}
        with trainer.feed, progress_bar(None, "probe", "step") as bar:
            for r_drop in shares:
                for _ in range(_WARM_UP):
                    self._update(r_drop)
                n_before, started = n_updates, time.monotonic()
                while n_updates == n_before or time.monotonic() - started < seconds / len(shares):
                    n_tokens += self._update(r_drop)
                    n_updates += 1
                    bar.update()
                took[r_drop] = (time.monotonic() - started) / (n_updates - n_before)
        self.timing.update = sum(share * took[r_drop] for r_drop, share in shares.items())
        self.update_by_clock = 1 / sum(share / took[r_drop] for r_drop, share in shares.items())
        self.tokens_per_update = n_tokens / n_updates

    def _update(self, r_drop: float) -> int:
        """The next update of the run; returns its target tokens."""
        trainer = self.trainer
        state, started = trainer.state, time.monotonic()
        batches, state.position = trainer.feed.next_after(state.position)
        state.step += 1
        stats = trainer.updater.update(batches, state.step, learning_rate(self.cfg, state.step, 0.0), r_drop=r_drop)
        state.interval.add(stats, time.monotonic() - started)
        self.growth.note(batches, resident_now(), r_drop)
        return stats.n_tgt_tokens

    def _memory(self, steps: int | None) -> MemoryPlan:
        trainer, cfg = self.trainer, self.cfg
        measured = _measured_memory(trainer.updater)
        to_come = 0.0
        if trainer.updater.device.type == "cpu":
            n_batches = 10**9 if steps is None else steps * cfg.accumulate
            seed, size = trainer.cfg.seed, cfg.n_batch_tokens
            once = r_drop_shares(cfg).get(0.0, 0.0)
            shapes = shapes_of_run(
                trainer.corpus, batch_tokens=size, seed=seed, n_batches=n_batches, without_r_drop=once
            )
            to_come = self.growth.to_come(shapes)
        return MemoryPlan(_estimated_memory(trainer), measured, measured + int(to_come))

    def _time_save(self) -> Path:
        """Save a checkpoint and note the time; returns its folder."""
        trainer, updater = self.trainer, self.trainer.updater
        started = time.monotonic()
        average = ALONE.weights(updater.average.model) if updater.average else None
        weights, optimizer_state = ALONE.weights(updater.model), ALONE.optimizer_state(updater.optimizer)
        folder = trainer.checkpoints.save(trainer.state, weights, optimizer_state, average)
        self.timing.save = time.monotonic() - started
        return folder

    def _time_report(self) -> float:
        """Seconds for scores with intervals, of translations that are neither right nor wrong, and the curves."""
        trainer = self.trainer
        with MetricsLog(trainer.run_dir, 0) as metrics:
            for step in range(20):
                metrics.write("train", step, {"lr": 0.0, **trainer.state.interval.means()})
        started = time.monotonic()
        references = trainer.validator.references
        evaluate([reference.partition(" ")[2] for reference in references], references)
        plot_curves(trainer.run_dir)
        return time.monotonic() - started

    def _seconds(self, steps: int, n_validations: int) -> float:
        """Seconds to the end of the last validation."""
        timing = self.timing
        return timing.prepared + steps * timing.update + n_validations * (timing.validation + timing.save)

    def _ends(self, steps_per_epoch: int) -> tuple[dict[str, int | None], int | None, int | None]:
        """At which step each limit is reached, the steps in all, and the validations in all."""
        cfg, timing = self.cfg, self.timing
        looking = timing.validation + timing.save
        if cfg.budget is not None:
            timing.update = self.update_by_clock
            timing.ending = looking + expected_ending(cfg, timing)
            check_budget(cfg, timing)
            training = seconds_of(cfg.budget) - timing.prepared - timing.ending
            n_validations = expected_validations(cfg, timing, training)
            steps = max(0, int((training - (n_validations - 1) * looking) / timing.update))
            return {"budget": steps, **({"patience": None} if cfg.patience else {})}, steps, n_validations
        every = cfg.validate_every if cfg.validate_every != "auto" else VALIDATE_EVERY
        ends: dict[str, int | None] = {}
        if cfg.max_steps is not None:
            ends["max_steps"] = cfg.max_steps
        if cfg.max_epochs is not None:
            ends["max_epochs"] = cfg.max_epochs * steps_per_epoch
        if cfg.max_minutes is not None:
            ends["max_minutes"] = max(1, int(cfg.max_minutes * 60 / (self.update_by_clock + looking / every)))
        if cfg.patience is not None:
            ends["patience"] = None
        total = min((step for step in ends.values() if step is not None), default=None)
        if total is not None and total == ends.get("max_minutes"):
            timing.update = self.update_by_clock
        return ends, total, total and math.ceil(total / every)

    def _side(self, number: int) -> SidePlan:
        corpus, tokenizer = self.trainer.corpus, self.trainer.validator.tokenizers[number]
        side = (corpus.src, corpus.tgt)[number]
        ids = side.ids[:_TOKENS_LOOKED_AT]
        counts = torch.bincount(torch.tensor(ids, dtype=torch.int64), minlength=tokenizer.vocab_size)
        return SidePlan(
            vocab_size=tokenizer.vocab_size,
            tokens_per_sentence=float(side.lengths.mean()),
            byte_share=int(counts[tokenizer.byte_ids()].sum()) / len(ids),
            unknown_share=int(counts[UNK_ID]) / len(ids),
        )

    def _disk(self, checkpoint: Path, steps: int | None, n_validations: int | None) -> DiskPlan:
        """Sizes, supposing that the run gets better to its end: then the best are the latest."""
        run_dir = self.trainer.run_dir
        weights = _size(checkpoint / "model.safetensors")
        n_saved = n_validations or 10**9
        n_checkpoints = min(2, n_saved)
        n_ranked = self.cfg.average_last or self.cfg.average_best
        # those that count for the older of the two as well: one more than are averaged
        n_best = max(0, min(n_ranked + 1, n_saved) - 2)
        tokenizers = sum(_size(run_dir / name) for name in ("src.spm", "tgt.spm"))
        metrics = _LINE_BYTES * ((steps or 0) // self.cfg.log_every) + (_LINE_BYTES + _SAMPLES_BYTES) * (
            n_validations or 0
        )
        cache = sum(_size(folder) for folder in (run_dir / "cache").iterdir())
        full = _size(checkpoint)
        other = tokenizers + metrics + _CURVES_BYTES + _REPORT_BYTES
        bundle = weights + tokenizers
        total = full * n_checkpoints + weights * n_best + bundle + cache + other
        return DiskPlan(
            full, n_checkpoints, weights, n_best, bundle, cache, other, total, total - bundle + full + weights
        )


def _estimated_memory(trainer: Trainer) -> int:
    """Weights, gradients (of each replica), Adam's means, and the activations that wait for the backward pass.

    A layer keeps the input of each of its products: some 8 widths in the encoder, 14 in the decoder, and 2 inner
    widths of the feed-forward.
    """
    model, cfg = trainer.cfg.model, trainer.cfg.train
    n_weights = sum(parameter.numel() for parameter in trainer.updater.model.parameters())
    encoder = model.n_encoder_layers * (8 * model.d_model + 2 * model.d_ff)
    decoder = model.n_decoder_layers * (14 * model.d_model + 2 * model.d_ff)
    copies = 4 + (1 if cfg.ema else 0) + trainer.updater.replicas.n_copies
    twice = 2 if cfg.r_drop else 1
    return _BYTES * (copies * n_weights + twice * cfg.n_batch_tokens * (encoder + decoder))


def _measured_memory(updater: Updater) -> int:
    if updater.device.type == "cuda":
        return torch.cuda.max_memory_allocated(updater.device)
    return int(resident_memory())


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
