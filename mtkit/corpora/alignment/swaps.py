"""Find the lines of either text that are in the other text's language, by the words of both texts."""

import numpy as np
import numpy.typing as npt

from mtkit.corpora.alignment.words import Ints, Side, Vocabulary

_CLEAR = 3.0  # nats that speak for the other language, and ...
_CLEAR_PER_WORD = 0.4
_MOST = 3.0  # that one word can say
_BLOCK = 8  # lines: what leans to the other language between two clear lines no further apart than this is with them

Flags = npt.NDArray[np.bool_]


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
        evidence = np.where(says[side.ids], np.clip(ratio, -_MOST, _MOST), 0)
        totals = np.bincount(lines, evidence, minlength=len(side))
        n_words = np.bincount(lines, says[side.ids], minlength=len(side))
        clear = (totals > _CLEAR) & (totals > _CLEAR_PER_WORD * n_words)
        flags.append((clear | (_between(clear) & (totals > 0))).astype(np.int64))
    return (flags[0], flags[1]) if flags[0].any() and flags[1].any() else None


def _between(clear: Flags) -> Flags:
    """Return True for lines between two clear ones that are near each other."""
    lines = np.arange(len(clear))
    before = np.maximum.accumulate(np.where(clear, lines, -_BLOCK))
    after = np.minimum.accumulate(np.where(clear, lines, len(clear) + _BLOCK)[::-1])[::-1]
    return np.asarray(after - before <= _BLOCK)


def _times_in_line(side: Side, lines: Ints, n_words: int) -> Ints:
    """Return for each word of the text how often its line has it."""
    _, inverse, counts = np.unique(lines * n_words + side.ids, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse.reshape(-1)])
