"""Learn a lexicon from parallel text by IBM model 1: which target tokens translate a source token."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.engines.shortlist import Shortlist
from mtkit.pair_files.lines import windows
from mtkit.pair_files.pairs import Pair
from mtkit.tokens.special_ids import PAD_ID
from mtkit.tokens.tokenizer import Tokenizer

EMPTY_WORD = PAD_ID  # begins every source sentence; no text contains PAD
_MAX_PAIRS = 300_000  # sentence pairs to read
MAX_LINKS = 20_000_000  # pairs of a source and a target position to hold in memory: about 1 GB

_ROUNDING = 1e-9  # expected counts below it are differences of equal numbers

EMPTY_SHARE = 0.08  # with tension: the chance that a target position translates the empty word (Dyer et al. 2013)

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Lexicon:
    """Translation probabilities t(target | source) > 0, one per entry, source ids in rising order."""

    src_ids: Ids
    tgt_ids: Ids
    probs: NDArray[np.float64]

    def best(self, src_vocab_size: int, n_best: int) -> list[Ids]:
        """Return the n likeliest target ids of each source id, likeliest first; among equals, the lower id."""
        order = np.lexsort((self.tgt_ids, -self.probs, self.src_ids))
        starts = np.searchsorted(self.src_ids[order], np.arange(src_vocab_size + 1))
        ordered = self.tgt_ids[order]
        return [ordered[start : min(end, start + n_best)] for start, end in itertools.pairwise(starts)]


def learn_lexicon(
    src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], n_iterations: int = 5, max_links: int = MAX_LINKS
) -> Lexicon:
    """Fit IBM model 1 and return its lexicon, without the empty word.

    src, tgt: the token ids of each pair, without special ones; of more text than max_links allows, take an even sample.
    """
    src_sizes, tgt_sizes = (np.fromiter(map(len, side), np.int64, len(side)) for side in (src, tgt))
    sample = sample_pairs(src_sizes, tgt_sizes, max_links).tolist()
    return Model1(
        _flat([src[index] for index in sample]), _flat([tgt[index] for index in sample]), n_iterations
    ).lexicon()


def sample_pairs(src_sizes: NDArray[Any], tgt_sizes: NDArray[Any], max_links: int) -> Ids:
    """Return the indices of the pairs to learn from, evenly spaced, without those that have an empty side."""
    usable = np.flatnonzero((src_sizes > 0) & (tgt_sizes > 0))
    return usable[even_sample((src_sizes[usable] + 1) * tgt_sizes[usable], max_links)]


def even_sample(n_links: NDArray[Any], max_links: int) -> Ids:
    """Return evenly spaced indices of pairs that have about max_links links together; n_links: of each pair."""
    total = int(n_links.sum())
    if total <= max_links:
        return np.arange(len(n_links))
    return np.linspace(0, len(n_links) - 1, int(len(n_links) * max_links / total), dtype=np.int64)


Text = tuple[Ids, Ids]  # token ids of all sentences, end to end, and how many each sentence has


def _flat(sentences: Sequence[Sequence[int]]) -> Text:
    ids = np.fromiter(itertools.chain.from_iterable(sentences), np.int64)
    return ids, np.fromiter(map(len, sentences), np.int64, len(sentences))


class Model1:
    """IBM model 1 (Brown et al. 1993, section 4.2), fitted by expectation maximisation from a uniform t.

    A link joins a target position with a source position, or the empty word, that it may translate.
    """

    def __init__(self, src: Text, tgt: Text, n_iterations: int = 5, tension: float = 0.0) -> None:
        """tension: of links to the diagonal, as in IBM model 2 with the distances of Dyer et al. 2013; 0: none."""
        (src_ids, src_sizes), (tgt_ids, tgt_sizes) = src, tgt
        ends = np.cumsum(src_sizes + 1)
        self._first_link = np.concatenate([[0], np.cumsum((src_sizes + 1) * tgt_sizes)])  # of each pair
        sources = np.insert(src_ids, np.cumsum(src_sizes) - src_sizes, EMPTY_WORD)
        lengths = np.repeat(src_sizes + 1, tgt_sizes)  # of each target position: its links, which are neighbours
        starts = np.cumsum(lengths) - lengths
        places = np.repeat(np.repeat(ends - src_sizes - 1, tgt_sizes) - starts, lengths) + np.arange(lengths.sum())
        base = 1 + int(tgt_ids.max(initial=0))
        entries, entry = np.unique(sources[places] * base + np.repeat(tgt_ids, lengths), return_inverse=True)
        self._entries = entries // base, entries % base  # source and target ids that occur together, sorted
        self._entry = entry.reshape(-1).astype(np.int32)  # of each link
        self._shares = np.zeros(0)  # of each link, how much of its target position it explains
        self._counts: NDArray[np.float64] = np.zeros(0)  # of each entry, the sum of its links' shares
        prior = _diagonal_prior(src_sizes, tgt_sizes, starts, lengths, tension) if tension else 1.0
        probs = np.ones(len(entries))  # any constant will do: only ratios within a target position count
        for _ in range(n_iterations):
            self._shares = prior * probs[self._entry]
            if len(self._shares):
                self._shares /= np.repeat(np.add.reduceat(self._shares, starts), lengths)
            self._counts = np.asarray(np.bincount(self._entry, self._shares, minlength=len(entries)), np.float64)
            probs = self._probs(self._counts)

    def lexicon(self, without: Ids | None = None, *, with_empty_word: bool = False) -> Lexicon:
        """Return the lexicon; `without` are pairs whose links are not counted in the last iteration.

        with_empty_word: also give what the empty word translates to, as source id EMPTY_WORD.
        """
        counts = self._counts
        if without is not None:
            sizes = np.diff(self._first_link)[without]
            links = np.repeat(self._first_link[without] + sizes - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
            counts = counts - np.bincount(self._entry[links], self._shares[links], minlength=len(counts))
        real = (with_empty_word | (self._entries[0] != EMPTY_WORD)) & (counts > _ROUNDING)
        src_ids, tgt_ids = self._entries
        return Lexicon(src_ids[real], tgt_ids[real], self._probs(counts)[real])

    def _probs(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        totals = np.bincount(self._entries[0], counts)
        return np.asarray(counts / np.maximum(totals, _ROUNDING)[self._entries[0]])


def _diagonal_prior(src_sizes: Ids, tgt_sizes: Ids, starts: Ids, lengths: Ids, tension: float) -> NDArray[np.float64]:
    """Return the probability of each link by its positions alone (Dyer et al. 2013, equation 1), counted from 0.

    starts, lengths: of each target position, its first link, that to the empty word, and how many it has.
    """
    tgt_places = np.arange(len(lengths)) - np.repeat(np.cumsum(tgt_sizes) - tgt_sizes, tgt_sizes)
    where = (tgt_places + 0.5) / np.repeat(tgt_sizes, tgt_sizes)
    offsets = np.arange(lengths.sum()) - np.repeat(starts, lengths)  # 0: the empty word
    odds = np.exp(-tension * abs((offsets - 0.5) / np.repeat(lengths - 1, lengths) - np.repeat(where, lengths)))
    odds[starts] = 0.0
    odds *= np.repeat((1 - EMPTY_SHARE) / np.add.reduceat(odds, starts), lengths)
    odds[starts] = EMPTY_SHARE
    return odds


def learn_shortlist(
    pairs: Iterable[Pair],
    n_pairs: int,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    *,
    n_first: int = 100,
    n_best: int = 100,
) -> Shortlist:
    """Learn the shortlist of a tokenizer pair from an even sample of n_pairs sentence pairs.

    Every sentence may use the n_first most frequent target tokens, the bytes, and for each of its tokens the n_best
    likeliest translations and the target token spelled alike, to copy names and numbers.
    """
    src: list[list[int]] = []
    tgt: list[list[int]] = []
    share = min(1.0, _MAX_PAIRS / max(1, n_pairs))
    sample = (pair for index, pair in enumerate(pairs) if int((index + 1) * share) > int(index * share))
    for window in windows(sample, 4096):
        src += src_tokenizer.encode_batch([pair.src for pair in window])
        tgt += tgt_tokenizer.encode_translations([pair.tgt for pair in window], [pair.src for pair in window])
    lexicon = learn_lexicon(src, tgt)
    tokens = np.fromiter(itertools.chain.from_iterable(tgt), np.int64)
    counts = np.bincount(tokens, minlength=tgt_tokenizer.vocab_size)
    frequent = np.argsort(-counts, kind="stable")[:n_first]
    alike = _spelled_alike(src_tokenizer, tgt_tokenizer)
    best = [
        np.union1d(ids, np.array(alike.get(src_id, []), dtype=np.int64))
        for src_id, ids in enumerate(lexicon.best(src_tokenizer.vocab_size, n_best))
    ]
    always = [*frequent.tolist(), *tgt_tokenizer.byte_ids()]
    return Shortlist.from_lexicon(best, always, tgt_tokenizer.vocab_size)


def _spelled_alike(src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer) -> dict[int, list[int]]:
    """Return the target token of each source token that has the same spelling on both sides."""
    tgt_ids = {piece: tgt_id for tgt_id, piece in enumerate(tgt_tokenizer.pieces(range(tgt_tokenizer.vocab_size)))}
    pieces = src_tokenizer.pieces(range(src_tokenizer.vocab_size))
    return {src_id: [tgt_ids[piece]] for src_id, piece in enumerate(pieces) if piece in tgt_ids}
