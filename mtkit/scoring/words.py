"""The probability of each word of a translation."""

import math

from mtkit.scoring.alignment import piece_words
from mtkit.scoring.scoring import PairScore


def word_probabilities(score: PairScore) -> list[float]:
    """Return the probability of each word of a scored translation, given those before it; [] if it was not scored.

    Words are what white space separates. A word's probability is the product of its tokens'; the end has none.
    """
    log_probs = score.log_probs[:-1]  # EOS
    sums: dict[int, float] = {}
    for index, log_prob in zip(piece_words(score.pieces[:-1]), log_probs, strict=True):
        sums[index] = sums.get(index, 0.0) + log_prob
    return [math.exp(sums[index]) for index in sorted(sums)]
