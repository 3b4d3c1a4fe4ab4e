"""train.budget: when training has to end so that the whole command fits its wall time, and when to validate until then.

The end takes a last validation, those of the averaged weights, and writing the model: their times are measured as the
run goes. As it follows the clock, such a run is not the same twice, nor the same if it is stopped and resumed.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from mtkit.config.durations import duration_of, seconds_of
from mtkit.config.schema import TrainConfig
from mtkit.errors import TrainingError

VALIDATE_EVERY = 500  # updates, where neither the config nor a budget says anything else
_INTERVALS = (10, 24)  # of the training time, between validations, in its first and in its second half
_MOST_VALIDATION = 0.15  # share of the time that validations may take
_LEAST_TRAINING = 0.2  # share of the budget below which it is not worth while
_MARGIN_S, _MARGIN = 0.5, 0.005  # the interpreter's own end; and a share of the budget
# What the end reads and writes, in saved checkpoints: the model (a third of one), and the averaged ones, read and
# checked (a third each, at about half the cost of writing).
_BUNDLE, _AVERAGED = 1 / 3, 1 / 6
_AVERAGED_VALIDATIONS = 1.5  # the mean's; and now and then that of the best alone, if the mean is worse

Part = Literal["validation", "save", "report"]


@dataclass
class Timing:
    """What the parts of a run take, in seconds. In what a run remembers: how much of its budget is used up."""

    spent: float = 0.0  # since the command began, all starts added up
    prepared: float = 0.0  # of that, before the first update
    validated: float = 0.0  # of that, when the latest validation ended
    ending: float = 0.0  # what comes after the last update
    update: float = 0.0
    validation: float = 0.0
    save: float = 0.0  # of a checkpoint
    report: float = 0.0  # signed scores and the learning curves


def share_used(cfg: TrainConfig, timing: Timing) -> float | None:
    """Share of the budget's training time that is used up: 0 at the first update, 1 at the last; None: no budget."""
    if cfg.budget is None:
        return None
    return (timing.spent - timing.prepared) / max(seconds_of(cfg.budget) - timing.ending - timing.prepared, 1e-9)


def check_budget(cfg: TrainConfig, timing: Timing) -> None:
    """Raise TrainingError if what comes before the first and after the last update leaves too little of a budget."""
    if cfg.budget is None:
        return
    seconds = seconds_of(cfg.budget)
    if seconds - timing.prepared - timing.ending < _LEAST_TRAINING * seconds:
        raise TrainingError(
            f"train.budget={cfg.budget} leaves too little for training: {duration_of(timing.prepared)} went by before "
            f"the first update, and the end will take {duration_of(timing.ending)} (a validation takes "
            f"{duration_of(timing.validation)}); raise the budget, or lower train.validate_sentences"
        )


def expected_ending(cfg: TrainConfig, timing: Timing) -> float:
    """Seconds from the last validation to the end of the command: averaging, the report, the model on disk."""
    n_averaged = cfg.average_last or cfg.average_best
    validations = (_AVERAGED_VALIDATIONS if n_averaged > 1 else 1) * timing.validation
    return validations + (_BUNDLE + _AVERAGED * n_averaged) * timing.save + (timing.report or timing.validation / 2)


def expected_validations(cfg: TrainConfig, timing: Timing, training: float) -> int:
    """About how many validations fit into so many seconds of training under a budget, the one at its end counted."""
    looking = timing.validation + timing.save
    if cfg.validate_every != "auto":
        return 1 + int(training / (cfg.validate_every * timing.update + looking))
    halves = (training / 2 / (_interval(timing, training, second_half) + looking) for second_half in (False, True))
    return 1 + int(sum(halves))


def _interval(timing: Timing, training: float, second_half: bool) -> float:
    """Seconds from the end of a validation to the next."""
    often_enough = (timing.validation + timing.save) * (1 / _MOST_VALIDATION - 1)
    return max(training / _INTERVALS[second_half], often_enough)


class Budget:
    """The clock of a run: it measures what things take, and says when to validate."""

    def __init__(
        self, cfg: TrainConfig, since: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """since: the clock's time when the command began; without it, now."""
        self.cfg = cfg
        self.timing = Timing()
        self._clock = clock
        self._since = clock() if since is None else since
        self._spent_before = 0.0

    def resume(self, timing: Timing) -> None:
        """Go on with what an earlier start of the run has spent and measured."""
        self.timing = timing
        self._spent_before = timing.spent
        self.tick()

    def begin(self, validation_s: float) -> None:
        """The first update is next; validation_s: what a validation is expected to take, until one is measured.

        Raises TrainingError if a budget leaves too little for training.
        """
        self.tick()
        timing = self.timing
        if timing.update:  # it has begun in an earlier start
            self._plan_end()
            return
        timing.prepared = timing.validated = timing.spent
        timing.validation = timing.validation or validation_s
        self._plan_end()
        check_budget(self.cfg, timing)

    def tick(self) -> None:
        """Bring timing.spent up to now."""
        self.timing.spent = self._spent_before + self._clock() - self._since

    def updated(self, seconds: float) -> None:
        """Note what an update took."""
        self.timing.update += (seconds - self.timing.update) * (0.05 if self.timing.update else 1.0)

    @contextmanager
    def measuring(self, part: Part) -> Iterator[None]:
        """A block whose time is that of a validation, of saving, or of the report; if it fails, nothing is noted."""
        started = self._clock()
        yield
        seconds, timing = self._clock() - started, self.timing
        known = getattr(timing, part)
        setattr(timing, part, (known + seconds) / 2 if known else seconds)
        self.tick()
        if part == "validation":
            timing.validated = timing.spent
        self._plan_end()

    def wants_report(self) -> bool:
        """Whether it is time to find out, once, what the report at the end will take."""
        share = share_used(self.cfg, self.timing)
        return share is not None and share >= 0.5 and not self.timing.report

    def validation_due(self, step: int) -> bool:
        """Whether to validate after this many updates, as train.validate_every says."""
        every = self.cfg.validate_every
        if every != "auto":
            return step % every == 0
        share = share_used(self.cfg, self.timing)
        if share is None or self.cfg.budget is None:
            return step % VALIDATE_EVERY == 0
        timing = self.timing
        training = seconds_of(self.cfg.budget) - timing.ending - timing.prepared
        interval = _interval(timing, training, share >= 0.5)
        left = (1 - share) * training  # the last validation is due at the end of it anyway
        return timing.spent - timing.validated >= interval and left >= interval / 2

    def _plan_end(self) -> None:
        timing, cfg = self.timing, self.cfg
        budget = seconds_of(cfg.budget) if cfg.budget else 0.0
        last = timing.validation + timing.save
        timing.ending = last + expected_ending(cfg, timing) + timing.update / 2 + _MARGIN_S + _MARGIN * budget
