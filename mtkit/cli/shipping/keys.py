"""`mtkit keys`: who may use a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is.")]
FileOption = Annotated[
    Path,
    typer.Option("--file", metavar="FILE", help="The file of keys that keys.file of the service's settings names."),
]


def add(
    name: NameArgument,
    file: FileOption,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Instead of limits.requests_per_minute.")
    ] = None,
    max_chars: Annotated[int | None, typer.Option(min=1, help="Instead of limits.max_chars.")] = None,
) -> None:
    """Make an API key, and print it.

    The file keeps its checksum alone, so it is shown this once. A running service takes the key at once.
    """
    from mtkit.serving.records import key_file

    print(key_file.add_key(file, name, requests_per_minute=requests_per_minute, max_chars=max_chars))


def print_list(file: FileOption) -> None:
    """List whose keys are valid, since when, and their limits, separated by tabs."""
    from mtkit.serving.records import key_file

    keys = key_file.read_keys(file)
    print("name", "created", "requests_per_minute", "max_chars", sep="\t")
    for key in keys:
        print(key.name, key.created, key.requests_per_minute or "", key.max_chars or "", sep="\t")


def remove(name: NameArgument, file: FileOption) -> None:
    """Make an API key invalid. A running service refuses it from its next request on."""
    from mtkit.serving.records import key_file

    key_file.remove_key(file, name)
