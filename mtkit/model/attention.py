"""Multi-head attention with packed projections, in training and, with caches, one position at a time."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.model.cpu import fused
from mtkit.model.dropout import Dropout
from mtkit.model.linear import Linear
from mtkit.model.masks import BLOCKED
from mtkit.model.positions import RotaryPositions

_SHORT = 160 * 160  # query-key pairs of one head up to which plain products beat the fused kernel on a CPU
BLOCK = 16  # key positions are looked at in whole blocks while decoding: so many numbers a CPU's vectors hold


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: Dropout, *, causal: bool = False) -> Tensor:
    """softmax(q k^T / sqrt(d_head) + bias) v, heads apart (Vaswani et al. 2017, equation 1).

    q: (B, H, Q, d_head); k, v: (B, H, L, d_head); bias broadcasts to (B, H, Q, L). Returns (B, H, Q, d_head).
    causal: bias does nothing but hide later positions; then the flash kernel, which takes no bias, can be used.
    This is the one place that chooses the kernel: sentences are short, and there a CPU is faster with two batched
    products and a softmax than with the fused kernel, which is for GPUs and long sequences (without dropout on a CPU,
    where it has none of its own).
    """
    p = dropout.p if dropout.training else 0.0
    if q.device.type == "cpu" and (p or q.size(-2) * k.size(-2) <= _SHORT):
        n, n_heads, n_queries, d_head = q.shape
        flat = (n * n_heads, -1, d_head)
        scores = torch.bmm(q.reshape(flat), k.reshape(flat).transpose(1, 2))
        if torch.is_grad_enabled() and fused.has_kernels(scores):
            weights = dropout(fused.softmax(scores, bias, d_head**-0.5, n_heads))
            return torch.bmm(weights, v.reshape(flat)).view(n, n_heads, n_queries, d_head)
        # At least fp32: closer, and torch's softmax in bf16 is up to four times slower on rows this short.
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).mul_(d_head**-0.5)
        if bias is not None:
            scores = scores.view(n, n_heads, n_queries, -1).add_(bias).view(scores.shape)
        n_keys = scores.size(-1)
        if n_keys < BLOCK:  # torch's softmax takes rows that fill no vector number by number: ten times slower
            scores = F.pad(scores, (0, BLOCK - n_keys), value=BLOCKED)
        weights = dropout(scores.softmax(dim=-1)[..., :n_keys].to(v.dtype))
        return torch.bmm(weights, v.reshape(flat)).view(n, n_heads, n_queries, d_head)
    if causal:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if bias is None else bias.to(q.dtype), dropout_p=p)


class Ancestry:
    """Which of the positions decoded so far each of K hypotheses of B sentences descends from.

    The keys and values of a sentence's hypotheses lie side by side, K places a position, and each hypothesis looks at
    those of its ancestors alone. So when the search lets hypotheses continue others, no key or value moves: only this
    table changes, which is small and the same for all layers.
    """

    def __init__(self, n_sentences: int, beam_size: int, like: Tensor) -> None:
        self.beam_size = beam_size
        self.length = 0  # positions
        # (B, 1, K, places): 0 for an ancestor's place, else BLOCKED; a single hypothesis descends from all places
        self._bias = like.new_zeros(n_sentences if beam_size > 1 else 1, 1, beam_size, 0, dtype=torch.float32)

    @property
    def n_places(self) -> int:
        """How many places are looked at: all that are filled, up to a whole block."""
        return -(-self.length * self.beam_size // BLOCK) * BLOCK

    @property
    def bias(self) -> Tensor:
        """(B, 1, K, n_places), B being 1 for single hypotheses; 0 at the places of ancestors, else BLOCKED."""
        return self._bias[..., : self.n_places]

    def advance(self) -> None:
        """Give each hypothesis a place at one more position."""
        first = self.length * self.beam_size
        if first == self._bias.size(3):
            self._bias = F.pad(self._bias, (0, BLOCK * self.beam_size), value=BLOCKED)
        self._bias[:, 0, :, first : first + self.beam_size].diagonal(dim1=1, dim2=2).zero_()
        self.length += 1

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was its hypothesis parents[b, k]; (B, K)."""
        if self.beam_size > 1:
            n_used = self.length * self.beam_size
            rows = parents[:, None, :, None].expand(-1, 1, -1, n_used)
            self._bias[..., :n_used] = self._bias[..., :n_used].gather(2, rows)

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these."""
        if self.beam_size > 1:
            self._bias = self._bias.index_select(0, sentences)


class KeyValueCache:
    """The keys and values of positions decoded so far, in storage that grows in steps.

    Whole blocks of 16 places are looked at, the empty ones with a bias that hides them: products and softmax are faster
    on whole vectors than on fewer numbers.
    """

    def __init__(self, n_sentences: int, n_heads: int, d_head: int, like: Tensor) -> None:
        self._pairs = like.new_zeros(2, n_sentences, n_heads, 0, d_head)  # keys, values

    def append(self, pair: Tensor, ancestry: Ancestry) -> tuple[Tensor, Tensor]:
        """Add the key and value of each hypothesis' newest position, pair (2, B, H, K, d_head).

        ancestry has given that position places already. Returns all keys and values, (B, H, n_places, d_head) each.
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
        """Nothing moves: see `Ancestry`."""

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these."""
        self._pairs = self._pairs.index_select(1, sentences)


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; queries, keys and values come from one packed product."""

    def __init__(self, d_model: int, n_heads: int, dropout: float, *, rotary: bool, causal: bool) -> None:
        """causal: the bias that `forward` is given hides later positions, and nothing else."""
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.causal = causal
        self.qkv_proj = Linear(d_model, 3 * d_model)
        self.out_proj = Linear(d_model, d_model)
        self.dropout = Dropout(dropout)
        self.rotary = RotaryPositions(d_model // n_heads) if rotary else None

    def new_cache(self, n_sentences: int, beam_size: int, like: Tensor) -> KeyValueCache:
        """What `step` needs at the first position of beam_size hypotheses for each sentence."""
        return KeyValueCache(n_sentences, self.n_heads, self.d_head, like)

    def forward(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Let every position of x (B, L, D) look at x where bias (broadcast to (B, H, L, L)) allows; (B, L, D)."""
        q, k, v = split_heads(self.qkv_proj(x), 3, self.n_heads)
        if self.rotary is not None:
            q, k = self.rotary(q), self.rotary(k)
        return self.out_proj(join_heads(attend(q, k, v, bias, self.dropout, causal=self.causal)))

    def step(self, x: Tensor, cache: KeyValueCache, ancestry: Ancestry) -> Tensor:
        """Let each hypothesis' newest position x (B, K, D) look at itself and its ancestors; (B, K, D)."""
        packed = self.qkv_proj(x).view(*x.shape[:2], 3, self.n_heads, self.d_head).permute(2, 0, 3, 1, 4)
        if self.rotary is not None:
            turned = self.rotary(packed[:2].unsqueeze(-2), ancestry.length - 1).squeeze(-2)
            packed = torch.cat([turned, packed[2:]])
        keys, values = cache.append(packed[1:], ancestry)
        return self.out_proj(join_heads(attend(packed[0], keys, values, ancestry.bias, self.dropout)))


class CrossAttention(nn.Module):
    """Attention of the target to the encoder's output; keys and values come from one packed product."""

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.q_proj = Linear(d_model, d_model)
        self.kv_proj = Linear(d_model, 2 * d_model)
        self.out_proj = Linear(d_model, d_model)
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
    parts = x.view(*x.shape[:2], n_parts, n_heads, -1).unbind(2)  # first, so that backwards each is copied once only
    return tuple(part.transpose(1, 2).contiguous() for part in parts)


def join_heads(x: Tensor) -> Tensor:
    """(B, H, L, d_head) -> (B, L, D)."""
    return x.transpose(1, 2).flatten(2)


def init_packed(linear: nn.Linear, n_parts: int) -> None:
    """Glorot-uniform weights, each of the packed matrices by its own size; zero bias."""
    for part in linear.weight.chunk(n_parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(linear.bias)
