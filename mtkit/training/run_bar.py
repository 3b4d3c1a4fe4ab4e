"""The progress bar of a whole run: updates made, loss, speed, time left."""

import time
from types import TracebackType
from typing import Self

from mtkit.config.schema import TrainConfig
from mtkit.console import progress_bar
from mtkit.training.schedule import Progress, fraction_done
from mtkit.training.state import UpdateStats

_REFRESH_S = 0.5


class RunBar:
    """A tqdm bar counted in updates. Limits in epochs or minutes give an estimate of the total that follows the run."""

    def __init__(self, cfg: TrainConfig, progress: Progress, epoch_length: int) -> None:
        self._cfg = cfg
        self._epoch_length = epoch_length
        self._n_tokens = 0
        self._since = time.monotonic()
        total = estimated_steps(cfg, progress, epoch_length)
        # smoothing=0: the time left follows from the mean speed, pauses for validation included
        self._bar = progress_bar(total, "train", "step", initial=progress.step, smoothing=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def add(self, stats: UpdateStats, progress: Progress) -> None:
        """Count an update."""
        self._n_tokens += stats.n_tgt_tokens
        elapsed = time.monotonic() - self._since
        if elapsed > _REFRESH_S:
            self._bar.total = estimated_steps(self._cfg, progress, self._epoch_length)
            loss, speed = stats.loss_sum / stats.n_tgt_tokens, self._n_tokens / elapsed
            self._bar.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} tokens/s", refresh=False)
            self._since, self._n_tokens = time.monotonic(), 0
        self._bar.update(progress.step - self._bar.n)  # less than it was, if the run went back


def estimated_steps(cfg: TrainConfig, progress: Progress, epoch_length: int) -> int | None:
    """How many updates the run will have made at its end, as far as limits and speed tell; None if they do not."""
    fraction = fraction_done(cfg, progress)
    if fraction and progress.step:
        return max(progress.step, round(progress.step / fraction))
    limits = (cfg.max_steps, cfg.max_epochs and cfg.max_epochs * epoch_length)
    return min((limit for limit in limits if limit), default=None)
