"""The decoding loop under glass: a pair in; at every step the prefix, the likeliest next tokens and the choice out."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mtkit.engines.steps import log_probs_to_choose_from
from mtkit.inspection.sentence_pair import SentencePair, Subject, named_pieces
from mtkit.model.transformer import Transformer
from mtkit.pages.page import write_page
from mtkit.search.hypothesis import Segment

# Nats: a probability that differs by a thousandth of itself. In float32 one sum in two shapes was seen to differ by
# 1e-5, in a model with large weights by 1e-4; a model that looks ahead, or a cache that forgets, differs by tenths.
TOLERANCE = 1e-3
# Nats. What is as improbable counts as equally so: models that must never say a token may give it -30,000, where
# float32 has no more than two decimals.
_FLOOR = -100.0


@dataclass(frozen=True)
class Guess:
    """A token that may come next."""

    id: int
    piece: str
    probability: float


@dataclass(frozen=True)
class Step:
    """One turn of the loop."""

    prefix: list[str]  # <start> and the tokens chosen so far
    prefix_ids: list[int]
    best: list[Guess]  # the likeliest next tokens, best first
    chosen: Guess
    rank: int  # of the chosen token: 1 is the likeliest
    log_prob: float  # of the chosen token, nats
    chosen_so_far: list[float]  # the probability of each chosen token, this one last, all computed from this prefix
    moved: float  # nats: largest change of an earlier position's distribution, against the step before
    cached_differs: float  # nats: largest difference from the same distribution by the engine's cached step


@dataclass(frozen=True)
class DecodingSteps:
    """The whole loop, with what was checked on the way."""

    pair: SentencePair
    steps: list[Step]

    @property
    def log_prob(self) -> float:
        """Of the translation, nats."""
        return math.fsum(step.log_prob for step in self.steps)

    @property
    def moved(self) -> float:
        """Nats: the most that any earlier position's distribution changed as the prefix grew by one token."""
        return _largest(step.moved for step in self.steps)

    @property
    def cached_differs(self) -> float:
        """Nats: the most that the engine's cached decoding differs from computing the whole prefix anew."""
        return _largest(step.cached_differs for step in self.steps)

    @property
    def prefix_holds(self) -> bool:
        """Whether earlier distributions stayed what they were, but for rounding."""
        return self.moved <= TOLERANCE

    @property
    def cache_agrees(self) -> bool:
        """Whether the engine's cached decoding gives the same distributions, but for rounding."""
        return self.cached_differs <= TOLERANCE


# Not inference_mode: tables that the model makes on the way, such as longer positions, stay usable in training.
@torch.no_grad()
def decoding_steps(
    subject: Subject, pair: SentencePair, *, n_best: int = 5, advance: Callable[[], object] = lambda: None
) -> DecodingSteps:
    """Go through the loop that leads to the pair's translation, computing the whole prefix anew at each step.

    n_best: how many of the likeliest tokens are named at each step. advance: called after each.
    """
    model, tokenizer = subject.model, subject.tgt_tokenizer
    memory, pad_bias = model.encode(torch.tensor([pair.src.ids]))
    cached = subject.engine.make_step([Segment(pair.src.ids[:-1], max_len=len(pair.tgt.ids))], 1)
    before: Tensor | None = None  # (T - 1, V): what the step before found
    steps: list[Step] = []
    for n, chosen in enumerate(pair.tgt.ids, start=1):
        prefix = pair.tgt_in[:n]
        log_probs = _next_log_probs(model, memory, pad_bias, prefix)
        newest = log_probs[-1]
        moved = 0.0 if before is None else _difference(log_probs[:-1], before)
        before = log_probs
        order = newest.topk(min(n_best, newest.numel())).indices.tolist()
        steps.append(
            Step(
                prefix=named_pieces(tokenizer, prefix),
                prefix_ids=prefix,
                best=_guesses(newest, order, named_pieces(tokenizer, order)),
                chosen=_guesses(newest, [chosen], [pair.tgt.pieces[n - 1]])[0],
                rank=1 + int((newest > newest[chosen]).sum()),
                log_prob=float(newest[chosen]),
                chosen_so_far=log_probs[range(n), pair.tgt.ids[:n]].exp().tolist(),
                moved=moved,
                cached_differs=_difference(cached(torch.tensor([[prefix[-1]]]))[0, 0], newest),
            )
        )
        advance()
    return DecodingSteps(pair, steps)


def _next_log_probs(model: Transformer, memory: Tensor, pad_bias: Tensor, prefix: Sequence[int]) -> Tensor:
    """Log-probabilities (T, V) of what follows each of the prefix's T positions, without any cache."""
    hidden = model.decode(torch.tensor([prefix]), memory, pad_bias)
    return log_probs_to_choose_from(model.output(hidden)[0].float())


def _difference(a: Tensor, b: Tensor) -> float:
    """The largest, in nats."""
    return float((a.clamp(min=_FLOOR) - b.clamp(min=_FLOOR)).abs().max())


def _largest(differences: Iterable[float]) -> float:
    found = list(differences)
    return math.nan if any(map(math.isnan, found)) else max(found, default=0.0)


def _guesses(log_probs: Tensor, ids: Sequence[int], pieces: Sequence[str]) -> list[Guess]:
    probabilities = log_probs[list(ids)].exp().tolist()
    return [Guess(*found) for found in zip(ids, pieces, probabilities, strict=True)]


def write_steps_page(path: Path, found: DecodingSteps) -> None:
    """An HTML page: the source, a bar for each of the likeliest tokens of every step, and the checks."""
    title = f"Decoding \u201c{found.pair.src.text}\u201d"
    values = {"found": found, "longest": longest_piece(found), "tolerance": TOLERANCE, "shown": shown_probability}
    write_page(path, "steps", title=title, **values)


def shown_probability(probability: float) -> str:
    """With four decimals, or as a power of ten where these would all be zero."""
    return f"{probability:.4f}" if probability >= 0.00005 else f"{probability:.0e}"


def longest_piece(found: DecodingSteps) -> int:
    """Characters of the longest token that is named as a guess."""
    return max(len(guess.piece) for step in found.steps for guess in (*step.best, step.chosen))
