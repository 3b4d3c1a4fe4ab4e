"""The bookkeeping that searches share: the sentence at each row of a batch, and when finished sentences leave."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mtkit.search.hypothesis import Hypothesis
from mtkit.search.rules import Rules
from mtkit.search.step import ChoosingStep, DecodeStep, SearchConfig, SearchResult, check_number

_LEAVE_SHARE = 0.25  # finished sentences leave the batch at this share: every copy costs, idle rows cost too


class Rows:
    """The sentences of a batch, one per row. A finished sentence keeps its row until enough of them can leave."""

    def __init__(self, max_lens: Tensor, step: DecodeStep, rules: Rules) -> None:
        """max_lens: (B,) int64, the most tokens of each sentence's hypotheses, EOS counted; at least 1."""
        self.limits: list[int] = max_lens.tolist()  # of all sentences
        if min(self.limits, default=1) < 1:
            raise ValueError(f"max_lens must be at least 1, not {min(self.limits)}")
        self.sentences = list(range(len(self.limits)))  # the index of each row's sentence
        self.device = max_lens.device
        self.step = step
        self.rules = rules
        self._chooses = not rules.rules and isinstance(step, ChoosingStep)

    def likeliest(self, last_ids: Tensor, n: int) -> tuple[Tensor, Tensor] | None:
        """See `ChoosingStep`; None also where rules have to change log-probabilities first."""
        return self.step.likeliest(last_ids, n) if self._chooses else None  # type: ignore[attr-defined]

    def drop(self, is_done: Sequence[bool]) -> Tensor | None:
        """Let the rows that are done leave if they are a quarter of all; return the rows that stay (B',), else None."""
        if sum(is_done) < max(1, _LEAVE_SHARE * len(is_done)):
            return None
        rows = [row for row, done in enumerate(is_done) if not done]
        self.sentences = [self.sentences[row] for row in rows]
        selected = torch.tensor(rows, dtype=torch.long, device=self.device)
        if rows:
            self.step.select(selected)
            self.rules.select(selected)
        return selected


class IndependentHypotheses(Rows):
    """K hypotheses for each sentence, each extended by one token a step, whatever the others do."""

    def __init__(
        self, max_lens: Tensor, n_hypotheses: int, cfg: SearchConfig, step: DecodeStep, rules: Rules, bos_id: int
    ) -> None:
        super().__init__(max_lens, step, rules)
        n_sentences = len(self.limits)
        self.cfg = cfg
        self.ids = torch.full((n_sentences, n_hypotheses, 1), bos_id, device=self.device)  # (B, K, 1 + n), BOS first
        self.log_prob = torch.zeros(n_sentences, n_hypotheses, device=self.device)  # (B, K), the model's
        self.total = self.log_prob  # (B, K), as adjusted by the rules
        self.margin = torch.full((n_sentences,), math.inf, device=self.device)
        self._done: list[list[Hypothesis | None]] = [[None] * n_hypotheses for _ in self.limits]
        self._margins = [math.inf] * n_sentences

    def extend(self, last_ids: Tensor, log_prob: Tensor, total: Tensor, eos_id: int) -> None:
        """Append last_ids (B, K), note the hypotheses that are now complete, and let finished sentences leave."""
        self.log_prob, self.total = log_prob, total
        self.ids = torch.cat([self.ids, last_ids.unsqueeze(2)], dim=2)
        n_tokens = self.ids.size(2) - 1
        values: list[list[float]] = total.tolist()
        check_number(sum(map(sum, values)))  # none is +inf: the sum is NaN only if one of them is
        any_complete = False
        for row, (sentence, tokens) in enumerate(zip(self.sentences, last_ids.tolist(), strict=True)):
            at_limit = n_tokens == self.limits[sentence]
            if not at_limit and eos_id not in tokens:
                continue
            for k, token in enumerate(tokens):
                finished = token == eos_id
                if self._done[sentence][k] is None and (finished or at_limit):
                    ids = self.ids[row, k, 1 : n_tokens if finished else None].tolist()
                    score = values[row][k] / self.cfg.divisor(n_tokens)
                    self._done[sentence][k] = Hypothesis(ids, float(log_prob[row, k]), score, finished)
                    self._margins[sentence] = float(self.margin[row])
                    any_complete = True
        if any_complete:
            self._compact()

    def _compact(self) -> None:
        """Let finished sentences leave the batch if there are enough of them."""
        rows = self.drop([None not in self._done[sentence] for sentence in self.sentences])
        if rows is not None:
            self.ids, self.margin = self.ids.index_select(0, rows), self.margin.index_select(0, rows)
            self.log_prob, self.total = self.log_prob.index_select(0, rows), self.total.index_select(0, rows)

    def results(self) -> list[SearchResult]:
        """Return each sentence's hypotheses in the order of their places."""
        hypotheses = ([h for h in done if h is not None] for done in self._done)
        return list(map(SearchResult, hypotheses, self._margins))
