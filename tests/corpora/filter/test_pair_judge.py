"""The regression that weighs a network and a lexicon."""

import numpy as np
import pytest

from mtkit.corpora.filter.pair_judge import Regression


def columns(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose goodness depends on a product of two columns alone."""
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(n, 3))
    probs = 1 / (1 + np.exp(-3 * found[:, 0] * found[:, 1]))
    return found, rng.random(n) < probs


def test_products_of_columns_count():
    found, is_good = columns(4000, seed=1)
    regression = Regression.fit(found, is_good)
    x = np.array([[1.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 1.0, 0.0]])
    # the true log-odds of these are 3, 3, -3 and 0
    assert regression.probabilities(x) == pytest.approx([0.953, 0.953, 0.047, 0.5], abs=0.05)


def test_probabilities_are_calibrated_on_what_it_learned():
    found, is_good = columns(1000, seed=2)
    assert Regression.fit(found, is_good).probabilities(found).mean() == pytest.approx(is_good.mean(), abs=1e-6)


def test_examples_that_a_line_divides_do_not_run_off():
    found = np.array([[-1.0], [-2.0], [1.0], [2.0]] * 10)
    regression = Regression.fit(found, found[:, 0] > 0)
    probs = regression.probabilities(np.array([[-100.0], [100.0]]))
    assert np.isfinite(regression.weights).all()
    assert ((probs >= 0) & (probs <= 1)).all()
