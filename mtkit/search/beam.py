"""Greedy and beam search: a step function in (last ids to log-probabilities), hypotheses of each sentence out.

The search never sees a model. It keeps B sentences with K hypotheses each as tensors; a sentence's result does not
depend on what else is in the batch.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mtkit.search.greedy import greedy
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.rules import NO_RULES, Rules
from mtkit.search.step import DecodeStep, SearchConfig, SearchResult, check_number, checked_limits, rows_to_keep
from mtkit.search.topk import top_k

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
    results = [_Results(cfg, max_len) for max_len in checked_limits(max_lens)]
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
            best, candidates, gap = top_k(own.flatten(1), width)
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
