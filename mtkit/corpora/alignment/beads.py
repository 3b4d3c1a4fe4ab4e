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
    """The costs of kinds of beads in nats; one line with one line costs 0."""

    two_one: float  # also one-two
    two_two: float
    gap: float  # lines on one side, without a partner: for the whole gap ...
    gap_line: float  # ... and for each line
    noise: bool = False  # whether lines that stand where they belong may be wrong translations


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


class _Cells:
    """The cells of a block's rows. A cell that no path can use separates two windows."""

    def __init__(self, windows: Sequence[Offsets], gap_line: float) -> None:
        parts = [np.arange(first, last + 2) for first, last in windows]
        self.offsets: Ints = np.concatenate(parts)  # rising
        self.unusable: Ints = np.cumsum([len(part) for part in parts]) - 1
        self.every: Ints = np.arange(len(self.offsets))
        self.gap_costs = np.asarray(gap_line * self.offsets, np.float64)  # of a target gap from offset 0 on

    def move(self, values: Floats, old: "_Cells") -> Floats:
        """Return values of old cells at the offsets of these ones."""
        place = np.minimum(np.searchsorted(old.offsets, self.offsets), len(old.offsets) - 1)
        moved = np.where(old.offsets[place] == self.offsets, values[place], -np.inf)
        moved[self.unusable] = -np.inf
        return moved


class _Trail:
    """The moves by which the cells of a block's rows were reached."""

    def __init__(self, cells: _Cells, n_rows: int) -> None:
        shape = n_rows, len(cells.offsets)
        self.offsets = cells.offsets
        self.codes = np.zeros(shape, np.int8)  # a move, or one of _SRC_GAP, _TGT_GAP
        self.origins = np.zeros(shape, np.int32)  # of a gap: its first row or column
        self.scores = np.zeros(shape, np.float16)  # of a pair

    def note_scores(self, pairs: Floats) -> None:
        """Keep the scores of the moves by which the cells were reached. pairs: (moves, rows, cells)."""
        for move, scores in enumerate(pairs):
            np.copyto(self.scores, scores, where=self.codes == move, casting="same_kind")


class _Search:
    """Viterbi search over cells (source lines read, offset).

    A gap of any length is one step: the best cell before it in the same row or column is kept. So a gap may lead from
    one window of the band to another far away.
    """

    def __init__(self, scores: Scores, n_src: int, n_tgt: int, band: Band, priors: Priors) -> None:
        self.scores, self.n_src, self.n_tgt, self.band, self.priors = scores, n_src, n_tgt, band, priors
        self.n_moves = len(MOVES) if priors.two_two < np.inf else len(MOVES) - 1
        self.move_costs = np.array([0.0, priors.two_one, priors.two_one, priors.two_two])[: self.n_moves, None]
        # The best cell so far of each column, as the start of a gap: its value + gap_line * row, and its row. Before
        # the first and after the last column stand some that no path uses, so that every cell of a row has one.
        offsets = [offset for windows in band.windows for window in windows for offset in window]
        self.first_column = min(0, *offsets)
        n_columns = max(n_tgt, max(offsets) + 1 + n_src) - self.first_column + 1
        self.column_value = np.full(n_columns, -np.inf)
        self.column_row = np.zeros(n_columns, np.int32)
        self.trails: list[_Trail] = []

    def run(self) -> Beads:
        """Fill all rows, then go back from the last cell."""
        cells = _Cells(self.band.windows[0], self.priors.gap_line)
        before = np.full(len(cells.offsets), -np.inf)
        trail = _Trail(cells, 1)
        last = self._end_row(0, cells, np.where(cells.offsets == 0, 0.0, -np.inf), trail, 0)
        self.trails.append(trail)
        for block, windows in enumerate(self.band.windows):
            lines = range(block * BLOCK_LINES, min((block + 1) * BLOCK_LINES, self.n_src))
            new = _Cells(windows, self.priors.gap_line)
            before, last, cells = new.move(before, cells), new.move(last, cells), new
            trail = _Trail(cells, len(lines))
            self.trails.append(trail)
            if len(lines):
                pairs = self._pair_scores(lines, windows, cells)
                candidates = np.full((_SRC_GAP + 1, len(cells.offsets)), -np.inf)
                for i, line in enumerate(lines):
                    self._fill_moves(candidates, pairs[:, i], before, last)
                    before, last = last, self._next_row(line + 1, cells, candidates, trail, i)
                trail.note_scores(pairs)
        return self._trace()

    def _pair_scores(self, lines: range, windows: Sequence[Offsets], cells: _Cells) -> Floats:
        """Return the score of each move that ends in each cell: (moves, lines, cells)."""
        result = np.full((self.n_moves, len(lines), len(cells.offsets)), -np.inf, np.float32)
        rows = range(max(0, lines.start - 1), lines.stop)
        row = np.array(lines)[:, None] - rows.start
        for first, last in windows:
            cols = range(max(0, lines.start + first - 1), min(self.n_tgt, lines.stop + last))
            if not len(cols):
                continue
            block = self.scores.block(rows, cols)
            scores = (block.one_one, block.two_one, block.one_two, block.two_two)
            places = slice(*np.searchsorted(cells.offsets, [first, last + 1]).tolist())
            col = np.array(lines)[:, None] + cells.offsets[places] - cols.start  # of the cell's last target line
            inside = (col >= 0) & (col < len(cols))
            col = np.clip(col, 0, len(cols) - 1)
            for move in range(self.n_moves):
                result[move, :, places] = np.where(inside, scores[move][row, col], -np.inf)
        return result

    def _fill_moves(self, candidates: Floats, pairs: Floats, before: Floats, last: Floats) -> None:
        """Write the values of the moves that end in each cell, from the two rows before; the edges keep -inf."""
        pairs = pairs - self.move_costs
        np.add(last, pairs[0], out=candidates[0])
        # two source lines and one of the target: from the next higher offset
        np.add(before[1:], pairs[1, :-1], out=candidates[1, :-1])
        np.add(last[:-1], pairs[2, 1:], out=candidates[2, 1:])
        if len(pairs) == len(MOVES):
            np.add(before, pairs[3], out=candidates[3])

    def _next_row(self, row: int, cells: _Cells, candidates: Floats, trail: _Trail, i: int) -> Floats:
        """Return the values of the cells after `row` source lines: candidates' moves, and the best of columns."""
        column = cells.offsets + (row - self.first_column)
        np.subtract(self.column_value[column], self.priors.gap + self.priors.gap_line * row, out=candidates[_SRC_GAP])
        codes = candidates.argmax(axis=0)
        trail.codes[i] = codes
        trail.origins[i] = self.column_row[column]
        return self._end_row(row, cells, candidates[codes, cells.every], trail, i)

    def _end_row(self, row: int, cells: _Cells, values: Floats, trail: _Trail, i: int) -> Floats:
        """Add the gaps of target lines to a row, and return its values."""
        values[cells.unusable] = -np.inf
        first, end = 0, len(values)
        if cells.offsets[0] + row < 0 or cells.offsets[-1] + row > self.n_tgt:
            first, end = np.searchsorted(cells.offsets, [-row, self.n_tgt - row + 1]).tolist()
            values[:first] = values[end:] = -np.inf
        levelled = values + cells.gap_costs
        best = np.maximum.accumulate(levelled)
        gaps = best[:-1] - (cells.gap_costs[1:] + self.priors.gap)
        gaps[cells.unusable - 1] = -np.inf
        gaps[max(0, end - 1) :] = -np.inf
        better = np.flatnonzero(gaps > values[1:])
        holders = np.maximum.accumulate(np.where(levelled >= best, cells.every, 0))
        values[better + 1] = gaps[better]
        trail.codes[i, better + 1] = _TGT_GAP
        trail.origins[i, better + 1] = cells.offsets[holders[better]] + row
        column = cells.offsets + (row - self.first_column)
        start = values + self.priors.gap_line * row
        new = np.flatnonzero(start > self.column_value[column])
        self.column_value[column[new]] = start[new]
        self.column_row[column[new]] = row
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
