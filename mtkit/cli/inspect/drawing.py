"""Where the subcommands of `inspect` draw: the option, what is checked before any work, what is said after it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from mtkit.errors import UsageError


def named(*suffixes: str) -> Callable[[Path | None], Path | None]:
    """A callback that lets only files pass whose name ends in one of these and whose folder can be written to."""

    def check(output: Path | None) -> Path | None:
        if output is None:
            return None
        if output.suffix.lower() not in suffixes:
            raise UsageError(f"--output {output}: the name must end in {' or '.join(suffixes)}")
        if output.is_dir():
            raise UsageError(f"--output {output}: this is a folder; name a file in it")
        folder = next(parent for parent in output.parents if parent.exists())  # those that are missing will be made
        if not folder.is_dir():
            raise UsageError(f"--output {output}: {folder} is a file, no folder")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"--output {output}: no permission to write to {folder}; choose another folder")
        return output

    return check


DrawingOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        callback=named(".png", ".svg", ".html"),
        help="Draw it, too: a .png or .svg picture, or an .html page.",
    ),
]


def say_written(output: Path) -> None:
    """On stderr."""
    from mtkit.console import log  # here, for `mtkit --help` to be quick

    log.info(f"written: {output}")
