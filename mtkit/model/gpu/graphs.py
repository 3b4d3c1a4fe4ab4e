"""Decode on a GPU with CUDA graphs, so that Python launches a step of all layers as one piece of work.

A step of a batch takes a GPU about a millisecond, but Python needs several to launch its two hundred kernels. So the
second step with tensors of the same sizes is recorded as a graph, and all later ones replay it. A graph reads and
writes fixed places in memory, so keys and values lie in buffers of fixed sizes here, and the position is a number on
the GPU.
"""

import math
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from mtkit.model.attention import BLOCK
from mtkit.model.inference import Decoder
from mtkit.model.masks import BLOCKED
from mtkit.model.positions import GrowingTable

_UNIT = 8  # sizes of products in bf16 should be multiples of this
_FEWEST_POSITIONS = 32  # in a graph
_LARGEST_SHARE = 0.25  # of the GPU's memory, for buffers that wait for their next batch, and for those of one batch


def with_graphs(model: Any, warn: Callable[[str], None]) -> Decoder:
    """Return a decoder that records steps of a `Transformer` as graphs; the model itself if graphs cannot compute it.

    model: prepared for inference, as `quantize` does. warn: called if a graph cannot be used.
    """
    is_known = model.cfg.decoder == "attention" and model.cfg.positions != "relative"
    return GraphTransformer(model, warn) if is_known else model


class GraphTransformer:
    """Decodes as the `Transformer` that it is made from, with the same weights."""

    rounds_by_batch = True

    def __init__(self, model: Any, warn: Callable[[str], None]) -> None:
        self.model = model
        self.output = model.output
        self.vocabulary = _Vocabulary(model.output)
        device = model.output.weight.device
        self.recorder = Recorder(device, warn)
        self._most_bytes = (
            _LARGEST_SHARE * torch.cuda.get_device_properties(device).total_memory if self.recorder.works else math.inf
        )
        self._waiting: list[_Buffers] = []  # for their next batch; what has waited longest comes first
        self._lock = threading.Lock()  # one step at a time, because the graphs share memory

    @torch.no_grad()
    def start_decoding(self, src: Tensor, beam_size: int) -> Any:
        """Encode src (B, S) and return a cache to decode beam_size hypotheses of each sentence."""
        size = _power_of_two(src.size(0)), beam_size, max(BLOCK, _power_of_two(src.size(1)))
        if _Buffers.n_bytes(self.model, *size, _FEWEST_POSITIONS) > self._most_bytes:
            return self.model.start_decoding(src, beam_size)
        memory, pad_bias = self.model.encode(src)
        buffers = self._waiting_buffers(size) or _Buffers(self, *size)
        for layer, own in zip(self.model.decoder_layers, buffers.state.cross, strict=True):
            for buffer, values in zip(own, layer.cross_attention.keys_values(memory), strict=True):
                buffer[: src.size(0), :, : src.size(1)] = values
        buffers.start(pad_bias)
        cache = GraphCache(buffers, src.shape)
        weakref.finalize(cache, self._take_back, buffers).atexit = False
        if self.model.cfg.end_first:
            self._advance(src.new_full((src.size(0), beam_size), self.model.end_id), cache)
        return cache

    def decode_step(self, last_ids: Tensor, cache: Any) -> Tensor:
        """Advance every hypothesis by its newest token: last_ids (B, K) -> logits (B, K, V) for the next one."""
        if not isinstance(cache, GraphCache):
            return self.model.decode_step(last_ids, cache)
        [hidden] = self._advance(last_ids, cache)
        logits: Tensor = (self.output if cache.output is None else cache.output)(hidden)
        return logits.float()

    def choose(
        self, last_ids: Tensor, cache: Any, n: int, banned: Sequence[int], forbidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """Do the same, but return log-probabilities and ids of the n likeliest tokens but the banned: (B, K, n) each.

        The likeliest comes first; among equals, the lower id. Returns None for a shortlist, or if n is too large.
        """
        most = min(self.vocabulary.most, self.output.weight.size(0) - len(banned))
        if not isinstance(cache, GraphCache) or cache.output is not None or n > most:
            return None
        log_probs, ids = self._advance(last_ids, cache, n, tuple(banned))
        return log_probs, ids

    @torch.no_grad()
    def _advance(
        self, last_ids: Tensor, cache: "GraphCache", n: int = 0, banned: tuple[int, ...] = ()
    ) -> tuple[Tensor, ...]:
        """Return the decoder's hidden states (B, K, D); with n, what `choose` does."""
        buffers = cache.buffers
        if cache.length == self.model.cfg.max_positions and self.model.cfg.positions == "learned":
            raise ValueError(f"position {cache.length + 1} is beyond max_positions={cache.length}")
        cache.length += 1
        with self._lock:
            buffers.make_room(cache.length)
            buffers.last_ids[cache.rows] = last_ids
            *results, attention = buffers.run(cache.length, n, banned, wants_attention=cache.attention is not None)
            if cache.attention is not None:
                cache.attention = attention[cache.rows, :, : cache.longest]
            return tuple(result[cache.rows] for result in results)

    # Python frees a cache at any moment and in any thread, so each change of the list is a single operation, which
    # Python never interrupts. A lock would not do: the thread that frees the cache may hold it already.

    def _waiting_buffers(self, size: tuple[int, int, int]) -> "_Buffers | None":
        """Return buffers of this size that no batch uses, if there are any."""
        for buffers in self._waiting[::-1]:
            if buffers.size == size:
                with suppress(ValueError):  # another thread has just taken them
                    self._waiting.remove(buffers)
                    return buffers
        return None

    def _take_back(self, buffers: "_Buffers") -> None:
        """Keep the buffers for the next batch of their size; drop those that have waited longest if they are many."""
        self._waiting.append(buffers)
        while sum(one.size_in_bytes for one in [*self._waiting]) > self._most_bytes:
            with suppress(IndexError):  # another thread has just taken the last ones
                self._waiting.pop(0)


class GraphCache:
    """The state of decoding B sentences with K hypotheses each; nothing moves when hypotheses or sentences go.

    attention, output: as in `DecoderCache`.
    """

    def __init__(self, buffers: "_Buffers", src_shape: torch.Size) -> None:
        self.buffers = buffers
        self.attention: Tensor | None = None
        self.output: nn.Module | None = None
        self.length = 0
        self.longest = src_shape[1]
        self.rows = torch.arange(src_shape[0], device=buffers.last_ids.device)  # of the sentences in the buffers

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue the sentence's former hypothesis parents[b, k]; parents: (B, K)."""
        self.buffers.parents[self.rows] = parents

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these (B',), given by their current indices."""
        self.rows = self.rows[sentences]


class _Vocabulary:
    """The output projection, and a choice of the likeliest tokens in which the CPU never waits for a value.

    The logits form a grid. The n largest are all in the n rows of it with the largest maxima.
    """

    def __init__(self, output: Any) -> None:
        """output: a linear layer."""
        n_tokens = output.weight.size(0)
        self._width = -(-math.isqrt(n_tokens) // _UNIT) * _UNIT
        self.most = -(-n_tokens // self._width)  # tokens to choose: the number of rows
        n_more = self.most * self._width - n_tokens
        self._weight = F.pad(output.weight.detach(), (0, 0, 0, n_more))
        bias = output.weight.new_zeros(n_tokens) if output.bias is None else output.bias.detach()
        self._bias = F.pad(bias, (0, n_more), value=-math.inf)  # what fills the grid has no probability

    def choose(self, hidden: Tensor, n: int, banned: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and ids of the n likeliest tokens after hidden (..., D): (..., n) each."""
        logits = F.linear(hidden.to(self._weight.dtype), self._weight, self._bias).float()
        log_z = logits.logsumexp(dim=-1, keepdim=True)
        for token in banned:
            logits[..., token] = -math.inf
        grid = logits.view(*logits.shape[:-1], self.most, self._width)
        _, rows = _largest(grid.amax(dim=-1), n)
        rows = rows.sort(dim=-1).values  # so that a lower index among the candidates is a lower id
        candidates = grid.gather(-2, rows.unsqueeze(-1).expand(*rows.shape, self._width)).flatten(-2)
        best, places = _largest(candidates, n)
        row = rows.gather(-1, places // self._width)
        return best - log_z, row * self._width + places % self._width


def _largest(values: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the n largest of each row of float32 values (..., N) and their indices; the lower index among equals.

    `topk` may take any of equal values. So it gets integers in the order of the values, with the index as a last part.
    """
    bits = (values + 0.0).view(torch.int32)  # + 0.0 makes -0.0 equal to 0.0
    in_order = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()
    backwards = torch.arange(values.size(-1) - 1, -1, -1, device=values.device)
    chosen = (in_order << 32 | backwards).topk(n).values
    indices = values.size(-1) - 1 - (chosen & 0xFFFFFFFF)
    return values.gather(-1, indices), indices


class _Buffers:
    """The tensors of decoding up to B sentences of up to S tokens with K hypotheses each, and the graphs that use them.

    B and S are powers of two. The tensors' places change only when there are more positions than they have room for.
    """

    def __init__(self, decoder: GraphTransformer, n_sentences: int, beam_size: int, longest: int) -> None:
        model = decoder.model
        cfg, weight = model.cfg, decoder.output.weight
        self._model, self._vocabulary, self._recorder = model, decoder.vocabulary, decoder.recorder
        self.size = n_sentences, beam_size, longest  # B, K, S
        heads = n_sentences, cfg.n_heads
        d_head = cfg.d_model // cfg.n_heads
        self.last_ids = torch.zeros(n_sentences, beam_size, dtype=torch.long, device=weight.device)
        self._themselves = torch.arange(beam_size, device=weight.device).expand(n_sentences, -1)
        self.parents = self._themselves.clone()
        self._pad_bias = weight.new_full((n_sentences, 1, 1, longest), BLOCKED)
        cross = [
            (weight.new_zeros(*heads, longest, d_head), weight.new_zeros(*heads, longest, d_head))
            for _ in model.decoder_layers
        ]
        ancestry = _Ancestry(n_sentences, beam_size, weight, model.linear_biases)
        own = [_KeysAndValues(weight.new_zeros(2, *heads, 0, d_head)) for _ in model.decoder_layers]
        self.state = _State(own, cross, self._pad_bias, ancestry)
        self._graphs: dict[tuple[object, ...], _Graph] = {}
        self._has_run: set[tuple[object, ...]] = set()
        self._room = 0
        self.make_room(1)

    @staticmethod
    def n_bytes(model: Any, n_sentences: int, beam_size: int, longest: int, n_positions: int) -> int:
        """Return the memory for keys and values."""
        places = n_sentences * (longest + beam_size * n_positions)
        return 2 * len(model.decoder_layers) * places * model.cfg.d_model * int(model.output.weight.element_size())

    @property
    def size_in_bytes(self) -> int:
        """The memory that the buffers take up."""
        return self.n_bytes(self._model, *self.size, self._room)

    def start(self, pad_bias: Tensor) -> None:
        """Forget all positions; pad_bias (B, 1, 1, S) hides the padding of the new sources."""
        self._pad_bias.fill_(BLOCKED)
        self._pad_bias[: pad_bias.size(0), :, :, : pad_bias.size(3)] = pad_bias
        self.state.ancestry.clear()

    def make_room(self, n_positions: int) -> None:
        """Make room for at least n_positions target positions."""
        if n_positions <= self._room:
            return
        self._room = max(_FEWEST_POSITIONS, _power_of_two(n_positions))
        self._graphs.clear()  # they use the old places
        self._has_run.clear()
        self.state.ancestry.grow(self._room)
        for own in self.state.own:
            own.grow(self._room * self.size[1])
        self._tables()

    def _tables(self) -> list[Tensor]:
        """Return the tables of positions, which are long enough for the room."""
        modules = self._model.tgt_positions, *(layer.self_attention.rotary for layer in self._model.decoder_layers)
        return [module.grown(self._room) for module in modules if isinstance(module, GrowingTable)]

    def run(self, length: int, n: int, banned: tuple[int, ...], *, wants_attention: bool) -> tuple[Tensor, ...]:
        """Compute the newest position, the length-th; return what `GraphTransformer._advance` does, and the attention.

        The first step with such arguments makes torch's libraries ready. At the second, a graph is recorded, and its
        result compared with that of the step.
        """
        n_positions = max(_FEWEST_POSITIONS, _power_of_two(length))
        key = n_positions, n, banned, wants_attention
        if key in self._graphs:
            return self._graphs[key].replay()

        def step() -> tuple[Tensor, ...]:
            return self._step(n_positions, n, banned, wants_attention)

        if key not in self._has_run or not self._recorder.works:
            self._has_run.add(key)
            return step()
        before = [(tensor, tensor.clone()) for tensor in (self.parents, *self.state.ancestry.state())]
        expected = step()
        for tensor, value in before:
            tensor.copy_(value)
        if (graph := self._recorder.record(step, expected, self._tables())) is not None:
            self._graphs[key] = graph
            return expected
        for tensor, value in before:
            tensor.copy_(value)
        return step()

    def _step(self, n_positions: int, n: int, banned: Sequence[int], wants_attention: bool) -> tuple[Tensor, ...]:
        self.state.ancestry.look_at(n_positions)
        self.state.ancestry.reorder(self.parents)
        self.parents.copy_(self._themselves)
        self.state.attention = self.last_ids if wants_attention else None
        # one kernel for all sizes: cuDNN would plan each of them
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
            hidden = self._model.decode_step(self.last_ids, self.state)
        results = self._vocabulary.choose(hidden, n, banned) if n else (hidden,)
        attention = self.state.attention
        return *results, hidden.new_empty(0) if attention is None else attention


class Recorder:
    """Records work on a GPU as graphs."""

    def __init__(self, device: torch.device, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._device = device
        self.works = device.type == "cuda" and torch.cuda.is_available()
        self._pool = torch.cuda.graph_pool_handle() if self.works else None  # where the work's own tensors go
        self._keeper: _Graph | None = None  # torch can use a pool no longer once all of its graphs are gone

    def record(
        self, work: Callable[[], tuple[Tensor, ...]], expected: tuple[Tensor, ...], tables: list[Tensor]
    ) -> "_Graph | None":
        """Return the work as a graph that has run once.

        tables: tensors that the work reads and that others may replace; the graph keeps them. expected: what the work
        returns now. If the graph returns something else, or cannot be recorded, warn, return None and record nothing
        from then on.
        """
        try:
            if self._keeper is None:
                self._keeper = self._recorded(lambda: (torch.zeros(1, device=self._device),), [])
            graph = self._recorded(work, tables)
        except RuntimeError as error:
            self._give_up(f"torch cannot record it ({str(error).partition(chr(10))[0]})")
            return None
        if all(_is_close(mine, its) for mine, its in zip(expected, graph.replay(), strict=True)):
            return graph
        self._give_up("what was recorded computes something else")
        return None

    def _recorded(self, work: Callable[[], tuple[Tensor, ...]], tables: list[Tensor]) -> "_Graph":
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):  # which makes its GPU the current one, too
            # other threads may go on meanwhile
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                results = work()
            finally:
                graph.capture_end()
        return _Graph(graph, results, tables)

    def _give_up(self, reason: str) -> None:
        self.works = False
        self._warn(f"decoding on the GPU is slower, because a step is not replayed as a CUDA graph: {reason}")


@dataclass(frozen=True)
class _Graph:
    """Work on fixed places in memory, recorded."""

    graph: torch.cuda.CUDAGraph
    results: tuple[Tensor, ...]
    tables: list[Tensor]  # kept, because the graph reads them

    def replay(self) -> tuple[Tensor, ...]:
        """Do the work; return its results, which the next replay overwrites."""
        self.graph.replay()
        return self.results


def _is_close(mine: Tensor, its: Tensor) -> bool:
    """Return whether two results differ only by rounding; not for ids, of which rounding may exchange two."""
    return not mine.is_floating_point() or torch.allclose(mine, its, rtol=1e-3, atol=1e-3, equal_nan=True)


@dataclass
class _State:
    """What `Transformer.decode_step` needs of a `DecoderCache`."""

    own: "list[_KeysAndValues]"
    cross: list[tuple[Tensor, Tensor]]
    pad_bias: Tensor
    ancestry: "_Ancestry"
    attention: Tensor | None = None
    output: nn.Module = field(default_factory=nn.Identity)  # the hidden states are wanted

    @property
    def length(self) -> Tensor:
        """The number of positions so far: int64 (1,)."""
        return self.ancestry.length


class _Ancestry:
    """An `Ancestry` whose table does not move; the length is a number on the GPU, int64 (1,)."""

    def __init__(self, n_sentences: int, beam_size: int, like: Tensor, linear_biases: Any) -> None:
        self.beam_size = beam_size
        self.length = torch.zeros(1, dtype=torch.long, device=like.device)
        self._linear_biases = linear_biases
        self._table = like.new_full((n_sentences, 1, beam_size, 0), BLOCKED)
        self._of_each = torch.arange(beam_size, device=like.device)
        self.n_places = 0
        self.bias = self._table

    def state(self) -> tuple[Tensor, ...]:
        """Return the tensors that a step changes."""
        return self.length, self._table

    @property
    def places(self) -> Tensor:
        """The places of the newest position (K,)."""
        return (self.length - 1) * self.beam_size + self._of_each

    def clear(self) -> None:
        """Forget all positions."""
        self.length.zero_()
        self._table.fill_(BLOCKED)

    def grow(self, n_positions: int) -> None:
        """Make room for n_positions positions."""
        self._table = F.pad(self._table, (0, n_positions * self.beam_size - self._table.size(3)), value=BLOCKED)

    def look_at(self, n_positions: int) -> None:
        """Let attention look at the first n_positions positions."""
        self.n_places = n_positions * self.beam_size

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue the sentence's former hypothesis parents[b, k]; (B, K)."""
        if self.beam_size > 1:
            used = self._table[..., : self.n_places]
            used.copy_(used.gather(2, parents[:, None, :, None].expand_as(used)))

    def advance(self) -> None:
        """Give each hypothesis a place at the next position, and update `bias`, as an `Ancestry` does."""
        self.length += 1
        places = self.places[None, None, :, None].expand(self._table.size(0), -1, -1, -1)
        self._table.scatter_(3, places, 0.0)
        self.bias = self._table[..., : self.n_places]
        if self._linear_biases is not None:
            positions = torch.arange(self.n_places, device=self._table.device) // self.beam_size
            self.bias = (self.bias + self._linear_biases((positions - (self.length - 1))[None])).to(self.bias.dtype)


class _KeysAndValues:
    """A `KeyValueCache` that does not move."""

    def __init__(self, pairs: Tensor) -> None:
        """pairs: (2, B, H, places, d_head), empty."""
        self._pairs = pairs

    def grow(self, n_places: int) -> None:
        """Make room for n_places places."""
        self._pairs = F.pad(self._pairs, (0, 0, 0, n_places - self._pairs.size(3)))

    def append(self, pair: Tensor, ancestry: _Ancestry) -> tuple[Tensor, Tensor]:
        """Add pair (2, B, H, K, d_head); return all keys and all values that attention looks at."""
        self._pairs.index_copy_(3, ancestry.places, pair.to(self._pairs.dtype))
        keys, values = self._pairs[:, :, :, : ancestry.n_places]
        return keys, values


def _power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least n."""
    return 1 << max(0, n - 1).bit_length()
