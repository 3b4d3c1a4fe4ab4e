"""Greedy and beam search: a step function in (last ids to log-probabilities), hypotheses of each sentence out.

The search never sees a model. It keeps B sentences with K hypotheses each as tensors; a sentence's result does not
depend on what else is in the batch.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from mtkit.config.schema import DecodeConfig, tags_of
from mtkit.errors import MtkitError
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.length_penalty import length_divisor
from mtkit.search.rules import NO_RULES, Rules

_LEAVE_SHARE = 0.25  # finished sentences leave the batch at this share: every copy costs, idle rows cost too
_STRANDS = 16  # in which a long row is searched for its largest values


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
    def of(cls, cfg: DecodeConfig, n_best: int) -> "SearchConfig":
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


# Called after each step with the ids, without BOS and EOS, of every hypothesis that may still turn out the best.
Watch = Callable[[list[list[int]]], None]


def search(
    step: DecodeStep, max_lens: Tensor, cfg: SearchConfig, *, bos_id: int, eos_id: int, rules: Rules = NO_RULES
) -> list[SearchResult]:
    """Greedy search for beam_size 1, beam search for more; arguments and result as in `beam_search`."""
    method = greedy if cfg.beam_size == 1 and not cfg.coverage_penalty else beam_search
    return method(step, max_lens, cfg, bos_id=bos_id, eos_id=eos_id, rules=rules)


def beam_search(
    step: DecodeStep,
    max_lens: Tensor,
    cfg: SearchConfig,
    *,
    bos_id: int,
    eos_id: int,
    rules: Rules = NO_RULES,
    watch: Watch | None = None,
) -> list[SearchResult]:
    """Up to n_best hypotheses per sentence, best score first; those that ended with EOS before those that did not.

    max_lens: (B,) int64, the most tokens of each sentence's hypotheses, EOS counted; it fixes B and the device.

    At each position the best K extensions of the live hypotheses stay; those that chose EOS among them leave the beam
    as finished (so that K = 1 is greedy search), and the next position fills the beam again from the others. A sentence
    is done when no continuation of a live hypothesis can reach its n-th best finished score. Equal scores: the
    hypothesis finished earlier wins, then the lower token id.

    With beam_groups the K places are split: each group is a beam of its own with its own end, and to it a token costs
    diversity_penalty nats for each hypothesis of the groups before it that has just chosen the same (Hamming
    diversity, Vijayakumar et al. 2018; it steers the choice and is no part of the score). The result is then led by
    the best of each group.

    watch: told, after each step, what the first sentence's translation may begin with.

    Raises MtkitError if the step's log-probabilities are not numbers.
    """
    live = _Live.start(max_lens, cfg, bos_id)
    results = [_Results(cfg, max_len) for max_len in _checked(max_lens)]
    while live.sentences:
        parents = live.extend(step, rules)
        live.move_ended(eos_id, results)
        live.close_settled(results)
        if watch is not None and live.sentences[0] == 0:
            watch([*live.texts_of_first(), *(h.ids for group in results[0].groups for h in group)])
        parents = live.drop_closed(step, rules, parents)
        if live.sentences:
            step.reorder(parents)
    return [SearchResult(result.best(), result.margin()) for result in results]


def greedy(
    step: DecodeStep, max_lens: Tensor, cfg: SearchConfig, *, bos_id: int, eos_id: int, rules: Rules = NO_RULES
) -> list[SearchResult]:
    """One hypothesis per sentence: the likeliest token at each position. The result of `beam_search` with K = 1."""
    limits = _checked(max_lens)
    results: list[SearchResult | None] = [None for _ in limits]
    sentences = list(range(len(limits)))  # whose rows these are; done ones stay until enough of them can leave
    ids = torch.full((len(limits), 1, 1), bos_id, device=max_lens.device)
    log_prob = torch.zeros(len(limits), device=max_lens.device)  # the model's own
    total = log_prob  # as the rules see it
    margin = torch.full((len(limits),), math.inf, device=max_lens.device)
    while sentences:
        own = step(ids[:, :, -1])
        ruled = rules.apply(own, ids)
        # The best sum, not the best log-prob: rounding can make two sums equal, and beam search compares sums.
        best, positions, gap = _top(ruled[:, 0].add_(total[:, None]), 1)  # a tie: the lower id
        total, last_ids = best[:, 0], positions[:, 0]
        log_prob = total if ruled is own else log_prob + own[:, 0].gather(1, last_ids[:, None])[:, 0]
        margin = torch.minimum(margin, gap.to(margin.dtype))
        ids = torch.cat([ids, last_ids[:, None, None]], dim=2)
        values, n_tokens = _numbers(total), ids.size(2) - 1
        last = last_ids.tolist()
        for row, sentence in enumerate(sentences):
            finished = last[row] == eos_id
            if results[sentence] is None and (finished or n_tokens == limits[sentence]):
                text_ids = ids[row, 0, 1 : n_tokens if finished else None].tolist()
                score = values[row] / cfg.divisor(n_tokens)
                found = Hypothesis(text_ids, float(log_prob[row]), score, finished)
                results[sentence] = SearchResult([found], float(margin[row]))
        rows = rows_to_keep([results[sentence] is not None for sentence in sentences])
        if rows is not None:
            sentences = [sentences[row] for row in rows]
            kept = torch.tensor(rows, dtype=torch.long, device=ids.device)
            ids, log_prob, total, margin = (x.index_select(0, kept) for x in (ids, log_prob, total, margin))
            if rows:
                step.select(kept)
                rules.select(kept)
    return [result for result in results if result is not None]


@dataclass
class _Live:
    """The hypotheses that are still being extended, K for each sentence in the batch; total -inf: an empty place."""

    cfg: SearchConfig
    sentences: list[int]  # their numbers in the result; those that are closed stay until enough of them can leave
    ids: Tensor  # (B, K, 1 + n), beginning with BOS
    log_prob: Tensor  # (B, K), the model's own
    total: Tensor  # (B, K), as the rules see it: what is compared
    margin: Tensor  # (B, G), by how much the closest of the group's choices so far was won
    closed: list[list[bool]]  # of each sentence, its groups
    coverage: Tensor | None = None  # (B, K, S), attention that each source token has got

    @classmethod
    def start(cls, max_lens: Tensor, cfg: SearchConfig, bos_id: int) -> "_Live":
        n_sentences, device = max_lens.numel(), max_lens.device
        total = torch.full((n_sentences, cfg.beam_size), -math.inf, device=device)
        # one hypothesis a group to begin with; several equal ones would stay equal
        total[:, :: cfg.beam_size // cfg.beam_groups] = 0.0
        ids = torch.full((n_sentences, cfg.beam_size, 1), bos_id, device=device)
        margin = torch.full((n_sentences, cfg.beam_groups), math.inf, device=device)
        closed = [[False] * cfg.beam_groups for _ in range(n_sentences)]
        return cls(cfg, list(range(n_sentences)), ids, total, total, margin, closed)

    def extend(self, step: DecodeStep, rules: Rules) -> Tensor:
        """Replace the hypotheses by their best K extensions; returns each one's parent (B, K)."""
        own = step(self.ids[:, :, -1])
        ruled = rules.apply(own, self.ids)
        own_total = None if ruled is own else own + self.log_prob.unsqueeze(2)
        total = ruled.add_(self.total.unsqueeze(2))  # the one large tensor of a step: no second copy
        parents, last_ids = self._choose(total)
        vocab_size = total.size(2)
        places = parents * vocab_size + last_ids
        self.total = total.flatten(1).gather(1, places)
        self.log_prob = self.total if own_total is None else own_total.flatten(1).gather(1, places)
        prefixes = self.ids.gather(1, parents.unsqueeze(2).expand_as(self.ids))
        self.ids = torch.cat([prefixes, last_ids.unsqueeze(2)], dim=2)
        if self.cfg.coverage_penalty:
            attention = step.attention()
            coverage = attention if self.coverage is None else self.coverage + attention
            self.coverage = coverage.gather(1, parents.unsqueeze(2).expand_as(coverage))
        return parents

    def _choose(self, total: Tensor) -> tuple[Tensor, Tensor]:
        """The parents (B, K) and last ids (B, K) of the best extensions; keeps account of the margins."""
        n_groups, vocab_size = self.cfg.beam_groups, total.size(2)
        width = total.size(1) // n_groups
        places: list[Tensor] = []
        costs = torch.zeros(total.size(0), vocab_size, dtype=total.dtype, device=total.device) if n_groups > 1 else None
        for group in range(n_groups):
            own = total[:, group * width : (group + 1) * width]
            if costs is not None and group:
                own = own - costs.unsqueeze(1)
            best, candidates, gap = _top(own.flatten(1), width)
            self.margin[:, group] = torch.minimum(self.margin[:, group], gap.to(self.margin.dtype))
            places.append(candidates + group * width * vocab_size)
            if costs is not None:
                costs.scatter_add_(
                    1, candidates % vocab_size, self.cfg.diversity_penalty * best.isfinite().to(costs.dtype)
                )
        place = torch.cat(places, dim=1)
        return place // vocab_size, place % vocab_size

    def move_ended(self, eos_id: int, results: "Sequence[_Results]") -> None:
        """Hand the hypotheses that chose EOS over to their sentences' results."""
        ended = (self.ids[:, :, -1] == eos_id) & self.total.isfinite()
        rows, beams = ended.nonzero().unbind(1)
        if not rows.numel():
            return
        self._hand_over(rows, beams, results, finished=True)
        self.total = self.total.masked_fill(ended, -math.inf)

    def _hand_over(self, rows: Tensor, beams: Tensor, results: "Sequence[_Results]", *, finished: bool) -> None:
        width = self.cfg.beam_size // self.cfg.beam_groups
        coverage = self._coverage_scores(rows, beams)
        groups = (beams // width).tolist()
        values = [self.ids[rows, beams].tolist(), self.log_prob[rows, beams].tolist(), self.total[rows, beams].tolist()]
        for row, group, ids, log_prob, total, covered in zip(rows.tolist(), groups, *values, coverage, strict=True):
            text_ids = ids[1:-1] if finished else ids[1:]
            results[self.sentences[row]].add(group, text_ids, log_prob, total, covered, finished)

    def _coverage_scores(self, rows: Tensor, beams: Tensor) -> list[float]:
        """beta x the sum over source tokens of log(min(attention, 1)); Wu et al. 2016, eq. 14. At most 0."""
        if self.coverage is None:
            return [0.0] * rows.numel()
        # padding got no attention at all, which is not the same as too little
        attention = self.coverage[rows, beams][:, self.cfg.n_tags :]
        logs = attention.clamp(max=1.0).log().masked_fill(attention == 0, 0.0)
        scores: list[float] = (self.cfg.coverage_penalty * logs.sum(1)).tolist()
        return scores

    def close_settled(self, results: "Sequence[_Results]") -> None:
        """Close the groups whose result can no longer change, or whose hypotheses have reached their limit."""
        n_tokens, n_groups = self.ids.size(2) - 1, self.cfg.beam_groups
        by_group = self.total.view(len(self.sentences), n_groups, -1)
        best = [[check_number(value) for value in values] for values in by_group.amax(2).tolist()]
        margins: list[list[float]] | None = None
        newly_closed = []
        for row, sentence in enumerate(self.sentences):
            result = results[sentence]
            at_limit = n_tokens == result.max_len
            for group in range(n_groups):
                if self.closed[row][group] or not (at_limit or result.is_settled(group, best[row][group])):
                    continue
                if at_limit:
                    beams = (by_group[row, group] > -math.inf).nonzero()[:, 0] + group * by_group.size(2)
                    self._hand_over(torch.full_like(beams, row), beams, results, finished=False)
                margins = margins or self.margin.tolist()
                result.note_margin(margins[row][group])
                self.closed[row][group] = True
                newly_closed.append((row, group))
        if newly_closed:
            rows, groups = torch.tensor(newly_closed, device=self.total.device).unbind(1)
            by_group = by_group.clone()
            by_group[rows, groups] = -math.inf
            self.total = by_group.flatten(1)

    def texts_of_first(self) -> list[list[int]]:
        """The first sentence's live hypotheses, without BOS."""
        texts: list[list[int]] = self.ids[0][self.total[0].isfinite()][:, 1:].tolist()
        return texts

    def drop_closed(self, step: DecodeStep, rules: Rules, parents: Tensor) -> Tensor:
        """Let closed sentences leave the batch if there are enough of them; returns the parents (B', K) of the rest."""
        rows = rows_to_keep([all(groups) for groups in self.closed])
        if rows is None:
            return parents
        self.sentences = [self.sentences[row] for row in rows]
        self.closed = [self.closed[row] for row in rows]
        kept = torch.tensor(rows, dtype=torch.long, device=parents.device)
        self.ids, self.margin = self.ids.index_select(0, kept), self.margin.index_select(0, kept)
        self.log_prob, self.total = self.log_prob.index_select(0, kept), self.total.index_select(0, kept)
        if self.coverage is not None:
            self.coverage = self.coverage.index_select(0, kept)
        if rows:
            step.select(kept)
            rules.select(kept)
        return parents.index_select(0, kept)


@dataclass
class _Results:
    """The hypotheses of one sentence that are complete, by group."""

    cfg: SearchConfig
    max_len: int
    closest: float = math.inf  # the margin of the closest decision so far
    groups: list[list[Hypothesis]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.groups = [[] for _ in range(self.cfg.beam_groups)]

    def note_margin(self, margin: float) -> None:
        self.closest = min(self.closest, margin)

    def add(self, group: int, ids: list[int], log_prob: float, total: float, coverage: float, finished: bool) -> None:
        score = total / self.cfg.divisor(len(ids) + finished) + coverage
        self.groups[group].append(Hypothesis(ids, log_prob, score, finished))

    def best(self) -> list[Hypothesis]:
        """The n best, each once, led by the best of each group; of equal ones the earlier stays ahead."""
        distinct: dict[tuple[tuple[int, ...], bool], Hypothesis] = {}
        for ranking in self._rankings()[-2:]:
            for hypothesis in ranking:
                distinct.setdefault((tuple(hypothesis.ids), hypothesis.finished), hypothesis)
        return list(distinct.values())[: self.cfg.n_best]

    def margin(self) -> float:
        """The closest decision: in the choice of extensions, in the end, or among the results."""
        gaps = [
            a.score - b.score
            for ranking in self._rankings()
            for a, b in itertools.pairwise(ranking)
            if a.finished == b.finished and a.ids != b.ids
        ]
        return min([*gaps, self.closest])

    def _rankings(self) -> list[list[Hypothesis]]:
        """What is ranked, as far as results need it: each group's hypotheses, the groups' best, all others."""
        groups = [_ranked(group)[: self.cfg.n_best + 1] for group in self.groups]
        leaders = _ranked([group[0] for group in groups if group])
        return [*groups, leaders, _ranked([hypothesis for group in groups for hypothesis in group[1:]])]

    def is_settled(self, group: int, best_live_total: float) -> bool:
        """Whether no live hypothesis can enter the n best of its group, all so far being finished.

        A total only falls, no divisor is kinder to it than that of the longest hypothesis, and coverage adds nothing.
        """
        if best_live_total == -math.inf:
            return True
        hypotheses = self.groups[group]
        if len(hypotheses) < self.cfg.n_best:
            return False
        lead = _ranked(hypotheses)[self.cfg.n_best - 1].score - best_live_total / self.cfg.divisor(self.max_len)
        self.note_margin(abs(lead))
        return lead >= 0


def _ranked(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Finished ones first, then by score."""
    return sorted(hypotheses, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))


def _top(values: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k largest of each row of values (B, N) with their positions, largest first; of equals the lower position.

    The third tensor (B,) tells by how much the last of them was ahead of the next one, inf if there is none.
    `topk` leaves open which of equals it takes, and lets that depend on the shape. So one more is asked for: if two
    neighbours are equal, that row is done again, and only that row.
    """
    best, positions = _topk(values, min(k + 1, values.size(1)))
    tied = ((best[:, 1:] == best[:, :-1]) & best[:, 1:].isfinite()).any(dim=1)
    gap = best[:, k - 1] - best[:, k] if best.size(1) > k else torch.full_like(best[:, 0], math.inf)
    gap = gap.nan_to_num(nan=math.inf, posinf=math.inf)  # -inf minus -inf: nothing left to choose from
    best, positions = best[:, :k].clone(), positions[:, :k].clone()
    for row in tied.nonzero()[:, 0].tolist():
        among = (values[row] >= best[row, -1]).nonzero()[:, 0]  # positions in rising order
        order = values[row, among].sort(descending=True, stable=True).indices[:k]
        positions[row] = among[order]
        best[row] = values[row, positions[row]]
    return best, positions, gap


def _topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`values.topk(k)` of each row of values (B, N), much faster on long rows of a CPU.

    A row is seen as _STRANDS strands of C values below each other: whatever is among its k largest values is in one of
    the k columns whose largest values are largest.
    """
    n_rows, n_columns = values.size(0), values.size(1) // _STRANDS
    if values.device.type != "cpu" or values.numel() < 16_000 or n_columns < k:
        best, positions = values.topk(k)
        return best, positions
    width = n_columns * _STRANDS
    columns = values[:, :width].view(n_rows, _STRANDS, n_columns).amax(1).topk(k, sorted=False).indices
    places = (columns[:, None, :] + torch.arange(0, width, n_columns)[:, None]).flatten(1)
    if width < values.size(1):
        places = torch.cat([places, torch.arange(width, values.size(1)).expand(n_rows, -1)], dim=1)
    best, chosen = values.gather(1, places).topk(k)
    return best, places.gather(1, chosen)


def rows_to_keep(closed: Sequence[bool]) -> list[int] | None:
    """Rows of the open sentences if the closed ones shall leave now, else None."""
    if sum(closed) < max(1, _LEAVE_SHARE * len(closed)):
        return None
    return [row for row, is_closed in enumerate(closed) if not is_closed]


def _numbers(log_prob: Tensor) -> list[float]:
    """The tensor as floats; raises MtkitError at the first NaN."""
    values: list[float] = log_prob.tolist()
    return [check_number(value) for value in values]


def check_number(value: float) -> float:
    """The value; raises MtkitError if it is not a number."""
    if math.isnan(value):
        raise MtkitError("the model's output is not a number (NaN): its weights are damaged, or its training diverged")
    return value


def _checked(max_lens: Tensor) -> list[int]:
    limits: list[int] = max_lens.tolist()
    if min(limits, default=1) < 1:
        raise ValueError(f"max_lens must be at least 1, not {min(limits)}")
    return limits
