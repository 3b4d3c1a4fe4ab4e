"""Align the lines of two texts, first by lengths and words spelled alike, then by a lexicon learned from the result."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtkit.corpora.alignment.anchors import anchored_band, anchors
from mtkit.corpora.alignment.beads import Band, Beads, Priors, best_alignment, n_blocks
from mtkit.corpora.alignment.likeness import BLOCK_LINES, LOWEST, Likeness, Mixture, Table, Tables
from mtkit.corpora.alignment.words import Ints, Side, Vocabulary
from mtkit.engines.lexicon import Model1, even_sample

_ROUNDS = 3  # alignments, of which each later one uses the lexicon learnt from the one before
_FIRST_WIDTH, _WIDTH = 24, 10  # offsets to either side of the expected one that are looked at
_MAX_LINKS = 3_000_000  # pairs of word positions to learn a lexicon from: about 150 MB
_POOR = -2.0  # nats below which a pair rather is none
_FEWEST_PAIRS = 20  # to learn a lexicon from
_SAMPLE = 2_000  # pairs compared with other pairs, to see whether the texts belong together
LEAST_RELATED = 0.7  # share of them that must fit better; 0.5 is chance
_FEW_LINES, _SOME_LINES = 5_000, 50_000

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Aligned:
    """An alignment and the scores it was made with."""

    beads: Beads
    likeness: Mixture


def align_texts(
    src: Side,
    tgt: Side,
    vocabulary: Vocabulary,
    priors: Priors,
    *,
    translated: Side | None = None,
    swapped: tuple[Ints, Ints] | None = None,
    progress: Progress = lambda _: None,
) -> Aligned:
    """Return the best alignment of two texts.

    The first is made by lengths (Gale and Church), numbers, punctuation and words spelled alike. The pairs that look
    like translations then teach a lexicon (IBM model 1), with which the next is made, and so on. translated: the
    source's lines in the target's language; where they say more than the source does, they count.
    """
    sources = [src] if translated is None else [src, translated]
    likeness = Mixture([Likeness(source, tgt, vocabulary, swapped=swapped) for source in sources])
    if not len(src) or not len(tgt):
        return Aligned(best_alignment(likeness, len(src), len(tgt), Band.whole(len(src), len(tgt)), priors), likeness)
    beads: Beads | None = None
    for round_number in range(_ROUNDS):
        if beads is not None:
            lowest = _lowest(beads) if priors.noise and round_number == _ROUNDS - 1 else LOWEST
            taught = [
                Likeness(part.src, tgt, vocabulary, folds, swapped, lowest)
                for part in likeness.parts
                if (folds := learn_folds(part, beads)) is not None
            ]
            if len(taught) < len(sources):  # too few pairs
                break
            likeness = Mixture(taught)
        progress(f"alignment {round_number + 1} of {_ROUNDS}")
        width = _FIRST_WIDTH if round_number < 2 else _WIDTH
        band = anchored_band(len(src), len(tgt), anchors(likeness), beads, width)
        beads = best_alignment(likeness, len(src), len(tgt), band, priors)
    assert beads is not None
    return Aligned(beads, likeness)


def _lowest(beads: Beads) -> float:
    """Return the penalty for a poor pair at its expected place, which depends on how common poor pairs are here.

    In text where every tenth pair is wrong, another wrong one does not mean that the lines slip.
    """
    scores = beads.scores[(beads.sizes() == 1).all(axis=1)]
    return max(LOWEST, math.log((1 + (scores < _POOR).sum()) / (2 + len(scores))))


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
    keep = even_sample(src.n_words[rows] * likeness.tgt.n_words[cols], _MAX_LINKS)
    rows, cols = rows[keep], cols[keep]
    left_out = []
    for number in range(n_folds):  # the line before a block may be joined with its first, so it is scored there too
        in_fold = (rows // BLOCK_LINES % n_folds == number) | ((rows + 1) // BLOCK_LINES % n_folds == number)
        left_out.append(np.flatnonzero(in_fold))
    sides = src.take(rows), likeness.tgt.take(cols)
    forward = _learn(*sides, left_out, len(likeness.vocabulary))
    backward = _learn(*sides[::-1], left_out, len(likeness.vocabulary))
    return [Tables(*tables) for tables in zip(forward, backward, strict=True)]


def _learn(src: Side, tgt: Side, left_out: Sequence[Ints], n_words: int) -> list[Table]:
    """Return a lexicon for each set of lines that is left out."""
    # ids from 1: model 1 calls the empty word 0
    model = Model1((src.ids.astype(np.int64) + 1, src.n_words), (tgt.ids.astype(np.int64) + 1, tgt.n_words))
    counts = np.bincount(src.ids, minlength=n_words)
    tables = []
    for without in left_out:
        lexicon = model.lexicon(without)
        lexicon = replace(lexicon, src_ids=lexicon.src_ids - 1, tgt_ids=lexicon.tgt_ids - 1)
        tables.append(Table.from_lexicon(lexicon, counts - np.bincount(src.take(without).ids, minlength=n_words)))
    return tables


def related_share(aligned: Aligned) -> float:
    """Return the share of pairs that fit better than their source with another target line, of an even sample.

    A target line with the same words is not another one: of a text of repeated lines, it would tell nothing.
    """
    likeness, beads = aligned.likeness, aligned.beads
    beads = beads.take((beads.sizes() == 1).all(axis=1))
    n_src, n_tgt = len(likeness.src), len(likeness.tgt)
    better = n_pairs = 0.0
    for block in np.unique(np.linspace(0, n_blocks(n_src) - 1, _SAMPLE // BLOCK_LINES, dtype=np.int64)).tolist():
        rows = range(block * BLOCK_LINES, min((block + 1) * BLOCK_LINES, n_src))
        pairs = beads.take((beads.src[:, 0] >= rows.start) & (beads.src[:, 0] < rows.stop))
        if not len(pairs):
            continue
        first = (rows.start + max(1, n_tgt // 3)) % n_tgt
        others = range(first, min(n_tgt, first + len(rows)))
        row = pairs.src[:, 0] - rows.start
        foreign = likeness.block(rows, others).one_one[row, row % len(others)].astype(np.float16)
        own = map(likeness.tgt.words_of, pairs.tgt[:, 0].tolist())
        differs = [
            not np.array_equal(line, likeness.tgt.words_of(others[i % len(others)]))
            for line, i in zip(own, row.tolist(), strict=True)
        ]
        better += float(((pairs.scores > foreign) + 0.5 * (pairs.scores == foreign))[differs].sum())
        n_pairs += sum(differs)
    return better / max(1.0, n_pairs)
