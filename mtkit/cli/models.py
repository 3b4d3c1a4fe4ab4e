"""Helpers of the commands that translate: find model folders, load a translator, show a progress bar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import mtkit
from mtkit.console import log, progress_bar
from mtkit.cores import usable_cores

if TYPE_CHECKING:
    from mtkit.cli.sharing import Where
    from mtkit.translation.loading import SharedTranslator

_T = TypeVar("_T")


def model_folders(models: Sequence[Path] | None) -> list[Path]:
    """Return the bundle folders of these runs or bundles; without any, the default model's."""
    from mtkit import bundle

    return [bundle.find_model(model) for model in models] if models else [bundle.find_model()]


def option_overrides(options: Mapping[str, object]) -> list[str]:
    """Convert options to overrides. options: key of the decode section to value, None if the user left it out."""
    from mtkit.config.reading import overrides as config_overrides
    from mtkit.config.reading import problems

    given = {key: value for key, value in options.items() if value is not None}
    return [
        problems.Setting(text, f"--{key.replace('_', '-')} {value}")
        for text, (key, value) in zip(config_overrides.decode_overrides(given), given.items(), strict=True)
    ]


def load_translator(
    folders: Sequence[Path],
    *,
    overrides: Sequence[str] = (),
    beam_size: int | None = None,
    device: str = "auto",
    starts_soon: bool = False,
) -> mtkit.Translator:
    """Load a bundle, or an ensemble of several; it uses decode.threads threads, by default all usable cores.

    starts_soon: see `choose_engine`.
    """
    from mtkit import bundle

    log.info(f"model: {', '.join(map(str, folders))}")
    overrides = [*overrides, *option_overrides({"beam_size": beam_size})]
    members = [bundle.read_bundle(folder, overrides) for folder in folders]
    threads = members[0].config.decode.threads or usable_cores()
    translator = mtkit.Translator.from_bundles(members, device=device, threads=threads, starts_soon=starts_soon)
    if translator.engine.name == "native":  # the other engine loads no torch
        from mtkit import runtime

        runtime.keep_freed_memory()
    return translator


def load_shared_translator(
    folders: Sequence[Path], overrides: Sequence[str], where: Where, device: str
) -> SharedTranslator:
    """Load a bundle, or an ensemble of several, for a job; decode.workers is the default of --workers."""
    from mtkit import bundle
    from mtkit.translation import loading

    log.info(f"model: {', '.join(map(str, folders))}")
    members = [bundle.read_bundle(folder, overrides) for folder in folders]
    return loading.load_shared(members, where.executor_for(members[0].config.decode.workers), device=device)


def with_bar(items: Iterable[_T], total: int | None, description: str, unit: str) -> Iterator[_T]:
    """Yield the items and show a progress bar. total: the number of items; None if unknown."""
    with progress_bar(total, description, unit) as bar:
        for item in items:
            yield item
            bar.update()
