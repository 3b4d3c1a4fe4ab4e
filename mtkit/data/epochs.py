"""Choose the pairs of an epoch, how often each comes, and its windows: pure functions of sizes, weights and seed."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

PairIndices = npt.NDArray[np.int32]

# Last numbers of the seeds of the generators here. A batch plan has a seed of the same length that ends in 0.
_TURNS, _ORDER = 1, 2


def epoch_pairs(sizes: Sequence[int], weights: Sequence[float], *, seed: int, epoch: int) -> PairIndices:
    """Return the indices of an epoch's pairs, ascending; a pair that comes several times is repeated.

    sizes, weights: one of each a corpus. Each of its pairs comes floor(weight) times; the fraction is the share of the
    pairs that comes once more. They take turns: after any number of epochs, the counts of two pairs of a corpus differ
    by at most 1.
    """
    parts, first = [], 0
    for corpus, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        indices = np.arange(first, first + size, dtype=np.int32)
        times = int(weight)
        # Turns taken before and after this epoch. Rounding the sums, not each epoch's share, loses nothing over time.
        begin, end = (round(size * (weight - times) * n_epochs) for n_epochs in (epoch, epoch + 1))
        if end > begin:
            order = np.arange(size, dtype=np.int32)
            np.random.default_rng([seed, corpus, 0, _TURNS]).shuffle(order)
            counts = np.full(size, times, dtype=np.int32)
            counts[order[np.arange(begin, end) % size]] += 1
            indices = np.repeat(indices, counts)
        elif times != 1:
            indices = np.repeat(indices, times)
        parts.append(indices)
        first += size
    return np.concatenate(parts)


def cut_into_windows(pairs: PairIndices, window_pairs: int, *, seed: int, epoch: int) -> list[PairIndices]:
    """Shuffle pairs (N,) and cut them into equal windows of at most window_pairs; a single window keeps its order."""
    n_windows = -(-len(pairs) // window_pairs)
    if n_windows < 2:
        return [pairs] * n_windows
    shuffled = pairs.copy()
    np.random.default_rng([seed, epoch, 0, _ORDER]).shuffle(shuffled)
    return np.array_split(shuffled, n_windows)
