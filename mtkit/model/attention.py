"""Multi-head attention with packed projections, in training and, with caches, one position at a time."""

import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.model.dropout import Dropout
from mtkit.model.positions import RotaryPositions

_SHORT = 160 * 160  # query-key pairs of one head up to which plain products beat the fused kernel on a CPU


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: Dropout) -> Tensor:
    """softmax(q k^T / sqrt(d_head) + bias) v, heads apart (Vaswani et al. 2017, equation 1).

    q: (B, H, Q, d_head); k, v: (B, H, L, d_head); bias broadcasts to (B, H, Q, L). Returns (B, H, Q, d_head).
    This is the one place that chooses the kernel: sentences are short, and there a CPU is faster with two batched
    products and a softmax than with the fused kernel, which is for GPUs and long sequences.
    """
    if q.device.type == "cpu" and q.size(-2) * k.size(-2) <= _SHORT:
        scores = (q * q.size(-1) ** -0.5) @ k.transpose(-1, -2)
        if bias is not None:
            scores += bias
        return dropout(scores.softmax(dim=-1)).to(v.dtype) @ v
    p = dropout.p if dropout.training else 0.0
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if bias is None else bias.to(q.dtype), dropout_p=p)


class KeyValueCache:
    """The keys and values of positions decoded so far: (N, H, length, d_head) each, in storage that grows in steps."""

    def __init__(self, n_rows: int, n_heads: int, d_head: int, like: Tensor) -> None:
        self.length = 0
        self._keys = like.new_empty(n_rows, n_heads, 0, d_head)
        self._values = like.new_empty(n_rows, n_heads, 0, d_head)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add one position, k and v (N, H, 1, d_head); returns all keys and all values so far."""
        if self.length == self._keys.size(2):
            self._keys, self._values = (F.pad(x, (0, 0, 0, 16)) for x in (self._keys, self._values))
        self._keys[:, :, self.length] = k[:, :, 0]
        self._values[:, :, self.length] = v[:, :, 0]
        self.length += 1
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def select(self, rows: Tensor) -> None:
        """Make row n what rows[n] was; rows may repeat and may be fewer."""
        self._keys = self._keys.index_select(0, rows)
        self._values = self._values.index_select(0, rows)


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; queries, keys and values come from one packed product."""

    def __init__(self, d_model: int, n_heads: int, dropout: float, rotary: bool) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = Dropout(dropout)
        self.rotary = RotaryPositions(d_model // n_heads) if rotary else None

    def forward(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Let every position of x (B, L, D) look at x where bias (broadcast to (B, H, L, L)) allows; (B, L, D)."""
        q, k, v = split_heads(self.qkv_proj(x), 3, self.n_heads)
        if self.rotary is not None:
            q, k = self.rotary(q), self.rotary(k)
        return self.out_proj(join_heads(attend(q, k, v, bias, self.dropout)))

    def step(self, x: Tensor, cache: KeyValueCache) -> Tensor:
        """Let the newest position x (N, 1, D) look at itself and at all before it, which cache holds; (N, 1, D)."""
        q, k, v = split_heads(self.qkv_proj(x), 3, self.n_heads)
        if self.rotary is not None:
            q, k = self.rotary(q, cache.length), self.rotary(k, cache.length)
        keys, values = cache.append(k, v)
        return self.out_proj(join_heads(attend(q, keys, values, None, self.dropout)))


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
