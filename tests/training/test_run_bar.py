"""The total of the progress bar."""

import pytest

from mtkit.config.training import TrainConfig
from mtkit.training.run_bar import estimated_steps
from mtkit.training.update.schedule import Progress


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
