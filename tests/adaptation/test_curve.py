"""Choosing among means of the base's and the tuned weights."""

import random

import pytest

from mtkit.adaptation.curve import Point, chosen_share, likely_losses, share_to_try
from mtkit.evaluation.metrics.settings import MetricSettings
from mtkit.evaluation.metrics.significance import compare


@pytest.mark.parametrize(
    ("points", "share"),
    [
        ([(0, 10, 30), (0.5, 20, 29.8), (1, 25, 20)], 0.5),  # 1 loses 10
        ([(0, 10, 30), (0.5, 20, 29.8), (1, 25, 29.9)], 1),
        ([(0, 10, 30), (0.5, 20, 28), (1, 25, 20)], 0.5),  # both lose more than allowed: the least
        ([(0, 10, 30), (0.5, 9, 31), (1, 8, 31)], 0),  # nothing gains
        ([(0, 10, None), (0.5, 20, None), (1, 25, None)], 1),
        ([(0, 10, None), (0.5, 19, None), (1, 20, None)], 0.5),  # 90 % of the gain, and more of the base
        ([(0, 10, 30, False, 0), (0.5, 20, 29.8, False, 0.4), (1, 25, 29.7, False, 0.9)], 0.5),  # 1 may lose more
    ],
)
def test_the_mean_is_chosen_by_both_dev_scores(points, share):
    assert chosen_share([Point(*point) for point in points], most_lost=0.5).share == share


@pytest.mark.parametrize(
    ("points", "share"),
    [
        ([(0, 10, 30), (0.5, 20, 29.8), (1, 25, 20)], 0.75),  # 1 loses too much
        ([(0, 10, 30), (0.5, 20, 28), (1, 25, 20)], 0.25),  # both lose too much
        ([(0, 10, 30), (0.5, 20, 29.8), (1, 25, 29.9)], None),  # all of the tuned weights lose little
        ([(0, 10, 30), (0.5, 9, 31), (1, 8, 31)], None),  # nothing gains
        ([(0, 10, None), (0.5, 17, None), (1, 20, None)], 0.75),  # a smaller share may keep 90 % of the gain
        ([(0, 10, None), (0.5, 19, None), (1, 20, None)], 0.25),
    ],
)
def test_a_share_between_two_is_tried_where_it_might_be_better(points, share):
    assert share_to_try([Point(*point) for point in points], most_lost=0.5) == share


def test_the_likely_loss_is_more_than_the_loss_and_within_its_interval():
    draw = random.Random(1)
    references = [" ".join(draw.choices("abcdefgh", k=8)) for _ in range(60)]
    worse = [line if draw.random() < 0.8 else " ".join(draw.choices("abcdefgh", k=8)) for line in references]
    nothing, loss = likely_losses([references, worse], references, MetricSettings())
    _, compared = compare({"base": references, "tuned": worse}, [references], metrics=["BLEU"])
    [difference] = compared.differences
    assert difference.low is not None and nothing == 0
    assert -difference.difference < loss < -difference.low
