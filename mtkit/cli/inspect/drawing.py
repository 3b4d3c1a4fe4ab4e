"""Where the subcommands of `inspect` draw: the option, and what is said after it."""

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import file_named

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
    from mtkit.console import log  # here, for `mtkit --help` to be quick

    log.info(f"written: {output}")
