"""Greedy search: a step function in, the likeliest token at each position out."""

import math

import torch
from torch import Tensor

from mtkit.search.hypothesis import Hypothesis
from mtkit.search.rules import NO_RULES, Rules
from mtkit.search.step import DecodeStep, SearchConfig, SearchResult, check_number, checked_limits, rows_to_keep
from mtkit.search.topk import top_k


def greedy(
    step: DecodeStep, max_lens: Tensor, cfg: SearchConfig, *, bos_id: int, eos_id: int, rules: Rules = NO_RULES
) -> list[SearchResult]:
    """One hypothesis per sentence: the likeliest token at each position. The result of `beam_search` with K = 1."""
    limits = checked_limits(max_lens)
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
        best, positions, gap = top_k(ruled[:, 0].add_(total[:, None]), 1)  # a tie: the lower id
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


def _numbers(log_prob: Tensor) -> list[float]:
    """The tensor as floats; raises MtkitError at the first NaN."""
    values: list[float] = log_prob.tolist()
    return [check_number(value) for value in values]
