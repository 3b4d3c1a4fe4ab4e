"""Temperature scaling: make a classifier's probabilities say how often it is right (Guo et al. 2017, section 4.2)."""

import torch
from torch import Tensor

_LOWEST, _HIGHEST = 1e-3, 1e3  # temperatures to search between
_N_HALVINGS = 60  # of a range of six powers of ten: beyond float64's precision


def best_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the T for which the softmax of logits / T has the lowest cross-entropy with the labels.

    logits: (N, L); labels: (N,) indices. The right label counts as (N + 1) / (N + L), each other one as 1 / (N + L), as
    Platt 1999 (section 2.2) does for two labels: N examples cannot show that a classifier errs less often than that, so
    one that makes no mistake among them does not become infinitely sure.
    """
    z = logits.double()
    n, n_labels = z.shape
    targets = torch.full_like(z, 1 / (n + n_labels)).scatter_(1, labels[:, None], (n + 1) / (n + n_labels))
    wanted = (targets * z).sum()

    def slope(log_beta: float) -> float:
        """Return the sign of the derivative of the cross-entropy, which is convex in beta = 1 / T."""
        probs = (z * torch.tensor(log_beta, dtype=z.dtype).exp()).softmax(dim=1)
        return float((probs * z).sum() - wanted)

    low, high = torch.tensor([1 / _HIGHEST, 1 / _LOWEST], dtype=z.dtype).log().tolist()
    for _ in range(_N_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return float(torch.tensor(-(low + high) / 2, dtype=z.dtype).exp())
