"""A Transformer for decoding on a CPU, whose whole step is one compiled function: see `mtkit.model.cpu.decoding`."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mtkit.config.model import ModelConfig
from mtkit.model.cpu import decoding, tiles
from mtkit.model.cpu.packing import pack_norms, pack_products, select_outputs
from mtkit.model.inference import InferenceLinear
from mtkit.model.masks import is_one_of

_MORE = 16  # positions beyond the source's length that a cache has room for at first
_NONE_FORBIDDEN = np.empty((0, 0), np.bool_)
_MOST_CHOICES = 32  # to choose more tokens, the loop that inserts them would take longer than sorting the row


def can_compile(cfg: ModelConfig, precision: str) -> bool:
    """Return whether the loops know all parts of a `Transformer`, and the processor the instructions."""
    return not cfg.without_loops and {"fp32": tiles.HAS_FLOATS, "int8": bool(tiles.INTEGERS)}.get(precision, False)


class CompiledTransformer:
    """Decodes as the `Transformer` that it is made from, up to rounding; the two share embeddings and positions.

    A sentence's logits do not depend on its batch, to the last bit.
    """

    training = False
    rounds_by_batch = False

    def __init__(self, model: Any, precision: str) -> None:
        """model: a `Transformer` that `can_compile` accepts; precision: of the products, fp32 or int8."""
        self.cfg = model.cfg
        self.is_recurrent = self.cfg.decoder == "ssru"
        self._aligning = model.alignment_layer, model.n_aligning_heads
        self._hidden_ids: tuple[int, ...] = model.hidden_ids
        self._end_id: int = model.end_id
        like = np.empty(0, tiles.INTEGERS[0] if precision == "int8" else np.float32)
        is_rotary = self.cfg.positions == "rotary"
        self._src_positions, self._tgt_positions = (
            [model.encoder_layers[0].self_attention.rotary] * 2  # the same table in all layers
            if is_rotary
            else [model.src_positions, model.tgt_positions]
        )
        activation = decoding.ACTIVATIONS.index(self.cfg.activation)
        shape = self.cfg.n_heads, self.cfg.norm_position == "pre", is_rotary, activation
        self._encoder = decoding.Stack(
            *pack_products(list(_encoder_products(model)), like.dtype),
            pack_norms(_norms(model.encoder_layers, model.encoder_norm)),
            _array(model.src_embedding.weight),
            _array(self._src_positions.table),
            like,
            self.cfg.n_encoder_layers,
            *shape,
        )
        self._decoder = decoding.Stack(
            *pack_products(list(_decoder_products(model)), like.dtype),
            pack_norms(_norms(model.decoder_layers, model.decoder_norm)),
            _array(model.tgt_embedding.weight),
            _array(self._tgt_positions.table),
            like,
            self.cfg.n_decoder_layers,
            *shape,
        )
        self.output = CompiledOutput(model.output.weight, model.output.bias, like)

    def start_decoding(self, src: Tensor, beam_size: int) -> "CompiledCache":
        """Encode src (B, S), padding on the right; return a cache to decode beam_size hypotheses of each sentence.

        Raises IndexError if an id is not in the vocabulary, which the loops would not notice.
        """
        given = src.numpy()
        if given.size and not 0 <= given.min() <= given.max() < len(self._encoder.embedding):
            raise IndexError(
                f"ids from {given.min()} to {given.max()}, but the vocabulary has {len(self._encoder.embedding)} tokens"
            )
        is_token = ~is_one_of(self._hidden_ids, given)
        starts = np.concatenate([[0], is_token.sum(1).cumsum()])
        cross = _empty(int(starts[-1]), int(self._encoder.table[-1, 3]) * tiles.PANEL)
        # other threads may change the attribute meanwhile
        encoder = self._encoder = _with_positions(self._encoder, self._src_positions, given.shape[1])
        decoding.encode(encoder, given[is_token], starts, cross)
        cache = CompiledCache(self, starts, cross, beam_size, given.shape[1])
        if self.cfg.end_first:
            self._advance(src.new_full((src.size(0), beam_size), self._end_id), cache)
        return cache

    def decode_step(self, last_ids: Tensor, cache: "CompiledCache") -> Tensor:
        """Advance every hypothesis by its newest token: last_ids (B, K) -> logits (B, K, V) for the next one."""
        output = self.output if cache.output is None else cache.output
        return output(torch.from_numpy(self._advance(last_ids, cache))).view(*last_ids.shape, -1)

    def choose(
        self,
        last_ids: Tensor,
        cache: "CompiledCache",
        n: int,
        banned: Sequence[int],
        forbidden: Tensor | None = None,
    ) -> tuple[Tensor, Tensor] | None:
        """Do the same, but return log-probabilities and ids of the n likeliest tokens but the banned: (B, K, n) each.

        The likeliest comes first; among equals, the lower id. forbidden: bool (B, V), tokens that get no probability.
        None: there are too few tokens, or n is too large.
        """
        output = self.output if cache.output is None else cache.output
        if n > min(_MOST_CHOICES, output.n_outputs - len(banned)):
            return None
        kept_out = _NONE_FORBIDDEN if forbidden is None else forbidden.numpy()
        log_probs, ids = output.choose(self._advance(last_ids, cache), n, banned, kept_out)
        shape = *last_ids.shape, n
        return torch.from_numpy(log_probs).view(shape), torch.from_numpy(ids).view(shape)

    def _advance(self, last_ids: Tensor, cache: "CompiledCache") -> NDArray[np.float32]:
        """Return what the output projection makes logits of, (B x K, D)."""
        cache.make_room()
        n_rows = last_ids.numel()
        hidden = np.empty((n_rows, self.cfg.d_model), np.float32)
        looked = np.zeros((n_rows, 0 if cache.attention is None else cache.longest), np.float32)
        decoder = self._decoder = _with_positions(self._decoder, self._tgt_positions, cache.length + 1)
        decoding.step(
            decoder,
            cache.state(),
            last_ids.contiguous().numpy(),
            self.is_recurrent,
            self._aligning,
            hidden,
            looked,
        )
        cache.has_advanced()
        if cache.attention is not None:
            cache.attention = torch.from_numpy(looked).view(*last_ids.shape, -1)
        return hidden


class CompiledCache:
    """The state of decoding B sentences with K hypotheses each; nothing moves when hypotheses or sentences go.

    attention: as in `DecoderCache`. output: replaces the model's output projection. The arrays are those of
    `decoding.step`.
    """

    def __init__(
        self,
        model: CompiledTransformer,
        starts: NDArray[np.int64],
        cross: NDArray[np.float32],
        beam_size: int,
        longest: int,
    ) -> None:
        self.attention: Tensor | None = None
        self.output: CompiledOutput | None = None
        self.length = 0
        self.longest = longest  # source, in tokens
        self.starts, self.cross = starts, cross
        self.slots = np.arange(len(starts) - 1)
        self._itself = np.tile(np.arange(beam_size), (len(self.slots), 1))  # the parents of rows that keep their places
        self.parents = self._itself
        self._cfg, self._is_recurrent, self._beam_size = model.cfg, model.is_recurrent, beam_size
        self._room = 0  # positions
        self.ancestors = np.empty((2, 0, 0, 0), np.int64)
        self._grow(self.longest + _MORE)

    def state(self) -> decoding.State:
        """Return what `decoding.step` reads and writes."""
        return decoding.State(self.slots, self.starts, self.cross, self.parents, self.ancestors, self.own, self.length)

    def make_room(self) -> None:
        """Make room for the next position."""
        if self.length == self._room and not self._is_recurrent:
            self._grow(2 * self._room)

    def has_advanced(self) -> None:
        """Note that a step has read the parents; without a `reorder`, each hypothesis continues itself at the next."""
        self.length += 1
        self.parents = self._itself[: len(self.slots)]

    def _grow(self, room: int) -> None:
        n_layers, d_model, n_slots = self._cfg.n_decoder_layers, self._cfg.d_model, len(self.starts) - 1
        if self._is_recurrent:
            self.own = _empty(n_layers, n_slots, 2 * self._beam_size, d_model)
            return
        ancestors = np.empty((2, n_slots, self._beam_size, room), np.int64)
        own = _empty(n_layers, n_slots, room * self._beam_size, 2 * d_model)
        if self._room:
            ancestors[..., : self._room] = self.ancestors
            own[:, :, : self.own.shape[2]] = self.own
        self.ancestors, self.own, self._room = ancestors, own, room

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue the sentence's former hypothesis parents[b, k]; parents: (B, K).

        This holds for the next step only.
        """
        self.parents = parents.contiguous().numpy()

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current indices."""
        self.slots, self.parents = self.slots[sentences.numpy()], self.parents[sentences.numpy()]


class CompiledOutput(InferenceLinear):
    """The projection of hidden states onto the vocabulary."""

    def __init__(self, weight: Tensor, bias: Tensor, like: NDArray[np.generic]) -> None:
        """like: an empty array of the type of x: one of `tiles.INTEGERS` for products in 8-bit integers, or float32."""
        super().__init__()
        self._like = like
        self._products = pack_products([(weight, bias)], like.dtype)

    @property
    def n_outputs(self) -> int:
        """The number of tokens."""
        return int(self._products.table[0, 4])

    def forward(self, x: Tensor, relu: bool = False, dropout: float = 0.0) -> Tensor:
        """Return x W^T + b: (N, D) -> (N, V)."""
        entry = self._products.table[0]
        out = _empty(len(x), int(entry[3]) * tiles.PANEL)
        decoding.project(*self._products[:2], entry, self._like, x.numpy(), out)
        return torch.from_numpy(out)[:, : self.n_outputs]

    def choose(
        self,
        x: NDArray[np.float32],
        n: int,
        banned: Sequence[int],
        forbidden: NDArray[np.bool_] = _NONE_FORBIDDEN,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the log-probabilities and the ids of the n likeliest tokens after x (N, D), as `decoding.choose`."""
        log_probs, ids = np.empty((len(x), n), np.float32), np.empty((len(x), n), np.int64)
        entry, never = self._products.table[0], np.array(banned, dtype=np.int64)
        decoding.choose(*self._products[:2], entry, self._like, x, never, forbidden, log_probs, ids)
        return log_probs, ids

    def select_outputs(self, ids: Tensor) -> "CompiledOutput":
        """Return a layer that computes the outputs ids (U,) alone."""
        twin = copy.copy(self)
        twin._products = select_outputs(self._products, ids.numpy())
        return twin


def _encoder_products(model: Any) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yield the products that `decoding.encode` makes, in its order."""
    for layer in model.encoder_layers:
        yield from _weights(layer.self_attention.qkv_proj, layer.self_attention.out_proj)
        yield from _weights(layer.feed_forward.in_proj, layer.feed_forward.out_proj)
    cross = [layer.cross_attention.kv_proj for layer in model.decoder_layers]
    yield torch.cat([linear.weight for linear in cross]), torch.cat([linear.bias for linear in cross])


def _decoder_products(model: Any) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yield the products that `decoding.step` makes, in its order."""
    for layer in model.decoder_layers:
        past = layer.self_attention
        if model.cfg.decoder == "ssru":
            yield past.in_proj.weight, torch.cat([torch.zeros_like(past.forget_bias), past.forget_bias])
        else:
            yield from _weights(past.qkv_proj, past.out_proj)
        yield from _weights(layer.cross_attention.q_proj, layer.cross_attention.out_proj)
        yield from _weights(layer.feed_forward.in_proj, layer.feed_forward.out_proj)


def _weights(*linears: nn.Linear) -> Iterator[tuple[Tensor, Tensor | None]]:
    for linear in linears:
        yield linear.weight, linear.bias


def _norms(layers: Sequence[nn.Module], last: nn.Module) -> list[nn.Module]:
    """Return the norms of layers in the order of their sublayers, then the last one, if the norms come before."""
    children = [layer.named_children() for layer in layers]
    residuals: list[Any] = [child for named in children for name, child in named if name.endswith("_residual")]
    return [residual.norm for residual in residuals] + ([] if isinstance(last, nn.Identity) else [last])


def _with_positions(stack: decoding.Stack, module: Any, n: int) -> decoding.Stack:
    """Return the stack with at least n positions; as the module itself, raise ValueError if it is limited to fewer."""
    if n <= len(stack.positions):
        return stack
    if n > len(module.table):
        module(torch.empty(n, module.table.size(1)))  # makes its table longer
    return stack._replace(positions=_array(module.table))


def _array(weight: Tensor) -> NDArray[np.float32]:
    return weight.detach().contiguous().numpy()


def _empty(*shape: int) -> NDArray[np.float32]:
    """Return an array in torch's memory, which this process keeps when it is freed (see `keep_freed_memory`)."""
    return torch.empty(shape).numpy()
