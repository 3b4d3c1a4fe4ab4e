"""What the commands that translate share: a translator ready for work, and a bar that shows how far it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import mtkit
from mtkit import bundle, runtime
from mtkit.console import log, progress_bar
from mtkit.cores import usable_cores

_T = TypeVar("_T")


def load_translator(
    folders: Sequence[Path], *, overrides: Sequence[str] = (), beam_size: int | None = None, device: str = "auto"
) -> mtkit.Translator:
    """The translator of a bundle, or of an ensemble of several; it uses as many threads as decode.threads says."""

    log.info(f"model: {', '.join(map(str, folders))}")
    overrides = [*overrides, *([f"decode.beam_size={beam_size}"] if beam_size else [])]
    members = [bundle.read_bundle(folder, overrides) for folder in folders]
    translator = mtkit.Translator.from_bundles(
        members, device=device, threads=members[0].config.decode.threads or usable_cores()
    )
    if translator.engine.name == "native":  # the other one loads no torch
        runtime.keep_freed_memory()
    return translator


def with_bar(items: Iterable[_T], total: int | None, description: str, unit: str) -> Iterator[_T]:
    """The items as they come, with a progress bar; total: how many there will be, None if that is not known."""

    with progress_bar(total, description, unit) as bar:
        for item in items:
            yield item
            bar.update()
