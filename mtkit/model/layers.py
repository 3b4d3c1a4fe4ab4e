"""Encoder and decoder layers: sublayers of attention and feed-forward, each with a residual connection and a norm."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.config.model import ModelConfig
from mtkit.model.attention import Ancestry, CrossAttention, SelfAttention
from mtkit.model.dropout import Dropout
from mtkit.model.linear import Linear
from mtkit.model.ops import add_dropout, layer_norm
from mtkit.model.ssru import SSRU

_Layer = TypeVar("_Layer", bound=nn.Module)
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """Two matrices with a non-linearity between them; swiglu multiplies by a gate of its own (Shazeer 2020)."""

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        self.activation = cfg.activation
        self.in_proj = Linear(cfg.d_model, 2 * cfg.d_ff if cfg.activation == "swiglu" else cfg.d_ff)
        self.out_proj = Linear(cfg.d_ff, cfg.d_model)
        self.dropout = Dropout(cfg.ffn_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return max(0, x W1 + b1) W2 + b2 for each position (..., D) (Vaswani et al. 2017, equation 2).

        Other activations take the place of max(0, _). Dropout comes before W2.
        """
        if self.activation == "relu":
            return self.out_proj(self.in_proj(x, relu=True, dropout=self.dropout.rate))
        if self.activation == "swiglu":
            gate, value = self.in_proj(x).chunk(2, dim=-1)
            hidden = F.silu(gate) * value
        else:
            hidden = _ACTIVATIONS[self.activation](self.in_proj(x))
        return self.out_proj(self.dropout(hidden))


class Residual(nn.Module):
    """x + dropout(sublayer(x)), with a norm before the sublayer (pre) or, as in the paper, after the sum (post)."""

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        self.pre = cfg.norm_position == "pre"
        self.norm = make_norm(cfg, before_products=self.pre)
        self.dropout = Dropout(cfg.residual_dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply sublayer to x (..., D); both have the same shape."""
        if self.pre:
            return add_dropout(x, sublayer(self.norm(x)), self.dropout.rate)
        return self.norm(add_dropout(x, sublayer(x), self.dropout.rate))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(cfg, causal=False)
        self.feed_forward = FeedForward(cfg)
        self.self_attention_residual, self.feed_forward_residual = Residual(cfg), Residual(cfg)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """x: (B, S, D); bias: (B, 1, 1, S), with linear biases (B, H, S, S). Returns (B, S, D)."""
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, bias))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's output, then feed-forward.

    With decoder=ssru self_attention is a recurrent unit.
    """

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SSRU(cfg.d_model) if cfg.decoder == "ssru" else SelfAttention(cfg, causal=True)
        self.cross_attention = CrossAttention(cfg.d_model, cfg.n_heads, cfg.attention_dropout)
        self.feed_forward = FeedForward(cfg)
        self.self_attention_residual = Residual(cfg)
        self.cross_attention_residual = Residual(cfg)
        self.feed_forward_residual = Residual(cfg)

    def forward(
        self,
        x: Tensor,
        causal_bias: Tensor,
        memory: Tensor,
        pad_bias: Tensor,
        attention: list[Tensor] | None = None,
    ) -> Tensor:
        """Return (B, T, D). x: (B, T, D); causal_bias: (1, 1 or H, T, T); memory: (B, S, D); pad_bias: (B, 1, 1, S).

        attention: a list to add the attention to the source to, (B, H, T, S); computing it takes a second pass.
        """
        keys, values = self.cross_attention.keys_values(memory)
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, causal_bias))
        x = self.cross_attention_residual(x, lambda y: self._look(y, keys, values, pad_bias, attention))
        return self.feed_forward_residual(x, self.feed_forward)

    def step(
        self,
        x: Tensor,
        cache: Any,
        ancestry: Ancestry,
        keys: Tensor,
        values: Tensor,
        pad_bias: Tensor,
        attention: list[Tensor] | None = None,
    ) -> Tensor:
        """Compute the next position of K hypotheses of each of B sentences.

        x: (B, K, D); cache: from self_attention.new_cache; keys, values: (B, H, S, d_head). Returns (B, K, D).
        attention: a list to add the attention to the source to, (B, H, K, S); computing it takes a second pass.
        """
        x = self.self_attention_residual(x, lambda y: self.self_attention.step(y, cache, ancestry))
        x = self.cross_attention_residual(x, lambda y: self._look(y, keys, values, pad_bias, attention))
        return self.feed_forward_residual(x, self.feed_forward)

    def _look(
        self, x: Tensor, keys: Tensor, values: Tensor, pad_bias: Tensor, attention: list[Tensor] | None
    ) -> Tensor:
        if attention is not None:
            attention.append(self.cross_attention.weights(x, keys, pad_bias))
        return cast(Tensor, self.cross_attention(x, keys, values, pad_bias))


class NormBeforeProducts(nn.LayerNorm):
    """torch's layer norm for the input of matrix products; in training it may come in their precision."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the last dimension of input (..., D)."""
        return layer_norm(input, self.weight, self.bias, self.eps, self.training)


def make_norm(cfg: ModelConfig, *, before_products: bool = False) -> nn.Module:
    """Make a layer norm (Ba et al. 2016) or an RMSNorm (Zhang and Sennrich 2019).

    before_products: the result goes to a sublayer, which begins with matrix products.
    """
    if cfg.norm == "rmsnorm":
        return nn.RMSNorm(cfg.d_model, eps=1e-6)
    return NormBeforeProducts(cfg.d_model) if before_products else nn.LayerNorm(cfg.d_model)


def stacked(layers: Iterable[_Layer]) -> Sequence[_Layer]:
    """Return the layers as a ModuleList that keeps their type."""
    return cast(Sequence[_Layer], nn.ModuleList(layers))
