"""Where the subcommands of `inspect` draw: the option, and what is said after it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import file_named
from mtkit.console import log

DrawingOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        callback=file_named(".png", ".svg", ".html"),
        help="Draw it, too: a .png or .svg picture, or an .html page.",
    ),
]


def say_written(output: Path) -> None:
    """On stderr."""
    log.info(f"written: {output}")
