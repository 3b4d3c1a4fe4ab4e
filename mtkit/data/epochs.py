"""Choose the pairs of an epoch, how often each comes, and its windows: pure functions of a mixture and a seed."""

import numpy as np
import numpy.typing as npt

from mtkit.data.mixture import Mixture

PairIndices = npt.NDArray[np.int32]

# Last numbers of the seeds of the generators here. A batch plan has a seed of the same length that ends in 0.
_TURNS, _ORDER = 1, 2


def epoch_pairs(mixture: Mixture, *, seed: int, epoch: int) -> PairIndices:
    """Return the indices of an epoch's pairs, ascending; a pair that comes several times is repeated.

    Each pair of a corpus that takes part comes floor(passes) times; the fraction is the share of the pairs that comes
    once more. They take turns: after any number of epochs of a mixture, the counts of two pairs of a corpus that take
    part differ by at most 1.
    """
    parts, first = [], 0
    for corpus, (size, passes, eligible) in enumerate(
        zip(mixture.sizes, mixture.passes, mixture.eligible, strict=True)
    ):
        if eligible is None:
            indices = np.arange(first, first + size, dtype=np.int32)
        else:
            indices = (first + np.flatnonzero(eligible)).astype(np.int32)
        times = int(passes)
        # Turns taken before and after this epoch. Rounding the sums, not each epoch's share, loses nothing over time.
        begin, end = (round(size * (passes - times) * n_epochs) for n_epochs in (epoch, epoch + 1))
        if end > begin:
            order = np.arange(size, dtype=np.int32)
            np.random.default_rng([seed, corpus, 0, _TURNS]).shuffle(order)
            counts = np.full(size, times, dtype=np.int32)
            counts[order[np.arange(begin, end) % size]] += 1
            indices = np.repeat(indices, counts)
        elif times != 1:
            indices = np.repeat(indices, times)
        parts.append(indices)
        first += size if eligible is None else len(eligible)
    return np.concatenate(parts)


def cut_into_windows(pairs: PairIndices, window_pairs: int, *, seed: int, epoch: int) -> list[PairIndices]:
    """Shuffle pairs (N,) and cut them into equal windows of at most window_pairs; a single window keeps its order."""
    n_windows = -(-len(pairs) // window_pairs)
    if n_windows < 2:
        return [pairs] * n_windows
    shuffled = pairs.copy()
    np.random.default_rng([seed, epoch, 0, _ORDER]).shuffle(shuffled)
    return np.array_split(shuffled, n_windows)
