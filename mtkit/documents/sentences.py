"""The sentences of a document and their translations, which go to another process as lines of JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mtkit.text.inline import Interval


@dataclass(frozen=True)
class Sentence:
    """A sentence to translate."""

    text: str
    is_marked: bool  # it has codes, so the alignment of its words is wanted

    def as_json(self) -> str:
        """Return the sentence as a line."""
        return json.dumps([self.text, self.is_marked], ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> "Sentence":
        """Read such a line."""
        return cls(*json.loads(line))


@dataclass(frozen=True)
class Alignment:
    """The words of a sentence and of its translation, and how strongly they correspond."""

    src: Sequence[Interval]
    tgt: Sequence[Interval]
    weights: Sequence[Sequence[float]]  # (target words, source words); rows add up to at most 1


@dataclass(frozen=True)
class Translated:
    """The translation of a sentence."""

    text: str
    faults: Sequence[str] = ()  # what looks wrong, such as "loop"
    n_placed: int = 0  # placeholders that the model lost or repeated, put back by the alignment
    alignment: Alignment | None = None
    others: Sequence[str] = ()  # further translations, best first, if they were asked for
    confidence: float | None = None  # the probability, 0 to 1, that it is good, if the model is calibrated
    matches: Sequence[Mapping[str, Any]] = ()  # of a translation memory: `Match.as_json`
    read_as: Mapping[str, str] = field(default_factory=dict)  # words with a typo, and those as which they were read

    def as_values(self) -> dict[str, Any]:
        """Return the translation as JSON values; unlike `asdict`, without copies of its lists."""
        return {**vars(self), "alignment": None if self.alignment is None else vars(self.alignment)}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "Translated":
        """Return the translation that such values stand for."""
        alignment = values["alignment"]
        return cls(**{**values, "alignment": None if alignment is None else Alignment(**alignment)})

    def as_json(self) -> str:
        """Return the translation as a line."""
        return json.dumps(self.as_values(), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> "Translated":
        """Read such a line."""
        return cls.from_values(json.loads(line))
