"""Align the lines of two texts: by lengths and words spelled alike first, then by a lexicon learnt from the result."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mtkit.corpora.alignment.anchors import anchor_points, anchored_band, word_pairs
from mtkit.corpora.alignment.beads import Band, Beads, Priors, best_alignment, n_blocks
from mtkit.corpora.alignment.likeness import BLOCK_LINES, Likeness, Table, Tables
from mtkit.corpora.alignment.words import Ints, Side, Vocabulary, as_lists
from mtkit.engines.lexicon import learn_lexicon

_ROUNDS = 3  # alignments, of which each later one uses the lexicon learnt from the one before
_FIRST_WIDTH, _WIDTH = 24, 10  # offsets to either side of the expected one that are looked at
_MAX_LINKS = 3_000_000  # pairs of word positions to learn a lexicon from: about 150 MB
_FEWEST_PAIRS = 20  # to learn a lexicon from
_SAMPLE = 2_000  # pairs compared with other pairs, to see whether the texts belong together
LEAST_RELATED = 0.7  # share of them that must fit better; 0.5 is chance
_FEW_LINES, _SOME_LINES = 5_000, 50_000

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Aligned:
    """An alignment, and what it was scored with."""

    beads: Beads
    likeness: Likeness


def align_texts(
    src: Side,
    tgt: Side,
    vocabulary: Vocabulary,
    priors: Priors,
    *,
    swapped: tuple[Ints, Ints] | None = None,
    progress: Progress = lambda _: None,
) -> Aligned:
    """Return the best alignment of two texts.

    The first is made by lengths (Gale and Church), numbers, punctuation and words spelled alike. The pairs that look
    like translations then teach a lexicon (IBM model 1), with which the next is made, and so on.
    """
    likeness = Likeness(src, tgt, vocabulary, swapped=swapped)
    if not len(src) or not len(tgt):
        return Aligned(best_alignment(likeness, len(src), len(tgt), Band.whole(len(src), len(tgt)), priors), likeness)
    beads: Beads | None = None
    for round_number in range(_ROUNDS):
        if beads is not None:
            folds = learn_folds(likeness, beads)
            if folds is None:
                break
            likeness = Likeness(src, tgt, vocabulary, folds, swapped)
        progress(f"alignment {round_number + 1} of {_ROUNDS}")
        points = anchor_points(src, tgt, word_pairs(vocabulary, likeness.folds), len(vocabulary))
        width = _FIRST_WIDTH if round_number < 2 else _WIDTH
        band = anchored_band(len(src), len(tgt), points, beads, width)
        beads = best_alignment(likeness, len(src), len(tgt), band, priors)
    assert beads is not None
    return Aligned(beads, likeness)


def learn_folds(likeness: Likeness, beads: Beads) -> list[Tables] | None:
    """Learn a lexicon for each fold of the lines from the pairs of the others; None if there are too few pairs.

    Only beads of one line each count that are likelier to be translations than not. The folds are every other block of
    lines, or every fourth or eighth if there are few.
    """
    src = likeness.src
    good = (beads.sizes() == 1).all(axis=1) & (beads.scores > 0)
    if likeness.swapped is not None:
        good &= likeness.swapped[0][np.minimum(beads.src[:, 0], len(src) - 1)] == 0
    rows, cols = beads.src[good, 0], beads.tgt[good, 0]
    if len(rows) < _FEWEST_PAIRS:
        return None
    n_folds = 8 if len(rows) < _FEW_LINES else 4 if len(rows) < _SOME_LINES else 2
    n_folds = min(n_folds, n_blocks(len(src)))
    if n_folds < 2:
        return None
    folds = []
    for number in range(n_folds):  # the line before a block may be joined with its first, so it is scored there too
        others = (rows // BLOCK_LINES % n_folds != number) & ((rows + 1) // BLOCK_LINES % n_folds != number)
        folds.append(_learn(likeness, rows[others], cols[others]))
    return folds


def _learn(likeness: Likeness, rows: Ints, cols: Ints) -> Tables:
    src, tgt, n_words = likeness.src.take(rows), likeness.tgt.take(cols), len(likeness.vocabulary)
    keep = _even_sample(src.n_words * tgt.n_words)
    src, tgt = src.take(keep), tgt.take(keep)
    everything = range(len(keep))
    # ids from 1: model 1 calls the empty word 0
    src_ids = [[word + 1 for word in line] for line in as_lists(src, everything)]
    tgt_ids = [[word + 1 for word in line] for line in as_lists(tgt, everything)]
    directions = []
    for a, b, side in ((src_ids, tgt_ids, src), (tgt_ids, src_ids, tgt)):
        lexicon = learn_lexicon(a, b, max_links=2 * _MAX_LINKS)
        lexicon = replace(lexicon, src_ids=lexicon.src_ids - 1, tgt_ids=lexicon.tgt_ids - 1)
        directions.append(Table.from_lexicon(lexicon, np.bincount(side.ids, minlength=n_words)))
    return Tables(*directions)


def _even_sample(n_links: Ints) -> Ints:
    """Return evenly spaced lines that have not too many links together."""
    share = min(1.0, _MAX_LINKS / max(1, int(n_links.sum())))
    return (
        np.linspace(0, len(n_links) - 1, int(len(n_links) * share), dtype=np.int64)
        if share < 1
        else np.arange(len(n_links))
    )


def related_share(aligned: Aligned) -> float:
    """Return the share of pairs that fit better than their source with another target line, of an even sample."""
    beads = aligned.beads.take(aligned.beads.are_pairs())
    if not len(beads):
        return 0.0
    n_tgt = len(aligned.likeness.tgt)
    sample = np.unique(np.linspace(0, len(beads) - 1, _SAMPLE, dtype=np.int64))
    better = 0.0
    for place in sample.tolist():
        row, col = int(beads.src[place, 0]), int(beads.tgt[place, 0])
        other = (col + max(1, n_tgt // 3)) % n_tgt
        own, foreign = (
            float(aligned.likeness.block(range(row, row + 1), range(c, c + 1)).one_one[0, 0]) for c in (col, other)
        )
        better += 1.0 if own > foreign else 0.5 if own == foreign else 0.0
    return better / len(sample)
