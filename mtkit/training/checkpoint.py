"""Checkpoints of a run: weights, optimizer and state in one folder, written whole or not at all, verified when read.

checkpoints/step-N/ can be resumed from; checkpoints/best-N/ (or one of the last, with train.average_last) has lost its
optimizer and is kept for averaging.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from mtkit.console import log
from mtkit.errors import CheckpointError
from mtkit.files import atomic_folder, sha256_file
from mtkit.training.state import TrainState
from mtkit.training.update import MovingAverage

_MODEL, _OPTIMIZER, _STATE, _MANIFEST = "model.safetensors", "optimizer.pt", "state.json", "manifest.json"
_AVERAGE = "ema.safetensors"  # with train.ema: the running mean of the weights, which is what counts
_N_RESUMABLE = 2  # so that a damaged newest checkpoint costs one interval, not the run


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint: where the run stood, and the way back there."""

    folder: Path
    state: TrainState

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer, average: MovingAverage | None = None) -> None:
        """Give model, optimizer and running mean the values that they had."""
        _set_weights(model, load_file(self.folder / _MODEL))
        if average:
            _set_weights(average.model, load_file(self.folder / _AVERAGE))
        device = next(model.parameters()).device
        optimizer.load_state_dict(torch.load(self.folder / _OPTIMIZER, map_location=device, weights_only=True))


class Checkpoints:
    """The checkpoints of one run: the newest two to resume from, and the weights of those to be averaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made_with: dict[str, str] = {}  # to be noted beside what is saved

    def exist(self) -> bool:
        """Whether there is any to resume from, readable or not."""
        return bool(self._steps("step"))

    def save(
        self,
        state: TrainState,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        average: MovingAverage | None = None,
    ) -> Path:
        """Write step-N, then remove what is no longer needed.

        Raises CheckpointError if it cannot be written, for example because the disk is full; those before it stay.
        """
        folder = self.folder / f"step-{state.step}"
        try:
            with atomic_folder(folder) as temporary:
                _save_weights(model, temporary / _MODEL)
                if average:
                    _save_weights(average.model, temporary / _AVERAGE)
                torch.save(optimizer.state_dict(), temporary / _OPTIMIZER)
                (temporary / _STATE).write_text(json.dumps(state.to_dict(), indent=1), encoding="utf-8")
                _write_manifest(temporary, self.made_with)
        except (OSError, RuntimeError, SafetensorError) as error:  # torch and safetensors wrap the system's error
            raise CheckpointError(self._cannot_save(folder, error)) from error
        self._prune(state)
        return folder

    def resumable(self) -> list[int]:
        """The steps that can be gone on from, oldest first, damaged or not."""
        return self._steps("step")

    def newest(self, before: int | None = None) -> Checkpoint | None:
        """The newest checkpoint that is whole; a damaged one is named in a warning and passed over.

        before: those of earlier steps come first; of the others, only if there is none, the oldest.
        Returns None for a run without checkpoints; raises CheckpointError if all are damaged.
        """
        steps = self._steps("step")
        earlier = [step for step in steps if before is None or step < before]
        for step in [*reversed(earlier), *steps[len(earlier) :]]:
            folder = self.folder / f"step-{step}"
            problem = find_damage(folder)
            if problem is None:
                return Checkpoint(folder, _read_state(folder / _STATE))
            log.warning(f"{problem}; trying another checkpoint")
        if steps:
            raise CheckpointError(
                f"{self.folder}: none of the {len(steps)} checkpoints can be read (see the warnings above); restore "
                "them from a copy, or remove this folder to train from the beginning"
            )
        return None

    def usable(self, steps: Sequence[int]) -> list[int]:
        """Those of the steps, in order, whose weights are whole; if none are, the newest of the others.

        What is missing or damaged is named in a warning. Raises CheckpointError if no weights are left.
        """
        whole = [step for step in sorted(steps) if self.has_weights(step)]
        if whole:
            return whole
        for step in sorted(set(self.kept_steps()) - set(steps), reverse=True):
            if self.has_weights(step):
                log.warning(f"{self.folder}: none of the best checkpoints is left: taking the weights of step {step}")
                return [step]
        raise CheckpointError(
            f"{self.folder}: no checkpoint has weights that can be read (see the warnings above); restore them from a "
            "copy, or remove this folder to train from the beginning"
        )

    def kept_steps(self) -> list[int]:
        """The steps whose weights are there, whole or not, in order."""
        return sorted({*self._steps("step"), *self._steps("best")})

    def load_average(self, steps: Sequence[int], model: nn.Module) -> None:
        """Give the model the mean of the weights that it had at these steps; the sum is made in float64."""
        sums: dict[str, Tensor] = {}
        for step in sorted(steps):
            folder = self._holding(step)
            for name, weight in load_file(folder / _kept_weights(folder)).items():
                sums[name] = sums[name].add_(weight) if name in sums else weight.double()
        _set_weights(model, {name: total / len(steps) for name, total in sums.items()})

    def has_weights(self, step: int) -> bool:
        """Whether the weights that were validated at this step are whole; if not, a warning names what is wrong."""
        folder = self._holding(step)
        problem = find_damage(folder, (_kept_weights(folder),))
        if problem is not None:
            log.warning(f"{problem}; the model is made without this checkpoint")
        return problem is None

    def _holding(self, step: int) -> Path:
        """The checkpoint of this step, whether it can be resumed from or not."""
        resumable = self.folder / f"step-{step}"
        return resumable if resumable.exists() else self.folder / f"best-{step}"

    def _steps(self, kind: str) -> list[int]:
        names = [path.name.removeprefix(f"{kind}-") for path in self.folder.glob(f"{kind}-*")]
        return sorted(int(name) for name in names if name.isdecimal())

    def _prune(self, state: TrainState) -> None:
        """Keep the newest to resume from, and the weights that they or the run want to average.

        While the loss is high, the newest whose next update's was not stays, too: should this be a divergence, the run
        goes back there.
        """
        steps = [step for step in self._steps("step") if step <= state.step]
        before_high = [step for step in steps if step < state.step - state.loss_watch.n_high]
        resumable = sorted({*steps[-_N_RESUMABLE:], *before_high[-1:]})
        wanted = {scored.step for scored in (*state.best, *state.last)}
        for step in resumable:
            wanted |= _steps_to_average(self.folder / f"step-{step}" / _STATE)
        for step in self._steps("step"):
            folder = self.folder / f"step-{step}"
            if step in wanted and step not in resumable and step < state.step:
                shutil.rmtree(self.folder / f"best-{step}", ignore_errors=True)
                folder.replace(self.folder / f"best-{step}")
            elif step not in resumable:  # a newer one was damaged, or the run would have gone on from there
                shutil.rmtree(folder, ignore_errors=True)
        for step in self._steps("best"):
            folder = self.folder / f"best-{step}"
            if step in wanted:
                for name in {_OPTIMIZER, _MODEL, _AVERAGE} - {_kept_weights(folder)}:
                    (folder / name).unlink(missing_ok=True)
            else:
                shutil.rmtree(folder, ignore_errors=True)

    def _cannot_save(self, folder: Path, error: Exception) -> str:
        place = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        free = shutil.disk_usage(place).free // 2**20
        steps = self._steps("step")
        resume = f"the run goes on from step {steps[-1]}" if steps else "the run starts anew"
        return (
            f"{folder}: the checkpoint cannot be written: {error} ({free} MiB are free there); earlier checkpoints "
            f"are untouched: make room and run the same command again, {resume}"
        )


def find_damage(folder: Path, names: Sequence[str] = ()) -> str | None:
    """What is wrong with these of a checkpoint's files, naming the file; None if each is what the manifest says.

    Without names: all that resuming needs.
    """
    try:
        checksums = _read_checksums(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{folder / _MANIFEST}: missing or not readable ({error})"
    for name in names or (_MODEL, _OPTIMIZER, _STATE, *([_AVERAGE] if _AVERAGE in checksums else [])):
        path = folder / name
        if not path.exists():
            return f"{path}: missing"
        if sha256_file(path) != checksums.get(name):
            return f"{path}: damaged ({path.stat().st_size} bytes, its checksum is not the manifest's)"
    return None


def _read_checksums(folder: Path) -> dict[str, str]:
    return dict(json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))["sha256"])


def _kept_weights(folder: Path) -> str:
    """The file of a checkpoint with the weights that were validated: their running mean, if the run has one."""
    try:
        return _AVERAGE if _AVERAGE in _read_checksums(folder) else _MODEL
    except (OSError, ValueError, KeyError, TypeError):  # `find_damage` will say so
        return _MODEL


def _save_weights(model: nn.Module, path: Path) -> None:
    save_file({name: weight.detach() for name, weight in model.named_parameters()}, path)


def _read_state(path: Path) -> TrainState:
    try:
        return TrainState.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError) as error:  # undamaged, and yet not what this version writes
        found = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(
            f"{path}: written by another version of mtkit ({found}); go on with that version, or start a new run"
        ) from error


@torch.no_grad()
def _set_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())  # a shared one comes once
    if parameters.keys() != weights.keys():
        raise CheckpointError(f"a checkpoint of another model; weights differ: {parameters.keys() ^ weights.keys()}")
    for name, parameter in parameters.items():
        parameter.copy_(weights[name])


def made_with(folder: Path) -> dict[str, str]:
    """What the checkpoint's manifest says of torch, device, precision and threads; a `find_damage` must have passed."""
    return dict(json.loads((folder / _MANIFEST).read_text(encoding="utf-8")).get("made_with", {}))


def _write_manifest(folder: Path, made_with: Mapping[str, str]) -> None:
    checksums = {path.name: sha256_file(path) for path in sorted(folder.iterdir())}
    text = json.dumps({"sha256": checksums, "made_with": made_with}, indent=1)
    (folder / _MANIFEST).write_text(text, encoding="utf-8")


def _steps_to_average(state_path: Path) -> set[int]:
    try:
        state = json.loads(state_path.read_text(encoding="utf-8"))
        return {entry["step"] for key in ("best", "last") for entry in state[key]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
