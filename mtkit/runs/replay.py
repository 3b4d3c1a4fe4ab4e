"""Repeat a run's last steps from its older checkpoint, and compare the result with its newer checkpoint."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from mtkit.config.reading.loading import load_written_config
from mtkit.config.schema import Config
from mtkit.console import counted, log, progress_bar, shown_as
from mtkit.errors import CheckpointError, ConfigError
from mtkit.files import parse_json, sha256_file
from mtkit.training.interruption import StopRequest
from mtkit.training.metrics_log import MetricsLog, read_metrics
from mtkit.training.preparation.prepare import prepare
from mtkit.training.trainer import Trainer
from mtkit.training.update.checkpoint import Checkpoint, Checkpoints, find_damage, made_with, read_optimizer_state

_WEIGHTS = {"model.safetensors": "weights", "ema.safetensors": "mean of the weights"}
_TIMES = {"seconds", "timing", "tokens_per_s", "run_s"}  # which differ in any replay
_NOT_HERE = "(missing)"


@dataclass(frozen=True)
class Part:
    """One compared part, with its hashes in run and replay, and the first difference."""

    name: str
    recorded: str
    replayed: str
    difference: str | None  # None: equal


@dataclass(frozen=True)
class Replay:
    """The result of a replay."""

    run_dir: Path
    first_step: int  # of the checkpoint that it started from
    last_step: int
    newest_step: int  # of the newer checkpoint; a replay that reaches it compares everything
    parts: list[Part]
    causes: list[str] = field(default_factory=list)  # differences between the machines, which may explain others

    @property
    def is_complete(self) -> bool:
        """Return whether the replay compared everything, not only lines of metrics.jsonl."""
        return self.last_step == self.newest_step

    @property
    def is_equal(self) -> bool:
        """Return whether all parts are equal."""
        return all(part.difference is None for part in self.parts)


def replay(run_dir: Path, steps: int | None = None) -> Replay:
    """Repeat the updates between the run's two newest checkpoints in a scratch folder, and compare.

    steps: repeat at most this many; if they do not reach the newer checkpoint, compare only lines of metrics.jsonl.
    Does not change the run. Raises MtkitError if it lacks two checkpoints, if its text or tokenizers have changed, or
    if its learning rate, or the start of R-Drop, followed the clock.
    """
    cfg = _config_of(run_dir)
    with tempfile.TemporaryDirectory(prefix="mtkit-replay-") as folder:
        scratch = Path(folder) / "run"
        older, newer = _copy_run(run_dir, scratch)
        first_step = older.state.step  # read now: the trainer changes this state
        last_step = min(newer.state.step, first_step + (steps or newer.state.step))
        if last_step < newer.state.step and not _metrics_between(run_dir, first_step, last_step):
            raise ConfigError(
                f"{run_dir}: nothing to compare after {counted(last_step - first_step, 'step')}: metrics.jsonl has a "
                f"line every {counted(cfg.train.log_every, 'step')}; raise --steps, or omit it"
            )
        with shown_as(run_dir, scratch):
            cfg = cfg.model_copy(update={"run_dir": scratch})
            trainer = Trainer(prepare(cfg, scratch, Checkpoints(scratch / "checkpoints")))
            trainer.resume(older)
            log.info(f"{run_dir}: repeating steps {first_step + 1} to {last_step}")
            _replay_steps(trainer, newer, last_step)
        parts = [_compare_metrics(run_dir, scratch, first_step, last_step)]
        if last_step == newer.state.step:
            replayed = scratch / "checkpoints" / f"step-{last_step}"
            parts = [*_compare_checkpoints(newer.folder, replayed, _optimizer_names(trainer)), *parts]
        return Replay(run_dir, first_step, last_step, newer.state.step, parts, _causes(newer.folder, trainer))


def _config_of(run_dir: Path) -> Config:
    path = run_dir / "config.yaml"
    if not path.exists():
        raise ConfigError(f"{run_dir}: not the folder of a run: it has no config.yaml")
    cfg = load_written_config(path)
    by_share = cfg.train.decay == "cosine" or cfg.train.r_drop_from > 0 or len(cfg.data.stages) > 1
    if cfg.train.budget is not None or (by_share and cfg.train.max_minutes is not None):
        key = "budget" if cfg.train.budget is not None else "max_minutes"
        raise ConfigError(
            f"{run_dir}: the run followed the clock (train.{key}), so a replay cannot repeat its steps; replay a run "
            "that ends by max_steps or max_epochs"
        )
    return cfg


def _copy_run(run_dir: Path, scratch: Path) -> tuple[Checkpoint, Checkpoint]:
    """Copy the files for a start of the run to scratch; return both checkpoints, the newer one in a separate folder.

    Copies all of both checkpoints, because a process that trains the run meanwhile would remove the older one.
    """
    steps = sorted(Checkpoints(run_dir / "checkpoints").resumable())
    if len(steps) < 2:
        has_model = (run_dir / "model" / "manifest.json").exists()
        held = f"only step-{steps[0]}" if steps else "no checkpoint"
        wait = (
            "the run has finished, so it will not write another one"
            if has_model
            else "continue training until there are two"
        )
        raise CheckpointError(
            f"{run_dir / 'checkpoints'}: a replay needs two checkpoints, but this folder has {held}; {wait}"
        )
    scratch.mkdir()
    try:
        for path in (*run_dir.glob("*.spm"), *run_dir.glob("tokenizers.json"), run_dir / "config.yaml"):
            shutil.copy(path, scratch)
        for path in (run_dir / "cache").glob("*/*"):
            place = scratch / path.relative_to(run_dir)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(
                path.resolve()
            )  # large; if it is damaged, the replay replaces the link and leaves the file
        older, newer = (
            shutil.copytree(run_dir / "checkpoints" / f"step-{step}", scratch / folder / f"step-{step}")
            for step, folder in zip(steps[-2:], ("checkpoints", "recorded"), strict=True)
        )
    except (OSError, shutil.Error) as error:
        raise CheckpointError(
            f"{run_dir}: cannot copy the run to {scratch.parent} ({error}); if that disk is full, set TMPDIR to a "
            "folder on another disk; if another process is training the run, run the same command again"
        ) from error
    return _read_undamaged(older), _read_undamaged(newer)


def _read_undamaged(folder: Path) -> Checkpoint:
    if problem := find_damage(folder):
        raise CheckpointError(f"{problem}; a replay needs two undamaged checkpoints")
    checkpoint = Checkpoints(folder.parent).newest()
    assert checkpoint is not None
    return checkpoint


def _replay_steps(trainer: Trainer, newer: Checkpoint, last_step: int) -> None:
    """Train like Trainer.fit, but stop at last_step, and validate only where the run did."""
    state, request = trainer.state, StopRequest()
    with (
        MetricsLog(trainer.run_dir, state.step, state.recovery) as trainer.metrics,
        trainer.feed,
        progress_bar(last_step - state.step, "replay", "step") as bar,
    ):
        while trainer.state.step < last_step:
            if trainer.budget.validation_due(trainer.state.step):
                trainer.validate(request)
            trainer.update()
            bar.update()
        if last_step == newer.state.step:
            recovery = newer.state.recovery
            if recovery and recovery.step == last_step:  # recorded when the run went back to it
                trainer.state.recovery = recovery
            if newer.state.validated_step == last_step:
                trainer.validate(request)
            trainer.save()


def _metrics_between(run_dir: Path, first_step: int, last_step: int) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl after first_step, up to last_step, without times."""
    return [
        {name: value for name, value in entry.items() if name not in _TIMES}
        for entry in read_metrics(run_dir / "metrics.jsonl")
        if first_step < entry["step"] <= last_step and entry["kind"] == "train"
    ]


def _compare_metrics(run_dir: Path, scratch: Path, first_step: int, last_step: int) -> Part:
    recorded, replayed = (_metrics_between(folder, first_step, last_step) for folder in (run_dir, scratch))
    none: dict[str, Any] = {}
    different = (
        f"first at step {(old or new)['step']}: {name} {old.get(name)} in the run, {new.get(name)} in the replay"
        for old, new in zip_longest(recorded, replayed, fillvalue=none)
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    )
    return Part("metrics.jsonl", counted(len(recorded), "line"), counted(len(replayed), "line"), next(different, None))


def _compare_checkpoints(recorded: Path, replayed: Path, names: Mapping[int, str]) -> Iterator[Part]:
    for file, name in _WEIGHTS.items():
        if (recorded / file).exists() or (replayed / file).exists():
            yield _compare_tensors(name, recorded / file, replayed / file, lambda path: dict(load_file(path)))
    yield _compare_tensors(
        "optimizer", recorded / "optimizer.pt", replayed / "optimizer.pt", lambda path: _optimizer_tensors(path, names)
    )
    states = [_without_times(parse_json((folder / "state.json").read_text("utf-8"))) for folder in (recorded, replayed)]
    hashes = [hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest() for state in states]
    key = next((key for key in {**states[0], **states[1]} if states[0].get(key) != states[1].get(key)), None)
    difference = key and f"{key}: {states[0].get(key)} in the run, {states[1].get(key)} in the replay"
    yield Part("state", hashes[0], hashes[1], difference)


def _compare_tensors(name: str, recorded: Path, replayed: Path, load: Any) -> Part:
    """Compare two files by their hashes and, if these differ, by their tensors."""
    hashes = [sha256_file(path) if path.exists() else _NOT_HERE for path in (recorded, replayed)]
    if hashes[0] == hashes[1]:
        return Part(name, hashes[0], hashes[1], None)
    if _NOT_HERE in hashes:
        return Part(name, hashes[0], hashes[1], f"only one of them has {recorded.name}")
    return Part(name, hashes[0], hashes[1], first_difference(load(recorded), load(replayed)))


def first_difference(old: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> str | None:
    """Describe the first tensor, in the order of old, that differs in any bit; None if all are equal."""
    for name in {**old, **new}:
        if name not in old or name not in new:
            return f"{name}: only in the {'run' if name in old else 'replay'}"
        if old[name].shape != new[name].shape or old[name].dtype != new[name].dtype:
            return f"{name}: {tuple(old[name].shape)} in the run, {tuple(new[name].shape)} in the replay"
        if not torch.equal(old[name], new[name]):
            off = (old[name].double() - new[name].double()).abs()
            return f"{name}: {int((off != 0).sum()):,} of {off.numel():,} numbers differ, by at most {off.max():.2g}"
    return None


def _optimizer_tensors(path: Path, names: Mapping[int, str]) -> dict[str, Tensor]:
    state = read_optimizer_state(path)["state"]
    return {
        f"{key} of {names.get(index, index)}": torch.as_tensor(value)
        for index, values in state.items()
        for key, value in values.items()
    }


def _optimizer_names(trainer: Trainer) -> dict[int, str]:
    """Return the weight's name for each index in the optimizer's state."""
    names = {id(weight): name for name, weight in trainer.updater.model.named_parameters()}
    weights = [weight for group in trainer.updater.optimizer.param_groups for weight in group["params"]]
    return {index: names[id(weight)] for index, weight in enumerate(weights)}


def _without_times(values: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in values.items() if key not in _TIMES}
    return {key: _without_times(value) if isinstance(value, dict) else value for key, value in kept.items()}


def _causes(newer: Path, trainer: Trainer) -> list[str]:
    """Return the differences between the machine that wrote the newer checkpoint and this one."""
    then, now = made_with(newer), trainer.checkpoints.made_with
    return [
        f"{key}: {then.get(key, 'unknown')} when the run was trained, {now.get(key, 'unknown')} here"
        for key in {**now, **then}
        if then.get(key) != now.get(key)
    ]
