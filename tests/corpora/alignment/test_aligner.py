"""What an alignment teaches the next one."""

import numpy as np

from mtkit.corpora.alignment.aligner import learn_folds
from mtkit.corpora.alignment.beads import Beads
from mtkit.corpora.alignment.likeness import BLOCK_LINES, Likeness
from mtkit.corpora.alignment.words import Vocabulary


def test_no_line_is_scored_by_what_it_taught_itself():
    n = 4 * BLOCK_LINES
    vocabulary = Vocabulary()
    src, tgt = (
        vocabulary.read(f"{odd if line == 70 else word} {word}{'abcdefgh'[line % 8]}" for line in range(n))
        for word, odd in (("wort", "selten"), ("mot", "rare"))
    )
    rare = src.ids[src.starts[70]]
    spans = np.stack([np.arange(n), np.arange(n) + 1], axis=1)
    folds = learn_folds(Likeness(src, tgt, vocabulary), Beads(spans, spans, np.ones(n, np.float32)))
    assert folds is not None
    entries = [int(np.diff(fold.forward.starts)[rare]) for fold in folds]
    assert entries[70 // BLOCK_LINES % len(folds)] == 0
    assert min(entries[:1] + entries[2:]) > 0
