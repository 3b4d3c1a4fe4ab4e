"""The cost of pairing sentences by their lengths (Gale and Church 1993)."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

VARIANCE = 6.8  # of the difference in length, per character (section 3.2 of the paper)
_LARGEST = 10.0  # nats: a pair that lengths alone make absurd may still be one, such as an abbreviation
_STEPS = 64  # of the table of costs, for one standard deviation
_DEVIATIONS = np.arange(8 * _STEPS) / _STEPS
_COSTS = np.minimum([-math.log(math.erfc(z / math.sqrt(2))) for z in _DEVIATIONS.tolist()], _LARGEST).astype(np.float32)
_RISES = np.diff(_COSTS, append=_LARGEST).astype(np.float32)

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Lengths:
    """Gale and Church's model of lengths. ratio: characters of the target for one of the source, over all text."""

    ratio: float = 1.0

    @classmethod
    def from_totals(cls, n_src: int, n_tgt: int) -> "Lengths":
        """Return the model for two texts with so many characters."""
        return cls(n_tgt / n_src if n_src and n_tgt else 1.0)

    def deviation(self, src: npt.ArrayLike, tgt: npt.ArrayLike) -> Floats:
        """Return by how many standard deviations lengths in characters differ from what is expected.

        As in the program of the paper's appendix, but lengths are first divided so that the sides are alike.
        """
        a = np.asarray(src, np.float32) * np.float32(math.sqrt(self.ratio))
        b = np.asarray(tgt, np.float32) * np.float32(1 / math.sqrt(self.ratio))
        return np.asarray((b - a) / np.sqrt(np.maximum((a + b) * np.float32(VARIANCE / 2), np.float32(1e-9))))

    def cost(self, src: npt.ArrayLike, tgt: npt.ArrayLike) -> Floats:
        """Return -log of the probability, 2 (1 - Phi(|deviation|)), of lengths as different as these; at most 10."""
        steps = np.minimum(np.abs(self.deviation(src, tgt)) * np.float32(_STEPS), np.float32(len(_COSTS) - 1))
        place = steps.astype(np.int32)
        return np.asarray(_COSTS[place] + (steps - place.astype(np.float32)) * _RISES[place])
