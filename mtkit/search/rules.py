"""Rules that adjust or forbid next tokens: least length, forced beginnings, repeated n-grams, repetition penalty,
tokens that must appear once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mtkit.config.decoding import DecodeConfig
from mtkit.search.hypothesis import Segment

_NO_ID = -1  # in place of a token


class Rule:
    """A change of the log-probabilities of next tokens."""

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        """Change, in place, log_probs (B, K, V) of the token after the hypotheses ids (B, K, 1 + n), BOS first."""
        raise NotImplementedError

    def select(self, sentences: Tensor) -> None:
        """Keep only these sentences (B',), given by their current indices."""


@dataclass
class Rules:
    """Rules to apply in order. A hypothesis left without any token ends, with the model's log-probability of EOS."""

    rules: Sequence[Rule] = field(default_factory=list)
    eos_id: int = 0

    def apply(self, log_probs: Tensor, ids: Tensor) -> Tensor:
        """Return the adjusted log-probabilities: log_probs itself if there are no rules, else a new tensor."""
        if not self.rules:
            return log_probs
        adjusted = log_probs.clone()
        for rule in self.rules:
            rule(adjusted, ids)
        nothing_left = (adjusted == -math.inf).all(dim=2)
        if nothing_left.any():
            eos = adjusted[..., self.eos_id]
            adjusted[..., self.eos_id] = torch.where(nothing_left, log_probs[..., self.eos_id], eos)
        return adjusted

    def select(self, sentences: Tensor) -> None:
        """Keep only these sentences (B',), given by their current indices."""
        for rule in self.rules:
            rule.select(sentences)


NO_RULES = Rules()


class RepetitionPenalty(Rule):
    """Multiply the log-probabilities of tokens that the hypothesis already contains, which makes them unlikelier."""

    def __init__(self, penalty: float) -> None:
        self.penalty = penalty

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        """See `Rule`."""
        used = ids[:, :, 1:]
        log_probs.scatter_(2, used, log_probs.gather(2, used) * self.penalty)


class NoRepeatNgram(Rule):
    """Forbid a token that would complete an n-gram which the hypothesis already contains."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        """See `Rule`."""
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


class MinLength(Rule):
    """Forbid EOS before the hypothesis has the least length of its sentence."""

    def __init__(self, min_lens: Tensor, eos_id: int) -> None:
        self.min_lens = min_lens  # (B,)
        self.eos_id = eos_id

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        """See `Rule`."""
        log_probs[:, :, self.eos_id].masked_fill_((self.min_lens > ids.size(2) - 1)[:, None], -math.inf)

    def select(self, sentences: Tensor) -> None:
        """See `Rule`."""
        self.min_lens = self.min_lens.index_select(0, sentences)


class ForcedPrefix(Rule):
    """Forbid all but the next token of a sentence's forced prefix."""

    def __init__(self, prefixes: Tensor) -> None:
        self.prefixes = prefixes  # (B, longest); _NO_ID after a prefix's end

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        """See `Rule`."""
        position = ids.size(2) - 1
        if position >= self.prefixes.size(1):
            return
        forced = self.prefixes[:, position]
        others = torch.arange(log_probs.size(2), device=forced.device) != forced[:, None]
        others &= (forced != _NO_ID)[:, None]
        log_probs.masked_fill_(others[:, None], -math.inf)

    def select(self, sentences: Tensor) -> None:
        """See `Rule`."""
        self.prefixes = self.prefixes.index_select(0, sentences)


class Once(Rule):
    """Let each of a sentence's tokens `once` appear exactly once, and those of `never` not at all.

    EOS has to wait for them, and where the room up to the length limit is only just enough, they come next.
    """

    def __init__(self, segments: Sequence[Segment], eos_id: int, device: torch.device) -> None:
        tokens = sorted({token for segment in segments for token in (*segment.once, *segment.never)})
        self.tokens = torch.tensor(tokens, device=device)  # (M,)
        self.is_asked = torch.tensor([[token in s.once for token in tokens] for s in segments], device=device)
        self.may_appear = torch.tensor(  # (B, M); another sentence's tokens may appear, if this one does not say
            [[token in s.once or token not in s.never for token in tokens] for s in segments], device=device
        )
        self.max_lens = torch.tensor([segment.max_len for segment in segments], device=device)  # (B,), EOS counted
        self.eos_id = eos_id

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        """See `Rule`."""
        used = (ids.unsqueeze(3) == self.tokens).any(dim=2)  # (B, K, M)
        asked = self.is_asked.unsqueeze(1)
        waiting = asked & ~used
        n_waiting = waiting.sum(dim=2)  # (B, K)
        room = self.max_lens[:, None] - (ids.size(2) - 1)
        is_tight = ((n_waiting > 0) & (n_waiting + 1 >= room)).unsqueeze(2)
        may_come = torch.where(is_tight | asked, waiting, self.may_appear.unsqueeze(1))
        own = log_probs[:, :, self.tokens].masked_fill(~may_come, -math.inf)
        log_probs.masked_fill_(is_tight, -math.inf)
        log_probs[:, :, self.tokens] = own
        log_probs[:, :, self.eos_id].masked_fill_(n_waiting > 0, -math.inf)

    def select(self, sentences: Tensor) -> None:
        """See `Rule`."""
        self.is_asked = self.is_asked.index_select(0, sentences)
        self.may_appear = self.may_appear.index_select(0, sentences)
        self.max_lens = self.max_lens.index_select(0, sentences)


def make_rules(cfg: DecodeConfig, segments: Sequence[Segment], eos_id: int, device: torch.device) -> Rules:
    """Make the rules of the config and the segments. A forced prefix outranks the others."""
    rules: list[Rule] = []
    if cfg.repetition_penalty != 1:
        rules.append(RepetitionPenalty(cfg.repetition_penalty))
    if cfg.no_repeat_ngram:
        rules.append(NoRepeatNgram(cfg.no_repeat_ngram))
    if any(segment.min_len for segment in segments):
        # room for EOS: if the limit is below the least length, the limit holds
        min_lens = [min(segment.min_len, segment.max_len - 1) for segment in segments]
        rules.append(MinLength(torch.tensor(min_lens, device=device), eos_id))
    if any(segment.once or segment.never for segment in segments):
        rules.append(Once(segments, eos_id, device))
    if longest := max((len(segment.prefix) for segment in segments), default=0):
        rows = [[*segment.prefix, *[_NO_ID] * (longest - len(segment.prefix))] for segment in segments]
        prefix = ForcedPrefix(torch.tensor(rows, device=device))
        return Rules([_Outranked(rules, prefix), prefix], eos_id) if rules else Rules([prefix], eos_id)
    return Rules(rules, eos_id)


class _Outranked(Rule):
    """Rules that apply only after the forced prefix: within it, they could forbid or change its tokens."""

    def __init__(self, rules: Sequence[Rule], prefix: ForcedPrefix) -> None:
        self.rules = rules
        self.prefix = prefix

    def __call__(self, log_probs: Tensor, ids: Tensor) -> None:
        position = ids.size(2) - 1
        model_log_probs = log_probs.clone() if position < self.prefix.prefixes.size(1) else None
        for rule in self.rules:
            rule(log_probs, ids)
        if model_log_probs is not None:
            forced = self.prefix.prefixes[:, position] != _NO_ID
            log_probs.copy_(torch.where(forced[:, None, None], model_log_probs, log_probs))

    def select(self, sentences: Tensor) -> None:
        """See `Rule`."""
        for rule in self.rules:
            rule.select(sentences)
