"""Looking for lines that stand elsewhere."""

import numpy as np

from mtkit.corpora.alignment.aligner import learn_folds
from mtkit.corpora.alignment.beads import Beads
from mtkit.corpora.alignment.likeness import BLOCK_LINES, Likeness
from mtkit.corpora.alignment.moved import Part
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
