"""docs/reference.md, docs/commands.md and docs/api.md are what the code says now."""

import importlib
import re
from pathlib import Path
from typing import get_args

import pytest

import mtkit
from mtkit.config.data import TrainCorpus
from mtkit.config.model import ModelConfig
from mtkit.config.schema import Config
from mtkit.config.section import Section

ROOT = Path(__file__).parents[2]
REMEDY = "out of date; run scripts/make_reference.py"


@pytest.fixture
def reference(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("make_reference")


def sections(text):
    """Heading to the lines below it."""
    parts = re.split(r"^(#{2,3} .*)$", text, flags=re.MULTILINE)[1:]
    return {heading.lstrip("# "): body for heading, body in zip(parts[::2], parts[1::2], strict=True)}


def test_the_reference_of_keys_is_up_to_date(reference):
    assert reference.config_reference() == (ROOT / "docs/reference.md").read_text(encoding="utf-8"), REMEDY


def test_the_reference_of_a_services_settings_is_up_to_date(reference):
    assert reference.serve_reference() == (ROOT / "docs/serve-settings.md").read_text(encoding="utf-8"), REMEDY


def test_the_reference_of_commands_is_up_to_date(reference):
    assert reference.command_reference() == (ROOT / "docs/commands.md").read_text(encoding="utf-8"), REMEDY


def test_no_usage_doubles_the_dots_of_arguments_that_may_be_several(reference):
    usages = re.findall(r"^`mtkit .*`$", reference.command_reference(), flags=re.MULTILINE)
    assert any("CORPUS..." in usage for usage in usages)
    assert not [usage for usage in usages if "...." in usage or "...]..." in usage]


def test_the_page_of_the_api_is_up_to_date(reference):
    assert reference.api_reference() == (ROOT / "docs/api.md").read_text(encoding="utf-8"), REMEDY


def test_the_page_of_the_api_has_every_public_name(reference):
    page = reference.api_reference()
    for name in set(mtkit.__all__) - {"__version__"}:
        assert f"\n## {name}\n" in page


def test_every_section_of_the_schema_has_a_row_for_each_of_its_keys(reference):
    tables = [
        set(re.findall(r"^\| `(\w+)` ", body, re.MULTILINE)) for body in sections(reference.config_reference()).values()
    ]
    kinds, new = {Config}, {Config}
    while new := {kind for section in new for kind in _sections_in(section)} - kinds:
        kinds |= new
    assert {Config, TrainCorpus, ModelConfig} <= kinds
    for kind in kinds:
        assert set(kind.model_fields) in tables, kind.__name__


def _sections_in(section):
    """The sections that are values of this one's keys, alone or in lists."""
    kinds = [
        kind for field in section.model_fields.values() for kind in (field.annotation, *get_args(field.annotation))
    ]
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section)]


def test_a_row_tells_type_bounds_default_and_meaning(reference):
    parts = sections(reference.config_reference())
    assert (
        "| `max_steps` | whole number, at least 1, at most 1,000,000,000,000, or `null` | `null` | "
        "stop after this many updates |" in parts["`train`"]
    )
    assert "| `seed` | whole number, at least 0, below 4,294,967,296 | `1` |" in parts["At the top"]
    assert "| `tie` | `none`, `decoder`, `all` | `decoder` |" in parts["`model`"]
    assert "| `adam_betas` | 2 numbers, at least 0, below 1 | `[0.9, 0.98]` |" in parts["`train`"]
    assert "| `train` | list of sections, below | must be given |" in parts["`data`"]
    assert r"such as \<2de> or \<news>" in parts["`data.dev`, `data.dev[]`"] and r"\<news>" in parts["`data.test`"]


def test_another_schema_makes_another_reference(reference, monkeypatch):
    before = reference.config_reference()
    changed = Config.model_json_schema()
    changed["$defs"]["ModelConfig"]["properties"]["d_model"]["default"] = 257
    monkeypatch.setattr(reference, "json_schema", lambda: changed)
    assert reference.config_reference() != before


def test_a_usage_line_names_the_arguments(reference):
    parts = sections(reference.command_reference())
    for line in (
        "`mtkit config [OPTIONS] [CONFIG]`",
        "`mtkit translate [OPTIONS] [TEXT...]`",
        "`mtkit compare [OPTIONS] [NAME=]PATH...`",
        "`mtkit inspect steps [OPTIONS] SENTENCE`",
        "`mtkit inspect masks [OPTIONS] SENTENCE...`",
    ):
        assert line in parts[line.partition(" [OPTIONS]")[0].strip("`")]


def test_every_option_that_help_prints_is_there(reference):
    from typer.testing import CliRunner

    from mtkit.cli import app

    parts = sections(reference.command_reference())
    for command in ("translate", "evaluate", "doctor decode"):
        printed = CliRunner().invoke(app, [*command.split(), "--help"]).stdout
        options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", printed, re.MULTILINE)) - {"--help"}
        assert options
        assert options <= set(re.findall(r"--[a-z-]+", parts[f"mtkit {command}"]))
