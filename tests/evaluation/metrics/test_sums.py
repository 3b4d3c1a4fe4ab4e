"""Scores of sums of counts against sacreBLEU's own formulas, on sums that no real text would have."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.evaluation.metrics.settings import METRICS, MetricName, MetricSettings
from mtkit.evaluation.metrics.sums import scores_of_sums

COLUMNS: dict[MetricName, int] = {"BLEU": 10, "chrF2": 18, "chrF2++": 24, "TER": 2}


def plausible(name: str, sums: list[int]) -> list[int]:
    """Make matches no more than what they are matched with."""
    if name == "BLEU":
        return [*sums[:2], *(min(pair) for pair in zip(sums[2:6], sums[6:], strict=True)), *sums[6:]]
    if name.startswith("chrF"):
        return [n for i in range(0, len(sums), 3) for n in (sums[i], sums[i + 1], min(sums[i : i + 3]))]
    return sums


@pytest.mark.parametrize("name", METRICS)
@given(data=st.data())
def test_a_score_of_sums_is_sacrebleus(name: MetricName, data: Any):
    counts = st.one_of(st.just(0), st.integers(0, 5), st.integers(0, 50_000))
    rows = data.draw(st.lists(st.lists(counts, min_size=COLUMNS[name], max_size=COLUMNS[name]), min_size=1, max_size=4))
    rows = [plausible(name, row) for row in rows]
    metric = MetricSettings().load(name)
    expected = [metric._compute_score_from_stats(list(row)).score for row in rows]
    assert scores_of_sums(name, np.array(rows, dtype=np.float64)) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_any_other_name_has_given_scores_whose_mean_counts():
    assert scores_of_sums("COMET", np.array([[1.5, 3.0], [-2.0, 4.0]])).tolist() == [0.5, -0.5]
