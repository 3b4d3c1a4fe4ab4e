"""Learn a lexicon from good pairs, and measure with it how well the two sides of other pairs fit each other.

Two words belong together as far as they occur in the same pairs: n(s,t)^2 / (n(s) n(t)), from 0 to 1. What has no
partner on the other side is missing, added or wrong. This is learned in seconds, where a network needs hours to know
as many words; what words alone do not show (their order, a negation) is left to the network.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mtkit.corpora.alignment.words import ranges
from mtkit.languages import WITHOUT_SPACES, primary_code
from mtkit.pair_files.pairs import Languages
from mtkit.quality.negation import has_negation
from mtkit.quality.numbers import lost_numbers
from mtkit.text.words import MARKS

Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]
N_FEATURES = 17
_WORD = re.compile(rf"\w+(?:[{MARKS}]+\w*)*|[^\w\s]")
_DIGIT = re.compile(r"\d")
_MOST_WORDS = 100  # of a side; what follows is not looked at
_MOST_LINKS = 30_000_000  # words of one pair, times words: bounds memory and time of learning
_AT_ONCE = 512  # pairs
_FEWEST = 2  # pairs in which two words must occur together to belong together
_KNOWN = 3  # occurrences from which a word is known
_WEAK = 0.1  # of sqrt(association): a word with less has no partner


@dataclass(frozen=True)
class _Words:
    """One side of some pairs."""

    ids: _Ints  # of all words in a row; 0: unknown
    spellings: _Ints  # a hash of each
    sizes: _Ints  # words of each pair
    starts: _Ints  # of each pair in ids


class Lexicon:
    """The words of both languages, and which of them translate each other."""

    def __init__(
        self, langs: Languages, words: Sequence[Sequence[str]], counts: Sequence[_Ints], keys: _Ints, strengths: Floats
    ) -> None:
        """words: of each side, from id 1 on; counts: in how many of the pairs each is, from id 0 on.

        keys: src id x (number of target ids) + tgt id of each entry, ascending; strengths: their sqrt(association).
        """
        self.langs, self.words, self.counts = langs, words, counts
        self.keys, self.strengths = keys, strengths
        self._ids = [{word: i for i, word in enumerate(side, start=1)} for side in words]
        self._spaced = [primary_code(lang) not in WITHOUT_SPACES for lang in langs]

    @classmethod
    def learn(cls, pairs: Sequence[tuple[str, str]], langs: Languages) -> "Lexicon":
        """Learn from right translations; from the first ones, if all together have too many words."""
        empty = cls(langs, [[], []], [np.zeros(1, np.int64)] * 2, np.zeros(0, np.int64), np.zeros(0))
        split = [[sorted(set(empty._split(pair[side], side))) for pair in pairs] for side in (0, 1)]
        n_links = np.cumsum([len(src) * len(tgt) for src, tgt in zip(*split, strict=True)])
        n_pairs = max(1, int(np.searchsorted(n_links, _MOST_LINKS, side="right")))
        split = [side[:n_pairs] for side in split]  # counts of words and of links must be of the same pairs
        totals = [Counter(word for words in side for word in words) for side in split]
        words = [sorted(word for word, n in side.items() if n >= _FEWEST) for side in totals]
        counts = [np.array([0, *(total[word] for word in side)]) for total, side in zip(totals, words, strict=True)]
        lexicon = cls(langs, words, counts, empty.keys, empty.strengths)
        keys, n = lexicon._links(split)
        is_kept = n >= _FEWEST
        keys, n = keys[is_kept], n[is_kept]
        of_src, of_tgt = np.divmod(keys, len(counts[1]))
        return cls(langs, words, counts, keys, n / np.sqrt(counts[0][of_src] * counts[1][of_tgt]))

    def _links(self, split: Sequence[Sequence[Sequence[str]]]) -> tuple[_Ints, _Ints]:
        """Return the key of each two known words that occur in the same pair, and in how many pairs they do."""
        keys, n = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for start in range(0, len(split[0]), 16 * _AT_ONCE):
            src, tgt = (self._words(side[start : start + 16 * _AT_ONCE], i) for i, side in enumerate(split))
            row, column = _outer(src, tgt)
            s, t = src.ids[row], tgt.ids[column]
            new, n_new = np.unique((s * len(self.counts[1]) + t)[(s > 0) & (t > 0)], return_counts=True)
            keys, place = np.unique(np.concatenate([keys, new]), return_inverse=True)
            n = np.bincount(place, np.concatenate([n, n_new]), minlength=len(keys)).astype(np.int64)
        return keys, n

    def features(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Return the figures of each pair, (pairs, N_FEATURES); all are 0 for a pair with a blank side."""
        parts = [self._features(pairs[i : i + _AT_ONCE]) for i in range(0, len(pairs), _AT_ONCE)]
        return np.concatenate([np.zeros((0, N_FEATURES)), *parts])

    def _features(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        split = [[self._split(pair[side], side) for pair in pairs] for side in (0, 1)]
        is_blank = np.array([not (src and tgt) for src, tgt in zip(*split, strict=True)], bool)
        split = [[words or ["."] for words in side] for side in split]
        src, tgt = (self._words(side, i) for i, side in enumerate(split))
        row, column = _outer(src, tgt)
        s, t = src.ids[row], tgt.ids[column]
        is_same = (src.spellings[row] == tgt.spellings[column]) & ((s == 0) | (t == 0))  # a name, a number
        strength = np.where(is_same, 1.0, self._strengths_of(s * len(self.counts[1]) + t))
        best_of_src, best_of_tgt = np.zeros(len(src.ids)), np.zeros(len(tgt.ids))
        np.maximum.at(best_of_src, row, strength)
        np.maximum.at(best_of_tgt, column, strength)
        log_ratio = np.log(src.sizes / tgt.sizes)
        common = [len({*s} & {*t}) / len({*s} | {*t}) for s, t in zip(*split, strict=True)]
        same_end = [s[-1] == t[-1] for s, t in zip(*split, strict=True)]
        columns = [
            *self._fits(src, best_of_src, 0),
            *self._fits(tgt, best_of_tgt, 1),
            *(log_ratio, np.abs(log_ratio), np.log(src.sizes + tgt.sizes)),
            *(np.array(common), np.array(same_end, float)),
        ]
        found = np.stack([*columns, *self._contradictions(pairs)], axis=1)
        found[is_blank] = 0
        return np.asarray(found)

    def _contradictions(self, pairs: Sequence[tuple[str, str]]) -> Iterator[Floats]:
        """Yield whether only one side is negated, and whether numbers are lost."""
        negated = [[has_negation(pair[side], self.langs[side]) for pair in pairs] for side in (0, 1)]
        yield np.array([None not in (s, t) and s != t for s, t in zip(*negated, strict=True)], float)
        yield np.array([self._loses_numbers(*pair) for pair in pairs], float)

    def _loses_numbers(self, src: str, tgt: str) -> bool:
        if not (_DIGIT.search(src) or _DIGIT.search(tgt)):
            return False
        return bool(lost_numbers(src, tgt, tgt_lang=self.langs[1]) or lost_numbers(tgt, src, tgt_lang=self.langs[0]))

    def _fits(self, words: _Words, best: Floats, side: int) -> Iterator[Floats]:
        """Yield figures of how well the words of each pair fit; best: the strength of each word's best partner."""
        n = self.counts[side][words.ids]
        weight = np.where(n >= _KNOWN, np.log((1 + self.counts[side].max()) / (1.0 + n)) + 0.1, 0.5)
        total = np.add.reduceat(weight, words.starts)
        yield np.add.reduceat(weight * best, words.starts) / total
        yield np.minimum.reduceat(best, words.starts)
        owner = np.repeat(np.arange(len(words.sizes)), words.sizes)
        rarest_first = np.lexsort((-weight, owner))
        rank = np.arange(len(owner)) - words.starts[owner]
        is_rare = rank < np.maximum(1, words.sizes // 3)[owner]
        n_rare = np.bincount(owner[is_rare])
        yield np.bincount(owner[is_rare], best[rarest_first][is_rare]) / n_rare
        yield np.add.reduceat((best < _WEAK).astype(float), words.starts) / words.sizes
        yield np.add.reduceat(weight * (best < _WEAK), words.starts)

    def _strengths_of(self, keys: _Ints) -> Floats:
        if not len(self.keys):
            return np.zeros(len(keys))
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.strengths[place], 0.0)

    def _split(self, text: str, side: int) -> list[str]:
        text = text.lower()
        words = _WORD.findall(text) if self._spaced[side] else [c for c in text if not c.isspace()]
        return words[:_MOST_WORDS]

    def _words(self, split: Sequence[Sequence[str]], side: int) -> _Words:
        ids = self._ids[side]
        sizes = np.array([len(words) for words in split], np.int64)
        flat = np.array([ids.get(word, 0) for words in split for word in words], np.int64)
        spellings = np.array([hash(word) for words in split for word in words], np.int64)
        return _Words(flat, spellings, sizes, np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays from which `from_arrays` restores the lexicon."""
        texts = ["\n".join(side).encode() for side in self.words]
        return {
            **{f"words_{i}": np.frombuffer(text, np.uint8) for i, text in enumerate(texts)},
            **{f"counts_{i}": side for i, side in enumerate(self.counts)},
            "keys": self.keys,
            "strengths": self.strengths,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], langs: Languages) -> "Lexicon":
        """Restore a lexicon from the arrays of `arrays`."""
        texts = [bytes(arrays[f"words_{i}"]).decode() for i in (0, 1)]
        words = [text.split("\n") if text else [] for text in texts]
        return cls(langs, words, [arrays["counts_0"], arrays["counts_1"]], arrays["keys"], arrays["strengths"])


def _outer(src: _Words, tgt: _Words) -> tuple[_Ints, _Ints]:
    """Return each word of the source with each of its pair's target, as two rows of indices of words."""
    sizes = np.repeat(tgt.sizes, src.sizes)  # of each source word: the words of its target
    row = np.repeat(np.arange(len(src.ids)), sizes)
    column = ranges(np.repeat(tgt.starts, src.sizes), sizes)
    return row, column
