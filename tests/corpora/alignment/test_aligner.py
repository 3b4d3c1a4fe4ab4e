"""What an alignment teaches the next one."""

import numpy as np
import pytest

from mtkit.corpora.alignment.aligner import learn_folds
from mtkit.corpora.alignment.beads import Beads
from mtkit.corpora.alignment.likeness import BLOCK_LINES, Likeness
from mtkit.corpora.alignment.words import Vocabulary

N = 4 * BLOCK_LINES


def likeness_with_a_rare_word():
    """Two texts of N lines, and the id of the source word that only line 70 has."""
    vocabulary = Vocabulary()
    src, tgt = (
        vocabulary.read(f"{odd if line == 70 else word} {word}{'abcdefgh'[line % 8]}" for line in range(N))
        for word, odd in (("wort", "selten"), ("mot", "rare"))
    )
    return Likeness(src, tgt, vocabulary), src.ids[src.starts[70]]


def test_no_line_is_scored_by_what_it_taught_itself():
    likeness, rare = likeness_with_a_rare_word()
    spans = np.stack([np.arange(N), np.arange(N) + 1], axis=1)
    folds = learn_folds(likeness, Beads(spans, spans, np.ones(N, np.float32)))
    assert folds is not None
    entries = [int(np.diff(fold.forward.starts)[rare]) for fold in folds]
    assert entries[70 // BLOCK_LINES % len(folds)] == 0
    assert min(entries[:1] + entries[2:]) > 0


@pytest.mark.parametrize(
    ("score", "n_lines", "teaches"), [(1.0, 1, True), (0.0, 1, False), (-1.0, 1, False), (1.0, 2, False)]
)
def test_only_likely_beads_of_one_line_each_teach(score, n_lines, teaches):
    likeness, rare = likeness_with_a_rare_word()
    spans, scores = np.stack([np.arange(N), np.arange(N) + 1], axis=1), np.ones(N, np.float32)
    srcs, scores[70] = spans.copy(), score
    srcs[70, 1] = 70 + n_lines
    folds = learn_folds(likeness, Beads(srcs, spans, scores))
    assert folds is not None
    assert any(np.diff(fold.forward.starts)[rare] for fold in folds) == teaches
