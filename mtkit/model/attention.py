"""Multi-head attention with packed projections, in training and, with caches, one position at a time."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.model.dropout import Dropout
from mtkit.model.masks import BLOCKED
from mtkit.model.positions import RotaryPositions

_SHORT = 160 * 160  # query-key pairs of one head up to which plain products beat the fused kernel on a CPU
BLOCK = 16  # key positions are looked at in whole blocks while decoding: so many numbers a CPU's vectors hold


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: Dropout) -> Tensor:
    """softmax(q k^T / sqrt(d_head) + bias) v, heads apart (Vaswani et al. 2017, equation 1).

    q: (B, H, Q, d_head); k, v: (B, H, L, d_head); bias broadcasts to (B, H, Q, L). Returns (B, H, Q, d_head).
    This is the one place that chooses the kernel: sentences are short, and there a CPU is faster with two batched
    products and a softmax than with the fused kernel, which is for GPUs and long sequences.
    """
    if q.device.type == "cpu" and q.size(-2) * k.size(-2) <= _SHORT:
        n, n_heads, n_queries, d_head = q.shape
        flat = (n * n_heads, -1, d_head)
        scores = torch.bmm((q * d_head**-0.5).reshape(flat), k.reshape(flat).transpose(1, 2))
        if bias is not None:
            scores = scores.view(n, n_heads, n_queries, -1).add_(bias).view(scores.shape)
        weights = scores.softmax(dim=-1)
        if dropout.training:
            weights = dropout(weights)
        return torch.bmm(weights.to(v.dtype), v.reshape(flat)).view(n, n_heads, n_queries, d_head)
    p = dropout.p if dropout.training else 0.0
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if bias is None else bias.to(q.dtype), dropout_p=p)


class KeyValueCache:
    """The keys and values of positions decoded so far, in storage that grows in steps.

    The storage always has whole blocks of 16 positions, and all of them are looked at, the empty ones with a bias that
    hides them: products and softmax are faster on whole vectors than on fewer numbers.
    """

    def __init__(self, n_rows: int, n_heads: int, d_head: int, like: Tensor) -> None:
        self.length = 0
        self._pairs = like.new_zeros(2, n_rows, n_heads, 0, d_head)  # keys, values
        self._bias = like.new_zeros(0)

    def append(self, pair: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Add one position's key and value, pair (2, N, H, d_head).

        Returns keys and values, (N, H, length in blocks, d_head) each, and the bias (length in blocks) that hides the
        empty ones; None if there are none.
        """
        if self.length == self._bias.size(0):
            more = self._pairs.new_empty(*self._pairs.shape[:3], self.length + BLOCK, self._pairs.size(4))
            more[:, :, :, : self.length] = self._pairs
            self._pairs = more
            self._pairs[:, :, :, self.length :] = 0.0
            self._bias = F.pad(self._bias, (0, BLOCK), value=BLOCKED)
        self._pairs[:, :, :, self.length] = pair
        self._bias[self.length] = 0.0
        self.length += 1
        return self._pairs[0], self._pairs[1], None if self.length == self._bias.size(0) else self._bias

    def select(self, rows: Tensor) -> None:
        """Make row n what rows[n] was; rows may repeat and may be fewer."""
        self._pairs = self._pairs.index_select(1, rows)


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; queries, keys and values come from one packed product."""

    def __init__(self, d_model: int, n_heads: int, dropout: float, rotary: bool) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.qkv_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = Dropout(dropout)
        self.rotary = RotaryPositions(d_model // n_heads) if rotary else None

    def new_cache(self, n_rows: int, like: Tensor) -> KeyValueCache:
        """What `step` needs at the first position of n_rows hypotheses."""
        return KeyValueCache(n_rows, self.n_heads, self.d_head, like)

    def forward(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Let every position of x (B, L, D) look at x where bias (broadcast to (B, H, L, L)) allows; (B, L, D)."""
        q, k, v = split_heads(self.qkv_proj(x), 3, self.n_heads)
        if self.rotary is not None:
            q, k = self.rotary(q), self.rotary(k)
        return self.out_proj(join_heads(attend(q, k, v, bias, self.dropout)))

    def step(self, x: Tensor, cache: KeyValueCache) -> Tensor:
        """Let the newest position x (N, 1, D) look at itself and at all before it, which cache holds; (N, 1, D)."""
        packed = self.qkv_proj(x).view(x.size(0), 3, self.n_heads, self.d_head).transpose(0, 1)  # (3, N, H, d_head)
        if self.rotary is not None:
            turned = self.rotary(packed[:2].unsqueeze(3), cache.length).squeeze(3)
            packed = torch.cat([turned, packed[2:]])
        keys, values, bias = cache.append(packed[1:])
        return self.out_proj(join_heads(attend(packed[0].unsqueeze(2), keys, values, bias, self.dropout)))


class CrossAttention(nn.Module):
    """Attention of the target to the encoder's output; keys and values come from one packed product."""

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.kv_proj = nn.Linear(d_model, 2 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = Dropout(dropout)

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of memory (B, S, D), each (B, H, S, d_head); they serve every target position."""
        k, v = split_heads(self.kv_proj(memory), 2, self.n_heads)
        return k, v

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        """Let every position of x (B, Q, D) look at the memory where bias (B, 1, 1, S) allows; returns (B, Q, D)."""
        (q,) = split_heads(self.q_proj(x), 1, self.n_heads)
        return self.out_proj(join_heads(attend(q, keys, values, bias, self.dropout)))

    def weights(self, x: Tensor, keys: Tensor, bias: Tensor) -> Tensor:
        """How much each position of x (B, Q, D) looks at each of the memory: (B, H, Q, S), rows add up to 1."""
        (q,) = split_heads(self.q_proj(x), 1, self.n_heads)
        return ((q * q.size(-1) ** -0.5) @ keys.transpose(-1, -2) + bias).softmax(dim=-1)


def split_heads(x: Tensor, n_parts: int, n_heads: int) -> tuple[Tensor, ...]:
    """(B, L, n_parts D) -> n_parts tensors (B, H, L, d_head), contiguous."""
    return x.view(*x.shape[:2], n_parts, n_heads, -1).permute(2, 0, 3, 1, 4).contiguous().unbind(0)


def join_heads(x: Tensor) -> Tensor:
    """(B, H, L, d_head) -> (B, L, D)."""
    return x.transpose(1, 2).flatten(2)


def init_packed(linear: nn.Linear, n_parts: int) -> None:
    """Glorot-uniform weights, each of the packed matrices by its own size; zero bias."""
    for part in linear.weight.chunk(n_parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(linear.bias)
