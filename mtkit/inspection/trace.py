"""A model and a sentence pair in; what every head of every attention asked for, was offered and looked at out."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from mtkit.config.schema import ModelConfig
from mtkit.errors import MtkitError, UsageError
from mtkit.inspection.sentence_pair import SentencePair
from mtkit.model.attention import CrossAttention, SelfAttention, join_heads, split_heads
from mtkit.model.transformer import Transformer
from mtkit.scoring.alignment import alignment_layer

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
NAMES: dict[Kind, str] = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
MAX_DRAWN = 80  # tokens a side
_ROUNDING = 1e-4  # of the largest output; float32 in another order was seen to differ by some 1e-6


@dataclass(frozen=True)
class AttentionMap:
    """The heads of one attention, with one sentence pair: float32, on the CPU."""

    kind: Kind
    layer: int  # from 1, the one next to the embeddings
    heads: tuple[int, ...]  # the numbers, from 1, of those that are here: the H below
    q: Tensor  # queries (H, Q, d_head), turned by their position if positions are rotary
    k: Tensor  # keys (H, K, d_head), the same
    bias: Tensor  # (Q, K): 0 where a query may look, else far below any score
    weights: Tensor  # (H, Q, K), rows add up to 1

    @property
    def d_head(self) -> int:
        """Dimensions of a query and of a key."""
        return self.q.size(2)

    @property
    def scores(self) -> Tensor:
        """q k^T / sqrt(d_head), before the bias and the softmax: (H, Q, K) (Vaswani et al. 2017, equation 1)."""
        return self.q @ self.k.transpose(-1, -2) / math.sqrt(self.d_head)

    def only(self, head: int | None) -> "AttentionMap":
        """The same with this head alone; None: with all."""
        if head is None:
            return self
        row = [self.heads.index(head)]
        return replace(self, heads=(head,), q=self.q[row], k=self.k[row], weights=self.weights[row])

    @property
    def hidden(self) -> Tensor:
        """(Q, K), True where a query may not look: in decoder self-attention at later positions."""
        return self.bias < 0


@dataclass(frozen=True)
class AttentionTrace:
    """Every attention of a model, for one pair, with the tokens as the model is given them.

    At each of tgt_in the decoder is to say what stands there in pair.tgt.
    """

    pair: SentencePair
    tgt_in: list[str]  # <start> and the pieces of the target but its last: what the decoder is given
    maps: list[AttentionMap]  # by kind in the order of KINDS, then by layer
    cfg: ModelConfig  # with decoder=ssru there is no decoder self-attention

    def of(self, kind: Kind) -> list[AttentionMap]:
        """The layers of one kind, first to last."""
        return [found for found in self.maps if found.kind == kind]

    def chosen(self, kinds: Sequence[Kind] = (), layer: int | None = None, head: int | None = None) -> "AttentionTrace":
        """The trace of these kinds, this layer and this head alone, counted from 1; without one, of all.

        Raises UsageError if nothing is left.
        """
        for kind in kinds:
            if not self.of(kind):
                raise UsageError(f"this model has no {NAMES[kind]}: its decoder is recurrent (model.decoder=ssru)")
        maps = [found for found in self.maps if not kinds or found.kind in kinds]
        n_layers, n_heads = max(found.layer for found in maps), max(maps[0].heads)
        if layer is not None and not 1 <= layer <= n_layers:
            raise UsageError(f"layer {layer}: there are layers 1 to {n_layers}")
        if head is not None and not 1 <= head <= n_heads:
            raise UsageError(f"head {head}: there are heads 1 to {n_heads}")
        maps = [found.only(head) for found in maps if layer in (None, found.layer)]
        return replace(self, maps=maps)

    def axes(self, kind: Kind) -> tuple[list[str], list[str]]:
        """The pieces that look, and those that are looked at."""
        queries = self.pair.src.pieces if kind == "encoder" else self.tgt_in
        return queries, self.tgt_in if kind == "decoder" else self.pair.src.pieces

    @property
    def cross(self) -> AttentionMap:
        """The cross-attention that best shows what is translated: that of `alignment_layer`, else the last one here."""
        layers = self.of("cross")
        best = 1 + alignment_layer(self.cfg.n_decoder_layers)
        return next((found for found in layers if found.layer == best), layers[-1])


def check_drawable(trace: AttentionTrace) -> None:
    """Raises MtkitError if a side has too many tokens for lines or maps that one can read."""
    for side, pieces in (("sentence", trace.pair.src.pieces), ("translation", trace.pair.tgt.pieces)):
        if len(pieces) > MAX_DRAWN:
            raise MtkitError(
                f"the {side} has {len(pieces)} tokens with its end, more than the {MAX_DRAWN} that can be drawn "
                "readably; choose a shorter sentence, or take all weights with --json"
            )


def trace_pair(model: Transformer, pair: SentencePair) -> AttentionTrace:
    """Every attention of the model while it predicts each token of the pair's target."""
    maps = trace_attention(model, pair.src.ids, pair.tgt_in)
    return AttentionTrace(pair, ["<start>", *pair.tgt.pieces[:-1]], maps, model.cfg)


# Not inference_mode: tables that the model makes on the way, such as longer positions, stay usable in training.
@torch.no_grad()
def trace_attention(model: Transformer, src: Sequence[int], tgt_in: Sequence[int]) -> list[AttentionMap]:
    """Every attention of the model, as in `AttentionTrace.maps`, given a source's ids and the target's from <start> on.

    Raises RuntimeError if what is recorded does not lead to what the model itself has computed.
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
    return sorted(maps, key=lambda found: (KINDS.index(found.kind), found.layer))


def _attentions(model: Transformer) -> Iterator[tuple[Kind, int, SelfAttention | CrossAttention]]:
    """Each attention with its kind and layer."""
    for number, layer in enumerate(model.encoder_layers, start=1):
        yield "encoder", number, layer.self_attention
    for number, block in enumerate(model.decoder_layers, start=1):
        if isinstance(block.self_attention, SelfAttention):  # else a recurrent unit
            yield "decoder", number, block.self_attention
        yield "cross", number, block.cross_attention


def _record(
    kind: Kind,
    layer: int,
    maps: list[AttentionMap],
    attention: SelfAttention | CrossAttention,
    inputs: tuple[Tensor, ...],
    output: Tensor,
) -> None:
    """Forward hook: compute once more, step by step, what led from inputs to output, and add it to maps."""
    if isinstance(attention, CrossAttention):
        x, k, v, bias = inputs
        (q,) = split_heads(attention.q_proj(x), 1, attention.n_heads)
    else:
        x, bias = inputs
        q, k, v = split_heads(attention.qkv_proj(x), 3, attention.n_heads)
        if attention.rotary is not None:
            q, k = attention.rotary(q), attention.rotary(k)
    weights = (q @ k.transpose(-1, -2) * q.size(-1) ** -0.5 + bias).softmax(dim=-1)
    error = (attention.out_proj(join_heads(weights @ v)) - output).abs().max()
    if error > _ROUNDING * output.abs().max():
        raise RuntimeError(f"the traced {NAMES[kind]} of layer {layer} is not what the model computes")
    n_queries, n_keys = weights.shape[-2:]
    shown = (q[0], k[0], bias.expand(1, 1, n_queries, n_keys)[0, 0], weights[0])
    heads = tuple(range(1, attention.n_heads + 1))
    maps.append(AttentionMap(kind, layer, heads, *(part.cpu() for part in shown)))
