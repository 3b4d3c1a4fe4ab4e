"""docs/coming-from.md names only keys and commands that exist, with their defaults."""

import re
from pathlib import Path

import pytest
import typer.main

from mtkit.cli import app
from mtkit.config.reading.problems import field_at
from mtkit.config.schema import Config

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")
SECTIONS = [name for name, field in Config.model_fields.items() if isinstance(field.annotation, type)]
KEYS = set(re.findall(r"^\| `([\w.\[\]]+)`", PAGE, re.MULTILINE))
ROWS = re.findall(r"^\| `([\w.\[\]]+)` \(([^)]+)\)", PAGE, re.MULTILINE)


def field(key: str):
    path = tuple(0 if part.isdecimal() else part for part in key.replace("[]", ".0").split("."))
    schema_field, schema_path = field_at(path)
    assert schema_path == path, key
    return schema_field


def test_every_key_exists():
    text = re.sub(r"`--?\w.*?`", "", PAGE)
    named = set(re.findall(rf"`((?:{'|'.join(SECTIONS)})\.[\w.\[\]]+)`", text)) - {"data.valid"}  # OpenNMT-py's
    assert len(KEYS) > 60
    for key in KEYS | named:
        field(key)


@pytest.mark.parametrize(("key", "default"), ROWS)
def test_defaults_are_the_schemas(key, default):
    value = field(key).default
    written = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    assert default == (written.lower() if isinstance(value, bool) else written)


def test_every_command_exists():
    commands = set(re.findall(r"`mtkit ([\w-]+)", PAGE))
    assert {"train", "translate", "score", "average", "export", "import"} <= commands
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    assert commands <= set(group.commands)
