"""What a search asks of a model, how it is set up, and what it returns for a sentence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from mtkit.config.schema import DecodeConfig, tags_of
from mtkit.errors import MtkitError
from mtkit.search.hypothesis import Hypothesis, length_divisor

_LEAVE_SHARE = 0.25  # finished sentences leave the batch at this share: every copy costs, idle rows cost too


class DecodeStep(Protocol):
    """What a search needs to know about a model: B sentences, K hypotheses each, and their next tokens."""

    def __call__(self, last_ids: Tensor) -> Tensor:
        """Extend each hypothesis by its newest id (B, K); returns log-probabilities (B, K, V) of the next, all <= 0.

        The tensor is new at each call: the search writes into it.
        """
        ...

    def attention(self) -> Tensor:
        """How much each hypothesis looked at each source token in the latest call: (B, K, S), rows add up to 1.

        Padding gets 0. Asked for only where the coverage of the source counts.
        """
        ...

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was hypothesis parents[b, k] of that sentence; (B, K)."""
        ...

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current numbers in rising order."""
        ...


@dataclass(frozen=True)
class SearchConfig:
    """How wide to search, how to compare lengths, and how many results to be sure of."""

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
        """What the config's decode section says."""
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

    def divisor(self, n_tokens: int) -> float:
        """What a sum of n_tokens log-probabilities, EOS counted, is divided by; it never falls as n_tokens grows."""
        return length_divisor(self.length_normalization, self.length_penalty, n_tokens)


@dataclass(frozen=True)
class SearchResult:
    """What was found for one sentence."""

    n_best: list[Hypothesis]  # best first
    margin: float  # nats by which its closest decision was won: below rounding errors, chance decided


def rows_to_keep(closed: Sequence[bool]) -> list[int] | None:
    """Rows of the open sentences if the closed ones shall leave now, else None."""
    if sum(closed) < max(1, _LEAVE_SHARE * len(closed)):
        return None
    return [row for row, is_closed in enumerate(closed) if not is_closed]


def check_number(value: float) -> float:
    """The value; raises MtkitError if it is not a number."""
    if math.isnan(value):
        raise MtkitError("the model's output is not a number (NaN): its weights are damaged, or its training diverged")
    return value


def checked_limits(max_lens: Tensor) -> list[int]:
    """Return max_lens as a list; raise ValueError unless all are at least 1."""
    limits: list[int] = max_lens.tolist()
    if min(limits, default=1) < 1:
        raise ValueError(f"max_lens must be at least 1, not {min(limits)}")
    return limits
