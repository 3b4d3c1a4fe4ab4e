"""Multi-head attention with packed projections, for all positions at once or for one after the other with a cache."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.config.model import ModelConfig
from mtkit.model.dropout import Dropout
from mtkit.model.linear import Linear
from mtkit.model.masks import BLOCKED
from mtkit.model.ops import attend, attend_relative, join_heads, self_attend, split_heads
from mtkit.model.positions import LinearBiases, RelativePositions, RotaryPositions

BLOCK = 16  # decoding looks at keys in whole blocks: float32 numbers in a vector of AVX-512


class Ancestry:
    """A table of the positions that each of K hypotheses of B sentences descends from.

    The keys and values of a sentence's hypotheses lie side by side, K places per position, and a hypothesis looks only
    at the places of its ancestors. When the search lets one hypothesis continue another, no key or value moves. Only
    this table changes, which is small and shared by all layers.
    """

    def __init__(
        self, n_sentences: int, beam_size: int, like: Tensor, linear_biases: LinearBiases | None = None
    ) -> None:
        self.beam_size = beam_size
        self.length = 0  # positions
        self._linear_biases = linear_biases
        self._distances: Tensor | None = None
        # (B, 1, K, places): 0 at an ancestor's place, else BLOCKED; a single hypothesis descends from all places
        self._bias = like.new_zeros(n_sentences if beam_size > 1 else 1, 1, beam_size, 0, dtype=torch.float32)
        self.bias = self._bias

    @property
    def n_places(self) -> int:
        """The number of places that attention looks at: the filled ones, rounded up to whole blocks."""
        return -(-self.length * self.beam_size // BLOCK) * BLOCK

    @property
    def distances(self) -> Tensor:
        """How far each place's position is from the newest one: int (n_places,), above 0 for empty places."""
        if self._distances is None:  # the layers share them
            positions = torch.arange(self.n_places, device=self._bias.device) // self.beam_size
            self._distances = positions - (self.length - 1)
        return self._distances

    def advance(self) -> None:
        """Give each hypothesis a place at the next position, and update `bias`.

        The bias (B, 1, K, n_places) is 0 at the places of ancestors, else BLOCKED; B is 1 if K is. Linear biases are
        added to it, one for each head: (B, H, K, n_places).
        """
        first = self.length * self.beam_size
        if first == self._bias.size(3):
            self._bias = F.pad(self._bias, (0, BLOCK * self.beam_size), value=BLOCKED)
        self._bias[:, 0, :, first : first + self.beam_size].diagonal(dim1=1, dim2=2).zero_()
        self.length += 1
        self._distances = None
        self.bias = self._bias[..., : self.n_places]
        if self._linear_biases is not None:
            self.bias = self.bias + self._linear_biases(self.distances[None])

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue the sentence's former hypothesis parents[b, k]; (B, K)."""
        if self.beam_size > 1:
            n_used = self.length * self.beam_size
            rows = parents[:, None, :, None].expand(-1, 1, -1, n_used)
            self._bias[..., :n_used] = self._bias[..., :n_used].gather(2, rows)

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these."""
        if self.beam_size > 1:
            self._bias = self._bias.index_select(0, sentences)


class KeyValueCache:
    """The keys and values of the positions decoded so far, in storage that grows in steps.

    Attention looks at whole blocks of 16 places, with a bias that hides the empty ones, because products and softmax
    are faster on whole vectors.
    """

    def __init__(self, n_sentences: int, n_heads: int, d_head: int, like: Tensor) -> None:
        self._pairs = like.new_zeros(2, n_sentences, n_heads, 0, d_head)  # keys, values

    def append(self, pair: Tensor, ancestry: Ancestry) -> tuple[Tensor, Tensor]:
        """Add pair (2, B, H, K, d_head): the key and the value of each hypothesis' newest position.

        ancestry has already advanced to that position. Returns all keys and all values, (B, H, n_places, d_head) each.
        """
        end = ancestry.length * ancestry.beam_size
        capacity = self._pairs.size(3)
        if end > capacity:
            more = self._pairs.new_empty(*self._pairs.shape[:3], capacity + BLOCK * ancestry.beam_size, pair.size(4))
            more[:, :, :, :capacity] = self._pairs
            more[:, :, :, capacity:] = 0.0
            self._pairs = more
        self._pairs[:, :, :, end - ancestry.beam_size : end] = pair
        keys, values = self._pairs[:, :, :, : ancestry.n_places]
        return keys, values

    def reorder(self, parents: Tensor) -> None:
        """Move nothing, because `Ancestry` says which keys and values a hypothesis looks at."""

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these."""
        self._pairs = self._pairs.index_select(1, sentences)


class SelfAttention(nn.Module):
    """Attention of a sequence to itself (Vaswani et al. 2017, section 3.2).

    One packed product makes queries, keys and values.
    """

    def __init__(self, cfg: ModelConfig, *, causal: bool) -> None:
        """causal: the bias given to `forward` hides later positions; with alibi it also has linear biases."""
        super().__init__()
        self.n_heads = cfg.n_heads
        self.d_head = cfg.d_model // cfg.n_heads
        self.only_causal = causal and cfg.positions != "alibi"
        self.qkv_proj = Linear(cfg.d_model, 3 * cfg.d_model)
        self.out_proj = Linear(cfg.d_model, cfg.d_model)
        self.dropout = Dropout(cfg.attention_dropout)
        self.rotary = RotaryPositions(self.d_head) if cfg.positions == "rotary" else None
        self.relative = (
            RelativePositions(self.d_head, cfg.max_relative_distance, causal=causal)
            if cfg.positions == "relative"
            else None
        )

    def new_cache(self, n_sentences: int, beam_size: int, like: Tensor) -> KeyValueCache:
        """Return an empty cache for `step`, for beam_size hypotheses of each sentence."""
        return KeyValueCache(n_sentences, self.n_heads, self.d_head, like)

    def forward(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Let every position of x (B, L, D) look at x where bias (broadcast to (B, H, L, L)) allows; (B, L, D)."""
        packed = self.qkv_proj(x)
        if self.rotary is None and self.relative is None:
            return self.out_proj(self_attend(packed, self.n_heads, bias, self.dropout.rate, causal=self.only_causal))
        q, k, v = split_heads(packed, 3, self.n_heads)
        if self.relative is not None:
            key_rows, value_rows = self.relative(torch.arange(-x.size(1) + 1, x.size(1) + 1, device=x.device))
            return self.out_proj(join_heads(attend_relative(q, k, v, key_rows, value_rows, bias, self.dropout.rate)))
        assert self.rotary is not None
        q, k = self.rotary(q), self.rotary(k)
        return self.out_proj(join_heads(attend(q, k, v, bias, self.dropout.rate, causal=self.only_causal)))

    def step(self, x: Tensor, cache: KeyValueCache, ancestry: Ancestry) -> Tensor:
        """Let each hypothesis' newest position x (B, K, D) look at itself and its ancestors; (B, K, D)."""
        packed = self.qkv_proj(x).view(*x.shape[:2], 3, self.n_heads, self.d_head).permute(2, 0, 3, 1, 4)
        if self.rotary is not None:
            turned = self.rotary(packed[:2].unsqueeze(-2), ancestry.length - 1).squeeze(-2)
            packed = torch.cat([turned, packed[2:]])
        keys, values = cache.append(packed[1:], ancestry)
        if self.relative is not None:
            key_rows, value_rows = self.relative(ancestry.distances)
            mixed = attend_relative(packed[0], keys, values, key_rows, value_rows, ancestry.bias, self.dropout.rate)
            return self.out_proj(join_heads(mixed))
        query = packed[0].to(keys.dtype)
        return self.out_proj(join_heads(attend(query, keys, values, ancestry.bias, self.dropout.rate)))


class CrossAttention(nn.Module):
    """Attention of the target to the encoder's output; one packed product makes keys and values."""

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.q_proj = Linear(d_model, d_model)
        self.kv_proj = Linear(d_model, 2 * d_model)
        self.out_proj = Linear(d_model, d_model)
        self.dropout = Dropout(dropout)

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of memory (B, S, D) for all target positions, (B, H, S, d_head) each."""
        k, v = split_heads(self.kv_proj(memory), 2, self.n_heads)
        return k, v

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        """Let every position of x (B, Q, D) look at the memory where bias (B, 1, 1, S) allows; returns (B, Q, D)."""
        (q,) = split_heads(self.q_proj(x), 1, self.n_heads)
        return self.out_proj(join_heads(attend(q.to(keys.dtype), keys, values, bias, self.dropout.rate)))

    @torch.no_grad()
    def hand_on(self, gain: float) -> None:
        """Draw weights with which a vector that all heads look at comes out as it is, times gain (without biases).

        The matrix of the values is orthogonal, and that of the output is its transpose.
        """
        values = nn.init.orthogonal_(torch.empty_like(self.out_proj.weight), math.sqrt(gain))
        self.kv_proj.weight[len(values) :] = values
        self.out_proj.weight.copy_(values.t())

    def weights(self, x: Tensor, keys: Tensor, bias: Tensor) -> Tensor:
        """Return how much each position of x (B, Q, D) looks at each of the memory: (B, H, Q, S), rows add up to 1."""
        (q,) = split_heads(self.q_proj(x), 1, self.n_heads)
        scores = (q * q.size(-1) ** -0.5).to(keys.dtype) @ keys.transpose(-1, -2)
        return (scores.float() + bias.float()).softmax(dim=-1)


def init_packed(linear: nn.Linear, n_parts: int) -> None:
    """Draw Glorot-uniform weights, for each of the n_parts packed matrices by its own size; zero the bias."""
    for part in linear.weight.chunk(n_parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(linear.bias)
