"""The corpora that a model's config names, which need not be where the model is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.errors import DataError

if TYPE_CHECKING:
    from mtkit.config.schema import CorpusFiles


def first_missing(corpora: "Sequence[CorpusFiles]") -> Path | None:
    """The first of their files that is not here."""
    paths = [path for corpus in corpora for path in (corpus.src, corpus.tgt, corpus.tsv) if path is not None]
    return next((path for path in paths if not path.exists()), None)


def check_here(corpora: "Sequence[CorpusFiles]", key: str, bundle: Path, remedy: str) -> None:
    """Raise DataError, with a remedy such as "give --src", if a file that config.yaml names as `key` is not here."""
    if (path := first_missing(corpora)) is not None:
        raise DataError(f"{path}: no such file, though {bundle / 'config.yaml'} names it as {key}; {remedy}")
