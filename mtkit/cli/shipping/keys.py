"""`mtkit keys`: add, list and remove the API keys of a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Owner of the key.")]
FileOption = Annotated[
    Path,
    typer.Option("--file", metavar="FILE", help="File of keys: keys.file in the service's settings."),
]


def add(
    name: NameArgument,
    file: FileOption,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Instead of limits.requests_per_minute.")
    ] = None,
    max_chars: Annotated[int | None, typer.Option(min=1, help="Instead of limits.max_chars.")] = None,
) -> None:
    """Create an API key and print it.

    The file stores only a checksum, so mtkit cannot show the key again. A running service accepts it at once.
    """
    from mtkit.serving.records import key_file

    print(key_file.add_key(file, name, requests_per_minute=requests_per_minute, max_chars=max_chars))


def print_list(file: FileOption) -> None:
    """List the valid keys: owner, date of creation and limits, separated by tabs."""
    from mtkit.serving.records import key_file

    keys = key_file.read_keys(file)
    print("name", "created", "requests_per_minute", "max_chars", sep="\t")
    for key in keys:
        print(key.name, key.created, key.requests_per_minute or "", key.max_chars or "", sep="\t")


def remove(name: NameArgument, file: FileOption) -> None:
    """Revoke an API key. A running service refuses it from the next request on."""
    from mtkit.serving.records import key_file

    key_file.remove_key(file, name)
