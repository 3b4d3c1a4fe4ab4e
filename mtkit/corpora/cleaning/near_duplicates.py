"""Find pairs that nearly repeat an earlier pair, by comparing sketches of pairs that share a key.

Two pairs are nearly the same if they share 80 % of the character 4-grams of both sides, without case and punctuation
and with every number as 0 (`text.near_texts`); at 70 % short pairs may differ in a word that matters, such as a name.
The keys are bands of MinHash values (Broder 1997; Indyk and Motwani 1998): of two pairs that share 80 %, 99 % have a
key in common, and of unrelated ones next to none. Pairs with a key in common are then compared by their odd sketches
(Mitzenmacher, Pagh and Pham 2014), which tell how many 4-grams only one of them has: the share is known to about 3
points for a pair of 120 4-grams, to 10 for one of 1,500. More 4-grams fill such a sketch, so pairs of over 2,000 are
compared by one bit of each MinHash value (Li and König 2010), which tells the share to 6 points at any length.

A pair is a repeat if any earlier pair is nearly the same, whether or not that one is itself a repeat. So neither the
windows nor the number of partitions changes which pairs stay, and the first of each cluster always does.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mtkit.text.near_texts import distinct, is_near, loose_keys, n_ones, ngram_hashes, squeezed

N_KEYS = 16  # of a pair
_N_VALUES = 6  # MinHash values that make one key
_N_WORDS = 16  # of 16 bits, in an odd sketch
_N_MINHASH_WORDS = N_KEYS * _N_VALUES // 16  # a bit of each MinHash value
SKETCH_WIDTH = _N_WORDS + _N_MINHASH_WORDS + 1  # the last one is the number of 4-grams
_MOST_IN_ODD_SKETCH = 2000  # 4-grams
MOST_PAIRS = 4096  # in a window
_TENTHS = 8  # of all 4-grams that two pairs share if they are nearly the same
_MOST_COMPARED = 64  # earlier pairs with the same key that a pair is compared with, the nearest ones in input order

Keys = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]
SketchArray = npt.NDArray[np.uint16]

_random = np.random.Generator(np.random.PCG64(26))
_FACTORS = _random.integers(0, 1 << 32, N_KEYS * _N_VALUES, dtype=np.uint32) | np.uint32(1)
_TERMS = _random.integers(0, 1 << 32, N_KEYS * _N_VALUES, dtype=np.uint32)
_TGT = np.uint64(0x9E3779B97F4A7C15)  # tells the 4-grams of the target side from those of the source side
_HASH_BITS = 51  # of a 4-gram; with the 12 bits of a pair's place in its window they fit one integer


class Sketches(NamedTuple):
    """The keys and sketches of a window of pairs."""

    keys: Keys  # (n, N_KEYS)
    sketches: SketchArray  # (n, SKETCH_WIDTH)


def sketch(pairs: Sequence[tuple[str, str]]) -> Sketches:
    """Return the keys and sketches of at most MOST_PAIRS pairs of a source and a target text."""
    if not pairs:
        return Sketches(np.empty((0, N_KEYS), np.uint64), np.empty((0, SKETCH_WIDTH), np.uint16))
    src_owners, src_hashes = ngram_hashes(loose_keys([squeezed(src) for src, _ in pairs]))
    tgt_owners, tgt_hashes = ngram_hashes(loose_keys([squeezed(tgt) for _, tgt in pairs]))
    hashes = _mixed(np.concatenate([src_hashes, tgt_hashes ^ _TGT])) >> np.uint64(64 - _HASH_BITS)
    owners = np.concatenate([src_owners, tgt_owners]).astype(np.int64)
    packed = distinct(owners << _HASH_BITS | hashes.astype(np.int64))
    owners, values = packed >> _HASH_BITS, packed & ((1 << _HASH_BITS) - 1)
    sizes = np.bincount(owners, minlength=len(pairs))
    keys, bits = _keys(values.astype(np.uint32), sizes)
    sizes = np.minimum(sizes, (1 << 16) - 1).astype(np.uint16)
    return Sketches(keys, np.column_stack([_odd_sketches(owners, values >> 32, len(pairs)), bits, sizes]))


def repeats(keys: Keys, indices: Indices, sketches_of: Callable[[Indices], SketchArray]) -> tuple[Indices, Indices]:
    """Return the pairs that nearly repeat an earlier pair with the same key, and for each one that it repeats.

    keys, indices: of one partition, in any order: each key and the place in the corpus of the pair that has it. All the
    pairs with a key must be in its partition. sketches_of: returns the sketches of the pairs with these places. A pair
    may have repeats of other keys in other partitions.
    """
    order = np.lexsort((indices, keys))
    keys, indices = keys[order], indices[order]
    shared = np.zeros(len(keys), np.bool_)
    shared[1:] = keys[1:] == keys[:-1]
    shared[:-1] |= shared[1:]
    keys, indices = keys[shared], indices[shared]
    sketches = sketches_of(indices)
    open_places, later, earlier = np.arange(len(keys)), [indices[:0]], [indices[:0]]
    for lag in range(1, _MOST_COMPARED + 1):
        open_places = open_places[open_places >= lag]
        open_places = open_places[keys[open_places] == keys[open_places - lag]]
        if not len(open_places):
            break
        near = _are_near(sketches[open_places], sketches[open_places - lag])
        later.append(indices[open_places[near]])
        earlier.append(indices[open_places[near] - lag])
        open_places = open_places[~near]
    return first_of_each(np.concatenate(later), np.concatenate(earlier))


def first_of_each(later: Indices, earlier: Indices) -> tuple[Indices, Indices]:
    """Return each repeat once, in order, with the first of the pairs that it repeats."""
    order = np.lexsort((earlier, later))
    later, earlier = later[order], earlier[order]
    first = np.diff(later, prepend=-1) > 0
    return later[first], earlier[first]


def find_repeats(windows: Iterable[Sequence[tuple[str, str]]]) -> tuple[Indices, Indices]:
    """Return the places, from 0, of the pairs that nearly repeat an earlier one, and of the first such pair of each.

    windows: of at most MOST_PAIRS pairs. Holds 174 bytes for each pair in memory, and some of the keys twice.
    """
    return find_repeats_among([sketch(window) for window in windows])


def find_repeats_among(windows: Sequence[Sketches]) -> tuple[Indices, Indices]:
    """Return what `find_repeats` does, from the sketches of the windows."""
    if not windows:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    sketches = np.concatenate([window.sketches for window in windows])
    places, found = np.arange(len(sketches)), []
    for band in range(N_KEYS):
        keys = np.concatenate([window.keys[:, band] for window in windows])
        found.append(repeats(keys, places, sketches.__getitem__))
    return first_of_each(np.concatenate([later for later, _ in found]), np.concatenate([first for _, first in found]))


def _mixed(values: Keys) -> Keys:
    """Spread the differences of the values over all bits (the finaliser of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def _keys(values: npt.NDArray[np.uint32], sizes: Indices) -> tuple[Keys, SketchArray]:
    """Return the keys of each pair, hashes of a band's number and its MinHash values, and a bit of each value."""
    keys = np.zeros((len(sizes), N_KEYS), np.uint64)
    sketches = np.zeros((len(sizes), _N_MINHASH_WORDS), np.uint16)
    filled = np.flatnonzero(sizes)
    if not len(filled):
        return keys, sketches
    bits = np.empty((N_KEYS * _N_VALUES, len(filled)), np.uint8)
    starts = (np.cumsum(sizes) - sizes)[filled]
    for i, (factor, term) in enumerate(zip(_FACTORS, _TERMS, strict=True)):
        least = np.minimum.reduceat(values * factor + term, starts)
        band = i // _N_VALUES
        keys[filled, band] = _mixed((keys[filled, band] + np.uint64(band + 1)) * _TGT ^ least)
        bits[i] = least.astype(np.uint8) & 1
    sketches[filled] = np.ascontiguousarray(np.packbits(bits, axis=0).T).view(np.uint16)
    return keys, sketches


def _odd_sketches(owners: Indices, values: Indices, n_pairs: int) -> SketchArray:
    """Return 256 bits for each pair, each telling whether the number of 4-grams with this bit is odd."""
    n_bits = 16 * _N_WORDS
    counts = np.bincount(owners * n_bits + values % n_bits, minlength=n_pairs * n_bits)
    return np.packbits((counts & 1).astype(np.bool_).reshape(-1, n_bits), axis=1).view(np.uint16)


def _are_near(one: SketchArray, other: SketchArray) -> npt.NDArray[np.bool_]:
    """Tell, row by row, whether two pairs are nearly the same, from the 4-grams that only one of them has.

    Of n values, each of which turns one of m bits, an odd number meets (1 - (1 - 2 / m)^n) / 2 of the bits. Of the bits
    of MinHash values, half of those differ whose values differ.
    """
    m = 16.0 * _N_WORDS
    changed = n_ones(one[:, :-1] ^ other[:, :-1])
    odd = changed[:, :_N_WORDS].sum(axis=1, dtype=np.int64)
    n_different = 2 * changed[:, _N_WORDS:].sum(axis=1, dtype=np.int64)
    a, b = one[:, -1].astype(np.int64), other[:, -1].astype(np.int64)
    with np.errstate(divide="ignore"):
        n_only = np.log(np.maximum(0.0, 1 - 2 * odd / m)) / np.log(1 - 2 / m)
    n_common = np.rint((a + b - np.minimum(n_only, a + b)) / 2).astype(np.int64)
    is_near_by_bits = 10 * n_different <= (10 - _TENTHS) * N_KEYS * _N_VALUES
    is_long = np.maximum(a, b) > _MOST_IN_ODD_SKETCH
    return np.asarray((a > 0) & (b > 0) & np.where(is_long, is_near_by_bits, is_near(n_common, a, b, _TENTHS)))
