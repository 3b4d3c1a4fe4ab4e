"""Forecast a run from a short probe of real updates (`probe`): size, memory, steps, time and disk.

The probe works in a scratch folder, with the tokenizers and the encoded text of the run if it has them; it leaves the
run's folder unchanged.
"""

import math
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from mtkit.config.distillation import DistillConfig
from mtkit.config.schema import Config, Task
from mtkit.config.training import TrainConfig
from mtkit.cores import use_of_others
from mtkit.data.encoded import PAIRS, Words
from mtkit.data.labelled import EXAMPLES
from mtkit.data.mixture import CorpusUse
from mtkit.data.modifiers import ChangeExample, Modifiers, change_examples
from mtkit.files import disk_full_explained
from mtkit.runs.folder import with_its_choices
from mtkit.runs.probe import Probe
from mtkit.runs.record import parameters_by_part
from mtkit.tokens.special_ids import UNK_ID
from mtkit.training.preparation.auto_batch import resident_memory
from mtkit.training.preparation.learning_curve import ExpectedBleu, learns_anew, unlike_measured
from mtkit.training.preparation.pace import worth_of
from mtkit.training.preparation.prepare import prepare
from mtkit.training.preparation.warm_start import inherit
from mtkit.training.trainer import Trainer
from mtkit.training.update.budget import (
    VALIDATE_EVERY,
    Timing,
    expected_ending,
    expected_updates,
    least_updates,
    shortage,
)
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.training.update.optimizer_step import Updater

_TOKENS_COUNTED = 5_000_000  # of each side, for the shares of bytes and unknown tokens
_PAIRS_TO_CHANGE = 100  # among which examples of `augment` are looked for
_LINE_BYTES = 330  # of a line of metrics.jsonl
_SAMPLES_BYTES = 1_500  # of one of its lines with translations
_REPORT_BYTES = 150_000
_LONGER = (2, 4, 8)  # times the updates
_BYTES = 4  # of a weight, of its gradient, of each of Adam's two means


@dataclass(frozen=True)
class SidePlan:
    """Figures of the text of one side in tokens."""

    vocab_size: int
    tokens_per_sentence: float
    byte_share: float  # of the training tokens: single bytes, of characters without a piece
    unknown_share: float  # of the training tokens: text that is lost


@dataclass(frozen=True)
class MemoryPlan:
    """Memory of a training, in bytes."""

    estimated: int  # weights, gradients, optimizer and activations
    peak: int  # measured in the probe; on a CPU for the whole process, libraries included


@dataclass(frozen=True)
class DiskPlan:
    """Sizes of the files in the run's folder, in bytes."""

    checkpoint: int  # one to resume from
    n_checkpoints: int
    best: int  # the weights of one checkpoint kept for averaging
    n_best: int
    bundle: int
    cache: int  # the encoded text
    other: int  # tokenizers, metrics, report
    total: int  # at the end of the run
    peak: int  # while the next checkpoint is written next to the others


@dataclass(frozen=True)
class TimePlan:
    """Durations of the parts of the command, in seconds."""

    preparing: float  # from the start of the command to the first update
    update: float  # each
    validation: float  # each, with a trained model
    saving: float  # each checkpoint
    ending: float  # averaging, last scores, writing the model
    n_validations: int | None
    total: float | None  # None: depends on train.patience
    at_least: float | None  # seconds before train.patience can end the run; None: another limit ends it at a known step


@dataclass(frozen=True)
class StagePlan:
    """A part of the run with one mixture of corpora."""

    begin: float  # share of the run
    end: float
    steps_per_epoch: int
    corpora: list[CorpusUse]  # what it draws from each


@dataclass(frozen=True)
class RunPlan:
    """The forecast of a training with a config on this machine."""

    task: Task
    device: str
    precision: str
    n_threads: int
    parameters: dict[str, int]  # by part, and `total`; a shared matrix counts for the first of its parts
    batch_tokens: int
    corpora: list[CorpusUse]  # what the run draws from each; if its end is unpredictable, what an epoch does
    stages: list[StagePlan]  # if weight or min_score changes; else empty
    pairs: dict[str, int]  # read; filtered out as blank, too_long, ratio; kept
    src: SidePlan
    tgt: SidePlan | None  # None: a classifier, with labels
    labels: dict[str, int]  # of a classifier, and how many training examples have each; else empty
    changes: list[ChangeExample]  # what training shows of `augment`
    padding_share: float
    targets_per_s: float  # target tokens; of a classifier, examples
    steps_per_epoch: int
    steps: int | None  # in all
    ends: dict[str, int | None]  # each limit, and the step that reaches it; None: unpredictable
    expect: str  # what so few steps are worth, in words; "" if they may be enough
    bleu: ExpectedBleu | None  # on dev at the end; None: the run is unlike those that the forecast rests on
    no_bleu: str  # why there is no such forecast: what the measured runs have; "" if there is one, or none is possible
    bleu_of_longer: dict[int, ExpectedBleu]  # of runs that make 2, 4, ... times as many updates
    memory: MemoryPlan
    time: TimePlan
    disk: DiskPlan
    chosen: dict[str, str]  # each value that mtkit chooses or limits, with its reason, by key
    problem: str  # why training would refuse its budget; "" if it would not
    left_out: list[str]  # what the figures do not include, in words
    used_by_others: str | None = None  # "1.4 of 2 cores" during the probe, if that left too little

    @property
    def words(self) -> Words:
        """The word for rows of the text."""
        return EXAMPLES if self.task == "classify" else PAIRS


def make_plan(cfg: Config, seconds: float = 30.0, since: float | None = None) -> RunPlan:
    """Plan a run of cfg from its beginning. seconds: time for which the probe makes updates.

    since: the time.monotonic() when the command began.
    Raises MtkitError for whatever would stop training, except too short a budget, which is the plan's `problem`.
    """
    run_dir = cfg.run_dir
    if run_dir is None:
        raise ValueError("cfg.run_dir is not set")
    since = time.monotonic() if since is None else since
    started = Checkpoints(run_dir / "checkpoints").exist()
    cfg = with_its_choices(inherit(cfg), started=started)
    is_known = cfg.task == "classify" or learns_anew(cfg)
    no_bleu = "" if is_known else unlike_measured(cfg, 0)  # which the config of the probe no longer tells
    init_from = cfg.train.init_from
    if started:  # the run has its own copy of what it took from there, which may be gone
        cfg = cfg.model_copy(update={"train": cfg.train.model_copy(update={"init_from": None})})
    left_out, text_times = [], 1.0
    if cfg.distill.teachers:
        left_out.append(
            "the time that the teachers need to translate (the plan assumes translations as long as the given ones)"
        )
        cfg, text_times = _as_if_distilled(cfg)
    with tempfile.TemporaryDirectory(prefix="mtkit-plan-") as name, disk_full_explained(Path(name)):
        scratch = Path(name)
        _borrow(run_dir, scratch, with_record=not (started and init_from))
        cfg = cfg.model_copy(update={"run_dir": scratch})
        trainer = Trainer(
            prepare(cfg, scratch, Checkpoints(scratch / "checkpoints"), since=since, text_times=text_times)
        )
        probe = Probe(trainer, time.monotonic() - since, seconds)
        probe.cfg = probe.cfg.model_copy(update={"init_from": init_from})  # a tuned model needs fewer updates
        plan = replace(_plan(probe), left_out=left_out)
    return replace(plan, bleu=None, no_bleu=no_bleu, bleu_of_longer={}) if no_bleu else plan


def _as_if_distilled(cfg: Config) -> tuple[Config, float]:
    """Return the config with an epoch as long as after distillation, but with the given translations.

    Also return how many times as many pairs as there are now the run will have.
    """
    distill = cfg.distill
    n_translations = distill.n_best if distill.choose == "all" else 1
    times = distill.original_weight + n_translations
    # A translation that is not there yet is about as long as its source, which takes its place here.
    given = [one.model_copy(update={"tgt": one.src}) if one.is_untranslated else one for one in cfg.data.train]
    train = [corpus.times(times) for corpus in given]
    data = cfg.data.model_copy(update={"train": train})
    return cfg.model_copy(update={"data": data, "distill": DistillConfig()}), n_translations + (times > n_translations)


def _borrow(run_dir: Path, scratch: Path, with_record: bool) -> None:
    """Copy the run's tokenizers to the scratch folder, and link the files of its encoded text there.

    with_record: copy what says how they were made, too; without it, they are taken as they are.

    The folders belong to the scratch folder, so that the probe can encode damaged text, or text of an older mtkit,
    again.
    """
    for name in ("src.spm", "tgt.spm", *(["tokenizers.json"] if with_record else [])):
        if (run_dir / name).exists():
            shutil.copy(run_dir / name, scratch / name)
    (scratch / "cache").mkdir()
    for path in (run_dir / "cache").glob("[!.]*"):
        if path.is_dir():
            (scratch / "cache" / path.name).mkdir()
            for file in path.iterdir():
                (scratch / "cache" / path.name / file.name).symlink_to(file)
        else:
            shutil.copy(path, scratch / "cache" / path.name)


def _plan(probe: Probe) -> RunPlan:
    trainer, timing, cfg = probe.trainer, probe.timing, probe.cfg
    steps_per_epoch = trainer.epoch_size.n_updates
    ends, steps, n_validations = _ends(probe, steps_per_epoch)
    is_classifier = trainer.cfg.task == "classify"
    ending = expected_ending(cfg, timing)
    parts = None if steps is None or n_validations is None else (steps, n_validations)
    n_tokens, bleu = steps and steps * trainer.run.tokens_an_update, steps and trainer.run.expected_bleu(steps)
    return RunPlan(
        task=trainer.cfg.task,
        device=str(trainer.updater.device),
        precision=trainer.updater.precision,
        n_threads=torch.get_num_threads(),
        parameters=parameters_by_part(trainer.updater.model),
        batch_tokens=cfg.n_batch_tokens,
        corpora=trainer.run.uses_in(steps or steps_per_epoch),
        stages=_stages(trainer, steps or steps_per_epoch),
        pairs={name.removeprefix("n_"): number for name, number in asdict(trainer.corpus.counts).items()},
        src=_side(trainer, 0),
        tgt=None if is_classifier else _side(trainer, 1),
        labels=_labels(trainer) if is_classifier else {},
        changes=_changes(trainer),
        padding_share=trainer.epoch_size.padding_share,
        targets_per_s=probe.targets_per_update / timing.update,
        steps_per_epoch=steps_per_epoch,
        steps=steps,
        ends=ends,
        expect=worth_of(steps, trainer.run.text.worth) if steps is not None and cfg.init_from is None else "",
        bleu=bleu or None,
        no_bleu="" if bleu or is_classifier else unlike_measured(trainer.cfg, trainer.corpus.n_pairs, n_tokens),
        bleu_of_longer=_bleu_of_longer(trainer, steps) if steps is not None else {},
        memory=MemoryPlan(_estimated_memory(trainer), _peak_memory(trainer.updater)),
        time=TimePlan(
            preparing=timing.prepared,
            update=timing.update,
            validation=timing.validation,
            saving=timing.save,
            ending=ending,
            n_validations=n_validations,
            total=parts and _seconds(timing, *parts) + ending,
            at_least=_least_seconds(cfg, timing) + ending if steps is None else None,
        ),
        disk=_disk(trainer, probe.checkpoint, steps, n_validations),
        chosen=trainer.run.reasons,
        problem=str(shortage(cfg, timing) or ""),
        left_out=[],
        used_by_others=use_of_others(probe.began) if trainer.updater.device.type == "cpu" else None,
    )


def _ends(probe: Probe, steps_per_epoch: int) -> tuple[dict[str, int | None], int | None, int | None]:
    """Return the step that reaches each limit, the number of steps, and the number of validations."""
    cfg, timing = probe.cfg, probe.timing
    looking = timing.validation + timing.save
    if cfg.budget is not None:
        timing.update = probe.update_by_clock
        timing.ending = looking + expected_ending(cfg, timing)
        steps, n_validations = expected_updates(cfg, timing, timing.update)
        return {"budget": steps, **({"patience": None} if cfg.patience else {})}, steps, n_validations
    every = cfg.validate_every if cfg.validate_every != "auto" else VALIDATE_EVERY
    ends: dict[str, int | None] = {}
    if cfg.max_steps is not None:
        ends["max_steps"] = cfg.max_steps
    if cfg.max_epochs is not None:
        ends["max_epochs"] = cfg.max_epochs * steps_per_epoch
    if cfg.max_minutes is not None:
        ends["max_minutes"] = max(1, int(cfg.max_minutes * 60 / (probe.update_by_clock + looking / every)))
    if cfg.patience is not None:
        ends["patience"] = None
    total = min((step for step in ends.values() if step is not None), default=None)
    if total is not None and total == ends.get("max_minutes"):
        timing.update = probe.update_by_clock
    return ends, total, total and math.ceil(total / every)


def _bleu_of_longer(trainer: Trainer, steps: int) -> dict[int, ExpectedBleu]:
    """Return the BLEU on dev to expect with twice, four times and eight times the steps."""
    expected = {times: trainer.run.expected_bleu(times * steps) for times in _LONGER}
    return {times: bleu for times, bleu in expected.items() if bleu is not None}


def _seconds(timing: Timing, steps: int, n_validations: int) -> float:
    """Return the seconds to the end of the last validation."""
    return timing.prepared + steps * timing.update + n_validations * (timing.validation + timing.save)


def _least_seconds(cfg: TrainConfig, timing: Timing) -> float:
    """Return the seconds to the last validation of a run that only patience ends, if its first one is the best."""
    return _seconds(timing, least_updates(cfg), 1 + (cfg.patience or 0))


def _stages(trainer: Trainer, steps: int) -> list[StagePlan]:
    run = trainer.run
    if len(run.mixtures) == 1:
        return []
    return [
        StagePlan(mixture.begin, mixture.end, size.n_updates, run.uses_in(steps, [stage]))
        for stage, (mixture, size) in enumerate(zip(run.mixtures, run.epoch_sizes, strict=True))
    ]


def _side(trainer: Trainer, index: int) -> SidePlan:
    corpus, tokenizer = trainer.corpus, trainer.run.text.tokenizers[index]
    side = (corpus.src, corpus.tgt)[index]
    ids = side.ids[:_TOKENS_COUNTED]
    counts = torch.bincount(torch.tensor(ids, dtype=torch.int64), minlength=tokenizer.vocab_size)
    return SidePlan(
        vocab_size=tokenizer.vocab_size,
        tokens_per_sentence=float(side.lengths.mean()),
        byte_share=int(counts[tokenizer.byte_ids()].sum()) / len(ids),
        unknown_share=int(counts[UNK_ID]) / len(ids),
    )


def _labels(trainer: Trainer) -> dict[str, int]:
    """Count the training examples of each label."""
    labels = trainer.cfg.data.labels
    counts = trainer.corpus.tgt.occurrences(1 + len(labels))  # ids from 1
    return dict(zip(labels, counts[1:].tolist(), strict=True))


def _changes(trainer: Trainer) -> list[ChangeExample]:
    """Return an example of each change of `augment`."""
    corpus, (src, tgt) = trainer.corpus, trainer.run.text.tokenizers
    rates, data = trainer.cfg.augment.rates, trainer.cfg.data
    if not rates:
        return []
    sample = np.linspace(0, corpus.n_pairs - 1, min(corpus.n_pairs, _PAIRS_TO_CHANGE), dtype=np.int64)
    some, readers = corpus.take(sample), [src.tagged(one.tag) for one in data.train]
    pairs = [
        (readers[of].decode(some.src[i].tolist()), tgt.decode(some.tgt[i].tolist()))
        for i, of in enumerate(corpus.corpora_of(sample).tolist())
    ]
    return change_examples(rates, Modifiers(data.src_lang, data.tgt_lang), pairs)


def _disk(trainer: Trainer, checkpoint: Path, steps: int | None, n_validations: int | None) -> DiskPlan:
    """Return sizes, assuming that the run improves to its end, so that its best checkpoints are the latest."""
    cfg, run_dir = trainer.cfg.train, trainer.run_dir
    weights = _size(checkpoint / "model.safetensors")
    n_saved = n_validations or 10**9
    n_checkpoints = min(2, n_saved)
    n_ranked = cfg.average_last or cfg.average_best
    # one more than the run averages: the older of the two checkpoints needs its own best
    n_best = max(0, min(n_ranked + 1, n_saved) - 2)
    tokenizers = sum(_size(run_dir / name) for name in ("src.spm", "tgt.spm"))
    metrics = _LINE_BYTES * ((steps or 0) // cfg.log_every) + (_LINE_BYTES + _SAMPLES_BYTES) * (n_validations or 0)
    cache = sum(_size(folder) for folder in (run_dir / "cache").iterdir())
    full = _size(checkpoint)
    other = tokenizers + metrics + _REPORT_BYTES
    bundle = weights + tokenizers
    total = full * n_checkpoints + weights * n_best + bundle + cache + other
    return DiskPlan(full, n_checkpoints, weights, n_best, bundle, cache, other, total, total - bundle + full + weights)


def _estimated_memory(trainer: Trainer) -> int:
    """Return bytes for weights, gradients (of each replica), Adam's means, and activations kept for the backward pass.

    A layer keeps the input of each matrix product: some 8 x d_model in the encoder, 14 x d_model in the decoder,
    and 2 x d_ff.
    """
    model, cfg = trainer.cfg.model, trainer.cfg.train
    n_weights = sum(parameter.numel() for parameter in trainer.updater.model.parameters())
    encoder = model.n_encoder_layers * (8 * model.d_model + 2 * model.d_ff)
    n_decoder_layers = 0 if trainer.cfg.task == "classify" else model.n_decoder_layers
    decoder = n_decoder_layers * (14 * model.d_model + 2 * model.d_ff)
    copies = 4 + (1 if cfg.ema or cfg.decay == "schedule_free" else 0) + trainer.updater.replicas.n_copies
    twice = 2 if cfg.r_drop else 1
    return _BYTES * (copies * n_weights + twice * cfg.n_batch_tokens * (encoder + decoder))


def _peak_memory(updater: Updater) -> int:
    if updater.device.type == "cuda":
        return torch.cuda.max_memory_allocated(updater.device)
    return int(resident_memory())


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
