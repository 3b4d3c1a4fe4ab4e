"""A config with the fewest keys, read from a file, and the problems of another."""

from pathlib import Path

import pytest

from mtkit.config.reading.loading import load_config
from mtkit.config.schema import Config
from mtkit.errors import ConfigError

MINIMAL = """\
data:
  train: [{src: a.en, tgt: a.fr}]
  dev: {src: d.en, tgt: d.fr}
train:
  max_steps: 5000
"""


def load(tmp_path: Path, text: str | bytes, *overrides: str) -> Config:
    path = tmp_path / "small.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(path, overrides)


def problems(tmp_path: Path, text: str | bytes, *overrides: str) -> list[str]:
    """The lines of the message, without the folder of the file."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, *overrides)
    return [line.strip() for line in str(caught.value).replace(f"{tmp_path}/", "").splitlines()]


def assert_facts(messages: list[str], facts: list[tuple[str, ...]]) -> None:
    """Each message begins with the first of its facts (the place), and holds the others."""
    for message, (place, *others) in zip(messages, facts, strict=True):
        assert message.startswith(place), message
        assert all(fact in message for fact in others), (message, others)
