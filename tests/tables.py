"""Log-probabilities from a table instead of a model, so that every sequence can be enumerated."""

import itertools
import math

import torch
from torch import Tensor

EOS, BOS = 0, 1  # any two ids; the search knows them only by what it is told
Prefix = tuple[int, ...]


class RandomTable:
    """Log-probabilities of the next token per prefix, drawn once from a seed; BOS never follows."""

    def __init__(self, vocab_size: int, seed: int, *, decimals: int | None = None) -> None:
        self.vocab_size = vocab_size
        self.seed = seed
        self.decimals = decimals  # rounded log-probabilities make ties
        self._rows: dict[Prefix, list[float]] = {}

    def row(self, prefix: Prefix) -> list[float]:
        if prefix not in self._rows:
            generator = torch.Generator().manual_seed(hash((self.seed, prefix)) % 2**31)
            logits = 2 * torch.randn(self.vocab_size, generator=generator, dtype=torch.float64)
            logits[BOS] = -math.inf
            log_probs = logits.log_softmax(0)
            if self.decimals is not None:
                log_probs = log_probs.round(decimals=self.decimals)
            self._rows[prefix] = log_probs.tolist()
        return self._rows[prefix]

    def log_prob(self, tokens: Prefix) -> float:
        return sum(self.row(tokens[:i])[token] for i, token in enumerate(tokens))

    def all_finished(self, max_len: int) -> list[Prefix]:
        """Every sequence of at most max_len tokens of which the last, and no other, is EOS."""
        words = [token for token in range(self.vocab_size) if token not in (EOS, BOS)]
        return [(*text, EOS) for length in range(max_len) for text in itertools.product(words, repeat=length)]

    def ranking(self, max_len: int, alpha: float) -> list[tuple[float, list[int]]]:
        scored = [(self.log_prob(s) / ((5 + len(s)) / 6) ** alpha, list(s[:-1])) for s in self.all_finished(max_len)]
        return sorted(scored, key=lambda item: -item[0])


class TableStep:
    """A DecodeStep over one table per sentence; it keeps every hypothesis' prefix as a model keeps its cache."""

    def __init__(self, tables: list[RandomTable], beam_size: int, dtype: torch.dtype = torch.float64) -> None:
        self.tables = list(tables)
        self.prefixes: list[list[Prefix]] = [[()] * beam_size for _ in tables]
        self.dtype = dtype
        self.n_steps = 0
        self.n_rows = 0

    def __call__(self, last_ids: Tensor) -> Tensor:
        assert last_ids.shape == (len(self.tables), len(self.prefixes[0]) if self.prefixes else 0)
        if self.n_steps:
            pairs = zip(self.prefixes, last_ids.tolist(), strict=True)
            self.prefixes = [[(*p, i) for p, i in zip(prefixes, ids, strict=True)] for prefixes, ids in pairs]
        else:
            assert bool((last_ids == BOS).all())
        self.n_steps += 1
        self.n_rows += last_ids.numel()
        sentences = zip(self.tables, self.prefixes, strict=True)
        return torch.tensor([[t.row(p) for p in prefixes] for t, prefixes in sentences], dtype=self.dtype)

    def attention(self) -> Tensor:
        raise NotImplementedError  # only coverage needs it

    def reorder(self, parents: Tensor) -> None:
        pairs = zip(self.prefixes, parents.tolist(), strict=True)
        self.prefixes = [[prefixes[k] for k in ks] for prefixes, ks in pairs]

    def select(self, sentences: Tensor) -> None:
        numbers = sentences.tolist()
        self.tables = [self.tables[n] for n in numbers]
        self.prefixes = [self.prefixes[n] for n in numbers]
