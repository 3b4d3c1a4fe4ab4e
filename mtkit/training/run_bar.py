"""The progress bar of a run: updates, loss, speed, time left."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from mtkit.config.training import TrainConfig
from mtkit.console import progress_bar
from mtkit.training.update.schedule import Progress, fraction_done
from mtkit.training.update.state import UpdateStats

_REFRESH_S = 0.5


class RunBar:
    """A tqdm bar that counts updates. With limits in epochs or minutes, it estimates the total during the run."""

    def __init__(self, cfg: TrainConfig, progress: Progress, epoch_length: int, target: str) -> None:
        """target: the word for what updates predict and the speed counts."""
        self._unit = target.removeprefix("target ") + "s"
        self._cfg = cfg
        self._epoch_length = epoch_length
        self._n_targets = 0
        self._since = time.monotonic()
        total = estimated_steps(cfg, progress, epoch_length)
        # smoothing=0: the time left follows from the mean speed, including validations
        self._bar = progress_bar(total, "train", "step", initial=progress.step, smoothing=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def add(self, stats: UpdateStats, progress: Progress) -> None:
        """Add an update."""
        self._n_targets += stats.n_tgt_tokens
        elapsed = time.monotonic() - self._since
        if elapsed > _REFRESH_S:
            self._bar.total = estimated_steps(self._cfg, progress, self._epoch_length)
            loss, speed = stats.loss_sum / stats.n_tgt_tokens, self._n_targets / elapsed
            self._bar.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} {self._unit}/s", refresh=False)
            self._since, self._n_targets = time.monotonic(), 0
        self._bar.update(progress.step - self._bar.n)  # negative if the run went back


def estimated_steps(
    cfg: TrainConfig,
    progress: Progress,
    epoch_length: int,
    share_of: Callable[[TrainConfig, Progress], float | None] = fraction_done,
) -> int | None:
    """Estimate the run's number of updates from its limits and its speed; None if that is not possible.

    share_of: share_of_updates also considers that R-Drop will make updates slower; by default the time that is left for
    these updates at the speed so far is right instead.
    """
    share = share_of(cfg, progress)
    if share and progress.step:
        return max(progress.step, round(progress.step / share))
    limits = (cfg.max_steps, cfg.max_epochs and cfg.max_epochs * epoch_length)
    return min((limit for limit in limits if limit), default=None)
