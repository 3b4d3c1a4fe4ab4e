"""What changes or forbids next tokens: least length, forced beginnings, repeated n-grams, penalties on repetition."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from mtkit.config.schema import DecodeConfig
from mtkit.search.hypothesis import Segment


class Rule(Protocol):
    """One reason to like or dislike next tokens."""

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        """Change log_probs (B, K, V) of what follows the hypotheses ids (B, K, 1 + n), BOS first, in place."""
        ...

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current numbers."""
        ...


@dataclass
class Rules:
    """Rules one after the other. What they leave no token at all to ends, with the model's own log-prob of EOS."""

    rules: Sequence[Rule] = field(default_factory=list)
    eos_id: int = 0

    def apply(self, log_probs: Tensor, ids: Tensor) -> Tensor:
        """The log-probabilities under the rules: log_probs itself if there are none, else a new tensor."""
        if not self.rules:
            return log_probs
        ruled = log_probs.clone()
        for rule in self.rules:
            rule(ruled, ids)
        nothing_left = (ruled == -math.inf).all(dim=2)
        if nothing_left.any():
            ruled[..., self.eos_id] = torch.where(nothing_left, log_probs[..., self.eos_id], ruled[..., self.eos_id])
        return ruled

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current numbers."""
        for rule in self.rules:
            rule.select(sentences)


NO_RULES = Rules()


class RepetitionPenalty:
    """Multiplies the log-probabilities of tokens that the hypothesis holds already, which makes them unlikelier."""

    def __init__(self, penalty: float) -> None:
        self.penalty = penalty

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        """As every rule: log_probs (B, K, V) change in place for ids (B, K, 1 + n)."""
        used = ids[:, :, 1:]
        log_probs.scatter_(2, used, log_probs.gather(2, used) * self.penalty)

    def select(self, sentences: Tensor) -> None:
        """Nothing to drop."""


class NoRepeatNgram:
    """Forbids a token that would complete an n-gram which the hypothesis holds already."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        """As every rule: log_probs (B, K, V) change in place for ids (B, K, 1 + n)."""
        tokens = ids[:, :, 1:]
        if tokens.size(2) < self.n:
            return
        if self.n == 1:
            log_probs.scatter_(2, tokens, -math.inf)
            return
        contexts = tokens[:, :, :-1].unfold(2, self.n - 1, 1)  # (B, K, W, n - 1); token n - 1 + w follows context w
        latest = tokens[:, :, None, tokens.size(2) - self.n + 1 :]
        seen = (contexts == latest).all(dim=3)  # (B, K, W)
        rows, beams, windows = seen.nonzero().unbind(1)
        log_probs[rows, beams, tokens[rows, beams, windows + self.n - 1]] = -math.inf

    def select(self, sentences: Tensor) -> None:
        """Nothing to drop."""


class MinLength:
    """Forbids EOS before the hypothesis has as many tokens as its sentence asks for."""

    def __init__(self, min_lens: Tensor, eos_id: int) -> None:
        self.min_lens = min_lens  # (B,)
        self.eos_id = eos_id

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        """As every rule: log_probs (B, K, V) change in place for ids (B, K, 1 + n)."""
        log_probs[:, :, self.eos_id].masked_fill_((self.min_lens > ids.size(2) - 1)[:, None], -math.inf)

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these."""
        self.min_lens = self.min_lens.index_select(0, sentences)


class ForcedPrefix:
    """Forbids all but the next token of the beginning that a sentence's translation must have."""

    def __init__(self, prefixes: Tensor, none_id: int = -1) -> None:
        self.prefixes = prefixes  # (B, longest); none_id where a prefix has ended
        self.none_id = none_id

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        """As every rule: log_probs (B, K, V) change in place for ids (B, K, 1 + n)."""
        position = ids.size(2) - 1
        if position >= self.prefixes.size(1):
            return
        wanted = self.prefixes[:, position]
        others = torch.arange(log_probs.size(2), device=wanted.device) != wanted[:, None]
        others &= (wanted != self.none_id)[:, None]
        log_probs.masked_fill_(others[:, None], -math.inf)

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these."""
        self.prefixes = self.prefixes.index_select(0, sentences)


def make_rules(cfg: DecodeConfig, segments: Sequence[Segment], eos_id: int, device: torch.device) -> Rules:
    """The rules that the config and the segments ask for. A forced prefix outranks the others."""
    rules: list[Rule] = []
    if cfg.repetition_penalty != 1:
        rules.append(RepetitionPenalty(cfg.repetition_penalty))
    if cfg.no_repeat_ngram:
        rules.append(NoRepeatNgram(cfg.no_repeat_ngram))
    if any(segment.min_len for segment in segments):
        # room for EOS: a limit that is reached before the least length is the stronger of the two
        min_lens = [min(segment.min_len, segment.max_len - 1) for segment in segments]
        rules.append(MinLength(torch.tensor(min_lens, device=device), eos_id))
    if longest := max((len(segment.prefix) for segment in segments), default=0):
        rows = [[*segment.prefix, *[-1] * (longest - len(segment.prefix))] for segment in segments]
        prefix = ForcedPrefix(torch.tensor(rows, device=device))
        return Rules([_Outranked(rules, prefix), prefix], eos_id) if rules else Rules([prefix], eos_id)
    return Rules(rules, eos_id)


class _Outranked:
    """Rules that hold only where no prefix is forced: else they could forbid, or change, what it demands."""

    def __init__(self, rules: Sequence[Rule], prefix: ForcedPrefix) -> None:
        self.rules = rules
        self.prefix = prefix

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        """As every rule: log_probs (B, K, V) change in place for ids (B, K, 1 + n)."""
        position = ids.size(2) - 1
        own = log_probs.clone() if position < self.prefix.prefixes.size(1) else None
        for rule in self.rules:
            rule(log_probs, ids)
        if own is not None:
            forced = self.prefix.prefixes[:, position] != self.prefix.none_id
            log_probs.copy_(torch.where(forced[:, None, None], own, log_probs))

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these, also in the rules."""
        for rule in self.rules:
            rule.select(sentences)
