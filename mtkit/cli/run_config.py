"""The config that a run works with: what the file says, over what a model to go on from brings along."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtkit.config.schema import Config


def load_run_config(path: Path, overrides: list[str] | None) -> "Config":
    """The config of the file, checked; with train.init_from, the model and tokenizer keys left out are its model's."""
    from mtkit.config.loading import load_config  # here, for `mtkit --help` to be quick

    config = load_config(path, overrides or [])
    if config.train.init_from is None:
        return config  # without torch, whose import takes a second
    from mtkit.training.warm_start import inherit

    return inherit(config)
