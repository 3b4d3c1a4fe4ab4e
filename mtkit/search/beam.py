"""Beam search: find the best hypotheses of each sentence with a step function from last ids to log-probabilities.

The search never sees a model. It keeps K hypotheses for each of B sentences as tensors; a sentence's result does not
depend on the rest of its batch.
"""

import math

import torch
from torch import Tensor

from mtkit.search.greedy import greedy
from mtkit.search.groups import BeamGroups, GroupResult
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.rows import Rows
from mtkit.search.rules import NO_RULES, Rules
from mtkit.search.step import DecodeStep, SearchConfig, SearchResult, check_number


def search(
    step: DecodeStep, max_lens: Tensor, cfg: SearchConfig, *, bos_id: int, eos_id: int, rules: Rules = NO_RULES
) -> list[SearchResult]:
    """Run greedy search for beam_size 1, beam search for more; arguments and result as in `beam_search`."""
    method = greedy if cfg.beam_size == 1 and not cfg.coverage_penalty else beam_search
    return method(step, max_lens, cfg, bos_id=bos_id, eos_id=eos_id, rules=rules)


def beam_search(
    step: DecodeStep, max_lens: Tensor, cfg: SearchConfig, *, bos_id: int, eos_id: int, rules: Rules = NO_RULES
) -> list[SearchResult]:
    """Return up to n_best hypotheses per sentence, best score first; finished ones come before unfinished ones.

    max_lens: (B,) int64, the most tokens of each sentence's hypotheses, EOS counted; it fixes B and the device.

    At each position the best K extensions of the live hypotheses stay; those that chose EOS among them leave the beam
    as finished (so that K = 1 is greedy search), and the next position fills the beam again from the others. A sentence
    is done when no continuation of a live hypothesis can reach its n-th best finished score. Equal scores: the
    hypothesis finished earlier wins, then the lower token id.

    With beam_groups the K places are split: each group is a separate beam that ends by itself (see `BeamGroups`).

    Raises MtkitError if the step's log-probabilities are not numbers.
    """
    beams = BeamSearch(step, max_lens, cfg, bos_id=bos_id, eos_id=eos_id, rules=rules)
    while beams.sentences:
        beams.advance()
    return beams.results()


class BeamSearch(Rows):
    """A beam search that its caller advances token by token.

    A beam is one group of one sentence: G beams of W hypotheses for each sentence, K = G W. The total of an empty
    place is -inf.
    """

    def __init__(
        self, step: DecodeStep, max_lens: Tensor, cfg: SearchConfig, *, bos_id: int, eos_id: int, rules: Rules
    ) -> None:
        """Take the arguments of `beam_search`."""
        super().__init__(max_lens, step, rules)
        self.cfg = cfg
        self.eos_id = eos_id
        self._groups = BeamGroups(cfg)
        self._results = [[GroupResult(cfg, limit) for _ in range(cfg.beam_groups)] for limit in self.limits]
        shape = len(self.limits) * cfg.beam_groups, cfg.group_size
        self._ids = torch.full((*shape, 1), bos_id, device=self.device)  # (B G, W, 1 + n), BOS first
        self._total = torch.full(shape, -math.inf, device=self.device)  # (B G, W), as adjusted by the rules
        self._total[:, 0] = 0.0  # one hypothesis a beam to begin with; equal ones would stay equal
        self._log_prob = self._total  # (B G, W), the model's
        self._margin = torch.full(shape[:1], math.inf, device=self.device)  # (B G,), of the closest choice so far
        self._coverage: Tensor | None = None  # (B G, W, S), the attention that each source token has got
        self._first_places = torch.arange(0, cfg.beam_size, cfg.group_size, device=self.device)[:, None]  # (G, 1)

    @property
    def _beams(self) -> list[GroupResult]:
        """The results of the beams in the batch."""
        return [result for sentence in self.sentences for result in self._results[sentence]]

    def advance(self) -> None:
        """Extend every live hypothesis by one token."""
        parents = self._expand()
        self._finish()
        self._close()
        self._compact(parents)

    def results(self) -> list[SearchResult]:
        """Return the result of each sentence."""
        return [self._groups.join(groups) for groups in self._results]

    def contenders(self) -> list[Hypothesis]:
        """Return the live and complete hypotheses of the only sentence; one of them leads to the final result."""
        live = self._total.isfinite()
        n_tokens = self._ids.size(2) - 1
        columns = self._ids[live][:, 1:].tolist(), self._log_prob[live].tolist(), self._total[live].tolist()
        hypotheses = [
            Hypothesis(ids, log_prob, total / self.cfg.divisor(n_tokens), False)
            for ids, log_prob, total in zip(*columns, strict=True)
        ]
        return hypotheses + [hypothesis for group in self._results[0] for hypothesis in group.hypotheses]

    @property
    def _last_ids(self) -> Tensor:
        """The newest token of each hypothesis (B, K)."""
        return self._by_sentence(self._ids)[:, :, -1]

    def _by_sentence(self, x: Tensor) -> Tensor:
        """View x (B G, W, ...) as (B, K, ...)."""
        return x.view(len(self.sentences), self.cfg.beam_size, *x.shape[2:])

    def _expand(self) -> Tensor:
        """Replace the hypotheses by the best extensions of each beam; return the parent of each (B G, W)."""
        n_likeliest = self.cfg.group_size + 1  # one more than can be chosen: the margin is the lead over it
        likeliest = self.likeliest(self._last_ids, n_likeliest) if self.cfg.beam_groups == 1 else None
        parents, last_ids, gap = self._choose() if likeliest is None else self._choose_among(*likeliest)
        self._margin = torch.minimum(self._margin, gap.to(self._margin.dtype))
        prefixes = self._ids.gather(1, parents.unsqueeze(2).expand_as(self._ids))
        self._ids = torch.cat([prefixes, last_ids.unsqueeze(2)], dim=2)
        if self.cfg.coverage_penalty:
            attention = self.step.attention().reshape(*self._total.shape, -1)
            coverage = attention if self._coverage is None else self._coverage + attention
            self._coverage = coverage.gather(1, parents.unsqueeze(2).expand_as(coverage))
        return parents

    def _choose_among(self, log_probs: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Choose among the likeliest tokens of each hypothesis, (B, W, N) each; set the totals of the chosen.

        Returns their parents and their tokens, (B, W), and the lead (B,) over the best one left out.
        """
        total = log_probs + self._total.unsqueeze(2)
        flat_indices, gap = self._groups.choose(total)
        self._total = self._log_prob = total.flatten(1).gather(1, flat_indices)
        return flat_indices // total.size(2), tokens.flatten(1).gather(1, flat_indices), gap

    def _choose(self) -> tuple[Tensor, Tensor, Tensor]:
        """Do the same for each group, (B G, W) and (B G,), with all tokens, as the rules adjust them."""
        model_log_probs = self.step(self._last_ids)
        adjusted_log_probs = self.rules.apply(model_log_probs, self._by_sentence(self._ids))
        by_beam = (*self._total.shape, -1)
        log_prob = None
        if adjusted_log_probs is not model_log_probs:
            log_prob = model_log_probs.reshape(by_beam) + self._log_prob.unsqueeze(2)
        # in place: the largest tensor of a step needs no second copy
        total = adjusted_log_probs.reshape(by_beam).add_(self._total.unsqueeze(2))
        flat_indices, gap = self._groups.choose(total)
        self._total = total.flatten(1).gather(1, flat_indices)
        self._log_prob = self._total if log_prob is None else log_prob.flatten(1).gather(1, flat_indices)
        return flat_indices // total.size(2), flat_indices % total.size(2), gap

    def _finish(self) -> None:
        """Move the hypotheses that chose EOS from the beams to their results."""
        ended = (self._ids[:, :, -1] == self.eos_id) & self._total.isfinite()
        if self._add(ended, finished=True):
            self._total = self._total.masked_fill(ended, -math.inf)

    def _add(self, chosen: Tensor, *, finished: bool) -> bool:
        """Add the chosen hypotheses, True in (B G, W), to the results; return whether there are any."""
        rows, places = chosen.nonzero().unbind(1)
        if not rows.numel():
            return False
        beams, coverage = self._beams, self._coverage_scores(rows, places)
        columns = (x[rows, places].tolist() for x in (self._ids, self._log_prob, self._total))
        for row, ids, log_prob, total, covered in zip(rows.tolist(), *columns, coverage, strict=True):
            beams[row].add(ids[1:-1] if finished else ids[1:], log_prob, total, covered, finished)
        return True

    def _coverage_scores(self, rows: Tensor, places: Tensor) -> list[float]:
        """Return beta x the sum over source tokens of log(min(attention, 1)); Wu et al. 2016, eq. 14. At most 0."""
        if self._coverage is None:
            return [0.0] * rows.numel()
        attention = self._coverage[rows, places][:, self.cfg.n_tags :]
        # padding got no attention at all, which is not the same as too little
        logs = attention.clamp(max=1.0).log().masked_fill(attention == 0, 0.0)
        scores: list[float] = (self.cfg.coverage_penalty * logs.sum(1)).tolist()
        return scores

    def _close(self) -> None:
        """Empty the beams that have reached their length limit, or whose result can no longer change."""
        n_tokens = self._ids.size(2) - 1
        beams = list(zip(self._beams, map(check_number, self._total.amax(1).tolist()), strict=True))
        if full := [row for row, (beam, _) in enumerate(beams) if n_tokens == beam.max_len]:
            chosen = torch.zeros_like(self._total, dtype=torch.bool)
            chosen[full] = True
            self._add(chosen & self._total.isfinite(), finished=False)
        closing = [
            row
            for row, (beam, best) in enumerate(beams)
            if not beam.is_closed and (n_tokens == beam.max_len or beam.is_settled(best))
        ]
        if closing:
            rows = torch.tensor(closing, device=self.device)
            for row, margin in zip(closing, self._margin[rows].tolist(), strict=True):
                beams[row][0].close(margin)
            self._total = self._total.index_fill(0, rows, -math.inf)

    def _compact(self, parents: Tensor) -> None:
        """Let finished sentences leave the batch if enough are finished; let the step continue the parents."""
        rows = self.drop([all(group.is_closed for group in self._results[sentence]) for sentence in self.sentences])
        if rows is not None:
            groups = torch.arange(self.cfg.beam_groups, device=self.device)
            rows = (rows[:, None] * len(groups) + groups).flatten()
            parents, self._ids, self._margin = (x.index_select(0, rows) for x in (parents, self._ids, self._margin))
            self._log_prob, self._total = self._log_prob.index_select(0, rows), self._total.index_select(0, rows)
            if self._coverage is not None:
                self._coverage = self._coverage.index_select(0, rows)
        if self.sentences:
            if self.cfg.beam_groups > 1:  # the parents' places among all K of the sentence
                parents = parents + self._first_places.repeat(len(self.sentences), 1)
            self.step.reorder(self._by_sentence(parents))
