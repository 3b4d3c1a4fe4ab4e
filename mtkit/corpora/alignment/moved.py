"""Find lines that stand elsewhere in the other text: pairs among the lines that a monotone alignment leaves over."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mtkit.corpora.alignment.aligner import Aligned
from mtkit.corpora.alignment.anchors import anchored_band, anchors
from mtkit.corpora.alignment.beads import Band, Beads, Priors, Scores, best_alignment
from mtkit.corpora.alignment.likeness import BLOCK_LINES, Block
from mtkit.corpora.alignment.words import Floats, Ints

_POOR = 0.0  # the score below which a pair may be no pair
_LEAST_SUM = 14.0  # nats that must speak for the pairs found, together
_LEAST_MEAN = 3.0  # nats for each of the pairs found
_MOST_CELLS = 400_000  # of a search without a band
_NEAR = 6  # lines of different stretches that are compared whatever their words
_LARGEST = 24  # gaps compared each with each, whatever their words
_MOST_PAIRS = 1_000  # of stretches compared for their words

Span = tuple[int, int]


@dataclass(frozen=True)
class Stretch:
    """Neighbouring lines of both texts that the alignment left alone, or paired badly."""

    src: Span
    tgt: Span

    @property
    def is_gap(self) -> bool:
        """Whether the texts have unequal numbers of lines here."""
        return self.src[1] - self.src[0] != self.tgt[1] - self.tgt[0]


def find_moved(aligned: Aligned, priors: Priors) -> list[Beads]:
    """Return pairs that break the order, as runs of neighbours, the longest first; no line is in two of them."""
    stretches = list(_stretches(aligned.beads))
    candidates = sorted(
        filter(None, (_best_run(aligned, a, b, priors) for a, b in _likely_partners(aligned, stretches))),
        key=lambda run: -float(run.scores.sum()),
    )
    taken_src, taken_tgt = np.zeros(len(aligned.likeness.src), np.bool_), np.zeros(len(aligned.likeness.tgt), np.bool_)
    chosen = []
    for run in candidates:
        src, tgt = slice(run.src[0, 0], run.src[-1, 1]), slice(run.tgt[0, 0], run.tgt[-1, 1])
        if not taken_src[src].any() and not taken_tgt[tgt].any():
            taken_src[src] = taken_tgt[tgt] = True
            chosen.append(run)
    return chosen


def without_lines(beads: Beads, moved: Iterable[Beads]) -> Beads:
    """Return the pairs of the beads that have no line in the moved runs."""
    taken = [
        {line for run in moved for span in getattr(run, side).tolist() for line in range(*span)}
        for side in ("src", "tgt")
    ]
    keep = beads.are_pairs()
    for side, lines in zip((beads.src, beads.tgt), taken, strict=True):
        if lines:
            keep &= ~np.isin(side[:, 0], list(lines)) & ~np.isin(side[:, 1] - 1, list(lines))
    return beads.take(keep)


def merge_beads(runs: list[Beads]) -> Beads:
    """Return the pairs of all runs in the order of the source."""
    merged = Beads(*(np.concatenate([getattr(run, field) for run in runs]) for field in ("src", "tgt", "scores")))
    return merged.take(np.lexsort((merged.tgt[:, 0], merged.src[:, 0])))


def not_covered(spans: Ints, n: int) -> Ints:
    """Return 1 for each of n lines that lies outside all spans, else 0."""
    steps = np.bincount(spans[:, 0], minlength=n + 1) - np.bincount(spans[:, 1], minlength=n + 1)
    return np.asarray(np.cumsum(steps)[:n] == 0).astype(np.int64)


def _stretches(beads: Beads) -> Iterator[Stretch]:
    """Yield the runs of gaps and of pairs with a poor score."""
    alone = ~beads.are_pairs() | (beads.scores < _POOR)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], alone.astype(np.int8), [0]])))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        src, tgt = (
            (int(beads.src[first, 0]), int(beads.src[last - 1, 1])),
            (int(beads.tgt[first, 0]), int(beads.tgt[last - 1, 1])),
        )
        yield Stretch(src, tgt)


def _likely_partners(aligned: Aligned, stretches: list[Stretch]) -> list[tuple[Stretch, Stretch]]:
    """Return pairs of stretches whose source and target may belong together: near each other, or with common words."""
    size = [max(s.src[1] - s.src[0], s.tgt[1] - s.tgt[0]) for s in stretches]
    gaps = sorted((k for k, s in enumerate(stretches) if s.is_gap), key=lambda k: -size[k])[:_LARGEST]
    pairs = {
        (k, k)
        for k, s in enumerate(stretches)
        if s.src[1] > s.src[0] and s.tgt[1] > s.tgt[0] and s.src[1] - s.src[0] > 1
    }
    pairs |= {(a, b) for a in gaps for b in gaps}
    pairs |= {
        p
        for k in range(1, len(stretches))
        for p in ((k - 1, k), (k, k - 1))
        if stretches[k].src[0] - stretches[k - 1].src[1] <= _NEAR
    }
    likeness = aligned.likeness
    points = anchors(likeness)
    owners = [
        _owner([getattr(s, side) for s in stretches], n)
        for side, n in (("src", len(likeness.src)), ("tgt", len(likeness.tgt)))
    ]
    a, b = owners[0][points[0]], owners[1][points[1]]
    both = (a >= 0) & (b >= 0)
    keys, inverse = np.unique(a[both] * (len(stretches) + 1) + b[both], return_inverse=True)
    worth = np.bincount(inverse.reshape(-1), points[2][both], minlength=len(keys))
    best = keys[np.argsort(-worth, kind="stable")[:_MOST_PAIRS]]
    pairs |= {(int(key) // (len(stretches) + 1), int(key) % (len(stretches) + 1)) for key in best}
    return [
        (stretches[a], stretches[b])
        for a, b in sorted(pairs)
        if stretches[a].src[1] > stretches[a].src[0] and stretches[b].tgt[1] > stretches[b].tgt[0]
    ]


def _owner(spans: list[Span], n: int) -> Ints:
    owner = np.full(n, -1, np.int64)
    for k, (first, last) in enumerate(spans):
        owner[first:last] = k
    return owner


@dataclass(frozen=True)
class Part:
    """The scores of a rectangle of lines."""

    scores: Scores
    row: int
    col: int

    def block(self, rows: range, cols: range) -> Block:
        """Return the scores of lines that are counted from the rectangle's; each line is scored in its own block."""
        first, last = rows.start + self.row, rows.stop + self.row
        edges = [first, *range((first // BLOCK_LINES + 1) * BLOCK_LINES, last, BLOCK_LINES), last]
        parts = []
        for start, end in pairwise(edges):
            before = 1 if start > first else 0  # merges join a line with the one before
            block = self.scores.block(range(start - before, end), range(cols.start + self.col, cols.stop + self.col))
            parts.append([scores[before:] for scores in (block.one_one, block.two_one, block.one_two, block.two_two)])
        return Block(*(np.concatenate(scores) for scores in zip(*parts, strict=True)))


def _best_run(aligned: Aligned, a: Stretch, b: Stretch, priors: Priors) -> Beads | None:
    """Return the neighbouring pairs of a's source lines and b's target lines with the highest sum; None: too low."""
    likeness, (row, row_end), (col, col_end) = aligned.likeness, a.src, b.tgt
    n_src, n_tgt = row_end - row, col_end - col
    if n_src * n_tgt <= _MOST_CELLS:
        band = Band.whole(n_src, n_tgt)
    else:
        points = anchors(likeness, range(row, row_end), range(col, col_end))
        band = anchored_band(n_src, n_tgt, points, None, 24)
    beads = best_alignment(Part(likeness, row, col), n_src, n_tgt, band, priors)
    beads = Beads(beads.src + row, beads.tgt + col, beads.scores)
    run = _highest_run(np.where(beads.are_pairs(), beads.scores, -priors.gap))
    best = beads.take(np.arange(*run))
    best = best.take(best.are_pairs())
    total = float(best.scores.sum())
    enough = total > _LEAST_SUM and total > _LEAST_MEAN * len(best)
    # A free translation fits an equal line nearby as badly, so one line alone moves only from gap to gap.
    return best if enough and (len(best) > 1 or (a.is_gap and b.is_gap)) else None


def _highest_run(scores: Floats | npt.NDArray[np.float64]) -> Span:
    """Return where the run with the highest sum starts and ends."""
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    lowest = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - lowest))
    start = int(np.flatnonzero(sums[: end + 1] == lowest[end])[-1])
    return start, end
