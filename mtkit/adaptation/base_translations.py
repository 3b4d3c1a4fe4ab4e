"""Keep the base model's translations for another start, or for a memory that has grown.

A file beside the parts of the memory has them by source, with the time that they took.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mtkit.files import parse_json, write_text


class BaseTranslations:
    """The translations of one model by one search."""

    def __init__(self, path: Path, search: Mapping[str, Any]) -> None:
        """Read the file if it exists, and if its translations are of this search (model and settings, as JSON)."""
        self._path = path
        empty: dict[str, Any] = {"search": dict(search), "seconds": 0.0, "translations": {}}
        stored: dict[str, Any] = parse_json(path.read_text(encoding="utf-8")) if path.exists() else empty
        self._values: dict[str, Any] = stored if stored.get("search") == empty["search"] else empty
        self._known: dict[str, str] = self._values["translations"]

    def missing(self, sources: Sequence[str]) -> list[str]:
        """Return the sources without a translation, each once."""
        return [source for source in dict.fromkeys(sources) if source not in self._known]

    def add(self, sources: Sequence[str], translations: Sequence[str], seconds: float) -> None:
        """Keep translations in the file. seconds: the time that all of them took."""
        if not sources:
            return
        self._known |= zip(sources, translations, strict=True)
        self._values["seconds"] += seconds
        write_text(self._path, json.dumps(self._values, ensure_ascii=False, indent=0) + "\n")

    def of(self, sources: Sequence[str]) -> list[str]:
        """Return the translations of sources of which none is missing."""
        return [self._known[source] for source in sources]

    def get(self, source: str, default: str) -> str:
        """Return the translation of a source, or the default if it is missing."""
        return self._known.get(source, default)

    def seconds_for(self, sources: Sequence[str]) -> float:
        """Return how long these would take, at the time that a character has taken so far; there must be one."""
        return float(self._values["seconds"]) * _n_characters(sources) / _n_characters(self._known)


def _n_characters(sources: Iterable[str]) -> int:
    return sum(map(len, sources))
