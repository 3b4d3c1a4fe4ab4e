"""Learn a lexicon from parallel text by IBM model 1: which target tokens translate a source token."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.data.special_ids import PAD_ID
from mtkit.data.tokenizer import Tokenizer
from mtkit.engines.shortlist import Shortlist
from mtkit.formats.lines import windows
from mtkit.formats.pairs import Pair

_NULL = PAD_ID  # the empty word that begins every source sentence; no text contains PAD
_MAX_PAIRS = 300_000  # sentence pairs to read
MAX_LINKS = 20_000_000  # pairs of a source and a target position to hold in memory: about 1 GB

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Lexicon:
    """Translation probabilities t(target | source) > 0, one an entry, source ids in rising order."""

    src_ids: Ids
    tgt_ids: Ids
    probs: NDArray[np.float64]

    def best(self, src_vocab_size: int, n_best: int) -> list[Ids]:
        """Return the n likeliest target ids of each source id, likeliest first; of equals the lower id."""
        order = np.lexsort((self.tgt_ids, -self.probs, self.src_ids))
        starts = np.searchsorted(self.src_ids[order], np.arange(src_vocab_size + 1))
        ordered = self.tgt_ids[order]
        return [ordered[start : min(end, start + n_best)] for start, end in itertools.pairwise(starts)]


def learn_lexicon(
    src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], n_iterations: int = 5, max_links: int = MAX_LINKS
) -> Lexicon:
    """Fit IBM model 1 (Brown et al. 1993, section 4.2) by expectation maximisation, starting from a uniform t.

    src, tgt: the token ids of each pair, without special ones; of more text than max_links allows, take an even sample.
    The model includes the empty word, the result does not.
    """
    sample = _sample(src, tgt, max_links)
    links = _Links.from_pairs([src[index] for index in sample], [tgt[index] for index in sample])
    probs = np.ones(links.entries.shape[0])  # any constant will do: only ratios within a target position count
    for _ in range(n_iterations):
        shares = probs[links.entry]
        shares /= np.repeat(np.add.reduceat(shares, links.starts), links.lengths) if shares.size else 1.0
        counts = np.bincount(links.entry, shares, minlength=probs.size)
        totals = np.bincount(links.entries[:, 0], counts)
        probs = counts / totals[links.entries[:, 0]]
    real = links.entries[:, 0] != _NULL
    return Lexicon(links.entries[real, 0], links.entries[real, 1], probs[real])


def _sample(src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], max_links: int) -> list[int]:
    """Return the indices of the pairs to learn from, evenly spaced, without those that have an empty side."""
    usable = [index for index, (src_ids, tgt_ids) in enumerate(zip(src, tgt, strict=True)) if src_ids and tgt_ids]
    n_links = sum((len(src[index]) + 1) * len(tgt[index]) for index in usable)
    if n_links <= max_links:
        return usable
    return [usable[i] for i in np.linspace(0, len(usable) - 1, int(len(usable) * max_links / n_links), dtype=int)]


@dataclass(frozen=True)
class _Links:
    """Every target position of the text with every source position, and the empty word, that it may translate."""

    entries: Ids  # (E, 2) source and target ids that occur together, sorted
    entry: NDArray[np.int32]  # (L,) the entry of each link; the links of a target position are neighbours
    starts: Ids  # (P,) the first link of each target position
    lengths: Ids  # (P,) the number of its links

    @classmethod
    def from_pairs(cls, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> "_Links":
        base = 1 + max((max(ids) for ids in tgt), default=0)
        keys = []
        lengths = []
        for src_ids, tgt_ids in zip(src, tgt, strict=True):
            sources = np.array([_NULL, *src_ids], dtype=np.int64)
            keys.append((sources * base + np.array(tgt_ids, dtype=np.int64)[:, None]).ravel())
            lengths.append(np.full(len(tgt_ids), sources.size))
        distinct, entry = np.unique(np.concatenate([*keys, np.empty(0, np.int64)]), return_inverse=True)
        counts = np.concatenate([*lengths, np.empty(0, np.int64)])
        entries = np.stack([distinct // base, distinct % base], axis=1)
        return cls(entries, entry.astype(np.int32), np.cumsum(counts) - counts, counts)


def learn_shortlist(
    pairs: Iterable[Pair],
    n_pairs: int,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    *,
    n_first: int = 100,
    n_best: int = 100,
    max_links: int = MAX_LINKS,
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
        tgt += tgt_tokenizer.encode_batch([pair.tgt for pair in window])
    lexicon = learn_lexicon(src, tgt, max_links=max_links)
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
    """Return the target token of each source token that is spelled alike on both sides."""
    tgt_ids = {piece: tgt_id for tgt_id, piece in enumerate(tgt_tokenizer.pieces(range(tgt_tokenizer.vocab_size)))}
    pieces = src_tokenizer.pieces(range(src_tokenizer.vocab_size))
    return {src_id: [tgt_ids[piece]] for src_id, piece in enumerate(pieces) if piece in tgt_ids}
