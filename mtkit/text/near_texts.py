"""Compare texts for near equality, and find the texts that nearly equal one of a set, many at a time."""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mtkit.text.words import MARKS

_ORDER = 4  # characters of an n-gram
_MARKS = re.compile(rf"[^\w\n{MARKS}]+")
_NUMBER = re.compile(r"\d+")
TENTHS = 7  # texts that share this part of all their n-grams are nearly the same (Jaccard)
MOST_TEXTS = 2048  # in a call
_PIECE = 1 << 20  # candidates that are looked at together, which bounds memory
_N_BITS = 256  # of a signature
_KNOWN = 1 << 51  # at and above it a code is the rank of a known n-gram, below it a hash

_Ints = npt.NDArray[np.int64]
_Signatures = npt.NDArray[np.uint16]


class NearTexts:
    """An index of distinct texts that finds those that share 70 % of all n-grams with another text.

    The search is exact. With the n-grams of each text sorted from rare to frequent, two sets with that much in common
    share one of their first few (prefix filtering; Bayardo, Ma and Srikant 2007). Signatures of 256 bits rule out most
    of the candidates that this leaves; the sets of the others are compared. 64-bit hashes stand for the n-grams.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        owners, hashes = ngram_hashes(texts)
        self._hashes, ranks = np.unique(hashes, return_inverse=True)
        n_grams = max(1, len(self._hashes))
        owners, ranks = np.divmod(distinct(owners * n_grams + ranks.reshape(-1)), n_grams)
        self._ranks = np.empty(n_grams, np.int64)  # by index of the hash; the rarest is 0
        self._ranks[np.argsort(np.bincount(ranks, minlength=n_grams), kind="stable")] = np.arange(n_grams)
        owners, ranks = np.divmod(np.sort(owners * n_grams + self._ranks[ranks]), n_grams)
        self._sizes = np.bincount(owners, minlength=len(texts))
        self._signatures = _signatures(owners, ranks, len(texts))
        first = _places(self._sizes) < _n_first(self._sizes)[owners]
        owners, ranks = owners[first], ranks[first]
        self._owners = owners[np.argsort(ranks, kind="stable")]  # of the first few n-grams, by rank
        self._n_owners = np.bincount(ranks, minlength=n_grams)
        self._starts = np.cumsum(self._n_owners) - self._n_owners

    def find(self, others: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Yield the index in others and the text of each pair that is nearly the same; at most MOST_TEXTS others."""
        if not others or not self._texts:
            return
        lines, codes = self._coded(others)
        sizes = np.bincount(lines, minlength=len(others))
        known = codes >= _KNOWN
        n_known = np.bincount(lines[known], minlength=len(others))
        signatures = _signatures(lines[known], codes[known] - _KNOWN, len(others))
        first = known & (_places(sizes) < _n_first(sizes)[lines])
        for line, text in self._candidates(lines[first], codes[first] - _KNOWN, sizes):
            a, b, mine, theirs = sizes[line], self._sizes[text], signatures[line], self._signatures[text]
            most_common = np.minimum(n_known[line] - _n_only(mine, theirs), b - _n_only(theirs, mine))
            near = is_near(most_common, a, b)
            for i, j in zip(line[near].tolist(), text[near].tolist(), strict=True):
                ours, other = _ngrams(self._texts[j]), _ngrams(others[i])
                if is_near(len(ours & other), len(ours), len(other)):
                    yield i, self._texts[j]

    def _coded(self, others: Sequence[str]) -> tuple[_Ints, _Ints]:
        """Return the distinct n-grams, by text from rare to frequent: each one's text, and its code."""
        lines, hashes = ngram_hashes(others)
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        unknown = (hashes >> np.uint64(13)).astype(np.int64)  # the rarest of all
        codes = np.where(self._hashes[at] == hashes, _KNOWN + self._ranks[at], unknown)
        packed = distinct(lines << 52 | codes)
        return packed >> 52, packed & ((1 << 52) - 1)

    def _candidates(self, lines: _Ints, ranks: _Ints, sizes: _Ints) -> Iterator[tuple[_Ints, _Ints]]:
        """Yield distinct pairs of a line and one of the texts whose first n-grams have one of the line's.

        sizes: how many n-grams each line has; texts with far more or fewer are left out.
        """
        n_owners = self._n_owners[ranks]
        ends = np.cumsum(n_owners)
        cuts = np.searchsorted(ends, np.arange(_PIECE, int(n_owners.sum()), _PIECE))
        for part in np.split(np.arange(len(lines)), cuts):
            n = n_owners[part]
            texts = self._owners[np.repeat(self._starts[ranks[part]], n) + _places(n)]
            owners = np.repeat(lines[part], n)
            a, b = sizes[owners], self._sizes[texts]
            alike = is_near(np.minimum(a, b), a, b)
            yield np.divmod(distinct(owners[alike] * len(self._texts) + texts[alike]), len(self._texts))


def squeezed(text: str) -> str:
    """Return the text with one space for each run of white space, and none at its ends."""
    return " ".join(text.split())


def loose_keys(texts: Sequence[str]) -> list[str]:
    """Return each squeezed text without case and punctuation, with 0 for each number; unchanged if nothing is left."""
    keys = _NUMBER.sub("0", _MARKS.sub(" ", "\n".join(texts).casefold())).split("\n")
    return [key.strip() or text for key, text in zip(keys, texts, strict=True)]


def _ngrams(text: str) -> set[str]:
    padded = f" {text} "
    return {padded[i : i + _ORDER] for i in range(max(1, len(padded) - _ORDER + 1))}


def ngram_hashes(texts: Sequence[str]) -> tuple[_Ints, npt.NDArray[np.uint64]]:
    """Return the n-grams of all texts in order, repeated ones too: each one's text, and its hash.

    A text of one character has an n-gram with the end of a line, which is in no text; an empty one has none.
    """
    padded = [f" {text} " if len(text) > 1 else f" {text} \n" for text in texts]
    owners = np.repeat(np.arange(len(texts)), np.fromiter(map(len, padded), np.int64, len(texts)))
    chars = np.frombuffer(bytearray("".join(padded), "utf-32-le"), np.uint32).astype(np.uint64)
    n = max(0, len(chars) - _ORDER + 1)
    hashes = np.zeros(n, np.uint64)
    for i in range(_ORDER):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + chars[i : i + n]
    inside = owners[:n] == owners[len(owners) - n :]
    return owners[:n][inside], hashes[inside]


def distinct(values: _Ints) -> _Ints:
    """Return the distinct values, sorted. (np.unique of numpy 2.3 and later hashes, which takes five times as long.)"""
    values = np.sort(values)
    return values[np.diff(values, prepend=-1) > 0]  # none is negative


def _places(sizes: _Ints) -> _Ints:
    """Return 0, 1, ... within each of the consecutive groups of these sizes."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _n_first(n_grams: _Ints) -> _Ints:
    """Return how many of a text's rarest n-grams contain one of any text that is nearly the same."""
    return n_grams + (-TENTHS * n_grams) // 10 + 1


def is_near(n_common: _Ints | int, a: _Ints | int, b: _Ints | int, tenths: int = TENTHS) -> npt.NDArray[np.bool_]:
    """Return whether sets of sizes a and b with this many n-grams in common are nearly the same."""
    return np.asarray(10 * n_common >= tenths * (a + b - n_common))


def _signatures(owners: _Ints, ranks: _Ints, n_texts: int) -> _Signatures:
    """Return a row of 256 bits for each text, with the bits of its n-grams set."""
    bits = np.zeros((n_texts, _N_BITS), np.bool_)
    bits[owners, ranks % _N_BITS] = True
    return np.packbits(bits, axis=1).view(np.uint16)


_N_ONES = np.unpackbits(np.arange(1 << 16, dtype=np.uint16).view(np.uint8)).reshape(-1, 16).sum(axis=1, dtype=np.uint8)


def n_ones(numbers: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint8]:
    """Return how many bits of each number are 1."""
    return np.asarray(_N_ONES[numbers])


def _n_only(a: _Signatures, b: _Signatures) -> _Ints:
    """Return, row by row, how many bits only a has, which is a lower bound for the n-grams that b lacks."""
    return np.asarray(n_ones(a & ~b).sum(axis=1, dtype=np.int64))
