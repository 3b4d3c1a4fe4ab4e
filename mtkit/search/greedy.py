"""Greedy search: choose the likeliest token at each position of each sentence."""

import torch
from torch import Tensor

from mtkit.search.rows import IndependentHypotheses
from mtkit.search.rules import NO_RULES, Rules
from mtkit.search.step import DecodeStep, SearchConfig, SearchResult
from mtkit.search.topk import top_k


def greedy(
    step: DecodeStep, max_lens: Tensor, cfg: SearchConfig, *, bos_id: int, eos_id: int, rules: Rules = NO_RULES
) -> list[SearchResult]:
    """Return one hypothesis per sentence: the likeliest token at each position, as `beam_search` does with K = 1."""
    live = IndependentHypotheses(max_lens, 1, cfg, step, rules, bos_id)
    while live.sentences:
        likeliest = live.likeliest(live.ids[:, :, -1], 2)
        if likeliest is not None:
            log_probs, ids = likeliest
            totals = log_probs[:, 0] + live.total
            live.margin = torch.minimum(live.margin, totals[:, 0] - totals[:, 1])
            live.extend(ids[:, 0, :1], totals[:, :1], totals[:, :1], eos_id)
            continue
        model_log_probs = step(live.ids[:, :, -1])
        adjusted_log_probs = rules.apply(model_log_probs, live.ids)
        # The best total, not the best log-prob: rounding can make two totals equal, and beam search compares totals.
        total, last_ids, gap = top_k(adjusted_log_probs[:, 0].add_(live.total), 1)  # a tie: the lower id
        if adjusted_log_probs is model_log_probs:
            log_prob = total
        else:
            log_prob = live.log_prob + model_log_probs[:, 0].gather(1, last_ids)
        live.margin = torch.minimum(live.margin, gap.to(live.margin.dtype))
        live.extend(last_ids, log_prob, total, eos_id)
    return live.results()
