"""What an epoch is made of: which pairs, how often, and in which windows; pure functions of sizes, weights and seed."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

PairNumbers = npt.NDArray[np.int32]

# Ends of the lists of numbers that random numbers are derived from; those of a plan have zero in that place.
_TURNS, _ORDER = 1, 2


def epoch_pairs(sizes: Sequence[int], weights: Sequence[float], *, seed: int, epoch: int) -> PairNumbers:
    """The numbers of the pairs that make up an epoch, ascending, each as often as the epoch sees it.

    sizes, weights: of each corpus; its pairs come floor(weight) times, and the rest of the weight is the share of them
    that comes once more. Who is in that share goes round: after any number of epochs two pairs of a corpus have been
    seen equally often, or one of them once more.
    """
    parts, first = [], 0
    for corpus, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        numbers = np.arange(first, first + size, dtype=np.int32)
        times = int(weight)
        # Turns that earlier epochs have taken, and this one too; rounded as sums, so that nothing is lost over epochs.
        begin, end = (round(size * (weight - times) * n_epochs) for n_epochs in (epoch, epoch + 1))
        if end > begin:
            order = np.arange(size, dtype=np.int32)
            np.random.default_rng([seed, corpus, 0, _TURNS]).shuffle(order)
            counts = np.full(size, times, dtype=np.int32)
            counts[order[np.arange(begin, end) % size]] += 1
            numbers = np.repeat(numbers, counts)
        elif times != 1:
            numbers = np.repeat(numbers, times)
        parts.append(numbers)
        first += size
    return np.concatenate(parts)


def cut_into_windows(pairs: PairNumbers, window_pairs: int, *, seed: int, epoch: int) -> list[PairNumbers]:
    """The pairs (N,) in random order, cut into equal windows of at most window_pairs; a single one stays as it is."""
    n_windows = -(-len(pairs) // window_pairs)
    if n_windows < 2:
        return [pairs] * n_windows
    shuffled = pairs.copy()
    np.random.default_rng([seed, epoch, 0, _ORDER]).shuffle(shuffled)
    return np.array_split(shuffled, n_windows)
