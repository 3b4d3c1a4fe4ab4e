"""Gale and Church's costs, against numbers worked out by hand from the paper and a table of the normal distribution."""

import numpy as np
import pytest

from mtkit.corpora.alignment.lengths import Lengths


def test_costs_are_those_worked_out_by_hand():
    # (30 - 20) / sqrt(6.8 * 25) = 0.7670; 2 (1 - Phi(0.7670)) = 0.4431
    # (150 - 100) / sqrt(6.8 * 125) = 1.7150; 2 (1 - Phi(1.7150)) = 0.0864
    lengths = Lengths(1.0)
    assert lengths.deviation([20, 100], [30, 150]) == pytest.approx([0.7670, 1.7150], abs=1e-4)
    assert lengths.cost([20, 100], [30, 150]) == pytest.approx([-np.log(0.4431), -np.log(0.0864)], abs=1e-3)


def test_equal_lengths_cost_nothing_and_absurd_ones_a_bounded_sum():
    lengths = Lengths(1.0)
    assert lengths.cost(57, 57) == 0
    assert lengths.cost(0, 0) == 0
    assert lengths.cost(1, 10_000) == 10


@pytest.mark.parametrize("ratio", [0.5, 1.2, 3.0])
def test_the_sides_are_alike_and_the_expected_length_is_free(ratio):
    forward, backward = Lengths(ratio), Lengths(1 / ratio)
    assert forward.cost(40, 40 * ratio) == pytest.approx(0, abs=1e-6)
    assert forward.cost(40, 77) == pytest.approx(backward.cost(77, 40))


def test_the_ratio_is_that_of_all_text():
    assert Lengths.from_totals(200, 250) == Lengths(1.25)
    assert Lengths.from_totals(0, 10) == Lengths(1.0)
