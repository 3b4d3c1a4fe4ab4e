"""Find where two line-aligned files slip, and pair their lines again."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from mtkit.corpora.alignment.aligner import LEAST_RELATED, align_texts, related_share
from mtkit.corpora.alignment.beads import Beads, Priors
from mtkit.corpora.alignment.moved import find_moved, merge_beads, not_covered, without_lines
from mtkit.corpora.alignment.words import Floats, Ints, Side, Vocabulary

# Slips are rare: one line with one line needs no proof, everything else about 1 in 10,000 against it.
PRIORS = Priors(two_one=12.0, two_two=float("inf"), gap=9.0, gap_line=2.0, noise=True)
_LEAST_SHARE = 0.3  # of the shorter file's lines that have a partner
_UNLIKE_LINES = 10  # neighbouring pairs that must be poor before they are reported
_UNLIKE_SCORE = -1.0  # nats a pair, on average
_REPEAT_LINES = 50  # a line that comes again at least this many pairs later counts as new

# Lines in the other text's language
_CLEAR = 3.0  # nats that speak for the other language, and ...
_CLEAR_PER_WORD = 0.4
_MOST_A_WORD = 3.0  # that one word can say
_NEAR_LINES = 8  # what leans to the other language between two clear lines no further apart than this is with them

Flags = npt.NDArray[np.bool_]
Kind = Literal["missing", "merged", "moved", "swapped", "unlike"]
Span = tuple[int, int]  # first line, from 0, and the line after the last


@dataclass(frozen=True)
class Slip:
    """A place where line n of one file no longer translates line n of the other, or where lines differ otherwise.

    missing: lines of one file without a partner (or k of one and m of the other that do not match); merged: two lines
    of one file are one of the other; moved: lines stand elsewhere in the other file; swapped: source and target have
    changed places; unlike: the lines are at their place and do not look like translations.
    """

    kind: Kind
    src: Span
    tgt: Span


@dataclass(frozen=True)
class Diagnosis:
    """The comparison of two files: pairs of lines in the order of the source, and slips by place."""

    related: float  # share of pairs that fit better than other lines of the same files would
    pairs: Beads
    swapped: Ints  # 1 at pairs whose sides have changed places
    slips: list[Slip]
    n_src: int
    n_tgt: int

    @property
    def is_related(self) -> bool:
        """Whether the files as a whole are translations of each other."""
        return self.related >= LEAST_RELATED and self.share >= _LEAST_SHARE

    @property
    def share(self) -> float:
        """The share of the shorter file's lines that are in a pair."""
        return min(1.0, len(self.pairs) / max(1, min(self.n_src, self.n_tgt)))

    def unplaced(self) -> tuple[list[int], list[int]]:
        """Return the lines of either file, from 0, that are in no pair."""
        rest = []
        for spans, n in ((self.pairs.src, self.n_src), (self.pairs.tgt, self.n_tgt)):
            rest.append(np.flatnonzero(not_covered(spans, n)).tolist())
        return rest[0], rest[1]


def diagnose(src: Iterable[str], tgt: Iterable[str], progress: Callable[[str], None] = lambda _: None) -> Diagnosis:
    """Compare the lines of two files that should translate each other line by line."""
    vocabulary = Vocabulary()
    src_side, tgt_side = vocabulary.read(src), vocabulary.read(tgt)
    flags = swapped_lines(src_side, tgt_side, vocabulary)
    aligned = align_texts(src_side, tgt_side, vocabulary, PRIORS, swapped=flags, progress=progress)
    progress("lines that moved")
    moved = find_moved(aligned, PRIORS)
    pairs = without_lines(aligned.beads, moved)
    everything = merge_beads([pairs, *moved])
    swapped = np.zeros(len(everything), np.int64)
    if flags is not None:
        swapped = flags[0][everything.src[:, 0]] & flags[1][everything.tgt[:, 0]]
    fresh = pairs.take(_not_repeated(pairs, src_side, tgt_side))
    slips = [
        *_missing(pairs, moved, len(src_side), len(tgt_side)),
        *_merged(everything),
        *(Slip("moved", (int(r.src[0, 0]), int(r.src[-1, 1])), (int(r.tgt[0, 0]), int(r.tgt[-1, 1]))) for r in moved),
        *_runs("swapped", everything, swapped.astype(np.float32) - 0.5, 1),
        *_runs("unlike", fresh, _UNLIKE_SCORE - fresh.scores, _UNLIKE_LINES),
    ]
    slips.sort(key=lambda slip: (slip.src, slip.tgt))
    return Diagnosis(related_share(aligned), everything, swapped, slips, len(src_side), len(tgt_side))


def _missing(pairs: Beads, moved: list[Beads], n_src: int, n_tgt: int) -> Iterator[Slip]:
    """Yield the lines between neighbouring pairs that have no partner, moved ones left out."""
    everything = [merge_beads([pairs, *moved])] if moved else [pairs]
    alone = [not_covered(getattr(everything[0], side), n) for side, n in (("src", n_src), ("tgt", n_tgt))]
    ends = np.concatenate([[[0, 0]], np.stack([pairs.src[:, 1], pairs.tgt[:, 1]], axis=1)])
    starts = np.concatenate([np.stack([pairs.src[:, 0], pairs.tgt[:, 0]], axis=1), [[n_src, n_tgt]]])
    for place in np.flatnonzero((ends < starts).any(axis=1)).tolist():
        (a, c), (b, d) = ends[place].tolist(), starts[place].tolist()
        src_runs, tgt_runs = _runs_of(alone[0], a, b), _runs_of(alone[1], c, d)
        for k in range(max(len(src_runs), len(tgt_runs))):
            src = src_runs[k] if k < len(src_runs) else (b, b)
            tgt = tgt_runs[k] if k < len(tgt_runs) else (d, d)
            yield Slip("missing", src, tgt)


def _runs_of(flags: Ints, first: int, last: int) -> list[Span]:
    """Return the runs of 1 between two places."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags[first:last], [0]]))) + first
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _merged(pairs: Beads) -> Iterator[Slip]:
    for place in np.flatnonzero((pairs.sizes() > 1).any(axis=1)).tolist():
        yield Slip("merged", _span(pairs.src[place]), _span(pairs.tgt[place]))


def _span(line: Ints) -> Span:
    return int(line[0]), int(line[1])


def _runs(kind: Kind, pairs: Beads, evidence: Floats, fewest: int) -> Iterator[Slip]:
    """Yield runs of pairs whose evidence sums up from first to last, with at least `fewest` pairs.

    A run ends where the sum has fallen by more than three of its largest steps, or to nothing.
    """
    start, total, best, best_end = 0, 0.0, 0.0, 0
    drop = 3 * float(evidence.max(initial=0.0)) if fewest == 1 else 10.0
    for place in range(len(pairs) + 1):
        value = float(evidence[place]) if place < len(pairs) else -np.inf
        if total <= 0:
            start, total, best, best_end = place, 0.0, 0.0, place
        total += value
        if total > best:
            best, best_end = total, place + 1
        if best > 0 and (total <= 0 or best - total > drop):
            if best_end - start >= fewest:
                src, tgt = pairs.src[start:best_end], pairs.tgt[start:best_end]
                yield Slip(kind, (int(src.min()), int(src.max())), (int(tgt.min()), int(tgt.max())))
            total = 0.0


def _not_repeated(pairs: Beads, src: Side, tgt: Side) -> Flags:
    """Return for each pair whether its lines are new: neither is in the 49 pairs before it.

    A repeated line proves nothing more.
    """
    last: dict[tuple[int, bytes], int] = {}
    fresh = np.ones(len(pairs), np.bool_)
    for place in range(len(pairs)):
        for number, (side, lines) in enumerate(((src, pairs.src[place]), (tgt, pairs.tgt[place]))):
            key = number, side.words_of(*lines.tolist()).tobytes()
            fresh[place] &= place - last.get(key, -_REPEAT_LINES) >= _REPEAT_LINES
            last[key] = place
    return fresh


def swapped_lines(src: Side, tgt: Side, vocabulary: Vocabulary) -> tuple[Ints, Ints] | None:
    """Return 1 for each line that is clearly in the other text's language, 0 for the rest; None if none is.

    The line itself does not count, nor a copy of it in the other text: a word that stands nowhere else says nothing.
    """
    n = len(vocabulary)
    counts = [np.bincount(side.ids, minlength=n) for side in (src, tgt)]
    says = ~vocabulary.is_symbol
    flags = []
    for own, side in enumerate((src, tgt)):
        mine, theirs = counts[own], counts[1 - own]
        lines = side.line_of_word()
        repeats = _times_in_line(side, lines, n)
        here, there = mine[side.ids] - repeats, np.maximum(0, theirs[side.ids] - repeats)
        ratio = np.log((there + 0.5) / (here + 0.5) * max(1, mine.sum()) / max(1, theirs.sum()))
        evidence = np.where(says[side.ids], np.clip(ratio, -_MOST_A_WORD, _MOST_A_WORD), 0)
        totals = np.bincount(lines, evidence, minlength=len(side))
        n_words = np.bincount(lines, says[side.ids], minlength=len(side))
        clear = (totals > _CLEAR) & (totals > _CLEAR_PER_WORD * n_words)
        flags.append((clear | (_between(clear) & (totals > 0))).astype(np.int64))
    return (flags[0], flags[1]) if flags[0].any() and flags[1].any() else None


def _between(clear: Flags) -> Flags:
    """Return True for lines between two clear ones that are near each other."""
    lines = np.arange(len(clear))
    before = np.maximum.accumulate(np.where(clear, lines, -_NEAR_LINES))
    after = np.minimum.accumulate(np.where(clear, lines, len(clear) + _NEAR_LINES)[::-1])[::-1]
    return np.asarray(after - before <= _NEAR_LINES)


def _times_in_line(side: Side, lines: Ints, n_words: int) -> Ints:
    """Return for each word of the text how often its line has it."""
    _, inverse, counts = np.unique(lines * n_words + side.ids, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse.reshape(-1)])
