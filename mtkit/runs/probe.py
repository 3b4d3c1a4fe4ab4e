"""Measure the parts of a run: updates, a validation, a checkpoint and a report."""

import time
from pathlib import Path

from mtkit.config.training import TrainConfig
from mtkit.console import progress_bar
from mtkit.cores import CpuTime
from mtkit.runs.export import cost_in_validations
from mtkit.training.preparation.auto_batch import longest_batch
from mtkit.training.trainer import Trainer
from mtkit.training.update.budget import Timing
from mtkit.training.update.schedule import learning_rate, r_drop_shares

_WARM_UP = 3  # updates before the timing starts


class Probe:
    """A newly prepared trainer, and its measurements."""

    def __init__(self, trainer: Trainer, preparing: float, seconds: float) -> None:
        """Measure the parts of a run. preparing: seconds of the preparation; seconds: time for updates."""
        self.trainer = trainer
        self.cfg: TrainConfig = trainer.cfg.train
        run = trainer.run
        export = cost_in_validations(run.cfg, run.updater.device, run.validator.n_sentences)
        self.timing = Timing(prepared=preparing, export=export)
        self.began = CpuTime.now()
        self.update_by_clock = 0.0  # seconds of an update if r_drop_from is a share of the run's time
        self.targets_per_update = 0.0
        self._time_updates(seconds)
        cost = trainer.run.text.forecast(trainer.validator, trainer.updater.eval_model, seconds / 2)
        self.timing.validation = cost.seconds(trainer.validator.n_sentences)
        self.checkpoint = self._time_save()  # its folder
        self.timing.report = self._time_report()

    def _time_updates(self, seconds: float) -> None:
        trainer = self.trainer
        longest = longest_batch(trainer.corpus, self.cfg.n_batch_tokens)
        trainer.updater.update([longest] * self.cfg.accumulate, 1, 0.0)  # needs the most memory
        shares = r_drop_shares(self.cfg)
        n_updates, n_targets, took = 0, 0, {}
        with trainer.feed, progress_bar(None, "probe", "step") as bar:
            for r_drop in shares:
                for _ in range(_WARM_UP):
                    self._update(r_drop)
                n_before, started = n_updates, time.monotonic()
                while n_updates == n_before or time.monotonic() - started < seconds / len(shares):
                    n_targets += self._update(r_drop)
                    n_updates += 1
                    bar.update()
                took[r_drop] = (time.monotonic() - started) / (n_updates - n_before)
        self.timing.update = sum(share * took[r_drop] for r_drop, share in shares.items())
        self.update_by_clock = 1 / sum(share / took[r_drop] for r_drop, share in shares.items())
        self.targets_per_update = n_targets / n_updates

    def _update(self, r_drop: float) -> int:
        """Make the next update; return the number of targets that it predicted."""
        trainer = self.trainer
        state, started = trainer.state, time.monotonic()
        batches, state.position = trainer.feed.next_after(state.position)
        state.step += 1
        stats = trainer.updater.update(batches, state.step, learning_rate(self.cfg, state.step, 0.0), r_drop=r_drop)
        state.interval.add(stats, time.monotonic() - started)
        return stats.n_tgt_tokens

    def _time_save(self) -> Path:
        """Save a checkpoint and measure the time; return its folder."""
        trainer, updater = self.trainer, self.trainer.updater
        started = time.monotonic()
        folder = trainer.checkpoints.save(trainer.state, *updater.values_to_save())
        self.timing.save = time.monotonic() - started
        return folder

    def _time_report(self) -> float:
        """Return the seconds for scores with intervals, measured on partly right translations."""
        trainer = self.trainer
        started = time.monotonic()
        trainer.run.text.rehearse_scores(trainer.validator)
        return time.monotonic() - started
