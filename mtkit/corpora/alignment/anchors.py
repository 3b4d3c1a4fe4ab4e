"""Find roughly where the lines of one text stand in the other, at any distance, by rare words that both contain."""

import itertools
from collections.abc import Sequence

import numpy as np

from mtkit.corpora.alignment.beads import Band, Beads, Offsets, n_blocks
from mtkit.corpora.alignment.likeness import BLOCK_LINES, Mixture, Table, Tables
from mtkit.corpora.alignment.words import Floats, Ints, Side, Vocabulary

_RARE = 12  # lines that a word may stand in to be an anchor
_MOST_POINTS = 20_000_000
_BIN = 16  # offsets that count as the same place
_BEST = 6  # places kept for a block
_MOST_WEIGHT = 8.0  # of what speaks for a place: one sentence with many rare words proves nothing
_JUMP = 4.0  # the cost of another place than the block before has
_LIKELY = 0.3  # probability of a translation that is taken for the right one
_FILLED = 192  # windows closer than this are joined by the offsets between them

Points = tuple[Ints, Ints, Floats]  # source lines, target lines, and what each such place is worth


def anchors(likeness: Mixture, rows: range | None = None, cols: range | None = None) -> Points:
    """Return the anchor points of two texts, or of some of their lines, by the words that their likeness uses."""
    found = []
    for part in likeness.parts:
        sides = [side if r is None else side.take(np.array(r)) for side, r in ((part.src, rows), (part.tgt, cols))]
        n_words = len(part.vocabulary)
        found.append(anchor_points(sides[0], sides[1], word_pairs(part.vocabulary, part.folds), n_words))
    i, j, worth = (np.concatenate(values) for values in zip(*found, strict=True))
    return i, j, worth


def word_pairs(vocabulary: Vocabulary, tables: Sequence[Tables]) -> tuple[Ints, Ints]:
    """Return source and target words that translate each other: spelled alike, or likely by the lexicon both ways."""
    pairs = [_spelled_alike(vocabulary)]
    for fold in tables:
        forward, backward = _likely(fold.forward), _likely(fold.backward)[:, ::-1]
        both = np.concatenate([np.unique(forward, axis=0), np.unique(backward, axis=0)])
        values, counts = np.unique(both, axis=0, return_counts=True)
        pairs.append(values[counts == 2])
    joined = np.unique(np.concatenate(pairs), axis=0)
    return joined[:, 0], joined[:, 1]


def _spelled_alike(vocabulary: Vocabulary) -> Ints:
    keys = vocabulary.keys
    order = np.flatnonzero(keys >= 0)
    order = order[np.argsort(keys[order], kind="stable")]
    groups = np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)
    pairs = [np.stack([order, order], axis=1)]
    pairs += [np.array(list(itertools.permutations(group.tolist(), 2))) for group in groups if 1 < len(group) <= 6]
    return np.concatenate(pairs).astype(np.int64)


def _likely(table: Table) -> Ints:
    likely = table.probs >= _LIKELY
    owners = np.repeat(np.arange(len(table.starts) - 1), np.diff(table.starts))
    return np.stack([owners[likely], table.others[likely]], axis=1)


def anchor_points(src: Side, tgt: Side, pairs: tuple[Ints, Ints], n_words: int) -> Points:
    """Return places (source line, target line) where rare words translate each other, and the weight of each."""
    src_posts, tgt_posts = _Postings(src, n_words), _Postings(tgt, n_words)
    n_src, n_tgt = src_posts.counts[pairs[0]], tgt_posts.counts[pairs[1]]
    rare = (n_src > 0) & (n_tgt > 0) & (n_src <= _RARE) & (n_tgt <= _RARE)
    a, b, n_src, n_tgt = pairs[0][rare], pairs[1][rare], n_src[rare], n_tgt[rare]
    order = np.argsort(n_src * n_tgt, kind="stable")
    order = order[: np.searchsorted(np.cumsum((n_src * n_tgt)[order]), _MOST_POINTS)]
    a, b, n_src, n_tgt = a[order], b[order], n_src[order], n_tgt[order]
    sizes = n_src * n_tgt
    place = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    row, col = np.divmod(place, np.repeat(n_tgt, sizes))
    i = src_posts.lines[np.repeat(src_posts.starts[a], sizes) + row]
    j = tgt_posts.lines[np.repeat(tgt_posts.starts[b], sizes) + col]
    return i, j, np.repeat(1.0 / np.maximum(n_src, n_tgt), sizes).astype(np.float32)


class _Postings:
    """The lines that each word stands in."""

    def __init__(self, side: Side, n_words: int) -> None:
        words, self.lines = side.occurrences
        self.counts = np.bincount(words, minlength=n_words)
        self.starts = np.cumsum(self.counts) - self.counts


def anchored_band(n_src: int, n_tgt: int, points: Points, path: Beads | None, width: int) -> Band:
    """Return a band around the points and an earlier path, at least `width` offsets wide on either side.

    Without points, it runs along the offset of the first lines and that of the last.
    """
    blocks = n_blocks(n_src)
    route = _route(blocks, n_tgt - n_src, points)
    windows: list[list[Offsets]] = []
    for block in range(blocks):
        near = route[max(0, block - 1) : block + 2]
        places = sorted({b * _BIN for b in near})
        windows.append([(place - width, place + _BIN + width) for place in places])
    if path is not None and len(path):
        for block, offsets in _path_offsets(path, blocks):
            windows[block] += [(offset - width, offset + width) for offset in offsets]
    return Band(n_src, n_tgt, [_filled(w) for w in windows])


def _route(blocks: int, end: int, points: Points) -> list[int]:
    """Return the place, in bins of offsets, of each block: where most points are, with few jumps."""
    i, j, weights = points
    bins = (j - i) // _BIN
    low = int(bins.min()) - 1 if len(bins) else 0
    span = (int(bins.max()) - low + 3) if len(bins) else 1
    keys, inverse = np.unique((i // BLOCK_LINES) * span + bins - low, return_inverse=True)
    sums = np.bincount(inverse.reshape(-1), weights, minlength=len(keys))
    owners, places = keys // span, keys % span + low
    totals: dict[int, float] = {0: 0.0, end // _BIN: 0.0}
    for place, total in zip(places.tolist(), np.minimum(sums, _MOST_WEIGHT).tolist(), strict=True):
        totals[place] = totals.get(place, 0.0) + total
    usual = [*sorted(totals, key=lambda place: -totals[place])[:_BEST], 0, end // _BIN]
    starts = np.searchsorted(owners, np.arange(blocks + 1))
    chosen: list[dict[int, tuple[float, int]]] = []  # of each block: place to the best value and the place before
    for block in range(blocks):
        part = slice(starts[block], starts[block + 1])
        votes = dict(zip(places[part].tolist(), sums[part].tolist(), strict=True))
        best = sorted(votes, key=lambda place: -votes[place])[:_BEST]
        before = chosen[-1] if chosen else {0: (0.0, 0)}
        top = max(before, key=lambda place: before[place][0])
        state: dict[int, tuple[float, int]] = {}
        for place in {*best, *usual, *(top,)}:
            vote = votes.get(place, 0.0) + 0.5 * (votes.get(place - 1, 0.0) + votes.get(place + 1, 0.0))
            ways = [(before[top][0] - _JUMP, top)]
            ways += [
                (before[near][0] - 0.5 * (near != place), near)
                for near in (place - 1, place, place + 1)
                if near in before
            ]
            value, origin = max(ways)
            state[place] = value + min(vote, _MOST_WEIGHT), origin
        chosen.append(state)
    place = max(chosen[-1], key=lambda p: chosen[-1][p][0])
    route = []
    for state in reversed(chosen):
        route.append(place)
        place = state[place][1]
    return route[::-1]


def _path_offsets(path: Beads, blocks: int) -> list[tuple[int, list[int]]]:
    """Return, for each block that an alignment passes through, its offsets there."""
    rows = np.concatenate([path.src[:, 0], path.src[:, 1]])
    offsets = np.concatenate([path.tgt[:, 0] - path.src[:, 0], path.tgt[:, 1] - path.src[:, 1]])
    distinct = np.unique(np.stack([np.minimum(rows // BLOCK_LINES, blocks - 1), offsets]), axis=1)
    groups = itertools.groupby(zip(*distinct.tolist(), strict=True), key=lambda entry: entry[0])
    return [(block, [offset for _, offset in group]) for block, group in groups]


def _filled(windows: Sequence[Offsets]) -> list[Offsets]:
    """Join windows that are not far apart."""
    filled: list[Offsets] = []
    for first, last in sorted(windows):
        if filled and first - filled[-1][1] < _FILLED:
            filled[-1] = filled[-1][0], max(filled[-1][1], last)
        else:
            filled.append((first, last))
    return filled
