"""Tokens drawn at random instead of searched for. A sentence's draws depend on the seed and on the sentence alone."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mtkit.config.schema import DecodeConfig
from mtkit.decoding.engine import Hypothesis
from mtkit.decoding.rules import NO_RULES, Rules
from mtkit.decoding.search import DecodeStep, SearchConfig, SearchResult, check_number, rows_to_keep


@dataclass(frozen=True)
class Truncation:
    """Which tokens may be drawn, by their probability after the temperature; the likeliest one always may."""

    temperature: float = 1.0
    top_k: int = 0  # the k likeliest (Fan et al. 2018); 0: all
    top_p: float = 1.0  # the fewest likeliest that together hold p (Holtzman et al. 2020)
    epsilon: float = 0.0  # those of at least this probability (Hewitt et al. 2022)

    @classmethod
    def of(cls, cfg: DecodeConfig) -> "Truncation":
        """What the config's decode section says."""
        return cls(cfg.temperature, cfg.top_k, cfg.top_p, cfg.epsilon)

    def draw(self, log_probs: Tensor, uniforms: Tensor) -> Tensor:
        """One token for each row: log_probs (..., V), uniforms (...) in [0, 1). Returns ids (...).

        The tokens stand in order of probability, the likelier first and of equals the lower id; the one drawn is where
        their running sum passes the uniform number.
        """
        sorted_logs, ids = (log_probs.double() / self.temperature).sort(dim=-1, descending=True, stable=True)
        probs = sorted_logs.softmax(dim=-1)
        before = probs.cumsum(-1) - probs  # what the likelier ones hold together
        allowed = (before < self.top_p) & (probs >= self.epsilon)
        if self.top_k:
            allowed[..., self.top_k :] = False
        allowed[..., 0] = True
        sums = (probs * allowed).cumsum(-1)
        place = (sums <= uniforms.double().unsqueeze(-1) * sums[..., -1:]).sum(-1, keepdim=True)
        last_allowed = allowed.sum(-1, keepdim=True) - 1  # the allowed ones come first
        return ids.gather(-1, place.minimum(last_allowed)).squeeze(-1)


def sample(
    step: DecodeStep,
    max_lens: Tensor,
    cfg: SearchConfig,
    truncation: Truncation,
    uniforms: Tensor,
    *,
    bos_id: int,
    eos_id: int,
    rules: Rules = NO_RULES,
) -> list[SearchResult]:
    """K drawn hypotheses for each sentence, in the order of drawing; a step as for `beam_search`.

    max_lens: (B,) int64; uniforms: (B, K, longest) numbers in [0, 1): the n-th token of a hypothesis is drawn with the
    n-th of its row. log_prob is the model's own, without temperature and truncation.
    Raises MtkitError if the step's log-probabilities are not numbers.
    """
    limits: list[int] = max_lens.tolist()
    n_sentences, n_draws, _ = uniforms.shape
    found: list[list[Hypothesis | None]] = [[None] * n_draws for _ in limits]
    sentences = list(range(n_sentences))
    ids = torch.full((n_sentences, n_draws, 1), bos_id, device=max_lens.device)
    log_prob = torch.zeros(n_sentences, n_draws, device=max_lens.device)
    while sentences:
        n_tokens = ids.size(2)
        own = step(ids[:, :, -1])
        last_ids = truncation.draw(rules.apply(own, ids), uniforms[:, :, n_tokens - 1])
        log_prob = log_prob + own.gather(2, last_ids.unsqueeze(2)).squeeze(2)
        ids = torch.cat([ids, last_ids.unsqueeze(2)], dim=2)
        _collect(found, sentences, limits, ids, log_prob, cfg, eos_id)
        rows = rows_to_keep([None not in found[sentence] for sentence in sentences])
        if rows is not None:
            sentences = [sentences[row] for row in rows]
            kept = torch.tensor(rows, dtype=torch.long, device=ids.device)
            ids, log_prob, uniforms = (x.index_select(0, kept) for x in (ids, log_prob, uniforms))
            if rows:
                step.keep(kept)
                rules.keep(kept)
    # a draw is never close: the same numbers decide it in any batch, but for a uniform at the very edge of a token
    return [SearchResult([h for h in draws if h is not None], float("inf")) for draws in found]


def _collect(
    found: list[list[Hypothesis | None]],
    sentences: Sequence[int],
    limits: Sequence[int],
    ids: Tensor,
    log_prob: Tensor,
    cfg: SearchConfig,
    eos_id: int,
) -> None:
    """Note the hypotheses that have just ended, or reached their sentence's limit."""
    n_tokens = ids.size(2) - 1
    for row, (last_ids, values) in enumerate(zip(ids[:, :, -1].tolist(), log_prob.tolist(), strict=True)):
        draws = found[sentences[row]]
        for k, (last_id, value) in enumerate(zip(last_ids, values, strict=True)):
            finished = last_id == eos_id
            if draws[k] is None and (finished or n_tokens == limits[sentences[row]]):
                text_ids = ids[row, k, 1 : n_tokens if finished else None].tolist()
                draws[k] = Hypothesis(text_ids, check_number(value), value / cfg.divisor(n_tokens), finished)


def uniform_numbers(seed: int, src_ids: Sequence[Sequence[int]], n_draws: int, max_lens: Sequence[int]) -> Tensor:
    """Numbers in [0, 1) for each sentence's draws, (B, n_draws, longest limit), float64.

    A sentence's numbers come from the seed and its ids alone; a larger n_draws adds rows and changes none.
    """
    numbers = np.zeros((len(src_ids), n_draws, max(max_lens, default=0)))
    for row, (ids, max_len) in enumerate(zip(src_ids, max_lens, strict=True)):
        digest = hashlib.sha256(np.asarray(ids, dtype=np.int64).tobytes()).digest()
        key = int.from_bytes(digest[:8], "little")
        generator = np.random.Generator(np.random.Philox(key=np.array([seed, key], dtype=np.uint64)))
        numbers[row, :, :max_len] = generator.random((n_draws, max_len))
    return torch.from_numpy(numbers)
