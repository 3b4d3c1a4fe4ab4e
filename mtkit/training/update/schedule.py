"""Learning rate, weight of R-Drop and limits: pure functions of the config and of a run's progress."""

import math
from dataclasses import dataclass, field

from mtkit.config.training import TrainConfig
from mtkit.training.update.budget import Timing, share_used

LONGEST_WARMUP = 0.1  # of a budget


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    step: int  # updates made
    epochs: float  # passes over the training data, with fractions
    minutes: float  # training and validation, in all starts
    bad_validations: int = 0  # validations since the best
    timing: Timing = field(default_factory=Timing)  # for the used share of a budget


def learning_rate(cfg: TrainConfig, step: int, fraction: float) -> float:
    """Return the learning rate of update `step` (the first is 1), after `fraction` (0 to 1) of the run.

    It rises linearly to cfg.lr over the warm-up, which takes at most a tenth of a budget. Then inverse_sqrt gives
    lr x sqrt(warmup_steps / step) (Vaswani et al. 2017, section 5.3; if a budget shortens the warm-up, shares of the
    run replace the steps), and constant stays. cosine multiplies the warm-up by half a cosine over the whole run, from
    1 to lr_floor (Loshchilov and Hutter 2017, eq. 5, without restarts).
    """
    warmups = step / max(cfg.warmup_steps, 1)  # 1 at the end of the warm-up
    if cfg.budget is not None:
        warmups = max(warmups, fraction / LONGEST_WARMUP)
    rate = cfg.lr * min(1.0, warmups)
    if cfg.decay == "inverse_sqrt" and warmups > 1:
        rate /= math.sqrt(warmups)
    elif cfg.decay == "cosine":
        rate *= cfg.lr_floor + (1 - cfg.lr_floor) * (1 + math.cos(math.pi * min(1.0, fraction))) / 2
    return rate


def r_drop_weight(cfg: TrainConfig, fraction: float) -> float:
    """Return R-Drop's alpha for an update after `fraction` (0 to 1) of the run; 0: no R-Drop."""
    return cfg.r_drop if fraction >= cfg.r_drop_from else 0.0


def r_drop_shares(cfg: TrainConfig) -> dict[float, float]:
    """Return each weight of R-Drop with its share of the run: {0.0: 0.3, 3.0: 0.7}."""
    return {0.0: cfg.r_drop_from, cfg.r_drop: 1 - cfg.r_drop_from} if cfg.r_drop_from else {cfg.r_drop: 1.0}


def fraction_done(cfg: TrainConfig, progress: Progress) -> float | None:
    """Return the used share of the nearest limit on steps, epochs, minutes or budget; None if there is none."""
    return max((share for share in _shares_used(cfg, progress) if share is not None), default=None)


def _shares_used(cfg: TrainConfig, progress: Progress) -> tuple[float | None, ...]:
    """Return the used shares of the limits on steps, epochs, minutes and budget; None where there is no limit."""
    return (
        progress.step / cfg.max_steps if cfg.max_steps is not None else None,
        progress.epochs / cfg.max_epochs if cfg.max_epochs is not None else None,
        progress.minutes / cfg.max_minutes if cfg.max_minutes is not None else None,
        share_used(cfg, progress.timing),
    )


def share_of_updates(cfg: TrainConfig, progress: Progress) -> float | None:
    """Return the share of the run's updates that it has made; None if there is no limit.

    If the nearest limit is a time, an update with R-Drop takes twice as long as one before train.r_drop_from.
    """
    fraction = fraction_done(cfg, progress)
    of_steps, of_epochs, *_ = _shares_used(cfg, progress)
    if fraction is None or fraction in (of_steps, of_epochs):
        return fraction
    return (min(fraction, cfg.r_drop_from) + fraction) / (cfg.r_drop_from + 1)


def limits_reached(cfg: TrainConfig, progress: Progress) -> list[str]:
    """Return the keys of the limits that the run has reached, such as ["max_steps"]."""
    reached = {
        "max_steps": cfg.max_steps is not None and progress.step >= cfg.max_steps,
        "max_epochs": cfg.max_epochs is not None and progress.epochs >= cfg.max_epochs,
        "max_minutes": cfg.max_minutes is not None and progress.minutes >= cfg.max_minutes,
        "budget": (share_used(cfg, progress.timing) or 0.0) >= 1,
        "patience": cfg.patience is not None and progress.bad_validations >= cfg.patience,
    }
    return [key for key, is_reached in reached.items() if is_reached]
