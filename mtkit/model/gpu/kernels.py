"""Attention of sentences as kernels that Triton compiles for a GPU; each reads its arrays once and writes them once.

A program computes one pair of a sentence and a head. All its scores fit on the chip, so the backward pass computes them
again from queries and keys, and draws the same random numbers again, instead of reading them from memory.

Queries, keys, values and their gradients are rows of heads: element d of head h at position i of sentence b is at
(b n + i) row + h D + d, where n is the number of positions and row the distance between two positions.
"""

import triton
import triton.language as tl


@triton.jit
def _tile(base, n, row, n_heads, ROWS: tl.constexpr, D: tl.constexpr):
    """Return where the pair's rows are, (ROWS, D), and which of them are among the n positions, (ROWS, 1)."""
    pair = tl.program_id(0)
    i = tl.arange(0, ROWS)[:, None]
    first = (pair // n_heads).to(tl.int64) * n * row + pair % n_heads * D
    return base + first + i * row + tl.arange(0, D)[None, :], i < n


@triton.jit
def _exponents(q, k, bias, bias_row, n_heads, n_keys, CAUSAL: tl.constexpr):
    """Return exp(score - the row's largest score), (Q, L), and its sums, (Q, 1); the softmax is their quotient."""
    D: tl.constexpr = q.shape[1]
    LOG2_E: tl.constexpr = 1.4426950408889634
    i = tl.arange(0, q.shape[0])[:, None]
    j = tl.arange(0, k.shape[0])[None, :]
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (LOG2_E * D**-0.5)
    if bias is not None:
        sentence = tl.program_id(0) // n_heads
        scores += tl.load(bias + sentence * bias_row + j, mask=j < n_keys, other=0.0) * LOG2_E
    is_seen = (j < n_keys) & (j <= i) if CAUSAL else j < n_keys
    scores = tl.where(is_seen, scores, float("-inf"))
    exponents = tl.exp2(scores - tl.max(scores, axis=1, keep_dims=True))
    return exponents, tl.sum(exponents, axis=1, keep_dims=True)


@triton.jit
def _is_kept(seed, ROWS: tl.constexpr, COLUMNS: tl.constexpr, P: tl.constexpr):
    """Return which weights of the pair dropout keeps, (ROWS, COLUMNS).

    Philox draws a key for the pair. Its own ten rounds for each weight would take longer than all else here, so two
    rounds of an integer hash (lowbias32 of https://github.com/skeeto/hash-prospector) spread the key.
    """
    key, _, _, _ = tl.randint4x(tl.load(seed), tl.program_id(0))
    bits = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    bits = bits.to(tl.uint32) ^ key.to(tl.uint32, bitcast=True)
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    LOWEST: tl.constexpr = int(P * 2**32)
    return bits >= LOWEST


@triton.jit(do_not_specialize=["n_queries", "n_keys", "bias_row"])
def forward(
    q, k, v, mixed, q_row, k_row, v_row, mixed_row, bias, bias_row, seed, n_heads, n_queries, n_keys,
    D: tl.constexpr, Q: tl.constexpr, L: tl.constexpr, P: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Write dropout(softmax(q k^T / sqrt(D) + bias)) v to mixed. Q, L: n_queries, n_keys or more, powers of 2."""
    q_at, is_query = _tile(q, n_queries, q_row, n_heads, Q, D)
    k_at, is_key = _tile(k, n_keys, k_row, n_heads, L, D)
    v_at, _ = _tile(v, n_keys, v_row, n_heads, L, D)
    queries = tl.load(q_at, mask=is_query, other=0.0)
    keys = tl.load(k_at, mask=is_key, other=0.0)
    values = tl.load(v_at, mask=is_key, other=0.0)
    weights, sums = _exponents(queries, keys, bias, bias_row, n_heads, n_keys, CAUSAL)
    if P > 0:
        weights = tl.where(_is_kept(seed, Q, L, P), weights, 0.0)
        sums *= 1 - P
    result = tl.dot(weights.to(values.dtype), values, input_precision="ieee") / sums
    mixed_at, _ = _tile(mixed, n_queries, mixed_row, n_heads, Q, D)
    tl.store(mixed_at, result.to(values.dtype), mask=is_query)


@triton.jit(do_not_specialize=["n_queries", "n_keys", "bias_row"])
def backward(
    q, k, v, by_mixed, by_q, by_k, by_v, q_row, k_row, v_row, mixed_row, by_q_row, by_k_row, by_v_row,
    bias, bias_row, seed, n_heads, n_queries, n_keys,
    D: tl.constexpr, Q: tl.constexpr, L: tl.constexpr, P: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Write the gradients by q, k and v to by_q, by_k and by_v, given that by the result of `forward`."""
    q_at, is_query = _tile(q, n_queries, q_row, n_heads, Q, D)
    k_at, is_key = _tile(k, n_keys, k_row, n_heads, L, D)
    v_at, _ = _tile(v, n_keys, v_row, n_heads, L, D)
    mixed_at, _ = _tile(by_mixed, n_queries, mixed_row, n_heads, Q, D)
    queries = tl.load(q_at, mask=is_query, other=0.0)
    keys = tl.load(k_at, mask=is_key, other=0.0)
    values = tl.load(v_at, mask=is_key, other=0.0)
    grad = tl.load(mixed_at, mask=is_query, other=0.0)
    dtype = queries.dtype
    weights, sums = _exponents(queries, keys, bias, bias_row, n_heads, n_keys, CAUSAL)
    weights /= sums
    by_weights = tl.dot(grad, tl.trans(values), input_precision="ieee")
    dropped = weights
    if P > 0:
        factors = tl.where(_is_kept(seed, Q, L, P), 1 / (1 - P), 0.0)
        dropped = weights * factors
        by_weights *= factors
    value_at, _ = _tile(by_v, n_keys, by_v_row, n_heads, L, D)
    tl.store(value_at, tl.dot(tl.trans(dropped.to(dtype)), grad, input_precision="ieee").to(dtype), mask=is_key)
    # the softmax: d loss / d score = weight x (d loss / d weight - their mean by the weights)
    by_scores = weights * (by_weights - tl.sum(weights * by_weights, axis=1, keep_dims=True))
    by_scores = (by_scores * D**-0.5).to(dtype)
    query_at, _ = _tile(by_q, n_queries, by_q_row, n_heads, Q, D)
    key_at, _ = _tile(by_k, n_keys, by_k_row, n_heads, L, D)
    tl.store(query_at, tl.dot(by_scores, keys, input_precision="ieee").to(dtype), mask=is_query)
    tl.store(key_at, tl.dot(tl.trans(by_scores), queries, input_precision="ieee").to(dtype), mask=is_key)
