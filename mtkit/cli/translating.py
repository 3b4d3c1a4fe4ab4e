"""What the commands that translate share: a translator ready for work, and a bar that shows how far it is."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtkit.decoding.translator import Translation, Translator


def load_translator(folder: Path, *, beam_size: int | None, device: str = "auto") -> "Translator":
    """The bundle's translator; torch then uses as many CPU threads as its config says (train.threads)."""
    from mtkit.config.loading import load_config
    from mtkit.console import log
    from mtkit.decoding.translator import Translator
    from mtkit.runtime import set_threads

    log.info(f"model: {folder}")
    translator = Translator.load(folder, device=device, beam_size=beam_size)
    set_threads(load_config(folder / "config.yaml").train.threads)
    return translator


def with_bar(
    translations: "Iterable[Translation]", total: int | None, description: str, unit: str
) -> "Iterator[Translation]":
    """The translations as they come, with a progress bar; total: how many there will be, None if that is not known."""
    from mtkit.console import progress_bar

    with progress_bar(total, description, unit) as bar:
        for translation in translations:
            yield translation
            bar.update()
