"""The input and output of every engine: segments of token ids, and hypotheses. Nothing here needs torch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Protocol

from mtkit.config.decoding import DecodeConfig

if TYPE_CHECKING:
    from mtkit.search.constraints import Constraints
    from mtkit.text.capitals import Case


@dataclass(frozen=True)
class Segment:
    """A text to translate in one piece, with the requirements on its translation."""

    ids: Sequence[int]  # source tokens, without EOS
    max_len: int  # most target tokens, EOS counted
    _: KW_ONLY
    min_len: int = 0  # least target tokens, EOS not counted
    prefix: tuple[int, ...] = ()  # target tokens at the beginning of the translation
    constraints: "Constraints | None" = None  # phrases that must, or must not, appear
    others: tuple[Sequence[int], ...] = ()  # the source in the tokens of an ensemble's other models, if they differ
    text: str = ""  # what the ids spell
    once: tuple[int, ...] = ()  # target tokens that must appear, each of them once
    never: tuple[int, ...] = ()  # target tokens that must not appear
    values: Mapping[str, str] = field(default_factory=dict)  # what the pieces of the tokens in `once` stand for
    case: "Case | None" = None  # how it was written, if the model reads it otherwise; its translation is like it

    def has_each_once(self, ids: Sequence[int]) -> bool:
        """Return whether a translation of these tokens is as `once` and `never` ask."""
        return all(ids.count(token) == 1 for token in self.once) and not any(token in ids for token in self.never)

    def src(self, member: int) -> Sequence[int]:
        """Return the source tokens for one model of an ensemble."""
        return self.others[member - 1] if member and self.others else self.ids


@dataclass(frozen=True)
class Hypothesis:
    """A translation as the search sees it."""

    ids: list[int]  # without BOS and EOS; a forced prefix is part of them
    log_prob: float  # nats, the model's own, summed over ids and, if finished, EOS
    score: float  # for ranking: log_prob after length normalisation and penalties
    finished: bool  # False: it reached the length limit before EOS
    # log_prob without the tokens of required phrases, less what their places cost; None: from a search without them
    rest_log_prob: float | None = None


def length_divisor(normalization: str, alpha: float, n_tokens: int) -> float:
    """Return the divisor for a sum of n_tokens log-probabilities, EOS counted; it never falls as n_tokens grows.

    gnmt: ((5 + n) / 6)^alpha (Wu et al. 2016, eq. 14); average: n; none: 1.
    """
    if normalization == "gnmt":
        return float(((5 + n_tokens) / 6) ** alpha)
    return float(n_tokens) if normalization == "average" else 1.0


class Engine(Protocol):
    """A decoder of segments."""

    name: str  # native or ctranslate2
    max_positions: int | None  # most tokens of a sentence, EOS counted; None: no limit

    @property
    def arithmetic(self) -> str:
        """Its actual precision and device, such as "fp32 on cpu", because others round differently."""
        ...

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield each segment's index and its n best hypotheses, best first; in any order, as soon as they are done.

        Every segment has at least one token. Raises MtkitError, naming the option, for one that the engine lacks.
        """
        ...
