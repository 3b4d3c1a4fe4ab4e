"""Looking for lines that stand elsewhere."""

import numpy as np
import pytest

from mtkit.corpora.alignment.aligner import Aligned, learn_folds
from mtkit.corpora.alignment.beads import Beads
from mtkit.corpora.alignment.likeness import BLOCK_LINES, Block, Likeness, Mixture
from mtkit.corpora.alignment.moved import Part, find_moved
from mtkit.corpora.alignment.slips import PRIORS
from mtkit.corpora.alignment.words import Vocabulary


def test_lines_of_a_part_are_scored_as_in_the_whole():
    n = 4 * BLOCK_LINES
    vocabulary = Vocabulary()
    src, tgt = (
        vocabulary.read(f"{word}{line * step % 89} {word}{'abcdefgh'[line % 8]}" for line in range(n))
        for word, step in (("wort", 5), ("mot", 7))
    )
    spans = np.stack([np.arange(n), np.arange(n) + 1], axis=1)
    folds = learn_folds(Likeness(src, tgt, vocabulary), Beads(spans, spans, np.ones(n, np.float32)))
    whole = Likeness(src, tgt, vocabulary, folds)
    first, last = 30, 160  # in three blocks, each of which has a lexicon of its own
    part = Part(whole, row=first, col=10).block(range(last - first), range(40))
    for start in range(0, last, BLOCK_LINES):
        block = whole.block(range(max(0, start - 1), start + BLOCK_LINES), range(10, 50))
        rows = range(max(first + 1, start), min(last, start + BLOCK_LINES))
        for kind in ("one_one", "two_one", "one_two", "two_two"):
            found = getattr(part, kind)[rows.start - first : rows.stop - first]
            expected = getattr(block, kind)[rows.start - max(0, start - 1) :][: len(rows)]
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


class Given(Likeness):
    """Scores that are given."""

    def __init__(self, table):
        vocabulary = Vocabulary()
        src, tgt = (vocabulary.read(f"{word}{i}" for i in range(len(table))) for word in ("wort", "mot"))
        super().__init__(src, tgt, vocabulary)
        self.table = table

    def block(self, rows, cols):
        none = np.full((len(rows), len(cols)), -np.inf, np.float32)
        return Block(self.table[rows.start : rows.stop, cols.start : cols.stop], none, none, none)


@pytest.mark.parametrize(
    ("scores", "moves"),
    [
        *[((6.9, 6.9), False), ((7.1, 7.1), True), ((13.9,), False), ((14.1,), True)],  # 14 nats together
        *[((2.9,) * 6, False), ((3.1,) * 6, True)],  # and 3 nats for each
    ],
)
def test_lines_move_if_enough_speaks_for_them_together_and_for_each(scores, moves):
    k = len(scores)  # source lines 1 to k stand at the end of the target
    table = np.full((3 + k, 3 + k), -9.0, np.float32)
    table[np.arange(1, k + 1), np.arange(3, k + 3)] = scores
    pairs = [((0, 1), (0, 1)), ((k + 1, k + 2), (1, 2)), ((k + 2, k + 3), (2, 3))]
    gaps = [((1, k + 1), (1, 1)), ((k + 3, k + 3), (3, k + 3))]
    src, tgt = zip(*sorted(pairs + gaps), strict=True)
    beads = Beads(np.array(src), np.array(tgt), np.full(5, 9.0, np.float32))
    runs = find_moved(Aligned(beads, Mixture([Given(table)])), PRIORS)
    assert [run.src[:, 0].tolist() for run in runs] == ([[*range(1, k + 1)]] if moves else [])
