"""What tests of a whole adaptation share."""

from functools import partial

import pytest

from mtkit.evaluation.metrics.significance import Chance, compare


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw a tenth of the test sets for intervals, because an adaptation makes dozens of them."""
    monkeypatch.setattr("mtkit.adaptation.judgement.compare", partial(compare, chance=Chance(100, 1000)))
    monkeypatch.setattr("mtkit.adaptation.curve.N_BOOTSTRAP", 100)
