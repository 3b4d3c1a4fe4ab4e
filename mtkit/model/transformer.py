"""The encoder-decoder Transformer (Vaswani et al. 2017), from token ids to logits over the target vocabulary."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.config.model import ModelConfig
from mtkit.model.attention import BLOCK, Ancestry, KeyValueCache
from mtkit.model.dropout import Dropout, WordDropout
from mtkit.model.layers import DecoderLayer, EncoderLayer, make_norm, stacked
from mtkit.model.linear import Linear
from mtkit.model.masks import BLOCKED, causal_bias
from mtkit.model.network import Network, count_encoder_weights, count_relative_weights, count_sublayer_weights
from mtkit.model.positions import added_positions, linear_biases
from mtkit.model.ssru import CellCache

# How a model starts to translate. After 300 updates, models with 0.8 or 1.0 instead are a little worse (docs/log.md).
_SHARE_OF_TRANSLATIONS = 0.95  # cosine of a target vector and its translations; the rest of it is random
_HANDED_ON = 3.0  # the factor by which attention lengthens the vector that it looks at


def count_weights(cfg: ModelConfig, src_vocab_size: int, tgt_vocab_size: int) -> int:
    """Return how many weights such a model has, a shared one once.

    Computed from the shapes, because building the model on torch's meta device imports a second's worth of modules.
    """
    d_model = cfg.d_model
    norm, attention, feed_forward = count_sublayer_weights(cfg)
    own_attention = attention + count_relative_weights(cfg, causal=True)
    past = d_model * (2 * d_model + 1) if cfg.decoder == "ssru" else own_attention
    decoder = cfg.n_decoder_layers * (past + attention + feed_forward + 3 * norm)
    last_norm = norm if cfg.norm_position == "pre" else 0
    positions = cfg.max_positions * d_model if cfg.positions == "learned" else 0
    n_rows = {"none": 2 * tgt_vocab_size, "decoder": tgt_vocab_size}  # besides the encoder's embedding
    embeddings = n_rows.get(cfg.tie, 0) * d_model
    encoder = count_encoder_weights(cfg, src_vocab_size)
    return encoder + decoder + last_norm + positions + embeddings + tgt_vocab_size  # the output's bias


def alignment_layer(n_layers: int) -> int:
    """Return the decoder layer with the best attention for alignment: the last but one; of one or two, the last."""
    return n_layers - 2 if n_layers > 2 else n_layers - 1


class Transformer(Network):
    """Encoder, decoder and output projection. Weights are float32; autocast sets the precision of products.

    is_guided: whether the first head of the cross-attention of `alignment_layer` has learned to align words.
    """

    is_guided = False
    rounds_by_batch = True  # oneDNN adds up in an order that depends on the shape

    def __init__(
        self, cfg: ModelConfig, src_vocab_size: int, tgt_vocab_size: int, pad_id: int = 0, bos_id: int = 2
    ) -> None:
        """Raises ValueError if cfg ties all embeddings and the vocabularies differ in size."""
        super().__init__()
        if cfg.tie == "all" and src_vocab_size != tgt_vocab_size:
            raise ValueError(
                f"tie=all needs vocabularies of one size, not {src_vocab_size} and {tgt_vocab_size} tokens"
            )
        self.cfg = cfg
        self.pad_id = pad_id
        self.bos_id = bos_id
        self.src_embedding = nn.Embedding(src_vocab_size, cfg.d_model)
        self.tgt_embedding = self.src_embedding if cfg.tie == "all" else nn.Embedding(tgt_vocab_size, cfg.d_model)
        self.src_positions = added_positions(cfg.positions, cfg.d_model, cfg.max_positions)
        self.tgt_positions = added_positions(cfg.positions, cfg.d_model, cfg.max_positions)
        self.linear_biases = linear_biases(cfg.positions, cfg.n_heads)
        self.word_dropout = WordDropout(cfg.word_dropout)
        self.embedding_dropout = Dropout(cfg.embedding_dropout)
        self.encoder_layers = stacked(EncoderLayer(cfg) for _ in range(cfg.n_encoder_layers))
        self.decoder_layers = stacked(DecoderLayer(cfg) for _ in range(cfg.n_decoder_layers))
        pre = cfg.norm_position == "pre"
        self.encoder_norm: nn.Module = make_norm(cfg) if pre else nn.Identity()
        self.decoder_norm: nn.Module = make_norm(cfg) if pre else nn.Identity()
        self.output = Linear(cfg.d_model, tgt_vocab_size)
        if cfg.tie != "none":
            self.output.weight = self.tgt_embedding.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw initial weights from torch's default generator: embeddings N(0, 1/D), matrices Glorot-uniform."""
        self._reset_layers()
        nn.init.zeros_(self.output.bias)
        ends = [self.src_embedding.weight, self.tgt_embedding.weight, self.output.weight]
        for weight in dict.fromkeys(ends):  # each tied matrix once, always in this order, so that the seed fixes it
            nn.init.normal_(weight, std=self.cfg.d_model**-0.5)
        with torch.no_grad():
            for weight, rows in self.untrained_rows():
                weight[rows] = 0.0

    @torch.no_grad()
    def start_translating(self, translated: Tensor) -> None:
        """Change random weights, so that the model writes translations of the words that it looks at.

        The vector of each target token becomes similar to those of the source tokens that it translates, and the
        attention of `alignment_layer` to the source hands on what it sees. So the model must learn where to look and
        how a translated sentence differs from its translated words, but not the translation of each word. With
        tie=all, tokens of both languages share the vectors; source vectors then change, too.
        translated: (V_tgt, D), rows of length 1, or 0 for tokens whose vector stays random.
        """
        is_known = translated.any(1, keepdim=True)
        for vectors in dict.fromkeys([self.tgt_embedding.weight, self.output.weight]):
            random = math.sqrt(1 - _SHARE_OF_TRANSLATIONS**2) * vectors
            vectors.copy_(torch.where(is_known, _SHARE_OF_TRANSLATIONS * translated + random, vectors))
        self.decoder_layers[self.alignment_layer].cross_attention.hand_on(_HANDED_ON)

    def untrained_rows(self) -> Iterator[tuple[Tensor, slice]]:
        """Yield the rows of `Network`; with positions=marian also BOS, because Marian's decoder starts from zeros."""
        yield from super().untrained_rows()
        if self.cfg.positions == "marian":
            yield self.tgt_embedding.weight, slice(self.bos_id, self.bos_id + 1)

    def new_like(self) -> "Transformer":
        """Return a Transformer of the same shape with other weights."""
        sizes = self.src_embedding.num_embeddings, self.tgt_embedding.num_embeddings
        network = Transformer(self.cfg, *sizes, self.pad_id, self.bos_id)
        network.is_guided = self.is_guided
        return network

    def stacks(self) -> Iterator[Sequence[nn.Module]]:
        """Yield the layers of the encoder, then those of the decoder."""
        yield from (self.encoder_layers, self.decoder_layers)

    def hidden(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Return the decoder's output (B, T, D), which `forward` projects onto the vocabulary.

        hidden[:, t] depends on tgt_in[:, : t + 1] alone, and predicts the token after it.
        """
        memory, pad_bias = self.encode(src)
        return self.decode(tgt_in, memory, pad_bias)

    @property
    def alignment_layer(self) -> int:
        """The decoder layer, from 0, whose cross-attention aligns best: the last but one; of one or two, the last."""
        return alignment_layer(len(self.decoder_layers))

    @property
    def n_aligning_heads(self) -> int:
        """How many heads of `alignment_layer`, from the first, align words: one if the model is guided, else all."""
        return 1 if self.is_guided else self.cfg.n_heads

    def hidden_and_alignment(self, src: Tensor, tgt_in: Tensor, layer: int | None = None) -> tuple[Tensor, Tensor]:
        """Return what `hidden` does, and how each target position looks at the source: (B, T, S), rows add up to 1.

        It is the mean over the heads of a decoder layer; of `alignment_layer`, the default, the first head if the model
        is guided.
        """
        attention: list[Tensor] = []
        layer = self.alignment_layer if layer is None else layer
        hidden = self.decode(tgt_in, *self.encode(src), attention={layer: attention})
        return hidden, attention[0].mean(1) if layer != self.alignment_layer else self._aligned(attention[0])

    def _aligned(self, heads: Tensor) -> Tensor:
        """Return the attention (B, T, S) by which words align, given that of each head of `alignment_layer`."""
        return heads[:, : self.n_aligning_heads].mean(1)

    def decode(
        self, tgt_in: Tensor, memory: Tensor, pad_bias: Tensor, attention: Mapping[int, list[Tensor]] | None = None
    ) -> Tensor:
        """Decode all target positions at once (teacher forcing): (B, T) ids -> (B, T, D).

        attention: lists, by the layer's index from 0, to add its attention to the source to: (B, H, T, S).
        """
        n_before = int(self.cfg.end_first)  # positions before <start>, of which the caller sees nothing
        if n_before:
            tgt_in = F.pad(tgt_in, (n_before, 0), value=self.end_id)
        bias = self._with_linear_biases(causal_bias(tgt_in.size(1), tgt_in.device))
        x = self.embedding_dropout(self.tgt_positions(self._embed(tgt_in, self.tgt_embedding)))
        for index, layer in enumerate(self.decoder_layers):
            x = layer(x, bias, memory, pad_bias, attention.get(index) if attention else None)
        for heads in attention.values() if attention else ():
            heads[:] = [weights[:, :, n_before:] for weights in heads]
        return self.decoder_norm(x[:, n_before:])

    def start_decoding(self, src: Tensor, beam_size: int) -> "DecoderCache":
        """Encode src (B, S) and return a cache to decode beam_size hypotheses of each sentence."""
        memory, pad_bias = self.encode(src)
        cross = [layer.cross_attention.keys_values(memory) for layer in self.decoder_layers]
        if n_empty := -src.size(1) % BLOCK:
            pad_bias = F.pad(pad_bias, (0, n_empty), value=BLOCKED)
            cross = [(F.pad(k, (0, 0, 0, n_empty)), F.pad(v, (0, 0, 0, n_empty))) for k, v in cross]
        own = [layer.self_attention.new_cache(src.size(0), beam_size, memory) for layer in self.decoder_layers]
        cache = DecoderCache(own, cross, pad_bias, Ancestry(src.size(0), beam_size, memory, self.linear_biases))
        if self.cfg.end_first:
            self.decode_step(src.new_full((src.size(0), beam_size), self.end_id), cache)
        return cache

    def decode_step(self, last_ids: Tensor, cache: "DecoderCache") -> Tensor:
        """Advance every hypothesis by its newest token: last_ids (B, K) -> logits (B, K, V) for the next one.

        The cache then contains that token, too. The logits equal those of `forward` at the end of the whole prefix.
        """
        x = self._embed(last_ids, self.tgt_embedding).unsqueeze(-2)  # (B, K, 1, D): one position
        x = self.tgt_positions(x, cache.length).squeeze(-2)
        cache.ancestry.advance()
        heads: list[Tensor] = []
        parts = zip(self.decoder_layers, cache.own, cache.cross, strict=True)
        for index, (layer, own, (keys, values)) in enumerate(parts):
            looks = cache.attention is not None and index == self.alignment_layer
            x = layer.step(x, own, cache.ancestry, keys, values, cache.pad_bias, heads if looks else None)
        if heads:
            cache.attention = self._aligned(heads[0])
        project = self.output if cache.output is None else cache.output
        return project(self.decoder_norm(x)).float()

    def choose(
        self, last_ids: Tensor, cache: "DecoderCache", n: int, banned: Sequence[int], forbidden: Tensor | None = None
    ) -> None:
        """Return None, so that the search chooses from the logits; see `Decoder`."""


@dataclass
class DecoderCache:
    """The state of decoding B sentences with K hypotheses each."""

    own: Sequence[KeyValueCache | CellCache]  # per layer
    cross: list[tuple[Tensor, Tensor]]  # per layer, keys and values of the memory, (B, H, S, d_head)
    pad_bias: Tensor  # (B, 1, 1, S)
    ancestry: Ancestry
    attention: Tensor | None = None  # (B, K, S): aligns words at the latest step; None if not wanted
    output: nn.Module | None = None  # replaces the model's output projection: a projection onto fewer tokens

    @property
    def length(self) -> int:
        """The number of target positions decoded so far."""
        return self.ancestry.length

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue the sentence's former hypothesis parents[b, k]; parents: (B, K)."""
        for part in (self.ancestry, *self.own):
            part.reorder(parents)

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current indices."""
        for part in (self.ancestry, *self.own):
            part.select(sentences)
        self.cross = [(k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.cross]
        self.pad_bias = self.pad_bias.index_select(0, sentences)
