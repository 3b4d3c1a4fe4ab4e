"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The run's YAML file; see configs/ for examples.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Change one key of the config; repeat as needed. Paths start from the current folder.",
    ),
]
