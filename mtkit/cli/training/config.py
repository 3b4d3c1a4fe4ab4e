"""`mtkit config`: print the resolved config, or the JSON Schema of config files."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from mtkit.cli.options import OptionalConfigOption, SetOption, load_run_config
from mtkit.errors import UsageError


def config(
    config_path: OptionalConfigOption = None,
    overrides: SetOption = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema, for editors.")] = False,
) -> None:
    """Check a config file, and print it with all defaults; with train.init_from, that model's settings fill it in."""
    from mtkit.config.reading import loading

    if schema == (config_path is not None):
        raise UsageError("give a config file, or --schema for the JSON Schema of config files")

    if config_path is not None:
        print(loading.dump_config(load_run_config(config_path, overrides)), end="")
    else:
        print(json.dumps(loading.json_schema(), indent=2))
