"""What every engine takes and gives: segments of token ids in, hypotheses out. Nothing here needs torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mtkit.config.schema import DecodeConfig

if TYPE_CHECKING:
    from mtkit.search.constraints import Constraints


@dataclass(frozen=True)
class Segment:
    """What is translated in one piece, with what is asked of its translation."""

    ids: Sequence[int]  # source tokens, without EOS
    max_len: int  # most target tokens, EOS counted
    min_len: int = 0  # least target tokens, EOS not counted
    prefix: tuple[int, ...] = ()  # target tokens that the translation begins with
    constraints: "Constraints | None" = None  # phrases that must, or must not, appear
    others: tuple[Sequence[int], ...] = ()  # the source in the tokens of an ensemble's further models, if they differ

    def src(self, member: int) -> Sequence[int]:
        """The source tokens for one model of an ensemble."""
        return self.others[member - 1] if member and self.others else self.ids


@dataclass(frozen=True)
class Hypothesis:
    """One translation as the search sees it."""

    ids: list[int]  # without BOS and EOS; a forced prefix is part of them
    log_prob: float  # nats, the model's own, summed over ids and, if finished, EOS
    score: float  # what hypotheses are ranked by: log_prob after length normalisation and penalties
    finished: bool  # False: it hit the length limit before EOS


def length_divisor(normalization: str, alpha: float, n_tokens: int) -> float:
    """What a sum of n_tokens log-probabilities, EOS counted, is divided by; it never falls as n_tokens grows.

    gnmt: ((5 + n) / 6)^alpha (Wu et al. 2016, eq. 14); average: n; none: 1.
    """
    if normalization == "gnmt":
        return float(((5 + n_tokens) / 6) ** alpha)
    return float(n_tokens) if normalization == "average" else 1.0


class Engine(Protocol):
    """Something that decodes."""

    name: str  # native or ctranslate2
    max_positions: int | None  # longest sentence it can tell the order of, EOS counted; None: any

    @property
    def arithmetic(self) -> str:
        """What it computes in, whatever was asked for, such as "fp32 on cpu": another one rounds otherwise."""
        ...

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Each segment's number and its n best hypotheses, best first; in any order, as they are done.

        Every segment has at least one token. Raises MtkitError, naming the option, for one that the engine lacks.
        """
        ...
