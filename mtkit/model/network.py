"""The base of all networks: an encoder, and a linear layer that predicts from hidden states."""

import math
from collections.abc import Iterator, Sequence
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.config.model import ModelConfig
from mtkit.model.attention import CrossAttention, SelfAttention, init_packed
from mtkit.model.layers import EncoderLayer, FeedForward
from mtkit.model.linear import Linear
from mtkit.model.masks import is_one_of, padding_bias
from mtkit.model.positions import LearnedPositions, LinearBiases, RelativePositions, distances_between
from mtkit.model.ssru import SSRU


def count_sublayer_weights(cfg: ModelConfig) -> tuple[int, int, int]:
    """Return how many weights a norm, an attention and a feed-forward have."""
    d_model, d_ff = cfg.d_model, cfg.d_ff
    norm = d_model if cfg.norm == "rmsnorm" else 2 * d_model
    attention = 4 * d_model * (d_model + 1)  # queries, keys, values, output, each with a bias
    n_inner = 2 * d_ff if cfg.activation == "swiglu" else d_ff
    return norm, attention, n_inner * (d_model + 1) + (d_ff + 1) * d_model


def count_relative_weights(cfg: ModelConfig, *, causal: bool) -> int:
    """Return how many weights relative positions add to a layer: a vector for keys and one for values a distance."""
    n_distances = cfg.max_relative_distance + 1 if causal else 2 * cfg.max_relative_distance + 1
    return 2 * n_distances * (cfg.d_model // cfg.n_heads) if cfg.positions == "relative" else 0


def count_encoder_weights(cfg: ModelConfig, vocab_size: int) -> int:
    """Return how many weights an encoder has, with its embedding."""
    norm, attention, feed_forward = count_sublayer_weights(cfg)
    last_norm = norm if cfg.norm_position == "pre" else 0
    positions = cfg.max_positions * cfg.d_model if cfg.positions == "learned" else 0
    attention += count_relative_weights(cfg, causal=False)
    layers = cfg.n_encoder_layers * (attention + feed_forward + 2 * norm)
    return layers + last_norm + positions + vocab_size * cfg.d_model


class Network(nn.Module):
    """An encoder, and an output projection that predicts from the states that `hidden` computes.

    Training needs nothing else of a network. A subclass creates the parts. Their order must not change: checkpoints
    number the optimizer's state by the order of the parameters, and the initial weights are drawn in the order of the
    modules.
    """

    is_compiled = False  # by train.compile
    cfg: ModelConfig
    pad_id: int
    src_embedding: nn.Embedding
    src_positions: nn.Module
    linear_biases: LinearBiases | None
    word_dropout: nn.Module
    embedding_dropout: nn.Module
    encoder_layers: Sequence[EncoderLayer]
    encoder_norm: nn.Module
    output: Linear
    end_id = 3  # ends every source
    first_target = 0  # the output's first row predicts this: token 0, or label 1 because 0 is padding

    def hidden(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Return the states (B, T, D) from which `output` predicts T targets; ids with padding on the right."""
        raise NotImplementedError

    def new_like(self) -> Self:
        """Return a network of the same shape with other weights."""
        raise NotImplementedError

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Return logits (B, T, V) for src (B, S) and tgt_in (B, T), ids with padding on the right."""
        return self.output(self.hidden(src, tgt_in))

    def layers(self) -> Iterator[nn.Module]:
        """Yield the layers, which share their code; to compile them, or to shard their weights, one by one."""
        for layers in self.stacks():
            yield from layers

    def stacks(self) -> Iterator[Sequence[nn.Module]]:
        """Yield the layers of the encoder, then those of the decoder if there is one."""
        yield self.encoder_layers

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """Encode src (B, S). Returns the memory (B, S, D) and the bias (B, 1, 1, S) that hides its padding."""
        pad_bias = padding_bias(is_one_of(self.hidden_ids, src))
        x = self.embedding_dropout(self.src_positions(self._embed(src, self.src_embedding)))
        bias = self._with_linear_biases(pad_bias)
        for layer in self.encoder_layers:
            x = layer(x, bias)
        return self.encoder_norm(x), pad_bias

    @property
    def hidden_ids(self) -> tuple[int, ...]:
        """The tokens of a source that the network does not see: padding, and without cfg.src_end also <end>."""
        return (self.pad_id,) if self.cfg.src_end else (self.pad_id, self.end_id)

    def untrained_rows(self) -> Iterator[tuple[Tensor, slice]]:
        """Yield each weight that training changes only in part, with the rows that stay: 0 in a new network.

        A key's bias adds the same number to all scores of a query, which the softmax removes again. Its gradient
        consists of rounding errors, which Adam would scale up to full steps. (Rotary positions turn the bias by each
        key's position, so there it has an effect.)
        """
        d_model = self.cfg.d_model
        for module in self.modules():
            if isinstance(module, SelfAttention) and module.rotary is None:
                yield module.qkv_proj.bias, slice(d_model, 2 * d_model)
            elif isinstance(module, CrossAttention):
                yield module.kv_proj.bias, slice(d_model)

    def _with_linear_biases(self, bias: Tensor) -> Tensor:
        """Add the linear biases of alibi, if there are any, to a bias (B, 1, 1 or L, L): (B, H, L, L)."""
        if self.linear_biases is None:
            return bias
        return bias + self.linear_biases(distances_between(bias.size(-1), bias.device))

    def _embed(self, ids: Tensor, embedding: nn.Embedding) -> Tensor:
        embedded: Tensor = self.word_dropout(F.embedding(ids, embedding.weight) * math.sqrt(self.cfg.d_model))
        return embedded

    def _reset_layers(self) -> None:
        """Draw the layers' initial weights from torch's default generator: matrices Glorot-uniform.

        With norms after the layers, the last matrix of each sublayer is divided by the square root of the number of
        sublayers in its stack (Radford et al. 2019, section 2.3), because deep stacks hardly learn at first without
        this: a student of 6 + 2 layers had a dev BLEU of 14.3 instead of about 6 after 436 updates (docs/log.md).
        """
        for module in self.modules():
            if isinstance(module, SelfAttention):
                init_packed(module.qkv_proj, 3)
                init_packed(module.out_proj, 1)
            elif isinstance(module, CrossAttention):
                init_packed(module.q_proj, 1)
                init_packed(module.kv_proj, 2)
                init_packed(module.out_proj, 1)
            elif isinstance(module, SSRU):
                module.reset_parameters()
            elif isinstance(module, FeedForward):
                init_packed(module.in_proj, 2 if module.activation == "swiglu" else 1)
                init_packed(module.out_proj, 1)
            elif isinstance(module, LearnedPositions):
                nn.init.normal_(module.table, std=0.02)
            elif isinstance(module, RelativePositions):
                module.reset_parameters()
        if self.cfg.norm_position == "post":
            for layers in self.stacks():
                _shrink_sublayers(layers)


def _shrink_sublayers(layers: Sequence[nn.Module]) -> None:
    """Divide the last matrix of each sublayer by the square root of their number; SSRU has none after its cells."""
    sublayers = [
        module
        for layer in layers
        for module in layer.modules()
        if isinstance(module, SelfAttention | CrossAttention | FeedForward | SSRU)
    ]
    with torch.no_grad():
        for sublayer in sublayers:
            if not isinstance(sublayer, SSRU):
                sublayer.out_proj.weight /= math.sqrt(len(sublayers))
