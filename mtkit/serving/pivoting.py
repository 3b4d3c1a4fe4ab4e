"""Translate through a pivot language and report both steps as one translation."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mtkit.documents.sentences import Alignment, Translated
from mtkit.text.inline import Interval
from mtkit.text.transfer import Floats


def through(first: Translated, second: Translated) -> Translated:
    """Combine two steps into one translation: `second` is the translation of `first`'s text.

    It has the suspected faults of both. It has no confidence, because neither model saw both ends.
    """
    faults = list(dict.fromkeys([*first.faults, *second.faults]))
    n_placed = max(first.n_placed, second.n_placed)
    alignment = None
    if first.alignment is not None and second.alignment is not None:
        alignment = _composed(first.alignment, second.alignment)
    return replace(
        second, faults=faults, n_placed=n_placed, alignment=alignment, confidence=None, read_as=first.read_as
    )


def _composed(first: Alignment, second: Alignment) -> Alignment:
    """Align the words of the last text with those of the first, through the text between."""
    if not (first.src and first.tgt and second.src and second.tgt):
        return Alignment((), (), ())
    between = _overlaps(second.src, first.tgt)
    weights = np.asarray(second.weights) @ between @ np.asarray(first.weights)
    return Alignment(first.src, second.tgt, np.round(weights, 4).tolist())


def _overlaps(words: Sequence[Interval], others: Sequence[Interval]) -> Floats:
    """Return which share of each word (row) lies in each of the others; the two split the same text differently."""
    shares = np.array(
        [[max(0, min(end, e) - max(start, s)) for s, e in others] for start, end in words], dtype=np.float64
    )
    totals: Floats = np.maximum(shares.sum(axis=1, keepdims=True), 1)
    return shares / totals
