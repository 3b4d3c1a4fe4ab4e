"""The temperature that makes a classifier's probabilities right."""

import math
from typing import Any

import pytest
import torch

from mtkit.training.validation.classification import calibrate, scores_of


class Labels(torch.nn.Module):
    """A model with the output that calibration changes."""

    def __init__(self, n_labels: int) -> None:
        super().__init__()
        self.output = torch.nn.Linear(4, n_labels)


@pytest.mark.parametrize(("n", "n_labels", "logit"), [(7, 2, 3.0), (7, 3, 3.0), (63, 2, 1.0), (1, 2, 5.0)])
def test_a_classifier_without_mistakes_among_n_examples_is_sure_by_their_number(n, n_labels, logit):
    # Platt 1999: the right label has (n + 1) / (n + L), each other 1 / (n + L), so exp(logit / T) = n + 1.
    labels = torch.arange(n) % n_labels
    logits = torch.full((n, n_labels), 2.0).scatter_(1, labels[:, None], 2.0 + logit)
    model: Any = Labels(n_labels)
    scaled, record = calibrate(model, scores_of(logits, labels))
    assert record["temperature"] == pytest.approx(logit / math.log(n + 1), rel=1e-6)
    torch.testing.assert_close(scaled.logits, logits / record["temperature"])
