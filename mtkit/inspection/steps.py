"""Follow the decoding loop: at every step the prefix, the likeliest next tokens and the choice."""

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

# Nats: a relative difference of a thousandth. In float32 a sum in two shapes differs by 1e-5, in a model with large
# weights by 1e-4; a model that looks ahead, or a cache that loses something, differs by tenths.
TOLERANCE = 1e-3
# Nats. Lower log-probabilities count as equal: models may give a forbidden token -30,000, where float32 has only two
# decimals.
_FLOOR = -100.0


@dataclass(frozen=True)
class Guess:
    """A possible next token."""

    id: int
    piece: str
    probability: float


@dataclass(frozen=True)
class Step:
    """One step of the loop."""

    prefix: list[str]  # <start> and the tokens chosen so far
    prefix_ids: list[int]
    best: list[Guess]  # the likeliest next tokens, best first
    chosen: Guess
    rank: int  # of the chosen token: 1 is the likeliest
    log_prob: float  # of the chosen token, nats
    chosen_so_far: list[float]  # probability of each chosen token, computed from this prefix; this token's is last
    moved: float  # nats: largest change of an earlier position's distribution since the step before
    cached_differs: float  # nats: largest difference from the engine's cached step


@dataclass(frozen=True)
class DecodingSteps:
    """All steps of the loop and the results of its two checks."""

    pair: SentencePair
    steps: list[Step]

    @property
    def log_prob(self) -> float:
        """Return the log-probability of the translation, in nats."""
        return math.fsum(step.log_prob for step in self.steps)

    @property
    def moved(self) -> float:
        """Return by how many nats an earlier position's distribution changed at most when the prefix grew."""
        return _largest(step.moved for step in self.steps)

    @property
    def cached_differs(self) -> float:
        """Return by how many nats the engine's cached decoding differs at most from recomputing the whole prefix."""
        return _largest(step.cached_differs for step in self.steps)

    @property
    def prefix_holds(self) -> bool:
        """Return whether earlier distributions stayed the same up to rounding."""
        return self.moved <= TOLERANCE

    @property
    def cache_agrees(self) -> bool:
        """Return whether the engine's cached decoding gives the same distributions up to rounding."""
        return self.cached_differs <= TOLERANCE


# Not inference_mode: tables that the model extends on the way, such as positions, must stay usable in training.
@torch.no_grad()
def decoding_steps(
    subject: Subject, pair: SentencePair, *, n_best: int = 5, advance: Callable[[], object] = lambda: None
) -> DecodingSteps:
    """Follow the loop to the pair's translation, recomputing the whole prefix at each step.

    n_best: number of likeliest tokens listed at each step. advance: called after each step.
    """
    model, tokenizer = subject.model, subject.tgt_tokenizer
    memory, pad_bias = model.encode(torch.tensor([pair.src.ids]))
    cached = subject.engine.make_step([Segment(pair.src.ids[:-1], max_len=len(pair.tgt.ids))], 1)
    before: Tensor | None = None  # (T - 1, V): log-probabilities of the step before
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
    """Return log-probabilities (T, V) of the token after each of the prefix's T positions, without a cache."""
    hidden = model.decode(torch.tensor([prefix]), memory, pad_bias)
    return log_probs_to_choose_from(model.output(hidden)[0].float())


def _difference(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, in nats."""
    return float((a.clamp(min=_FLOOR) - b.clamp(min=_FLOOR)).abs().max())


def _largest(differences: Iterable[float]) -> float:
    known = list(differences)
    return math.nan if any(map(math.isnan, known)) else max(known, default=0.0)


def _guesses(log_probs: Tensor, ids: Sequence[int], pieces: Sequence[str]) -> list[Guess]:
    probabilities = log_probs[list(ids)].exp().tolist()
    return [Guess(*values) for values in zip(ids, pieces, probabilities, strict=True)]


def write_steps_page(path: Path, decoding: DecodingSteps) -> None:
    """Write an HTML page: the source, a bar for each of the likeliest tokens of every step, and the checks."""
    title = f"Decoding \u201c{decoding.pair.src.text}\u201d"
    longest = longest_piece(decoding)
    write_page(
        path, "steps", title=title, decoding=decoding, longest=longest, tolerance=TOLERANCE, shown=shown_probability
    )


def shown_probability(probability: float) -> str:
    """Return the probability with four decimals, or as a power of ten where they would all be zero."""
    return f"{probability:.4f}" if probability >= 0.00005 else f"{probability:.0e}"


def longest_piece(decoding: DecodingSteps) -> int:
    """Return the length of the longest token listed at any step, in characters."""
    return max(len(guess.piece) for step in decoding.steps for guess in (*step.best, step.chosen))
