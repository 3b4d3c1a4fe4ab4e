"""Encoder and decoder layers: attention and feed-forward sublayers, each with its residual connection and norm."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.config.schema import ModelConfig
from mtkit.model.attention import Ancestry, CrossAttention, SelfAttention
from mtkit.model.cpu import fused
from mtkit.model.dropout import Dropout
from mtkit.model.linear import Linear
from mtkit.model.ssru import SSRU

_Layer = TypeVar("_Layer", bound=nn.Module)
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """Two matrices with a non-linearity between; swiglu multiplies by a gate of its own (Shazeer 2020)."""

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        self.activation = cfg.activation
        self.in_proj = Linear(cfg.d_model, 2 * cfg.d_ff if cfg.activation == "swiglu" else cfg.d_ff)
        self.out_proj = Linear(cfg.d_ff, cfg.d_model)
        self.dropout = Dropout(cfg.ffn_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D), every position by itself."""
        if self.activation == "relu":
            if self.training and fused.has_kernels(x, self.in_proj.bias):
                return self.out_proj(self.dropout.of_relu(self.in_proj.product(x), self.in_proj.bias))
            x = self.in_proj(x, then="relu")
        elif self.activation == "swiglu":
            gate, value = self.in_proj(x).chunk(2, dim=-1)
            x = F.silu(gate) * value
        else:
            x = _ACTIVATIONS[self.activation](self.in_proj(x))
        return self.out_proj(self.dropout(x))


class Residual(nn.Module):
    """x + sublayer(x) with dropout and a norm: before the sublayer (pre) or after the sum (post, as in the paper)."""

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        self.pre = cfg.norm_position == "pre"
        self.norm = make_norm(cfg, before_products=self.pre)
        self.dropout = Dropout(cfg.residual_dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """x and what sublayer returns for it: the same shape, (..., D)."""
        return self.after(x, sublayer(self.before(x)))

    def before(self, x: Tensor) -> Tensor:
        """What the sublayer is given."""
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """What becomes of x once the sublayer has returned y."""
        x = self.dropout.added(x, y)
        return x if self.pre else self.norm(x)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        rotary = cfg.positions == "rotary"
        self.self_attention = SelfAttention(
            cfg.d_model, cfg.n_heads, cfg.attention_dropout, rotary=rotary, causal=False
        )
        self.feed_forward = FeedForward(cfg)
        self.self_attention_residual, self.feed_forward_residual = Residual(cfg), Residual(cfg)

    def forward(self, x: Tensor, pad_bias: Tensor) -> Tensor:
        """x: (B, S, D); pad_bias: (B, 1, 1, S). Returns (B, S, D)."""
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, pad_bias))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's output, then feed-forward.

    With decoder=ssru a recurrent unit stands where the self-attention would, under its name.
    """

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        rotary = cfg.positions == "rotary"
        self.self_attention = (
            SSRU(cfg.d_model)
            if cfg.decoder == "ssru"
            else SelfAttention(cfg.d_model, cfg.n_heads, cfg.attention_dropout, rotary=rotary, causal=True)
        )
        self.cross_attention = CrossAttention(cfg.d_model, cfg.n_heads, cfg.attention_dropout)
        self.feed_forward = FeedForward(cfg)
        self.self_attention_residual = Residual(cfg)
        self.cross_attention_residual = Residual(cfg)
        self.feed_forward_residual = Residual(cfg)

    def forward(self, x: Tensor, causal_bias: Tensor, memory: Tensor, pad_bias: Tensor) -> Tensor:
        """x: (B, T, D); causal_bias: (1, 1, T, T); memory: (B, S, D); pad_bias: (B, 1, 1, S). Returns (B, T, D)."""
        keys, values = self.cross_attention.keys_values(memory)
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, causal_bias))
        x = self.cross_attention_residual(x, lambda y: self.cross_attention(y, keys, values, pad_bias))
        return self.feed_forward_residual(x, self.feed_forward)

    def step(self, x: Tensor, cache: Any, ancestry: Ancestry, keys: Tensor, values: Tensor, pad_bias: Tensor) -> Tensor:
        """One new position for K hypotheses of each of B sentences.

        x: (B, K, D); cache: from self_attention.new_cache; keys, values: (B, H, S, d_head). Returns (B, K, D).
        """
        y = self.self_attention.step(self.self_attention_residual.before(x), cache, ancestry)
        x = self.self_attention_residual.after(x, y)
        y = self.cross_attention(self.cross_attention_residual.before(x), keys, values, pad_bias)
        x = self.cross_attention_residual.after(x, y)
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x)))


class NormBeforeProducts(nn.LayerNorm):
    """torch's layer norm; in training on a CPU its result comes in the precision of the products that it is for."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape (..., D), which is returned."""
        in_bf16 = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
        if self.training and in_bf16 and fused.has_kernels(input, self.weight):
            return fused.layer_norm(input, self.weight, self.bias, self.eps, torch.bfloat16)
        return super().forward(input)  # in float32 as fast


def make_norm(cfg: ModelConfig, *, before_products: bool = False) -> nn.Module:
    """Layer normalisation (Ba et al. 2016), or RMSNorm (Zhang and Sennrich 2019).

    before_products: the result is given to a sublayer, which begins with matrix products.
    """
    if cfg.norm == "rmsnorm":
        return nn.RMSNorm(cfg.d_model, eps=1e-6)
    return NormBeforeProducts(cfg.d_model) if before_products else nn.LayerNorm(cfg.d_model)


def stacked(layers: Iterable[_Layer]) -> Sequence[_Layer]:
    """The layers as a ModuleList, whose members keep their type."""
    return cast(Sequence[_Layer], nn.ModuleList(layers))
