"""Draw tokens at random instead of searching for them. A sentence's draws depend only on the seed and the sentence."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mtkit.config.decoding import DecodeConfig
from mtkit.search.rows import IndependentHypotheses
from mtkit.search.rules import NO_RULES, Rules
from mtkit.search.step import DecodeStep, SearchConfig, SearchResult, check_number

_MBR_EPSILON = 0.02  # the best sampling for minimum Bayes risk in Freitag et al. (2023)
_ROWS_AT_ONCE = 256  # their probabilities fit into the processor's cache


@dataclass(frozen=True)
class Truncation:
    """The tokens that may be drawn, by their probability after the temperature; always the likeliest and its equals."""

    temperature: float = 1.0
    top_k: int = 0  # the k likeliest (Fan et al. 2018); 0: all
    top_p: float = 1.0  # the fewest likeliest that together hold p (Holtzman et al. 2020)
    epsilon: float = 0.0  # those of at least this probability (Hewitt et al. 2022)

    @classmethod
    def from_config(cls, cfg: DecodeConfig) -> "Truncation":
        """Take the settings from the config's decode section; without limits, those for MBR get a least probability."""
        is_unlimited = cfg.top_k == 0 and cfg.top_p == 1
        return cls(cfg.temperature, cfg.top_k, cfg.top_p, _MBR_EPSILON if cfg.mbr_samples and is_unlimited else 0.0)

    def draw(self, log_probs: Tensor, uniforms: Tensor) -> Tensor:
        """Draw one token for each row of log_probs (..., V) by uniforms (...) in [0, 1); return ids (...).

        It is the token at which the running sum of the allowed probabilities passes the uniform number.
        """
        if log_probs.device.type == "mps":  # which has no float64
            return self.draw(log_probs.cpu(), uniforms.cpu()).to(log_probs.device)
        rows = torch.split(log_probs.flatten(0, -2), _ROWS_AT_ONCE)
        return torch.cat(list(map(self._draw, rows, torch.split(uniforms.flatten(), _ROWS_AT_ONCE)))).view(
            uniforms.shape
        )

    def _draw(self, log_probs: Tensor, uniforms: Tensor) -> Tensor:
        """Draw ids (N,) by log_probs (N, V) and uniforms (N,)."""
        probs = (log_probs / self.temperature).softmax(dim=-1)
        smallest = probs.new_full((probs.size(0), 1), self.epsilon)  # least allowed probability
        if 0 < self.top_k < probs.size(1):
            smallest = smallest.maximum(probs.topk(self.top_k, dim=-1).values[:, -1:])
        if self.top_p < 1:
            likely = probs.sort(dim=-1, descending=True).values
            n_allowed = (likely.cumsum(-1) - likely < self.top_p).sum(-1, keepdim=True)
            smallest = smallest.maximum(likely.gather(1, n_allowed.clamp(min=1) - 1))
        smallest = smallest.minimum(probs.amax(-1, keepdim=True))
        sums = probs.masked_fill_(probs < smallest, 0.0).cumsum(-1, dtype=torch.float64)
        total = sums[:, -1:].contiguous()
        ids = torch.searchsorted(sums, uniforms.double().unsqueeze(1) * total, right=True)
        last = torch.searchsorted(sums, total)  # where the sum is complete: for uniforms that round up to 1
        return ids.minimum(last).squeeze(1)


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
    """Return K drawn hypotheses for each sentence, in the order of drawing; the step is as in `beam_search`.

    max_lens: (B,) int64; uniforms: (B, K, longest) in [0, 1): the n-th one of its row draws a hypothesis's n-th token.
    log_prob is the model's own, without temperature and truncation.
    Raises MtkitError if the step's log-probabilities are not numbers.
    """
    live = IndependentHypotheses(max_lens, uniforms.size(1), cfg, step, rules, bos_id)
    while live.sentences:
        model_log_probs = step(live.ids[:, :, -1])
        check_number(float(model_log_probs.max()))  # a NaN anywhere is the largest
        adjusted_log_probs = rules.apply(model_log_probs, live.ids)
        last_ids = truncation.draw(adjusted_log_probs, uniforms[:, :, live.ids.size(2) - 1][live.sentences])
        log_prob = live.log_prob + model_log_probs.gather(2, last_ids.unsqueeze(2)).squeeze(2)
        live.extend(last_ids, log_prob, log_prob, eos_id)
    # The margin stays infinite: a draw differs in another batch only if, within rounding error, a uniform number meets
    # the edge of a token's share, or a probability meets epsilon or the edge of top_k or top_p. That is rare.
    return live.results()


def uniform_numbers(seed: int, src_ids: Sequence[Sequence[int]], n_draws: int, max_lens: Sequence[int]) -> Tensor:
    """Return numbers in [0, 1) for each sentence's draws, (B, n_draws, longest limit), float64.

    A sentence's numbers depend only on the seed and its ids; a larger n_draws adds rows and changes none.
    """
    uniforms = np.zeros((len(src_ids), n_draws, max(max_lens, default=0)))
    for row, (ids, max_len) in enumerate(zip(src_ids, max_lens, strict=True)):
        digest = hashlib.sha256(np.asarray(ids, dtype=np.int64).tobytes()).digest()
        key = int.from_bytes(digest[:8], "little")
        generator = np.random.Generator(np.random.Philox(key=np.array([seed, key], dtype=np.uint64)))
        uniforms[row, :, :max_len] = generator.random((n_draws, max_len))
    return torch.from_numpy(uniforms)
