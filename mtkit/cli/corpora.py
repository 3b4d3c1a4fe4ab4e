"""The corpora that a model's config names, which need not be where the model is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.errors import DataError

if TYPE_CHECKING:
    from mtkit.config.schema import CorpusFiles


def check_here(corpora: "Sequence[CorpusFiles]", key: str, bundle: Path, remedy: str) -> None:
    """Raise DataError, with a remedy such as "give --src", if a file that config.yaml names as `key` is not here."""
    from mtkit.data.corpus import first_missing

    if (path := first_missing(corpora)) is not None:
        raise DataError(f"{path}: no such file, though {bundle / 'config.yaml'} names it as {key}; {remedy}")
