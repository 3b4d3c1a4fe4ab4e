"""Find the best monotone alignment of two texts' lines by dynamic programming within a band."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mtkit.corpora.alignment.likeness import BLOCK_LINES, Block
from mtkit.corpora.alignment.words import Floats, Ints

_SRC_GAP, _TGT_GAP = 4, 5  # after the moves 0 to 3
MOVES = ((1, 1), (2, 1), (1, 2), (2, 2))  # lines of either side in a bead

Offsets = tuple[int, int]  # first and last difference between target and source line of a band's window


class Scores(Protocol):
    """Scores of the pairs in a stretch of both texts."""

    def block(self, rows: range, cols: range) -> Block:
        """Return the scores of these source and target lines."""


@dataclass(frozen=True)
class Priors:
    """What an alignment costs apart from its pairs, in nats; 0 for one line with one line."""

    two_one: float  # also one-two
    two_two: float
    gap: float  # lines on one side, without a partner: for the whole gap ...
    gap_line: float  # ... and for each line


@dataclass(frozen=True)
class Beads:
    """An alignment: spans of lines that belong together, in order; a gap's span is empty on the other side."""

    src: Ints  # (beads, 2) first line, from 0, and the line after the last
    tgt: Ints
    scores: Floats  # of a pair, without priors; 0 for a gap

    def __len__(self) -> int:
        return len(self.scores)

    def sizes(self) -> Ints:
        """Return how many source and target lines each bead has: (beads, 2)."""
        return np.stack([np.diff(self.src)[:, 0], np.diff(self.tgt)[:, 0]], axis=1)

    def are_pairs(self) -> npt.NDArray[np.bool_]:
        """True for beads with lines on both sides."""
        return np.asarray((self.sizes() > 0).all(axis=1))

    def take(self, which: npt.NDArray[np.bool_] | Ints) -> "Beads":
        """Return some of the beads."""
        return Beads(self.src[which], self.tgt[which], self.scores[which])


class Band:
    """Where the alignment may run: for each block of source lines, windows of offsets (target minus source line)."""

    def __init__(self, n_src: int, n_tgt: int, windows: Sequence[Sequence[Offsets]]) -> None:
        """windows: for each block of BLOCK_LINES source lines; the corners of the texts are always within."""
        self.windows = [_joined(w) for w in windows]
        corners = [(0, 0), (n_tgt - n_src, n_tgt - n_src)]
        self.windows[0] = _joined([*self.windows[0], corners[0]])
        self.windows[-1] = _joined([*self.windows[-1], corners[1]])

    @classmethod
    def whole(cls, n_src: int, n_tgt: int) -> "Band":
        """Return the band without limits."""
        return cls(n_src, n_tgt, [[(-n_src, n_tgt)]] * n_blocks(n_src))


def n_blocks(n_src: int) -> int:
    """Return the number of blocks of so many source lines, at least one."""
    return max(1, -(-n_src // BLOCK_LINES))


def _joined(windows: Sequence[Offsets]) -> list[Offsets]:
    """Return the windows sorted, those that touch or overlap as one."""
    joined: list[Offsets] = []
    for first, last in sorted(windows):
        if joined and first <= joined[-1][1] + 3:  # moves need neighbours
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return joined


def best_alignment(scores: Scores, n_src: int, n_tgt: int, band: Band, priors: Priors) -> Beads:
    """Return the alignment with the highest sum of scores less priors; every line is in one bead, in order."""
    return _Search(scores, n_src, n_tgt, band, priors).run()


@dataclass(frozen=True)
class _Cells:
    """The cells of a block's rows. Between two windows stands a cell that no path can use."""

    offsets: Ints  # rising
    usable: npt.NDArray[np.bool_]

    @classmethod
    def of_windows(cls, windows: Sequence[Offsets]) -> "_Cells":
        parts = [np.arange(first, last + 2) for first, last in windows]
        return cls(np.concatenate(parts), np.concatenate([np.arange(len(part)) < len(part) - 1 for part in parts]))

    def move(self, values: Floats, old: "_Cells") -> Floats:
        """Return values of old cells at the offsets of these ones."""
        place = np.minimum(np.searchsorted(old.offsets, self.offsets), len(old.offsets) - 1)
        same = (old.offsets[place] == self.offsets) & old.usable[place] & self.usable
        return np.where(same, values[place], -np.inf)


class _Trail:
    """How the cells of a block's rows were reached."""

    def __init__(self, cells: _Cells, n_rows: int) -> None:
        shape = n_rows, len(cells.offsets)
        self.offsets = cells.offsets
        self.codes = np.zeros(shape, np.int8)  # a move, or one of _SRC_GAP, _TGT_GAP
        self.origins = np.zeros(shape, np.int32)  # of a gap: its first row or column
        self.scores = np.zeros(shape, np.float16)  # of a pair


class _Search:
    """Viterbi search over cells (source lines read, offset).

    A gap of any length is one step: the best cell before it in the same row or column is kept. So a gap may lead from
    one window of the band to another far away.
    """

    def __init__(self, scores: Scores, n_src: int, n_tgt: int, band: Band, priors: Priors) -> None:
        self.scores, self.n_src, self.n_tgt, self.band, self.priors = scores, n_src, n_tgt, band, priors
        self.move_costs = np.array([0.0, priors.two_one, priors.two_one, priors.two_two])[:, None]
        # The best cell so far of each column, as the start of a gap: its value + gap_line * row, and its row.
        self.column_value = np.full(n_tgt + 1, -np.inf)
        self.column_row = np.zeros(n_tgt + 1, np.int32)
        self.trails: list[_Trail] = []

    def run(self) -> Beads:
        """Fill all rows, then go back from the last cell."""
        cells = _Cells.of_windows(self.band.windows[0])
        before = np.full(len(cells.offsets), -np.inf)
        trail = _Trail(cells, 1)
        last = self._end_row(0, cells, np.where(cells.offsets == 0, 0.0, -np.inf), trail, 0)
        self.trails.append(trail)
        for block, windows in enumerate(self.band.windows):
            lines = range(block * BLOCK_LINES, min((block + 1) * BLOCK_LINES, self.n_src))
            new = _Cells.of_windows(windows)
            before, last, cells = new.move(before, cells), new.move(last, cells), new
            trail = _Trail(cells, len(lines))
            self.trails.append(trail)
            if len(lines):
                pairs = self._pair_scores(lines, windows, cells)
                for i, line in enumerate(lines):
                    before, last = last, self._next_row(line + 1, cells, pairs[:, i], (before, last), trail, i)
        return self._trace()

    def _pair_scores(self, lines: range, windows: Sequence[Offsets], cells: _Cells) -> Floats:
        """Return the score of each move that ends in each cell: (4, lines, cells)."""
        result = np.full((len(MOVES), len(lines), len(cells.offsets)), -np.inf, np.float32)
        rows = range(max(0, lines.start - 1), lines.stop)
        row = np.array(lines)[:, None] - rows.start
        for first, last in windows:
            cols = range(max(0, lines.start + first - 1), min(self.n_tgt, lines.stop + last))
            if not len(cols):
                continue
            scores = self.scores.block(rows, cols)
            places = np.flatnonzero((cells.offsets >= first) & (cells.offsets <= last))
            col = np.array(lines)[:, None] + cells.offsets[places] - cols.start  # of the cell's last target line
            inside = (col >= 0) & (col < len(cols))
            col = np.clip(col, 0, len(cols) - 1)
            for move, score in enumerate((scores.one_one, scores.two_one, scores.one_two, scores.two_two)):
                result[move][:, places] = np.where(inside, score[row, col], -np.inf)
        return result

    def _next_row(
        self, row: int, cells: _Cells, pairs: Floats, rows_before: tuple[Floats, Floats], trail: _Trail, i: int
    ) -> Floats:
        """Return the values of the cells after `row` source lines, from the two rows before and the best of columns."""
        before, last = rows_before
        n = len(cells.offsets)
        candidates = np.full((5, n), -np.inf)
        candidates[0] = last
        candidates[1, :-1] = before[1:]  # two source lines and one of the target: from the next higher offset
        candidates[2, 1:] = last[:-1]
        candidates[3] = before
        candidates[:4] += pairs - self.move_costs
        tgt = np.clip(cells.offsets + row, 0, self.n_tgt)
        candidates[_SRC_GAP] = self.column_value[tgt] - self.priors.gap - self.priors.gap_line * row
        codes = candidates.argmax(axis=0)
        trail.codes[i] = codes
        trail.origins[i] = self.column_row[tgt]
        every = np.arange(n)
        trail.scores[i] = np.where(codes < len(MOVES), pairs[np.minimum(codes, len(MOVES) - 1), every], 0)
        return self._end_row(row, cells, candidates[codes, every], trail, i)

    def _end_row(self, row: int, cells: _Cells, values: Floats, trail: _Trail, i: int) -> Floats:
        """Add the gaps of target lines to a row, and return its values."""
        tgt = cells.offsets + row
        outside = (tgt < 0) | (tgt > self.n_tgt) | ~cells.usable
        values = np.where(outside, -np.inf, values)
        tgt = np.clip(tgt, 0, self.n_tgt)
        levelled = values + self.priors.gap_line * tgt
        best = np.maximum.accumulate(levelled)
        holders = np.maximum.accumulate(np.where(levelled >= best, np.arange(len(tgt)), 0))
        gaps = best[:-1] - self.priors.gap - self.priors.gap_line * tgt[1:]
        better = np.flatnonzero((gaps > values[1:]) & ~outside[1:])
        values[better + 1] = gaps[better]
        trail.codes[i, better + 1] = _TGT_GAP
        trail.origins[i, better + 1] = tgt[holders[better]]
        start = values + self.priors.gap_line * row
        new = np.flatnonzero((start > self.column_value[tgt]) & ~outside)
        self.column_value[tgt[new]] = start[new]
        self.column_row[tgt[new]] = row
        return values

    def _trace(self) -> Beads:
        src, tgt, scores = [], [], []
        row, col = self.n_src, self.n_tgt
        while row or col:
            trail, i = (
                (self.trails[(row - 1) // BLOCK_LINES + 1], (row - 1) % BLOCK_LINES) if row else (self.trails[0], 0)
            )
            cell = int(np.searchsorted(trail.offsets, col - row))
            code, origin = int(trail.codes[i, cell]), int(trail.origins[i, cell])
            end = row, col
            if code == _SRC_GAP:
                row = origin
            elif code == _TGT_GAP:
                col = origin
            else:
                row, col = row - MOVES[code][0], col - MOVES[code][1]
            src.append((row, end[0]))
            tgt.append((col, end[1]))
            scores.append(float(trail.scores[i, cell]) if code < len(MOVES) else 0.0)
        spans = [np.array(side[::-1], np.int64).reshape(-1, 2) for side in (src, tgt)]
        return Beads(spans[0], spans[1], np.array(scores[::-1], np.float32))
