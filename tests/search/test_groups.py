"""When a beam's result is settled, and by how much."""

import math

import pytest

from mtkit.search.groups import GroupResult
from mtkit.search.step import SearchConfig


def settled(best_live_total, n_best=1):
    result = GroupResult(SearchConfig(beam_size=4, n_best=n_best, length_normalization="average"), max_len=10)
    for ids, total in (([5, 6], -3.0), ([7], -4.0)):
        result.add(ids, total, total, coverage=0.0, finished=True)  # scores: -1, -2
    return result.is_settled(best_live_total), result.margin


@pytest.mark.parametrize(
    ("best_live_total", "n_best", "expected", "margin"),
    [
        (-10.5, 1, True, 0.05),  # over the most tokens, 10, at best -1.05
        (-9.0, 1, False, 0.1),
        (-10.5, 2, False, 0.95),  # the second best has -2
        (-20.5, 2, True, 0.05),
        (-0.1, 3, False, math.inf),  # there are only two
        (-math.inf, 3, True, math.inf),
    ],
)
def test_a_result_is_settled_once_no_live_hypothesis_can_enter_it_and_the_margin_says_how_closely(
    best_live_total, n_best, expected, margin
):
    is_settled, found = settled(best_live_total, n_best)
    assert is_settled is expected
    assert found == pytest.approx(margin)
