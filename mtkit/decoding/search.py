"""Greedy and beam search: a step function in (last ids to log-probabilities), hypotheses of each sentence out.

The search never sees a model. It keeps B sentences with K hypotheses each as tensors; a sentence's result does not
depend on what else is in the batch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from mtkit.errors import MtkitError

_LEAVE_SHARE = 0.25  # finished sentences leave the batch at this share: every copy costs, idle rows cost too


class DecodeStep(Protocol):
    """What a search needs to know about a model: B sentences, K hypotheses each, and their next tokens."""

    def __call__(self, last_ids: Tensor) -> Tensor:
        """Extend each hypothesis by its newest id (B, K); returns log-probabilities (B, K, V) of the next, all <= 0.

        The tensor is new at each call: the search writes into it.
        """
        ...

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was hypothesis parents[b, k] of that sentence; (B, K)."""
        ...

    def keep(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current numbers in rising order."""
        ...


@dataclass(frozen=True)
class SearchConfig:
    """How wide to search, how to compare lengths, and how many results to be sure of."""

    beam_size: int = 4
    length_penalty: float = 0.6  # alpha
    n_best: int = 1  # at most beam_size

    def __post_init__(self) -> None:
        if self.length_penalty < 0:
            raise ValueError(f"length_penalty={self.length_penalty} is negative: the stop rule would not be exact")
        if not 1 <= self.n_best <= self.beam_size:
            raise ValueError(f"n_best={self.n_best} is not between 1 and beam_size={self.beam_size}")

    def divisor(self, n_tokens: int) -> float:
        """Length penalty ((5 + n) / 6)^alpha, EOS counted; Wu et al. 2016, eq. 14."""
        return float(((5 + n_tokens) / 6) ** self.length_penalty)


@dataclass(frozen=True)
class Hypothesis:
    """One translation as the search sees it."""

    ids: list[int]  # without BOS and EOS
    log_prob: float  # nats, summed over ids and, if finished, EOS
    score: float  # log_prob after the length penalty
    finished: bool  # False: it hit the length limit before EOS


def search(
    step: DecodeStep, max_lens: Tensor, cfg: SearchConfig, *, bos_id: int, eos_id: int
) -> list[list[Hypothesis]]:
    """Greedy search for beam_size 1, beam search for more; arguments and result as in `beam_search`."""
    method = greedy if cfg.beam_size == 1 else beam_search
    return method(step, max_lens, cfg, bos_id=bos_id, eos_id=eos_id)


def beam_search(
    step: DecodeStep, max_lens: Tensor, cfg: SearchConfig, *, bos_id: int, eos_id: int
) -> list[list[Hypothesis]]:
    """Up to n_best hypotheses per sentence, best score first; those that ended with EOS before those that did not.

    max_lens: (B,) int64, the most tokens of each sentence's hypotheses, EOS counted; it fixes B and the device.

    At each position the best K extensions of the live hypotheses stay; those that chose EOS among them leave the beam
    as finished (so that K = 1 is greedy search), and the next position fills the beam again from the others. A sentence
    is done when no continuation of a live hypothesis can reach its n-th best finished score. Equal scores: the
    hypothesis finished earlier wins, then the lower token id.

    Raises MtkitError if the step's log-probabilities are not numbers.
    """
    live = _Live.start(max_lens, cfg.beam_size, bos_id)
    results = [_Results(cfg, max_len) for max_len in _checked(max_lens)]
    while live.sentences:
        parents = live.extend(step(live.ids[:, :, -1]))
        live.move_ended(eos_id, results)
        live.close_settled(results)
        parents = live.drop_closed(step, parents)
        if live.sentences:
            step.reorder(parents)
    return [result.best() for result in results]


def greedy(
    step: DecodeStep, max_lens: Tensor, cfg: SearchConfig, *, bos_id: int, eos_id: int
) -> list[list[Hypothesis]]:
    """One hypothesis per sentence: the likeliest token at each position. The result of `beam_search` with K = 1."""
    limits = _checked(max_lens)
    results: list[list[Hypothesis]] = [[] for _ in limits]
    sentences = list(range(len(limits)))  # whose rows these are; done ones stay until enough of them can leave
    ids = torch.full((len(limits), 1), bos_id, device=max_lens.device)
    log_prob = torch.zeros(len(limits), device=max_lens.device)
    while sentences:
        # The best sum, not the best log-prob: rounding can make two sums equal, and beam search compares sums.
        log_prob, last_ids = (log_prob[:, None] + step(ids[:, -1:])[:, 0]).max(dim=1)  # a tie: the lower id
        ids = torch.cat([ids, last_ids[:, None]], dim=1)
        values, n_tokens = _numbers(log_prob), ids.size(1) - 1
        for row, (sentence, last_id) in enumerate(zip(sentences, last_ids.tolist(), strict=True)):
            finished = last_id == eos_id
            if not results[sentence] and (finished or n_tokens == limits[sentence]):
                text_ids = ids[row, 1 : n_tokens if finished else None].tolist()
                score = values[row] / cfg.divisor(n_tokens)
                results[sentence] = [Hypothesis(text_ids, values[row], score, finished)]
        rows = _rows_to_keep([bool(results[sentence]) for sentence in sentences])
        if rows is not None:
            sentences = [sentences[row] for row in rows]
            kept = torch.tensor(rows, dtype=torch.long, device=ids.device)
            ids, log_prob = ids.index_select(0, kept), log_prob.index_select(0, kept)
            if rows:
                step.keep(kept)
    return results


@dataclass
class _Live:
    """The hypotheses that are still being extended, K for each sentence in the batch; log_prob -inf: an empty place."""

    sentences: list[int]  # their numbers in the result; those of `closed` stay until enough of them can leave
    ids: Tensor  # (B, K, 1 + n), beginning with BOS
    log_prob: Tensor  # (B, K)
    closed: list[bool]

    @classmethod
    def start(cls, max_lens: Tensor, beam_size: int, bos_id: int) -> "_Live":
        n_sentences, device = max_lens.numel(), max_lens.device
        log_prob = torch.full((n_sentences, beam_size), -math.inf, device=device)
        log_prob[:, 0] = 0.0  # one hypothesis each to begin with; K equal ones would stay equal
        ids = torch.full((n_sentences, beam_size, 1), bos_id, device=device)
        return cls(list(range(n_sentences)), ids, log_prob, [False] * n_sentences)

    def extend(self, log_probs: Tensor) -> Tensor:
        """Replace the hypotheses by their best K extensions; returns each one's parent (B, K)."""
        vocab_size = log_probs.size(2)
        total = log_probs.add_(self.log_prob.unsqueeze(2))  # the one large tensor of a step: no second copy
        self.log_prob, candidates = _top(total.flatten(1), self.log_prob.size(1))
        parents, last_ids = candidates // vocab_size, candidates % vocab_size
        prefixes = self.ids.gather(1, parents.unsqueeze(2).expand_as(self.ids))
        self.ids = torch.cat([prefixes, last_ids.unsqueeze(2)], dim=2)
        return parents

    def move_ended(self, eos_id: int, results: "Sequence[_Results]") -> None:
        """Hand the hypotheses that chose EOS over to their sentences' results."""
        ended = (self.ids[:, :, -1] == eos_id) & self.log_prob.isfinite()
        rows = ended.nonzero()[:, 0].tolist()
        if not rows:
            return
        for row, ids, log_prob in zip(rows, self.ids[ended].tolist(), self.log_prob[ended].tolist(), strict=True):
            results[self.sentences[row]].add(ids[1:-1], log_prob, finished=True)
        self.log_prob.masked_fill_(ended, -math.inf)

    def close_settled(self, results: "Sequence[_Results]") -> None:
        """Close the sentences whose result can no longer change, or whose hypotheses have reached their limit."""
        n_tokens = self.ids.size(2) - 1
        newly_closed = []
        for row, best_log_prob in enumerate(_numbers(self.log_prob.amax(1))):
            result = results[self.sentences[row]]
            at_limit = n_tokens == result.max_len
            if self.closed[row] or not (at_limit or result.is_settled(best_log_prob)):
                continue
            if at_limit:
                for ids, log_prob in zip(self.ids[row].tolist(), self.log_prob[row].tolist(), strict=True):
                    if log_prob > -math.inf:
                        result.add(ids[1:], log_prob, finished=False)
            self.closed[row] = True
            newly_closed.append(row)
        if newly_closed:
            self.log_prob[torch.tensor(newly_closed, device=self.log_prob.device)] = -math.inf

    def drop_closed(self, step: DecodeStep, parents: Tensor) -> Tensor:
        """Let closed sentences leave the batch if there are enough of them; returns the parents (B', K) of the rest."""
        rows = _rows_to_keep(self.closed)
        if rows is None:
            return parents
        self.sentences = [self.sentences[row] for row in rows]
        self.closed = [False] * len(rows)
        kept = torch.tensor(rows, dtype=torch.long, device=parents.device)
        self.ids, self.log_prob = self.ids.index_select(0, kept), self.log_prob.index_select(0, kept)
        if rows:
            step.keep(kept)
        return parents.index_select(0, kept)


@dataclass
class _Results:
    """The hypotheses of one sentence that are complete."""

    cfg: SearchConfig
    max_len: int
    hypotheses: list[Hypothesis] = field(default_factory=list)

    def add(self, ids: list[int], log_prob: float, *, finished: bool) -> None:
        score = log_prob / self.cfg.divisor(len(ids) + finished)
        self.hypotheses.append(Hypothesis(ids, log_prob, score, finished))

    def best(self) -> list[Hypothesis]:
        """The n best, finished ones first; sorting is stable, so of equal ones the earlier stays ahead."""
        ranked = sorted(self.hypotheses, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
        return ranked[: self.cfg.n_best]

    def is_settled(self, best_live_log_prob: float) -> bool:
        """Whether no live hypothesis can enter the n best, all so far being finished.

        A log-prob only falls, and with alpha >= 0 no divisor is kinder to it than that of the longest hypothesis.
        """
        if best_live_log_prob == -math.inf:
            return True
        if len(self.hypotheses) < self.cfg.n_best:
            return False
        return best_live_log_prob / self.cfg.divisor(self.max_len) <= self.best()[-1].score


def _top(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row of values (B, N) with their positions, largest first; of equals the lower position.

    `topk` leaves open which of equals it takes, and lets that depend on the shape. So one more is asked for: if two
    neighbours are equal, that row is done again, and only that row.
    """
    best, positions = values.topk(min(k + 1, values.size(1)), dim=1)
    tied = ((best[:, 1:] == best[:, :-1]) & best[:, 1:].isfinite()).any(dim=1)
    best, positions = best[:, :k].clone(), positions[:, :k].clone()
    for row in tied.nonzero()[:, 0].tolist():
        among = (values[row] >= best[row, -1]).nonzero()[:, 0]  # positions in rising order
        order = values[row, among].sort(descending=True, stable=True).indices[:k]
        positions[row] = among[order]
        best[row] = values[row, positions[row]]
    return best, positions


def _rows_to_keep(closed: list[bool]) -> list[int] | None:
    """Rows of the open sentences if the closed ones shall leave now, else None."""
    return [row for row, is_closed in enumerate(closed) if not is_closed] if _many(closed) else None


def _many(closed: list[bool]) -> bool:
    return sum(closed) >= max(1, _LEAVE_SHARE * len(closed))


def _numbers(log_prob: Tensor) -> list[float]:
    """The tensor as floats; raises MtkitError at the first NaN."""
    values: list[float] = log_prob.tolist()
    if any(map(math.isnan, values)):
        raise MtkitError("the model's output is not a number (NaN): its weights are damaged, or its training diverged")
    return values


def _checked(max_lens: Tensor) -> list[int]:
    limits: list[int] = max_lens.tolist()
    if min(limits, default=1) < 1:
        raise ValueError(f"max_lens must be at least 1, not {min(limits)}")
    return limits
