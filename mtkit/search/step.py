"""The interface between a search and a model, the settings of a search, and its result for a sentence."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from mtkit.config.decoding import DecodeConfig
from mtkit.config.tags import tags_of
from mtkit.errors import MtkitError
from mtkit.search.hypothesis import Hypothesis, length_divisor


class DecodeStep(Protocol):
    """A model as a search sees it: it extends K hypotheses for each of B sentences, one token a call."""

    def __call__(self, last_ids: Tensor) -> Tensor:
        """Extend each hypothesis by its newest id (B, K); return log-probabilities (B, K, V) of the next, all <= 0.

        Return a new tensor at each call: the search writes into it.
        """
        ...

    def attention(self) -> Tensor:
        """Return how much each hypothesis looked at each source token in the latest call: (B, K, S), rows sum to 1.

        Padding gets 0. A search calls this only if the coverage of the source counts.
        """
        ...

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was hypothesis parents[b, k] of that sentence; (B, K).

        A search whose hypotheses keep their places need not call this: each then continues itself.
        """
        ...

    def select(self, sentences: Tensor) -> None:
        """Keep only these sentences (B',), given by their current indices in rising order."""
        ...


@runtime_checkable
class ChoosingStep(DecodeStep, Protocol):
    """A step that can choose the likeliest tokens itself, faster than a search that reads whole rows."""

    def likeliest(self, last_ids: Tensor, n: int) -> tuple[Tensor, Tensor] | None:
        """Extend each hypothesis as a call does; return log-probabilities and ids of the n likeliest: (B, K, n) each.

        The likeliest comes first; among equals, the lower id. None, and no change: call the step for whole rows.
        """
        ...


@dataclass(frozen=True)
class SearchConfig:
    """The settings of a search: its width, its length penalty, and the number of results."""

    beam_size: int = 4
    length_penalty: float = 0.6  # alpha of gnmt
    n_best: int = 1  # at most beam_size
    length_normalization: str = "gnmt"  # gnmt, average or none
    coverage_penalty: float = 0.0  # beta
    n_tags: int = 0  # tokens before the source text, whose coverage does not count
    beam_groups: int = 1  # divides beam_size
    diversity_penalty: float = 0.5

    def __post_init__(self) -> None:
        if self.length_penalty < 0:
            raise ValueError(f"length_penalty={self.length_penalty} is negative: the stop rule would not be exact")
        if self.coverage_penalty < 0:
            raise ValueError(f"coverage_penalty={self.coverage_penalty} is negative: the stop rule would not be exact")
        if not 1 <= self.n_best <= self.beam_size:
            raise ValueError(f"n_best={self.n_best} is not between 1 and beam_size={self.beam_size}")
        if self.beam_size % self.beam_groups:
            raise ValueError(f"beam_groups={self.beam_groups} does not divide beam_size={self.beam_size}")

    @classmethod
    def from_config(cls, cfg: DecodeConfig, n_best: int) -> "SearchConfig":
        """Take the settings from the config's decode section."""
        return cls(
            beam_size=cfg.beam_size,
            length_penalty=cfg.length_penalty,
            n_best=n_best,
            length_normalization=cfg.length_normalization,
            coverage_penalty=cfg.coverage_penalty,
            n_tags=len(tags_of(cfg.tag)),
            beam_groups=cfg.beam_groups,
            diversity_penalty=cfg.diversity_penalty,
        )

    @property
    def group_size(self) -> int:
        """Hypotheses in each group of the beam."""
        return self.beam_size // self.beam_groups

    def divisor(self, n_tokens: int) -> float:
        """Return the divisor for a sum of n_tokens log-probabilities, EOS counted; it never falls with n_tokens."""
        return length_divisor(self.length_normalization, self.length_penalty, n_tokens)


@dataclass(frozen=True)
class SearchResult:
    """The hypotheses for one sentence, and the margin by which they beat the alternatives."""

    n_best: list[Hypothesis]  # best first
    margin: float  # nats by which its closest decision was won: below rounding errors, chance decided


def check_number(value: float) -> float:
    """Return the value; raise MtkitError if it is NaN."""
    if math.isnan(value):
        raise MtkitError("the model's output is not a number (NaN): its weights are damaged, or its training diverged")
    return value
