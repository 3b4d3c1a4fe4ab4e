"""The total of the progress bar."""

import pytest

from mtkit.config.training import TrainConfig
from mtkit.training.run_bar import estimated_steps
from mtkit.training.update.schedule import Progress, share_of_updates


@pytest.mark.parametrize(
    ("limits", "progress", "total"),
    [
        ({"max_steps": 70}, Progress(0, 0, 0), 70),
        ({"max_steps": 70, "max_epochs": 2}, Progress(0, 0, 0), 40),  # 20 updates an epoch
        ({"max_steps": 30, "max_epochs": 2}, Progress(0, 0, 0), 30),
        ({"max_minutes": 10}, Progress(0, 0, 0), None),
        ({"max_minutes": 10}, Progress(30, 1.5, 2.5), 120),
        ({"max_minutes": 10}, Progress(30, 1.5, 11), 30),  # beyond its limit: never fewer than were made
        ({"max_steps": 70, "max_minutes": 10}, Progress(30, 1.5, 2.5), 70),
        ({"patience": 3}, Progress(30, 1.5, 2.5), None),
    ],
)
def test_it_follows_the_nearest_limit(limits, progress, total):
    cfg = TrainConfig.model_validate({"warmup_steps": 0, **limits})
    assert estimated_steps(cfg, progress, epoch_length=20) == total


def test_a_forecast_considers_that_updates_with_r_drop_take_twice_as_long():
    cfg = TrainConfig.model_validate({"max_minutes": 10, "r_drop": 3, "r_drop_from": 0.4})
    progress = Progress(45, 1.5, 5)  # ten a minute for four minutes, then five a minute: 25 more
    assert estimated_steps(cfg, progress, 20, share_of_updates) == 70
    assert estimated_steps(cfg, progress, 20) == 90, "45 more at nine a minute take five minutes"
