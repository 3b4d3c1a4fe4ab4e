"""The config that a run works with: what the file says, over what a model to go on from brings along."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.config import loading
from mtkit.training import warm_start

if TYPE_CHECKING:
    from mtkit.config.schema import Config


def load_run_config(path: Path, overrides: list[str] | None) -> Config:
    """The config of the file, checked; with train.init_from, the model and tokenizer keys left out are its model's."""

    config = loading.load_config(path, overrides or [])
    if config.train.init_from is None:
        return config  # without torch, whose import takes a second

    return warm_start.inherit(config)
