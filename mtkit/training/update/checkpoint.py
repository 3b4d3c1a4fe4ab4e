"""Checkpoints of a run: folders with weights, optimizer and state, written atomically and verified when read.

A run can resume from checkpoints/step-N/. checkpoints/best-N/ keeps only weights, for averaging: those of the best
steps, or of the last ones with train.average_last.
"""

import copy
import json
import pickle
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from mtkit.console import log
from mtkit.errors import CheckpointError
from mtkit.files import atomic_folder, parse_json, sha256_file
from mtkit.model.networks import find_not_finite
from mtkit.training.update.state import TrainState

_MODEL, _OPTIMIZER, _STATE, _MANIFEST = "model.safetensors", "optimizer.pt", "state.json", "manifest.json"
_KEPT = "ema.safetensors"  # a mean of the weights, which becomes the model: with train.ema or schedule_free
_N_RESUMABLE = 2  # so that a damaged newest checkpoint costs one interval, not the run


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint."""

    folder: Path
    state: TrainState

    def weights(self) -> dict[str, Tensor]:
        """Read the weights, by name. Raises CheckpointError if the file cannot be read."""
        return _read_weights(self.folder / _MODEL)

    def average(self) -> dict[str, Tensor]:
        """Read the mean of the weights, by name; only a run with train.ema or schedule_free has one."""
        return _read_weights(self.folder / _KEPT)

    def optimizer_state(self) -> dict[str, Any]:
        """Read the optimizer's state_dict. Raises CheckpointError if the file cannot be read."""
        return read_optimizer_state(self.folder / _OPTIMIZER)


class Start:
    """A copy in memory of a run before its first update, to go back to while there is no checkpoint."""

    def __init__(self, state: TrainState, weights: Mapping[str, Tensor], optimizer_state: dict[str, Any]) -> None:
        self.state = copy.deepcopy(state)
        self._weights = {name: weight.to("cpu", copy=True) for name, weight in weights.items()}
        self._optimizer_state = copy.deepcopy(optimizer_state)

    def weights(self) -> dict[str, Tensor]:
        """Return the weights, by name."""
        return self._weights

    def average(self) -> dict[str, Tensor]:
        """Return the moving average of the weights, which begins with the weights."""
        return self._weights

    def optimizer_state(self) -> dict[str, Any]:
        """Return the optimizer's state_dict."""
        return self._optimizer_state


class Checkpoints:
    """The checkpoints of one run: the newest two to resume from, and the weights of those to be averaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made_with: dict[str, str] = {}  # the machine and precision, for the manifest

    def exist(self) -> bool:
        """Return whether there is a checkpoint to resume from, readable or not."""
        return bool(self._steps("step"))

    def save(
        self,
        state: TrainState,
        weights: Mapping[str, Tensor],
        optimizer_state: Mapping[str, Any],
        kept: Mapping[str, Tensor] | None = None,
    ) -> Path:
        """Write step-N, then remove what the run no longer needs.

        kept: the mean of the weights that becomes the model, with train.ema or schedule_free; None: the weights do.

        Raises CheckpointError if it cannot write, for example because the disk is full; earlier checkpoints stay.
        """
        folder = self.folder / f"step-{state.step}"
        try:
            with atomic_folder(folder) as temporary:
                save_file(dict(weights), temporary / _MODEL)
                if kept:
                    save_file(dict(kept), temporary / _KEPT)
                torch.save(optimizer_state, temporary / _OPTIMIZER)
                (temporary / _STATE).write_text(json.dumps(state.to_dict(), indent=1), encoding="utf-8")
                _write_manifest(temporary, self.made_with)
        except (OSError, RuntimeError, SafetensorError) as error:  # torch and safetensors wrap the system's error
            raise CheckpointError(self._cannot_save(folder, error)) from error
        self._prune(state)
        return folder

    def resumable(self) -> list[int]:
        """Return the steps that a run can resume from, oldest first, damaged or not."""
        return self._steps("step")

    def newest(self, before: int | None = None) -> Checkpoint | None:
        """Return the newest undamaged checkpoint; warn about each damaged one.

        before: prefer checkpoints of steps before this one, newest first; then the others, oldest first.
        Returns None for a run without checkpoints; raises CheckpointError if all are damaged.
        """
        steps, unreadable = self._steps("step"), None
        earlier = [step for step in steps if before is None or step < before]
        for step in [*reversed(earlier), *steps[len(earlier) :]]:
            folder = self.folder / f"step-{step}"
            problem = find_damage(folder)
            if problem is None:
                try:
                    return Checkpoint(folder, _read_state(folder / _STATE))
                except CheckpointError as error:
                    unreadable = error
            log.warning(f"{problem or unreadable}; trying another checkpoint")
        if unreadable is not None:
            raise unreadable
        if steps:
            raise CheckpointError(
                f"{self.folder}: all {len(steps)} checkpoints are damaged (see the warnings above); restore them from "
                "a copy, or remove this folder to train from the beginning"
            )
        return None

    def usable(self, steps: Sequence[int]) -> list[int]:
        """Return those of the steps that have undamaged weights, in order; if none has, the newest other step that has
        them.

        Warns about missing or damaged weights. Raises CheckpointError if no weights are left.
        """
        whole = [step for step in sorted(steps) if self.has_weights(step)]
        if whole:
            return whole
        for step in sorted(set(self.kept_steps()) - set(steps), reverse=True):
            if self.has_weights(step):
                log.warning(f"{self.folder}: none of the best checkpoints is left; using the weights of step {step}")
                return [step]
        raise CheckpointError(
            f"{self.folder}: no checkpoint has undamaged weights (see the warnings above); restore them from a copy, "
            "or remove this folder to train from the beginning"
        )

    def kept_steps(self) -> list[int]:
        """Return the steps with weights, damaged or not, in order."""
        return sorted({*self._steps("step"), *self._steps("best")})

    def mean_weights(self, steps: Sequence[int]) -> dict[str, Tensor]:
        """Return the mean, in float64, of the weights that were validated at these steps, by name."""
        sums: dict[str, Tensor] = {}
        for step in sorted(steps):
            folder = self._holding(step)
            for name, weight in _read_weights(folder / _kept_weights(folder)).items():
                sums[name] = sums[name].add_(weight) if name in sums else weight.double()
        return {name: total / len(steps) for name, total in sums.items()}

    def has_weights(self, step: int) -> bool:
        """Return whether the weights that were validated at this step are undamaged; warn if they are not."""
        folder = self._holding(step)
        problem = find_damage(folder, (_kept_weights(folder),))
        if problem is not None:
            log.warning(f"{problem}; leaving this checkpoint out of the model")
        return problem is None

    def _holding(self, step: int) -> Path:
        """Return the folder of this step, step-N or best-N."""
        resumable = self.folder / f"step-{step}"
        return resumable if resumable.exists() else self.folder / f"best-{step}"

    def _steps(self, kind: str) -> list[int]:
        names = [path.name.removeprefix(f"{kind}-") for path in self.folder.glob(f"{kind}-*")]
        return sorted(int(name) for name in names if name.isdecimal())

    def _prune(self, state: TrainState) -> None:
        """Keep the newest checkpoints and the weights that they or the run will average; remove the others.

        While the loss is high, also keep the newest checkpoint from before the rise, because a diverged run goes back
        to it.
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
            elif step not in resumable:  # not needed any more; or newer than `state`, left when it was damaged
                shutil.rmtree(folder, ignore_errors=True)
        for step in self._steps("best"):
            folder = self.folder / f"best-{step}"
            if step in wanted:
                for name in {_OPTIMIZER, _MODEL, _KEPT} - {_kept_weights(folder)}:
                    (folder / name).unlink(missing_ok=True)
            else:
                shutil.rmtree(folder, ignore_errors=True)

    def _cannot_save(self, folder: Path, error: Exception) -> str:
        place = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        free = shutil.disk_usage(place).free // 2**20
        steps = self._steps("step")
        resume = f"it resumes after step {steps[-1]}" if steps else "it starts from the beginning"
        return (
            f"{folder}: cannot write the checkpoint: {error} ({free} MiB are free there); earlier checkpoints are "
            f"untouched: free some space and run the same command again; {resume}"
        )


def find_damage(folder: Path, names: Sequence[str] = ()) -> str | None:
    """Describe what is wrong with a checkpoint, with the file; None if its files match the manifest.

    names: the files to check; without any, all that a run needs to resume.
    """
    try:
        checksums = _read_checksums(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{folder / _MANIFEST}: missing or unreadable ({error})"
    for name in names or (_MODEL, _OPTIMIZER, _STATE, *([_KEPT] if _KEPT in checksums else [])):
        path = folder / name
        if not path.exists():
            return f"{path}: missing"
        if sha256_file(path) != checksums.get(name):
            return f"{path}: damaged ({path.stat().st_size} bytes; its checksum differs from the manifest's)"
    return None


def read_optimizer_state(path: Path) -> dict[str, Any]:
    """Read an optimizer's state_dict. Raises CheckpointError if the file holds none, or more than tensors."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files raise many types
        raise CheckpointError(_cannot_read(path, error)) from error
    if not isinstance(state, dict) or not {"state", "param_groups"} <= state.keys():
        raise CheckpointError(f"{path}: not the state of an optimizer; {_REMEDY}")
    return state


def check_fits(state: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> None:
    """Raise ValueError if an optimizer's state_dict is not one of this optimizer, in its parts or their shapes."""
    own = optimizer.state_dict()
    if [group["params"] for group in own["param_groups"]] != [group.get("params") for group in state["param_groups"]]:
        raise ValueError("it is of another model")
    for ours, theirs in zip(own["param_groups"], state["param_groups"], strict=True):
        for key, value in ours.items():
            if key in theirs and type(theirs[key]) is not type(value):
                raise ValueError(f"{key} is {type(theirs[key]).__name__}, not {type(value).__name__}")
    weights = dict(enumerate(weight for group in optimizer.param_groups for weight in group["params"]))
    for index, values in state["state"].items():
        if index not in weights:
            raise ValueError(f"the model has no weight {index}")
        for name, value in values.items():
            if not isinstance(value, Tensor) or (name != "step" and value.shape != weights[index].shape):
                raise ValueError(f"{name} of weight {index} has another type or shape than the weight")


_REMEDY = "restore the checkpoint from a copy, or remove its folder to resume from the one before"


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(_cannot_read(path, error)) from error
    if (name := find_not_finite(weights)) is not None:
        raise CheckpointError(f"{path}: the weight {name} contains NaN or infinity; {_REMEDY}")
    return weights


def _cannot_read(path: Path, error: Exception) -> str:
    """Explain why mtkit cannot read a file, without torch's text, which advises to let a file run code."""
    if not path.exists():
        return f"{path}: missing; {_REMEDY}"
    if isinstance(error, pickle.UnpicklingError):
        return f"{path}: refused to load the file, which contains more than tensors or is damaged; {_REMEDY}"
    return f"{path}: cannot be read ({type(error).__name__}); {_REMEDY}"


def _read_checksums(folder: Path) -> dict[str, str]:
    return dict(parse_json((folder / _MANIFEST).read_text(encoding="utf-8"))["sha256"])


def _kept_weights(folder: Path) -> str:
    """Return the name of the file with the weights that were validated: their mean if there is one."""
    try:
        return _KEPT if _KEPT in _read_checksums(folder) else _MODEL
    except (OSError, ValueError, KeyError, TypeError):  # `find_damage` reports it
        return _MODEL


def _read_state(path: Path) -> TrainState:
    try:
        return TrainState.from_dict(parse_json(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise CheckpointError(_cannot_read(path, error)) from error
    except (KeyError, TypeError, ValueError) as error:  # undamaged, but not in this version's format
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(
            f"{path}: written by another version of mtkit ({reason}); continue with that version, or start a new run"
        ) from error


def made_with(folder: Path) -> dict[str, str]:
    """Return torch version, device, precision and threads from the manifest of an undamaged checkpoint."""
    return dict(parse_json((folder / _MANIFEST).read_text(encoding="utf-8")).get("made_with", {}))


def _write_manifest(folder: Path, made_with: Mapping[str, str]) -> None:
    checksums = {path.name: sha256_file(path) for path in sorted(folder.iterdir())}
    text = json.dumps({"sha256": checksums, "made_with": made_with}, indent=1)
    (folder / _MANIFEST).write_text(text, encoding="utf-8")


def _steps_to_average(state_path: Path) -> set[int]:
    try:
        state = parse_json(state_path.read_text(encoding="utf-8"))
        return {entry["step"] for key in ("best", "last") for entry in state[key]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
