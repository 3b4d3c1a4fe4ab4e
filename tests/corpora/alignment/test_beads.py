"""The search for the best alignment, against exhaustive search, and its laws."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.corpora.alignment.anchors import anchored_band
from mtkit.corpora.alignment.beads import MOVES, Band, Beads, Priors, best_alignment
from mtkit.corpora.alignment.likeness import BLOCK_LINES, Block

PRIORS = Priors(two_one=1.5, two_two=2.5, gap=3.0, gap_line=0.25)


class RandomScores:
    """A score for each move that ends at a pair of lines, no text."""

    def __init__(self, n_src, n_tgt, seed):
        self.table = np.random.default_rng(seed).normal(0, 4, (4, n_src, n_tgt)).astype(np.float32)
        self.table[[1, 3], :1] = -np.inf
        self.table[[2, 3], :, :1] = -np.inf

    def block(self, rows, cols):
        return Block(*self.table[:, rows.start : rows.stop, cols.start : cols.stop])

    def turned(self):
        other = RandomScores(0, 0, 0)
        other.table = self.table[[0, 2, 1, 3]].transpose(0, 2, 1)
        return other


def value(beads: Beads, table, priors=PRIORS):
    """The sum of what the beads' pairs score, less the priors."""
    costs = dict(zip(MOVES, (0.0, priors.two_one, priors.two_one, priors.two_two), strict=True))
    total = 0.0
    for (a, b), (c, d) in zip(beads.src.tolist(), beads.tgt.tolist(), strict=True):
        size = b - a, d - c
        if 0 in size:
            total -= priors.gap + priors.gap_line * sum(size)
        else:
            total += float(table[MOVES.index(size), b - 1, d - 1]) - costs[size]
    return total


def best_value(table, n_src, n_tgt, priors=PRIORS):
    """The value of the best of all alignments, by trying every one."""
    costs = (0.0, priors.two_one, priors.two_one, priors.two_two)

    @cache
    def up_to(i, j):
        if i == j == 0:
            return 0.0
        ways = [-math.inf]
        for move, (a, b) in enumerate(MOVES):
            if i >= a and j >= b:
                ways.append(up_to(i - a, j - b) + float(table[move, i - 1, j - 1]) - costs[move])
        ways += [up_to(i - k, j) - priors.gap - priors.gap_line * k for k in range(1, i + 1)]
        ways += [up_to(i, j - k) - priors.gap - priors.gap_line * k for k in range(1, j + 1)]
        return max(ways)

    return up_to(n_src, n_tgt)


def is_whole(beads, n_src, n_tgt):
    """Every line is in one bead, and the beads follow each other."""
    for spans, n in ((beads.src, n_src), (beads.tgt, n_tgt)):
        edges = [0, *spans.reshape(-1).tolist(), n]
        if edges[::2] != edges[1::2] or sorted(edges) != edges:
            return False
    return bool((beads.sizes().sum(axis=1) > 0).all())


@pytest.mark.parametrize("seed", range(40))
def test_the_alignment_has_the_value_of_the_best_of_all(seed):
    n_src, n_tgt = np.random.default_rng(seed).integers(1, 8, 2).tolist()
    scores = RandomScores(n_src, n_tgt, seed)
    beads = best_alignment(scores, n_src, n_tgt, Band.whole(n_src, n_tgt), PRIORS)
    assert is_whole(beads, n_src, n_tgt)
    assert value(beads, scores.table) == pytest.approx(best_value(scores.table, n_src, n_tgt), abs=1e-4)


@given(n_src=st.integers(0, 150), n_tgt=st.integers(0, 150), seed=st.integers(0, 9))
@settings(max_examples=25)
def test_every_line_is_in_one_bead_and_the_sides_are_alike(n_src, n_tgt, seed):
    scores = RandomScores(n_src, n_tgt, seed)
    beads = best_alignment(scores, n_src, n_tgt, Band.whole(n_src, n_tgt), PRIORS)
    turned = best_alignment(scores.turned(), n_tgt, n_src, Band.whole(n_tgt, n_src), PRIORS)
    assert is_whole(beads, n_src, n_tgt)
    assert is_whole(turned, n_tgt, n_src)
    assert value(beads, scores.table) == pytest.approx(value(turned, scores.turned().table), abs=1e-2)


class Diagonal:
    """Scores of texts whose line i belongs to line i, or to line i + jump from a line on."""

    def __init__(self, start, jump):
        self.start, self.jump = start, jump

    def block(self, rows, cols):
        row, col = np.array(rows)[:, None], np.array(cols)[None, :]
        partner = row + np.where(row >= self.start, self.jump, 0)
        one_one = np.where(partner == col, 5, -5).astype(np.float32)
        none = np.full_like(one_one, -np.inf)
        return Block(one_one, none, none, none)


@pytest.mark.parametrize("jump", [3_000, -700])
def test_a_gap_leads_from_one_window_of_the_band_to_one_far_away(jump):
    n_src = 2_000
    start = 1_000 - min(0, jump)
    wide = 10
    windows = [[(-wide, wide), (jump - wide, jump + wide)]] * (n_src // BLOCK_LINES + 1)
    beads = best_alignment(Diagonal(start, jump), n_src, n_src + jump, Band(n_src, n_src + jump, windows), PRIORS)
    [gap] = np.flatnonzero(~beads.are_pairs())
    assert beads.src[gap].tolist() == [min(start, 1_000), start]
    assert beads.tgt[gap].tolist() == [1_000, max(1_000, 1_000 + jump)]


def test_the_band_follows_the_points_to_a_far_place():
    i = np.arange(0, 1_280, 4)
    j = np.where(i < 640, i, i + 5_000)
    band = anchored_band(1_280, 6_280, (i, j, np.ones(len(i), np.float32)), None, 8)
    assert all(any(first <= 0 <= last for first, last in windows) for windows in band.windows[:10])
    assert all(any(first <= 5_000 <= last for first, last in windows) for windows in band.windows[10:])
    assert sum(last - first for windows in band.windows for first, last in windows) < 20 * 150
