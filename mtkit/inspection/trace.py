"""Record queries, keys and weights of every attention head while a model predicts a sentence pair."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from mtkit.config.model import ModelConfig
from mtkit.errors import UsageError
from mtkit.inspection.sentence_pair import SentencePair
from mtkit.model.attention import CrossAttention, SelfAttention
from mtkit.model.masks import BLOCKED
from mtkit.model.network import Network
from mtkit.model.ops import join_heads, split_heads
from mtkit.model.positions import distances_between
from mtkit.model.transformer import Transformer, alignment_layer

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
NAMES: dict[Kind, str] = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
_ROUNDING = 1e-4  # relative to the largest output; float32 sums in another order differ by about 1e-6


@dataclass(frozen=True)
class AttentionMap:
    """The heads of one attention for one sentence pair: float32, on the CPU."""

    kind: Kind
    layer: int  # from 1, which is next to the embeddings
    heads: tuple[int, ...]  # from 1; H of them
    q: Tensor  # queries (H, Q, d_head), rotated if positions are rotary
    k: Tensor  # keys (H, L, d_head), likewise
    added: Tensor | None  # (H, Q, L), what relative or alibi positions add to the scores
    hidden: Tensor  # (Q, L), True where a query may not look: at later positions in decoder self-attention
    weights: Tensor  # (H, Q, L), rows add up to 1

    @property
    def d_head(self) -> int:
        """Return the number of dimensions of a query and of a key."""
        return self.q.size(2)

    @property
    def scores(self) -> Tensor:
        """Return the scores (H, Q, L) before the softmax: q k^T / sqrt(d_head), and what positions add to them."""
        products = self.q @ self.k.transpose(-1, -2) / math.sqrt(self.d_head)
        return products if self.added is None else products + self.added

    def only(self, head: int | None) -> "AttentionMap":
        """Return the map with only this head; None: with all heads."""
        if head is None:
            return self
        row = [self.heads.index(head)]
        added = None if self.added is None else self.added[row]
        return replace(self, heads=(head,), q=self.q[row], k=self.k[row], added=added, weights=self.weights[row])


@dataclass(frozen=True)
class AttentionTrace:
    """Every attention of a model for one pair, with the tokens that the model reads.

    At tgt_in[i] the decoder predicts pair.tgt.pieces[i].
    """

    pair: SentencePair
    tgt_in: list[str]  # input of the decoder: <start> and the target's pieces but the last; of a classifier, nothing
    maps: list[AttentionMap]  # by kind in the order of KINDS, then by layer
    cfg: ModelConfig  # decoder=ssru has no decoder self-attention

    @property
    def is_classifier(self) -> bool:
        """Whether the model has no decoder: its target is a label."""
        return not self.tgt_in

    def layers(self, kind: Kind) -> list[AttentionMap]:
        """Return the layers of one kind, first to last."""
        return [attention for attention in self.maps if attention.kind == kind]

    def chosen(self, kinds: Sequence[Kind] = (), layer: int | None = None, head: int | None = None) -> "AttentionTrace":
        """Return the trace of these kinds, this layer and this head, counted from 1; by default, of all.

        Raises UsageError if the model has no such kind, layer or head.
        """
        for kind in kinds:
            if not self.layers(kind) and self.is_classifier:
                raise UsageError(f"a classifier has no {NAMES[kind]}: it is an encoder, so use --kind encoder")
            if not self.layers(kind):
                raise UsageError(f"this model has no {NAMES[kind]}: its decoder is recurrent (model.decoder=ssru)")
        maps = [attention for attention in self.maps if not kinds or attention.kind in kinds]
        n_layers, n_heads = max(attention.layer for attention in maps), max(maps[0].heads)
        if layer is not None and not 1 <= layer <= n_layers:
            raise UsageError(f"layer {layer}: the model has layers 1 to {n_layers}")
        if head is not None and not 1 <= head <= n_heads:
            raise UsageError(f"head {head}: the model has heads 1 to {n_heads}")
        maps = [attention.only(head) for attention in maps if layer in (None, attention.layer)]
        return replace(self, maps=maps)

    def axes(self, kind: Kind) -> tuple[list[str], list[str]]:
        """Return the tokens of the queries and those of the keys."""
        queries = self.pair.src.pieces if kind == "encoder" else self.tgt_in
        return queries, self.tgt_in if kind == "decoder" else self.pair.src.pieces

    @property
    def cross(self) -> AttentionMap:
        """Return the cross-attention that best aligns source and target: of `alignment_layer`, else the last."""
        layers = self.layers("cross")
        best = 1 + alignment_layer(self.cfg.n_decoder_layers)
        return next((attention for attention in layers if attention.layer == best), layers[-1])


def trace_pair(model: Transformer, pair: SentencePair) -> AttentionTrace:
    """Record every attention of the model while it predicts each token of the pair's target."""
    maps = trace_attention(model, pair.src.ids, pair.tgt_in)
    return AttentionTrace(pair, ["<start>", *pair.tgt.pieces[:-1]], maps, model.cfg)


def trace_classifier(model: Network, pair: SentencePair) -> AttentionTrace:
    """Record every attention of a classifier while it reads the pair's source, which begins with <start>."""
    return AttentionTrace(pair, [], trace_attention(model, pair.src.ids, pair.src.ids[:1]), model.cfg)


# Not inference_mode: tables that the model extends on the way, such as positions, must stay usable in training.
@torch.no_grad()
def trace_attention(model: Network, src: Sequence[int], tgt_in: Sequence[int]) -> list[AttentionMap]:
    """Return every attention of the model, as in `AttentionTrace.maps`, for source ids and target ids from <start> on.

    Raises RuntimeError if the recorded weights do not give the model's own output.
    """
    device = next(model.parameters()).device
    maps: list[AttentionMap] = []
    hooks = [
        attention.register_forward_hook(partial(_record, kind, layer, maps))
        for kind, layer, attention in _attentions(model)
    ]
    was_training = model.training
    model.eval()
    try:
        model.hidden(torch.tensor([[*src]], device=device), torch.tensor([[*tgt_in]], device=device))
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return sorted(maps, key=lambda attention: (KINDS.index(attention.kind), attention.layer))


def _attentions(model: Network) -> Iterator[tuple[Kind, int, SelfAttention | CrossAttention]]:
    """Yield each attention with its kind and layer, from 1."""
    for layer, encoder_layer in enumerate(model.encoder_layers, start=1):
        yield "encoder", layer, encoder_layer.self_attention
    for layer, decoder_layer in enumerate(model.decoder_layers if isinstance(model, Transformer) else (), start=1):
        if isinstance(decoder_layer.self_attention, SelfAttention):  # else a recurrent unit
            yield "decoder", layer, decoder_layer.self_attention
        yield "cross", layer, decoder_layer.cross_attention


def _record(
    kind: Kind,
    layer: int,
    maps: list[AttentionMap],
    attention: SelfAttention | CrossAttention,
    inputs: tuple[Tensor, ...],
    output: Tensor,
) -> None:
    """Forward hook: recompute the attention from its inputs, compare it with the output, and add it to maps."""
    relative = None
    if isinstance(attention, CrossAttention):
        x, k, v, bias = inputs
        (q,) = split_heads(attention.q_proj(x), 1, attention.n_heads)
    else:
        x, bias = inputs
        q, k, v = split_heads(attention.qkv_proj(x), 3, attention.n_heads)
        if attention.rotary is not None:
            q, k = attention.rotary(q), attention.rotary(k)
        if attention.relative is not None:
            distances = distances_between(x.size(1), x.device)
            relative = attention.relative(distances.flatten()).view(2, *distances.shape, -1)
    hidden, scale = bias < BLOCKED / 2, q.size(-1) ** -0.5
    added = bias.masked_fill(hidden, 0.0)  # linear biases, if any
    if relative is not None:
        added = added + torch.einsum("bhqd,qld->bhql", q, relative[0]) * scale
    weights = (q @ k.transpose(-1, -2) * scale + added).masked_fill(hidden, BLOCKED).softmax(dim=-1)
    mixed = weights @ v
    if relative is not None:
        mixed = mixed + torch.einsum("bhql,qld->bhqd", weights, relative[1])
    error = (attention.out_proj(join_heads(mixed)) - output).abs().max()
    if error > _ROUNDING * output.abs().max():
        raise RuntimeError(f"the traced {NAMES[kind]} of layer {layer} differs from the model's")
    parts = q, k, added.expand_as(weights), hidden.expand_as(weights), weights
    q, k, added, hidden, weights = (part[0].cpu() for part in parts)
    heads = tuple(range(1, attention.n_heads + 1))
    maps.append(AttentionMap(kind, layer, heads, q, k, added if added.any() else None, hidden[0], weights))
