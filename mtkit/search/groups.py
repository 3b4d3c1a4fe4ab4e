"""The groups of a sentence's beam: they collect hypotheses, choose different tokens, and merge their results."""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mtkit.search.hypothesis import Hypothesis
from mtkit.search.step import SearchConfig, SearchResult
from mtkit.search.topk import top_k


class GroupResult:
    """The complete hypotheses of one group: those that ended, and those that reached the length limit."""

    def __init__(self, cfg: SearchConfig, max_len: int) -> None:
        self.cfg = cfg
        self.max_len = max_len
        self.margin = math.inf  # of the closest decision so far, in nats
        self.is_closed = False  # True: it gets no more hypotheses
        self.hypotheses: list[Hypothesis] = []

    def add(self, ids: list[int], log_prob: float, total: float, coverage: float, finished: bool) -> None:
        """Add a hypothesis; its score is its total, normalised by its length, plus coverage."""
        score = total / self.cfg.divisor(len(ids) + finished) + coverage
        self.hypotheses.append(Hypothesis(ids, log_prob, score, finished))

    def close(self, margin: float) -> None:
        """Note that no live hypothesis is left, and by how much the closest choice of extensions was won."""
        self.is_closed = True
        self.margin = min(self.margin, margin)

    def is_settled(self, best_live_total: float) -> bool:
        """Whether no live hypothesis can enter the n best; note by how much. All hypotheses so far are finished.

        A total only falls, no divisor is larger than that of the longest hypothesis, and coverage adds nothing.
        """
        if best_live_total == -math.inf:
            return True
        if len(self.hypotheses) < self.cfg.n_best:
            return False
        best_possible = best_live_total / self.cfg.divisor(self.max_len)
        lead = ranked(self.hypotheses)[self.cfg.n_best - 1].score - best_possible
        self.margin = min(self.margin, abs(lead))
        return lead >= 0


class BeamGroups:
    """Diverse beam search (Vijayakumar et al. 2018): G groups of W hypotheses, each a separate beam.

    To a group, a token costs diversity_penalty nats for each hypothesis of the groups before it that has just chosen
    the same (Hamming diversity). This steers the choice and is not part of the score. One group is plain beam search.
    """

    def __init__(self, cfg: SearchConfig) -> None:
        self.cfg = cfg

    def choose(self, total: Tensor) -> tuple[Tensor, Tensor]:
        """Return the W best of each group's extensions, total (B G, W, V), and the gaps.

        The extensions are indices (B G, W) into the group's W V; a gap (B G,) is the lead over the best one left out.
        """
        n_groups, (_, group_size, vocab_size) = self.cfg.beam_groups, total.shape
        if n_groups == 1:
            _, chosen, gap = top_k(total.flatten(1), group_size)
            return chosen, gap
        by_group = total.view(-1, n_groups, group_size, vocab_size)
        costs = total.new_zeros(by_group.size(0), 1, vocab_size)
        choices, gaps = [], []
        for group in range(n_groups):
            best, chosen, gap = top_k((by_group[:, group] - costs).flatten(1), group_size)
            choices.append(chosen)
            gaps.append(gap)
            costs[:, 0].scatter_add_(
                1, chosen % vocab_size, self.cfg.diversity_penalty * best.isfinite().to(costs.dtype)
            )
        return torch.stack(choices, dim=1).flatten(0, 1), torch.stack(gaps, dim=1).flatten()

    def join(self, groups: Sequence[GroupResult]) -> SearchResult:
        """Return the n best of a sentence's groups, each once, led by the best of each group."""
        n_best = self.cfg.n_best
        rankings = [ranked(group.hypotheses)[: n_best + 1] for group in groups]
        leaders = ranked([ranking[0] for ranking in rankings if ranking])
        others = ranked([hypothesis for ranking in rankings for hypothesis in ranking[1:]])
        distinct: dict[tuple[tuple[int, ...], bool], Hypothesis] = {}
        for hypothesis in (*leaders, *others):
            distinct.setdefault((tuple(hypothesis.ids), hypothesis.finished), hypothesis)
        gaps = [
            a.score - b.score
            for ranking in (*rankings, leaders, others)
            for a, b in itertools.pairwise(ranking)
            if a.finished == b.finished and a.ids != b.ids
        ]
        margin = min([*gaps, *(group.margin for group in groups)])
        return SearchResult(list(distinct.values())[:n_best], margin)


def ranked(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return the finished ones first, then by score; of equal ones the earlier stays ahead."""
    return sorted(hypotheses, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
