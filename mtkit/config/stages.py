"""Values that change during a run, and the stages between the changes. A schedule maps shares of the run to values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from pydantic import Field

_T = TypeVar("_T")

_ShareOfRun = Annotated[float, Field(ge=0, lt=1)]
WeightSchedule = dict[_ShareOfRun, Annotated[float, Field(ge=0, le=1000)]]
ScoreSchedule = dict[_ShareOfRun, float | None]


def begins_with_the_run(value: _T) -> _T:
    """Sort a schedule; raise ValueError if it has no value for the start."""
    if not isinstance(value, dict):
        return value
    if 0 not in value:
        raise ValueError(
            "needs a value for 0, the start of the run, as in {0: 1, 0.5: 2}, which changes to 2 after 50 % of the run"
        )
    return type(value)(sorted(value.items()))


@dataclass(frozen=True)
class Stage:
    """A part of a run without changes of values; its lists have an entry for each corpus of data.train."""

    begin: float  # share of the run, 0 to 1
    end: float
    weights: list[float]
    min_scores: list[float | None]

    @property
    def share(self) -> float:
        """The stage's share of the run."""
        return self.end - self.begin

    def __str__(self) -> str:
        return "the whole run" if self.share == 1 else f"{100 * self.begin:.4g} % to {100 * self.end:.4g} % of the run"


def value_at(value: _T | Mapping[float, _T], share: float) -> _T:
    """Return the value after this share of the run."""
    if not isinstance(value, Mapping):
        return value
    return value[max(begin for begin in value if begin <= share)]


def changes(values: Iterable[object]) -> list[float]:
    """Return the shares of the run at which one of the values changes, ascending, including the start."""
    return sorted({0.0, *(begin for value in values if isinstance(value, Mapping) for begin in value)})
