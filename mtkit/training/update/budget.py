"""Plan train.budget: when to validate, and when to end training so that the whole command fits into its wall time.

The end consists of a last validation, those of the averaged weights, writing the model and its export; the run measures
how long these take. Because it follows the clock, such a run is not repeatable, and differs if it is stopped and
resumed.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from mtkit.config.durations import duration_of, seconds_of
from mtkit.config.training import TrainConfig
from mtkit.errors import TrainingError

VALIDATE_EVERY = 500  # updates, unless the config or a budget says otherwise
_INTERVALS = (10, 24)  # validations, if they came at the pace of the first or of the second half of the training time
_MOST_VALIDATION = 0.05  # of the training time
_LEAST_TRAINING = 0.2  # of the budget; less is an error
_RESERVE = 1.1  # in the advice for a longer budget, under which a validation translates more
_MARGIN_S, _MARGIN = 0.5, 0.005  # for the interpreter's exit; and a share of the budget
_LOADING_S = 1.0
# What the end writes and reads, in times of saving a checkpoint: the model (a third), and each averaged checkpoint (a
# third, read and verified at about half the cost of writing).
_BUNDLE, _AVERAGED = 1 / 3, 1 / 6
_AVERAGED_VALIDATIONS = 1.5  # of the mean or the last, and sometimes of the best, if it has a better metric

Part = Literal["validation", "save", "report"]


@dataclass(frozen=True)
class Shortage:
    """Why a budget leaves too little time for training, in seconds."""

    budget: str  # as the config has it
    prepared: float
    ending: float
    validation: float
    text: float  # of the preparation that the next start saves, if that suffices; else 0
    enough: float  # a budget with enough time

    def __str__(self) -> str:
        return self.message(f"train.budget={self.budget}", also="" if self.text else "train.validate_sentences")

    def message(self, budget: str, also: str = "") -> str:
        """Explain the shortage and its remedies. budget: as its user set it. also: a key to lower instead."""
        again = f"run the same command again, because the text is now prepared ({duration_of(self.text)}), or "
        lower = f", or lower {also}" if also else ""
        return (
            f"{budget} leaves too little for training: preparation took {duration_of(self.prepared)}, and the end will "
            f"take {duration_of(self.ending)} (a validation takes {duration_of(self.validation)}); "
            f"{again if self.text else ''}raise the budget to {duration_of(self.enough)}{lower}"
        )


class BudgetError(TrainingError):
    """A budget that leaves too little time for training."""

    def __init__(self, shortage: Shortage) -> None:
        super().__init__(str(shortage))
        self.shortage = shortage


@dataclass
class Timing:
    """The seconds that the parts of a run take, and the used part of its budget."""

    spent: float = 0.0  # since the command began, in all starts
    prepared: float = 0.0  # before the first update
    validated: float = 0.0  # `spent` at the end of the latest validation
    ending: float = 0.0  # after the last update
    update: float = 0.0
    validation: float = 0.0
    save: float = 0.0  # of a checkpoint
    report: float = 0.0  # signed scores
    export: float = 0.0  # of the model at the end; in validations
    # In all starts together:
    preparing: float = 0.0
    updates: float = 0.0
    validations: float = 0.0
    saves: float = 0.0


def share_used(cfg: TrainConfig, timing: Timing) -> float | None:
    """Return the used share of the training time: 0 at the first update, 1 at the last; None: no budget."""
    if cfg.budget is None:
        return None
    return (timing.spent - timing.prepared) / max(seconds_of(cfg.budget) - timing.ending - timing.prepared, 1e-9)


def shortage(cfg: TrainConfig, timing: Timing, text_s: float = 0.0) -> Shortage | None:
    """Return why preparation and end leave too little of the budget for training; None if they leave enough.

    text_s: seconds of the preparation that the next start of the run saves.
    """
    if cfg.budget is None:
        return None
    seconds = seconds_of(cfg.budget)

    def suffices(prepared: float) -> bool:
        return seconds - prepared - timing.ending >= _LEAST_TRAINING * seconds

    if suffices(timing.prepared):
        return None
    saved = text_s if suffices(timing.prepared - text_s) else 0.0
    fixed = timing.prepared + timing.ending - _MARGIN * seconds
    enough = math.ceil(_RESERVE * fixed / (1 - _LEAST_TRAINING - _MARGIN) / 10) * 10
    return Shortage(cfg.budget, timing.prepared, timing.ending, timing.validation, saved, enough)


def expected_ending(cfg: TrainConfig, timing: Timing) -> float:
    """Return the seconds from the last validation to the end of the command: averaging, report, writing the model."""
    n_averaged = cfg.average_last or cfg.average_best
    is_compared = n_averaged > 1 or cfg.average_last is not None
    validations = (_AVERAGED_VALIDATIONS if is_compared else 1) * timing.validation + _export_s(timing)
    return validations + (_BUNDLE + _AVERAGED * n_averaged) * timing.save + (timing.report or timing.validation / 2)


def _export_s(timing: Timing) -> float:
    """Return the expected seconds of the export, with loading both engines."""
    return timing.export * timing.validation + _LOADING_S if timing.export else 0.0


def expected_validations(cfg: TrainConfig, timing: Timing, training: float) -> int:
    """Estimate the number of validations in `training` seconds under a budget, including the last."""
    looking = timing.validation + timing.save
    if cfg.validate_every != "auto":
        return 1 + int(training / (cfg.validate_every * timing.update + looking))
    halves = (training / 2 / (_interval(timing, training, second_half) + looking) for second_half in (False, True))
    return 1 + int(sum(halves))


def expected_updates(cfg: TrainConfig, timing: Timing, update_s: float) -> tuple[int, int]:
    """Estimate how many updates of update_s seconds, and how many validations, the rest of a budget has time for."""
    assert cfg.budget is not None
    timing = replace(timing, update=update_s)
    looking = timing.validation + timing.save
    training = max(0.0, seconds_of(cfg.budget) - timing.prepared - looking - expected_ending(cfg, timing))
    n_validations = expected_validations(cfg, timing, training)
    return max(0, int((training - (n_validations - 1) * looking) / update_s)), n_validations


def least_updates(cfg: TrainConfig) -> int:
    """Return after how many updates train.patience alone can end a run: if its first validation remains the best.

    A run with train.init_from has its first validation before its first update.
    """
    every = VALIDATE_EVERY if cfg.validate_every == "auto" else cfg.validate_every
    return every * ((cfg.init_from is None) + (cfg.patience or 0))


def _interval(timing: Timing, training: float, second_half: bool) -> float:
    """Return the seconds from the end of a validation to the next."""
    often_enough = (timing.validation + timing.save) * (1 / _MOST_VALIDATION - 1)
    return max(training / _INTERVALS[second_half], often_enough)


class Budget:
    """The clock of a run, which measures its parts and decides when to validate."""

    def __init__(
        self, cfg: TrainConfig, since: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """since: the clock's time when the command began; default: now."""
        self.cfg = cfg
        self.timing = Timing()
        self._clock = clock
        self._since = clock() if since is None else since
        self._spent_before = 0.0

    def resume(self, timing: Timing) -> None:
        """Continue with the times that earlier starts of the run have spent and measured, up to writing the checkpoint.

        A checkpoint cannot hold the time that writing it takes, so this start adds it.
        """
        self.timing = timing
        self._spent_before = timing.spent + timing.save
        timing.saves += timing.save
        self.tick()

    def begin(self, validation_s: float, text_s: float = 0.0) -> None:
        """Start the first update.

        validation_s: the expected time of a validation, until the run has measured one. text_s: seconds of the
        preparation that the next start saves.
        Raises BudgetError if the budget leaves too little for training.
        """
        self.tick()
        timing = self.timing
        timing.preparing += timing.spent - self._spent_before
        if timing.update:  # an earlier start made updates
            self._plan_end()
            return
        timing.prepared = timing.validated = timing.spent
        timing.validation = timing.validation or validation_s
        self._plan_end()
        if problem := shortage(self.cfg, timing, text_s):
            raise BudgetError(problem)

    def tick(self) -> None:
        """Update timing.spent."""
        self.timing.spent = self._spent_before + self._clock() - self._since

    def updated(self, seconds: float) -> None:
        """Note the seconds of an update."""
        self.timing.updates += seconds
        self.timing.update += (seconds - self.timing.update) * (0.05 if self.timing.update else 1.0)

    @contextmanager
    def measuring(self, part: Part) -> Iterator[None]:
        """Measure the time of a block; note nothing if it fails."""
        started = self._clock()
        yield
        seconds, timing = self._clock() - started, self.timing
        known = getattr(timing, part)
        setattr(timing, part, (known + seconds) / 2 if known else seconds)
        self.tick()
        if part == "validation":
            timing.validated = timing.spent
            timing.validations += seconds
        elif part == "save":
            timing.saves += seconds
        self._plan_end()

    def account(self) -> str:
        """Return the seconds so far and their parts, which add up: "6m18s: 9s preparation, 5m1s updates, ..."."""
        self.tick()
        timing = self.timing
        parts = {
            "preparation": round(timing.preparing),
            "updates": round(timing.updates),
            "validation": round(timing.validations),
            "checkpoints": round(timing.saves),
        }
        total = max(round(timing.spent), sum(parts.values()))
        parts["averaging, report and model"] = total - sum(parts.values())
        listed = ", ".join(f"{duration_of(seconds)} {name}" for name, seconds in parts.items() if seconds)
        return f"{duration_of(total)}: {listed}"

    def left_for_export(self) -> float | None:
        """Return how many seconds of the budget the export at the end would leave; None: no budget."""
        self.tick()
        return seconds_of(self.cfg.budget) - self.timing.spent - _export_s(self.timing) if self.cfg.budget else None

    def wants_report(self) -> bool:
        """Return whether it is time to measure, once, how long the report at the end takes."""
        share = share_used(self.cfg, self.timing)
        return share is not None and share >= 0.5 and not self.timing.report

    def validation_due(self, step: int) -> bool:
        """Return whether to validate after `step` updates, according to train.validate_every."""
        every = self.cfg.validate_every
        if every != "auto":
            return step % every == 0
        share = share_used(self.cfg, self.timing)
        if share is None or self.cfg.budget is None:
            return step % VALIDATE_EVERY == 0
        timing = self.timing
        training = seconds_of(self.cfg.budget) - timing.ending - timing.prepared
        interval = _interval(timing, training, share >= 0.5)
        left = (1 - share) * training  # at its end comes the last validation anyway
        return timing.spent - timing.validated >= interval and left >= interval / 2

    def _plan_end(self) -> None:
        timing, cfg = self.timing, self.cfg
        budget = seconds_of(cfg.budget) if cfg.budget else 0.0
        last = timing.validation + timing.save
        timing.ending = last + expected_ending(cfg, timing) + timing.update / 2 + _MARGIN_S + _MARGIN * budget
