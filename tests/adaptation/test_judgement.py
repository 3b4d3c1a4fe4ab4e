"""What the scores of an adaptation say: whether the model is better, and what remains unknown."""

from dataclasses import replace
from typing import Any

import pytest

from mtkit.adaptation.curve import Point
from mtkit.adaptation.judgement import ON_MEMORY, Change, Judgement


def judged(after, p, general=(0.0, None), most_lost=None, general_of=""):
    def change(metric, before, after, p):
        return Change(metric, before, after, None, None, p)

    rest: dict[str, Any] = dict.fromkeys(("n_read", "n_clean", "n_train", "n_test", "n_mix", "n_general"), 0)
    rest |= {"unseen": [], "curve": [], "examples": [], "most_lost": most_lost, "general_of": general_of}
    lost, general_p = general
    rest["general"] = [change("BLEU", 40.0, 40.0 - lost, general_p)]
    return Judgement(base="b", model=None, memory="m", domain=[change("BLEU", 20.0, after, p)], **rest)


def test_a_judgement_needs_a_significant_gain():
    assert judged(22.0, 0.01).is_better
    assert not judged(22.0, 0.2).is_better and not judged(18.0, 0.01).is_better and not judged(22.0, None).is_better


def test_a_model_that_is_not_better_is_judged_with_what_may_help():
    told = judged(20.1, 0.8).verdict()
    assert "not significantly better" in told and "b remains" in told and "--budget" in told


@pytest.mark.parametrize(
    ("lost", "p", "most_lost", "is_better"),
    [(5.0, 0.01, 0.5, False), (5.0, 0.2, 0.5, True), (0.4, 0.01, 0.5, True), (15.0, 0.01, 20.0, True)],
)
def test_a_gain_at_a_significant_loss_elsewhere_is_not_better(lost, p, most_lost, is_better):
    one = judged(22.0, 0.01, (lost, p), most_lost, "general text")
    assert one.is_better == is_better
    if not is_better:
        told = one.verdict()
        assert "general text: BLEU 40.00 before, 35.00 after" in told and "b remains" in told and "--general" in told


def test_a_small_share_that_gains_nothing_is_told_beside_what_all_tuned_weights_do():
    curve = [Point(0.0, 2.5, 40.5), Point(0.25, 3.0, 40.2, is_chosen=True), Point(1.0, 6.1, 38.9)]
    told = replace(judged(22.0, 0.2, (40.0, 0.5), 0.5, "general text"), curve=curve).verdict()
    assert "dev (2.50 before, 6.10 after)" in told and "general text: 40.50 before, 38.90 after" in told
    assert "run/model" in told
    for other in ([curve[0], replace(curve[2], is_chosen=True)], [*curve[:2], Point(1.0, 2.9, 38.9)]):
        assert "run/model" not in replace(judged(22.0, 0.2), curve=other).verdict()


def test_a_gain_without_general_text_tells_what_is_unknown():
    assert "--general" in judged(22.0, 0.01, (80.0, 0.01), None, ON_MEMORY).verdict()
