"""The loops of decoding, which numba compiles: the encoder, a decoder's step, and the choice of the next tokens.

Each is one function over all layers, because on a CPU small operations wait for Python and large ones for memory. What
a sentence gets depends on nothing but the sentence and the model, to the last bit: products are by row (see
`mtkit.model.cpu.tiles`), attention looks at a sentence's own positions, and there is no padding.

Weights come as `mtkit.model.cpu.packing` lays them out. The inputs of products are float32, or integers from 1 to 255
with a scale for each row.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.extending import overload
from numpy.typing import NDArray

from mtkit.model.cpu.jit import INLINE, LANES, bits_of_float, compiled, exp, exp_row, float_of_bits, inlined, largest_of
from mtkit.model.cpu.tiles import ADD, PANEL, PLAIN, RELU, ROWS, multiply

BLOCK = 16 * ROWS  # rows that go through all layers together: what they leave on the way fits into the second cache
_CHOICES = 8 * ROWS  # rows whose logits fit into it
_CHUNK = 4 * LANES  # logits of which only the largest is compared at first
ACTIVATIONS = "relu", "gelu", "silu", "swiglu"  # the functions below get the index of one
_RELU, _GELU, _SILU, _SWIGLU = range(4)


class Stack(NamedTuple):
    """The layers of an encoder or a decoder as the loops read them; the first three are those of `packing.Products`."""

    weights: NDArray[np.uint8]
    numbers: NDArray[np.float32]
    table: NDArray[np.int64]
    norms: NDArray[np.float32]
    embedding: NDArray[np.float32]  # (V, D)
    positions: NDArray[np.float32]  # (positions, D) to add to embeddings, or (positions, d_head) if is_rotary
    like: NDArray[Any]  # an empty array of the type that the inputs of products have
    n_layers: int
    n_heads: int
    is_before: bool  # whether norms come before sublayers
    is_rotary: bool  # whether heads rotate by the sines and cosines in positions
    activation: int  # its index in ACTIVATIONS


class State(NamedTuple):
    """What decoding keeps from step to step; each sentence has a place in these arrays, its slot.

    The keys and values of a sentence's source are the rows starts[slot] to starts[slot + 1] - 1 of cross.
    """

    slots: NDArray[np.int64]  # (B,)
    starts: NDArray[np.int64]  # (slots + 1,)
    cross: NDArray[np.float32]
    parents: NDArray[np.int64]  # (B, K), the hypotheses of the step before that these continue
    ancestors: NDArray[np.int64]  # (2, slots, K, length or more), each hypothesis' row of own at each position
    own: NDArray[np.float32]  # (layers, slots, rows, 2 D), keys and values: a row for a hypothesis at a position
    length: int  # the positions before the next step's


@inlined
def _padded(n):
    """Return n rounded up to whole panels."""
    return -(-n // PANEL) * PANEL


@inlined
def _fours(n):
    """Return n rounded up to a multiple of four, as many bytes as are multiplied together."""
    return -(-n // 4) * 4


@inlined
def _normalize(x, norm, out):
    """Set out to the norm of x, (D,) each: layer norm by gain and bias, norm (2, D), or RMSNorm by its gain, (1, D).

    The epsilons are those of `make_norm`.
    """
    mean, squares, n = np.float32(0.0), np.float32(0.0), np.float32(x.size)
    if norm.shape[0] == 1:
        for j in range(x.size):
            squares += x[j] * x[j]
        factor = np.float32(1.0) / np.sqrt(squares / n + np.float32(1e-6))
        for j in range(x.size):
            out[j] = x[j] * factor * norm[0, j]
    else:
        for j in range(x.size):
            mean += x[j]
        mean /= n
        for j in range(x.size):
            squares += (x[j] - mean) * (x[j] - mean)
        factor = np.float32(1.0) / np.sqrt(squares / n + np.float32(1e-5))
        for j in range(x.size):
            out[j] = (x[j] - mean) * factor * norm[0, j] + norm[1, j]


def _put_input(inputs, scales, i, row):
    """Make the row (D,) the input i of products."""


@overload(_put_input, jit_options=INLINE)
def _put_input_overload(inputs, scales, i, row):
    if inputs.dtype in (types.uint8, types.int16):

        def quantize(inputs, scales, i, row):
            # As `Int8Linear`: the largest magnitude becomes 127. To that, 128 is added, since the processor multiplies
            # unsigned by signed bytes; int16 gets the same numbers. Integers are compared, not floats: the compiler
            # vectorises only those.
            target, bits, largest = inputs[i], row.view(np.int32), np.int32(0)
            for j in range(bits.size):
                largest = max(largest, np.int32(bits[j] & np.int32(0x7FFFFFFF)))
            scale = float_of_bits(np.uint32(largest)) * np.float32(1 / 127) + np.float32(1e-12)
            scales[i] = scale
            factor = np.float32(1.0) / scale
            for j in range(row.size):
                # a float32 as large as 2^23 + 2^22 has no fraction: the addition rounds, and leaves the integer in the
                # lowest bits
                target[j] = np.uint8(bits_of_float(row[j] * factor + np.float32(12582912.0)) + np.uint32(128))

        return quantize
    if inputs.dtype == types.float32:

        def copy(inputs, scales, i, row):
            target = inputs[i]
            for j in range(row.size):
                target[j] = row[j]

        return copy
    raise TypingError(f"no product for {inputs.dtype}")


@inlined
def _put_inputs(x, n, size, is_before, norm, row, inputs, scales):
    """Make the first n rows of x the inputs of a sublayer; is_before: normalise them first. row: for use meanwhile."""
    for i in range(n):
        if is_before:
            _normalize(x[i, :size], norm, row)
            _put_input(inputs, scales, i, row)
        else:
            _put_input(inputs, scales, i, x[i, :size])


@inlined
def _normalize_rows(x, n, size, norm):
    """Normalise the first n rows of x in place."""
    for i in range(n):
        _normalize(x[i, :size], norm, x[i, :size])


@inlined
def _put_token(token, factor, position, is_rotary, x):
    """Set x to the scaled embedding of a token plus its position, unless attention rotates by it; (D,) each."""
    if is_rotary:
        for j in range(x.size):
            x[j] = token[j] * factor
    else:
        for j in range(x.size):
            x[j] = token[j] * factor + position[j]


@inlined
def _rotate(x, position, n_heads):
    """Rotate each head of x, (n_heads x d_head,), by the sines and cosines of a position, as `RotaryPositions` does."""
    half = position.size // 2
    for head in range(n_heads):
        middle = (2 * head + 1) * half
        one, other = x[middle - half : middle], x[middle : middle + half]
        for j in range(half):
            sin, cos, first, second = position[j], position[half + j], one[j], other[j]
            one[j] = first * cos - second * sin
            other[j] = second * cos + first * sin


@inlined
def _attend(query, rows, places, keys, values, n_heads, scores, out, attention, n_looking):
    """Set out to softmax(q k^T / sqrt(d_head)) v, heads apart (Vaswani et al. 2017, equation 1); query, out: (D,).

    places: the rows to look at; keys, values: the columns at which theirs begin. scores: for use meanwhile. To
    attention, unless it is empty, the mean weights of the first n_looking heads are added.
    """
    size = query.size // n_heads
    scale, n = np.float32(1.0) / np.sqrt(np.float32(size)), places.size
    own = scores[: -(-n // LANES) * LANES]
    for head in range(n_heads):
        first = head * size
        q, mixed = query[first : first + size], out[first : first + size]
        for t in range(n):
            key, score = rows[places[t], keys + first : keys + first + size], np.float32(0.0)
            for j in range(size):
                score += q[j] * key[j]
            own[t] = score * scale
        for t in range(n, own.size):
            own[t] = -np.inf
        _, total = exp_row(own)
        factor = np.float32(1.0) / total
        for j in range(size):
            mixed[j] = np.float32(0.0)
        for t in range(n):
            value, weight = rows[places[t], values + first : values + first + size], own[t] * factor
            for j in range(size):
                mixed[j] += weight * value[j]
        if attention.size and head < n_looking:
            share = factor / np.float32(n_looking)
            for t in range(n):
                attention[t] += own[t] * share


@inlined
def _sigmoid(x):
    """Return 1 / (1 + e^-x), by a power of at most 0."""
    power = exp(-abs(x))
    return (np.float32(1.0) if x >= np.float32(0.0) else power) / (np.float32(1.0) + power)


@inlined
def _gelu(x):
    """Return x (1 + erf(x / sqrt(2))) / 2 (Hendrycks and Gimpel 2016).

    erf to 1.5e-7 by Abramowitz and Stegun 1964, formula 7.1.26.
    """
    t = np.float32(1.0) / (np.float32(1.0) + np.float32(0.3275911 / np.sqrt(2.0)) * abs(x))
    series = np.float32(1.061405429) * t - np.float32(1.453152027)
    series = series * t + np.float32(1.421413741)
    series = series * t - np.float32(0.284496736)
    series = series * t + np.float32(0.254829592)
    below = np.float32(0.5) * series * t * exp(np.float32(-0.5) * x * x)  # (1 - erf(|x| / sqrt(2))) / 2
    return x * (np.float32(1.0) - below if x >= np.float32(0.0) else below)


@inlined
def _activated(row, activation):
    """Apply an activation function to a row in place, but relu, which the product has applied; return what it leaves.

    Of swiglu's row the first half are gates, and become the result.
    """
    if activation == _SWIGLU:
        width = row.size // 2
        for j in range(width):
            row[j] = row[j] * _sigmoid(row[j]) * row[width + j]
        return row[:width]
    if activation == _SILU:
        for j in range(row.size):
            row[j] = row[j] * _sigmoid(row[j])
    elif activation == _GELU:
        for j in range(row.size):
            row[j] = _gelu(row[j])
    return row[: row.size]


@inlined
def _feed_forward(x, n, size, is_before, activation, norm, weights, numbers, table, first, row, inputs, hidden, scales):
    """Add the feed-forward sublayer of the products first and first + 1 to the rows of x; hidden: their inputs."""
    width = table[first, 4]
    wide = np.empty((n, _padded(width)), np.float32)
    _put_inputs(x, n, size, is_before, norm, row, inputs, scales)
    multiply(inputs, scales, n, weights, numbers, table[first], wide, RELU if activation == _RELU else PLAIN)
    for i in range(n):
        _put_input(hidden, scales, i, _activated(wide[i, :width], activation))
    multiply(hidden, scales, n, weights, numbers, table[first + 1], x, ADD)
    if not is_before:
        _normalize_rows(x, n, size, norm)


@compiled
def encode(stack, ids, starts, out):
    """Set out to the keys and values that the decoder's layers find in the source: (tokens, whole panels).

    ids: (tokens,), sentence after sentence; starts: (B + 1,), where each begins. The products of a layer are: queries,
    keys and values; their output; the two of the feed-forward. The last product of the stack makes out.
    """
    weights, numbers, table, norms, embedding, positions, like = stack[:7]
    n_layers, n_heads, is_before, is_rotary, activation = stack[7:]
    size = embedding.shape[1]
    factor = np.float32(np.sqrt(np.float64(size)))
    nowhere = np.empty(0, np.float32)
    row, mixed = np.empty(size, np.float32), np.empty(size, np.float32)
    first = 0
    while first < starts.size - 1:
        last = first + 1
        while last < starts.size - 1 and starts[last + 1] - starts[first] <= BLOCK:
            last += 1
        begin, n, longest = starts[first], starts[last] - starts[first], 0
        for b in range(first, last):
            longest = max(longest, starts[b + 1] - starts[b])
        x, packed = np.empty((n, _padded(size)), np.float32), np.empty((n, _padded(3 * size)), np.float32)
        inputs, hidden = np.empty((n, _fours(size)), like.dtype), np.empty((n, _fours(table[2, 4])), like.dtype)
        scales, scores = np.empty(n, np.float32), np.empty(-(-longest // LANES) * LANES, np.float32)
        places = np.arange(n)
        for b in range(first, last):
            for t in range(starts[b + 1] - starts[b]):
                i = starts[b] - begin + t
                _put_token(embedding[ids[begin + i]], factor, positions[t], is_rotary, x[i, :size])
        for layer in range(n_layers):
            one, norm = 4 * layer, norms[2 * layer]
            _put_inputs(x, n, size, is_before, norm, row, inputs, scales)
            multiply(inputs, scales, n, weights, numbers, table[one], packed, PLAIN)
            for b in range(first, last):
                own = places[starts[b] - begin : starts[b + 1] - begin]
                if is_rotary:
                    for t in range(own.size):
                        _rotate(packed[own[t], : 2 * size], positions[t], 2 * n_heads)
                for i in own:
                    query = packed[i, :size]
                    _attend(query, packed, own, size, 2 * size, n_heads, scores, mixed, nowhere, 0)
                    _put_input(inputs, scales, i, mixed)
            multiply(inputs, scales, n, weights, numbers, table[one + 1], x, ADD)
            if not is_before:
                _normalize_rows(x, n, size, norm)
            norm = norms[2 * layer + 1]
            pair = one + 2
            _feed_forward(
                x, n, size, is_before, activation, norm, weights, numbers, table, pair, row, inputs, hidden, scales
            )
        _put_inputs(x, n, size, is_before, norms[-1], row, inputs, scales)
        multiply(inputs, scales, n, weights, numbers, table[4 * n_layers], out[begin:], PLAIN)
        first = last


@inlined
def _recur(packed, past, cell, is_first, x):
    """Compute a cell of `SSRU`, (D,), from the one before, and add its positive part to x.

    packed: W x, then W_f x + b_f.
    """
    size = x.size
    new, forget = packed[:size], packed[size:]
    for j in range(size):
        gate = _sigmoid(forget[j])
        kept = np.float32(0.0) if is_first else past[j] * gate
        cell[j] = kept + (new[j] - gate * new[j])
        x[j] += np.float32(0.0) if cell[j] < np.float32(0.0) else cell[j]


@compiled
def step(stack, state, ids, is_recurrent, aligning, out, attention):
    """Advance the hypotheses by their newest tokens: ids (B, K); set out (B x K, D) to what predicts the next ones.

    A step reads one half of the ancestors and writes the other. is_recurrent: the decoder is an SSRU, and own (layers,
    slots, 2 K, D) holds its cells, one half from the step before. aligning: a layer, and how many of its heads, from
    the first, align words. attention: (B x K, S) zeros, or empty; the step sets it to the mean attention of these heads
    to the source.
    """
    weights, numbers, table, norms, embedding, positions, like = stack[:7]
    n_layers, n_heads, is_before, is_rotary, activation = stack[7:]
    slots, starts, cross, parents, ancestors, own, length = state
    size, beam_size, n_products = embedding.shape[1], ids.shape[1], 5 if is_recurrent else 6
    factor = np.float32(np.sqrt(np.float64(size)))
    before, after = ancestors[length % 2], ancestors[(length + 1) % 2]
    longest = length + 1
    for slot in slots:
        longest = max(longest, starts[slot + 1] - starts[slot])
    n_most = min(BLOCK, out.shape[0])
    row, mixed, nowhere = np.empty(size, np.float32), np.empty(size, np.float32), np.empty(0, np.float32)
    x, packed = np.empty((n_most, _padded(size)), np.float32), np.empty((n_most, _padded(3 * size)), np.float32)
    inputs, hidden = (
        np.empty((n_most, _fours(size)), like.dtype),
        np.empty((n_most, _fours(table[n_products - 2, 4])), like.dtype),
    )
    scales, scores = np.empty(n_most, np.float32), np.empty(-(-longest // LANES) * LANES, np.float32)
    places = np.arange(cross.shape[0])
    for first in range(0, out.shape[0], n_most):
        n = min(n_most, out.shape[0] - first)
        for i in range(n):
            b, k = (first + i) // beam_size, (first + i) % beam_size
            _put_token(embedding[ids[b, k]], factor, positions[length], is_rotary, x[i, :size])
            if not is_recurrent:
                past, path = before[slots[b], parents[b, k]], after[slots[b], k]
                for t in range(length):
                    path[t] = past[t]
                path[length] = length * beam_size + k
        for layer in range(n_layers):
            one, norm = n_products * layer, 3 * layer
            _put_inputs(x, n, size, is_before, norms[norm], row, inputs, scales)
            multiply(inputs, scales, n, weights, numbers, table[one], packed, PLAIN)
            if is_recurrent:
                for i in range(n):
                    b, k = (first + i) // beam_size, (first + i) % beam_size
                    cells = own[layer, slots[b]]
                    past = cells[(length + 1) % 2 * beam_size + parents[b, k]]
                    _recur(packed[i, : 2 * size], past, cells[length % 2 * beam_size + k], length == 0, x[i, :size])
            else:
                for i in range(n):
                    b, k = (first + i) // beam_size, (first + i) % beam_size
                    if is_rotary:
                        _rotate(packed[i, : 2 * size], positions[length], 2 * n_heads)
                    rows, path = own[layer, slots[b]], after[slots[b], k]
                    target = rows[path[length]]
                    for j in range(2 * size):
                        target[j] = packed[i, size + j]
                    query = packed[i, :size]
                    _attend(query, rows, path[: length + 1], 0, size, n_heads, scores, mixed, nowhere, 0)
                    _put_input(inputs, scales, i, mixed)
                multiply(inputs, scales, n, weights, numbers, table[one + 1], x, ADD)
            if not is_before:
                _normalize_rows(x, n, size, norms[norm])
            _put_inputs(x, n, size, is_before, norms[norm + 1], row, inputs, scales)
            multiply(inputs, scales, n, weights, numbers, table[one + n_products - 4], packed, PLAIN)
            keys = 2 * layer * size
            for i in range(n):
                slot = slots[(first + i) // beam_size]
                source = places[starts[slot] : starts[slot + 1]]
                looked = attention[first + i] if layer == aligning[0] else nowhere
                _attend(packed[i, :size], cross, source, keys, keys + size, n_heads, scores, mixed, looked, aligning[1])
                _put_input(inputs, scales, i, mixed)
            multiply(inputs, scales, n, weights, numbers, table[one + n_products - 3], x, ADD)
            if not is_before:
                _normalize_rows(x, n, size, norms[norm + 1])
            pair, last = one + n_products - 2, norms[norm + 2]
            _feed_forward(
                x, n, size, is_before, activation, last, weights, numbers, table, pair, row, inputs, hidden, scales
            )
        for i in range(n):
            if is_before:
                _normalize(x[i, :size], norms[-1], out[first + i])
            else:
                for j in range(size):
                    out[first + i, j] = x[i, j]


@compiled
def project(weights, numbers, entry, like, x, out):
    """Set out (rows, whole panels) to the product of x (rows, D)."""
    size = x.shape[1]
    inputs, scales = np.empty((x.shape[0], _fours(size)), like.dtype), np.empty(x.shape[0], np.float32)
    for i in range(x.shape[0]):
        _put_input(inputs, scales, i, x[i])
    multiply(inputs, scales, x.shape[0], weights, numbers, entry, out, PLAIN)


@compiled
def choose(weights, numbers, entry, like, x, banned, forbidden, log_probs, ids):
    """Set log_probs and ids (rows, n) to the n likeliest tokens after x (rows, D), the likeliest first.

    Of equally likely ones, the lower id comes first; banned ones never come. A NaN makes all of a row's NaN. forbidden:
    (B, V), tokens without probability for the rows of each sentence, which follow each other; or (0, 0).
    """
    size, n_tokens, n_best = x.shape[1], entry[4], ids.shape[1]
    n_most = min(_CHOICES, x.shape[0])
    inputs, scales = np.empty((n_most, _fours(size)), like.dtype), np.empty(n_most, np.float32)
    logits = np.empty((n_most, entry[3] * PANEL), np.float32)
    n_chunks = -(-n_tokens // _CHUNK)
    peaks = np.empty(-(-n_chunks // LANES) * LANES, np.float32)
    peaks[:] = -np.inf
    for first in range(0, x.shape[0], n_most):
        n = min(n_most, x.shape[0] - first)
        for i in range(n):
            _put_input(inputs, scales, i, x[first + i])
        multiply(inputs, scales, n, weights, numbers, entry, logits, PLAIN)
        for i in range(n):
            row, best, chosen = logits[i, :n_tokens], log_probs[first + i], ids[first + i]
            if forbidden.size:
                kept_out = forbidden[(first + i) * forbidden.shape[0] // x.shape[0]]
                for j in range(n_tokens):
                    row[j] = -np.inf if kept_out[j] else row[j]
            for chunk in range(n_chunks):
                peaks[chunk] = largest_of(row[chunk * _CHUNK : (chunk + 1) * _CHUNK])
            largest, total = largest_of(peaks), np.float32(0.0)
            for j in range(n_tokens):
                total += exp(row[j] - largest)
            norm = largest + np.log(total)
            for token in banned:
                row[token] = -np.inf
            best[:], chosen[:] = -np.inf if norm == norm else norm, 0
            for chunk in range(n_chunks):
                if peaks[chunk] > best[n_best - 1]:
                    for j in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, n_tokens)):
                        if row[j] > best[n_best - 1]:
                            place = n_best - 1
                            while place > 0 and row[j] > best[place - 1]:
                                best[place], chosen[place] = best[place - 1], chosen[place - 1]
                                place -= 1
                            best[place], chosen[place] = row[j], j
            for place in range(n_best):
                best[place] -= norm
