"""Loops that numba compiles for this processor; each replaces several passes of torch over memory.

Apart from its matrix products, a training step on a CPU spends its time waiting for memory. Each function therefore
reads its arrays once and writes its results once. The kernels release Python's lock, and their results depend on the
arguments alone: not on threads, nor on where arrays lie in memory.

numpy lacks bfloat16, so bfloat16 arrays are passed as uint16: the upper half of the bits of a float32.
"""

import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.extending import overload

from mtkit.model.cpu.jit import INLINE, LANES, bits_of_float, compiled, exp_row, float_of_bits, inlined

BLOCK = 1024  # elements whose random bytes are drawn together
_WORDS = BLOCK // 4


def _get(array, i):
    """Return array[i] as a float32."""


@overload(_get, jit_options=INLINE)
def _get_overload(array, i):
    if array.dtype == types.uint16:
        return lambda array, i: float_of_bits(np.uint32(np.uint32(array[i]) << np.uint32(16)))
    if array.dtype == types.float32:
        return lambda array, i: array[i]
    raise TypingError(f"no kernel for {array.dtype}")


def _put(array, i, number):
    """Set array[i] to number, rounded to the nearest value that array can hold, ties to even.

    The NaN that arithmetic makes stays NaN; of its other bit patterns some become 0 in bfloat16.
    """


@overload(_put, jit_options=INLINE)
def _put_overload(array, i, number):
    if array.dtype == types.uint16:

        def put(array, i, number):
            bits = bits_of_float(number)
            half = np.uint32(0x7FFF) + np.uint32((bits >> np.uint32(16)) & np.uint32(1))
            array[i] = np.uint16(np.uint32(bits + half) >> np.uint32(16))

        return put
    if array.dtype == types.float32:

        def put_float(array, i, number):
            array[i] = number

        return put_float
    raise TypingError(f"no kernel for {array.dtype}")


@inlined
def _draw(words, seed, block):
    """Fill words with random bits that depend on the seed and on the index of the block alone; return 64 more.

    SplitMix64 (Steele et al. 2014) mixes seed and block into a key. Multiplications and shifts then mix the key's two
    halves with the index of the word, so that each bit depends on all of them.
    """
    key = np.uint64(seed) + np.uint64(block) * np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    key ^= key >> np.uint64(31)
    start, stride = np.uint32(key), np.uint32(key >> np.uint64(32)) | np.uint32(1)
    for j in range(words.size):
        x = np.uint32(np.uint32(j) * stride + start)  # the cast keeps numba from going on with 64 bits
        x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        x = np.uint32((x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        words[j] = x ^ (x >> np.uint32(16))
    more = key * np.uint64(0xD6E8FEB86659FD93)
    return more ^ (more >> np.uint64(32))


@inlined
def _n_dropped(p, bits, part):
    """Return how many of a byte's 256 values drop the elements of a part: one of the two whole numbers around 256 p.

    p in units of 2^-24. 16 of the bits choose the number, so that its mean over parts and blocks is 256 p.
    """
    return np.uint32((np.uint64(p) + ((bits >> np.uint64(16 * part)) & np.uint64(0xFFFF))) >> np.uint64(16))


@inlined
def _factor(word, part, n_dropped, scale):
    """Return what to multiply an element by: 0 if its byte, the one of index part in the word, is below n_dropped."""
    byte = (word >> np.uint32(8 * part)) & np.uint32(255)
    return scale if byte >= n_dropped else np.float32(0.0)


# Loops over elements run over slices, because the compiler vectorises only if it knows that no index is negative.


@compiled
def dropout(x, out, seed, p, scale, first, last):
    """Set out to 0 with probability p, in units of 2^-24, else to scale times x; blocks first to last - 1."""
    words = np.empty(_WORDS, np.uint32)
    for block in range(first, last):
        bits = _draw(words, seed, block)
        for part in range(4):
            n_dropped = _n_dropped(p, bits, part)
            start = block * BLOCK + part * _WORDS
            given, result = x[start : start + _WORDS], out[start : start + _WORDS]
            for j in range(given.size):
                _put(result, j, _get(given, j) * _factor(words[j], part, n_dropped, scale))


@compiled
def add_dropout(x, y, out, seed, p, scale, first, last):
    """Set out to x + dropout(y)."""
    words = np.empty(_WORDS, np.uint32)
    for block in range(first, last):
        bits = _draw(words, seed, block)
        for part in range(4):
            n_dropped = _n_dropped(p, bits, part)
            start = block * BLOCK + part * _WORDS
            end = start + _WORDS
            one, two, result = x[start:end], y[start:end], out[start:end]
            for j in range(one.size):
                _put(result, j, _get(one, j) + _get(two, j) * _factor(words[j], part, n_dropped, scale))


@compiled
def relu_dropout(x, bias, out, size, seed, p, scale, first, last):
    """Set out to dropout(max(0, x + bias)); NaN stays NaN.

    bias: repeated, size + BLOCK long; element i of x has bias[i % size].
    """
    words = np.empty(_WORDS, np.uint32)
    for block in range(first, last):
        bits = _draw(words, seed, block)
        for part in range(4):
            n_dropped = _n_dropped(p, bits, part)
            start = block * BLOCK + part * _WORDS
            given, result = x[start : start + _WORDS], out[start : start + _WORDS]
            added = bias[start % size : start % size + _WORDS]
            for j in range(given.size):
                value = _get(given, j) + added[j]
                value = np.float32(0.0) if value <= np.float32(0.0) else value
                _put(result, j, value * _factor(words[j], part, n_dropped, scale))


@compiled
def relu_dropout_gradient(y, grad, out, by_bias, size, scale, first, last):
    """Set out to the gradient by `relu_dropout`'s x, from its result y and the gradient by that.

    by_bias: the gradients by the repeated bias are added to it.
    """
    for block in range(first, last):
        start = block * BLOCK
        one, two, result = y[start : start + BLOCK], grad[start : start + BLOCK], out[start : start + BLOCK]
        total = by_bias[start % size : start % size + BLOCK]
        for j in range(one.size):
            factor = scale if _get(one, j) != np.float32(0.0) else np.float32(0.0)
            value = _get(two, j) * factor
            total[j] += value
            _put(result, j, value)


@compiled
def layer_norm(x, gain, bias, out, means, factors, eps, first, last):
    """Set out to (x - mean) x factor x gain + bias, factor = 1 / sqrt(variance + eps), for rows first to last - 1.

    x, out: (N, D); gain, bias: (D,); means and factors, (N,), get those of the rows, for the gradient.
    """
    n = x.shape[1]
    for i in range(first, last):
        given, result = x[i], out[i]
        mean = np.float32(0.0)
        for j in range(n):
            mean += _get(given, j)
        mean /= np.float32(n)
        variance = np.float32(0.0)
        for j in range(n):
            variance += (_get(given, j) - mean) * (_get(given, j) - mean)
        factor = np.float32(1.0) / np.sqrt(variance / np.float32(n) + eps)
        means[i], factors[i] = mean, factor
        for j in range(n):
            _put(result, j, (_get(given, j) - mean) * factor * _get(gain, j) + _get(bias, j))


@compiled
def layer_norm_gradient(x, gain, means, factors, grad, out, by_gain, by_bias, first, last):
    """Set out to the gradient by `layer_norm`'s x; add the others to by_gain and by_bias. grad: by the result.

    With y = (x - mean) x factor and g = gain x grad: factor x (g - the mean of g - y x the mean of g y).
    """
    n = x.shape[1]
    for i in range(first, last):
        given, by_given, result = x[i], grad[i], out[i]
        mean, factor = means[i], factors[i]
        of_g, of_gy = np.float32(0.0), np.float32(0.0)
        for j in range(n):
            y, own = (_get(given, j) - mean) * factor, _get(by_given, j)
            of_g += own * _get(gain, j)
            of_gy += own * _get(gain, j) * y
            by_gain[j] += own * y
            by_bias[j] += own
        of_g /= np.float32(n)
        of_gy /= np.float32(n)
        for j in range(n):
            y = (_get(given, j) - mean) * factor
            _put(result, j, factor * (_get(by_given, j) * _get(gain, j) - of_g - y * of_gy))


@compiled
def softmax(scores, bias, out, scale, n_heads, first, last):
    """Set out to softmax(scale x scores + bias) over the last dimension, for matrices first to last - 1.

    scores, out: (B x H, Q, L); bias: (B or 1, H or 1, Q or 1, L).
    """
    _, n_queries, n_keys = scores.shape
    row = np.empty(-(-n_keys // LANES) * LANES, np.float32)
    for i in range(first, last):
        sentence = i // n_heads if bias.shape[0] > 1 else 0
        head = i % n_heads if bias.shape[1] > 1 else 0
        for q in range(n_queries):
            own, added, result = scores[i, q], bias[sentence, head, q if bias.shape[2] > 1 else 0], out[i, q]
            for j in range(n_keys):
                row[j] = _get(own, j) * scale + _get(added, j)
            for j in range(n_keys, row.size):
                row[j] = -np.inf
            _, total = exp_row(row)
            factor = np.float32(1.0) / total
            for j in range(n_keys):
                _put(result, j, row[j] * factor)


@compiled
def softmax_gradient(weights, grad, out, scale, first, last):
    """Set out to the gradient by `softmax`'s scores; weights: its result; grad: by that; rows first to last - 1."""
    n_keys = weights.shape[1]
    for i in range(first, last):
        own, by_own, result = weights[i], grad[i], out[i]
        along = np.float32(0.0)
        for j in range(n_keys):
            along += _get(own, j) * _get(by_own, j)
        for j in range(n_keys):
            _put(result, j, _get(own, j) * (_get(by_own, j) - along) * scale)


@inlined
def _divergence(one, two, p, q, log_norms, uniform, strength):
    """Turn a position's logits, one of p and two of q, into gradients without the target's part.

    The gradient of KL(p || q) by p's logits is p (log p - log q - KL(p || q)), and by q's q - p. Returns
    strength x (KL(p || q) + KL(q || p)).
    """
    apart = log_norms[0] - log_norms[1]
    p_to_q, q_to_p = np.float32(0.0), np.float32(0.0)
    for j in range(p.size):
        one[j] = one[j] - two[j] - apart  # log p - log q
        p_to_q += p[j] * one[j]
        q_to_p -= q[j] * one[j]
    half = np.float32(0.5)
    for j in range(p.size):
        ratio = one[j]
        one[j] = half * (p[j] - uniform) + strength * (p[j] * (ratio - p_to_q + np.float32(1.0)) - q[j])
        two[j] = half * (q[j] - uniform) + strength * (q[j] * (np.float32(1.0) - ratio - q_to_p) - p[j])
    return np.float64(strength) * (np.float64(p_to_q) + np.float64(q_to_p))


@compiled
def cross_entropy(logits, bias, targets, smoothing, r_drop, by_bias, sums, first, last):
    """Compute the loss of `mtkit.training.update.loss` for positions first to last - 1; turn the logits into gradients.

    logits: (P, N or more, V), of one pass or of two, without their bias (V,); targets: (N,). The gradients by the bias
    are added to by_bias (V,); the loss and its unsmoothed part to sums, (2,) of float64.
    """
    n_passes, _, n_tokens = logits.shape
    raw = np.empty((n_passes, n_tokens), np.float32)
    powers = np.empty((n_passes, n_tokens), np.float32)
    log_norms, totals = np.empty(n_passes, np.float32), np.empty(n_passes, np.float32)
    uniform = smoothing / np.float32(n_tokens)
    for i in range(first, last):
        target = targets[i]
        for k in range(n_passes):
            own, row, power = logits[k, i], raw[k], powers[k]
            along = np.float32(0.0)
            for j in range(n_tokens):
                row[j] = _get(own, j) + _get(bias, j)
                power[j] = row[j]
                along += row[j]
            largest, totals[k] = exp_row(power)
            log_norms[k] = largest + np.log(totals[k])
            nll = np.float64(log_norms[k] - row[target])
            of_all = np.float64(log_norms[k] - along / np.float32(n_tokens))
            sums[0] += ((1 - np.float64(smoothing)) * nll + np.float64(smoothing) * of_all) / n_passes
            sums[1] += nll / n_passes
        for k in range(n_passes):
            row, power, factor = raw[k], powers[k], np.float32(1.0) / totals[k]
            if n_passes == 1:
                for j in range(n_tokens):
                    row[j] = power[j] * factor - uniform
            else:
                for j in range(n_tokens):
                    power[j] *= factor
        if n_passes == 2:
            sums[0] += _divergence(raw[0], raw[1], powers[0], powers[1], log_norms, uniform, r_drop / np.float32(4.0))
        for k in range(n_passes):
            row, own = raw[k], logits[k, i]
            row[target] -= (np.float32(1.0) - smoothing) / np.float32(n_passes)
            for j in range(n_tokens):
                by_bias[j] += row[j]
                _put(own, j, row[j])


@compiled
def schedule_free_step(y, z, squares, grad, lr, beta1, beta2, correction, eps, decay, share, first, last):
    """Make the step of `mtkit.training.update.schedule_free` for elements first to last - 1 of a weight.

    y, z: the weight and its own sequence z; squares: the mean of the squared gradients, which correction divides;
    decay: of the weights; share: of the new z in the mean of all.
    """
    ys, zs, means, gradients = y[first:last], z[first:last], squares[first:last], grad[first:last]
    one = np.float32(1.0)
    by_step = lr * (beta1 * (one - share) - one)
    for j in range(ys.size):
        g = gradients[j]
        means[j] = beta2 * means[j] + (one - beta2) * g * g
        step = g / (np.sqrt(means[j] / correction) + eps) + decay * ys[j]
        ys[j] += share * (zs[j] - ys[j]) + by_step * step
        zs[j] -= lr * step
