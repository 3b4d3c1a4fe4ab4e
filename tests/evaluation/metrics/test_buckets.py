"""Parts of a test set against sacreBLEU on the same part's text, and the law that parts add up."""

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from mtkit.evaluation.metrics.buckets import FEWEST, CountedSentences, compare_parts
from mtkit.evaluation.metrics.significance import Chance

WORDS = "the a cat dog house sees eats under with red small , ."


def sentences(n: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS.split(), size=rng.integers(1, 12))) for _ in range(n)]


def damaged(lines: list[str], share: float, seed: int) -> list[str]:
    """The lines without some of their words."""
    rng = np.random.default_rng(seed)
    return [" ".join(word for word in line.split() if rng.random() > share) for line in lines]


REFS = [sentences(60, 0), sentences(60, 1)]
GOOD, POOR = damaged(REFS[0], 0.1, 2), damaged(REFS[0], 0.4, 3)


@given(st.lists(st.integers(0, 4), min_size=60, max_size=60), st.integers(1, 2))
@settings(max_examples=20)
def test_the_counts_of_any_parts_add_up_to_those_behind_the_corpus_score(part_of, n_refs):
    counted = CountedSentences(POOR, REFS[:n_refs])
    parts = [[i for i, part in enumerate(part_of) if part == wanted] for wanted in sorted(set(part_of))]
    metrics: tuple[tuple[Literal["BLEU", "chrF2"], BLEU | CHRF], ...] = ("BLEU", BLEU(force=True)), ("chrF2", CHRF())
    for name, metric in metrics:
        sums = [np.array(counted.part(numbers)[name].rows).sum(0) for numbers in parts]
        from_parts = metric._compute_score_from_stats(sum(sums).tolist()).score
        assert from_parts == metric.corpus_score(POOR, REFS[:n_refs]).score == counted.score().scores[name]


@pytest.mark.parametrize("numbers", [[3], [0, 1, 2, 59], list(range(30))])
def test_a_parts_score_is_sacrebleus_of_the_parts_text(numbers):
    found = CountedSentences(POOR, REFS).score(numbers)
    texts, refs = [POOR[i] for i in numbers], [[given[i] for i in numbers] for given in REFS]
    assert found.n == len(numbers)
    assert found.scores["BLEU"] == BLEU(force=True).corpus_score(texts, refs).score
    assert found.scores["chrF2"] == CHRF().corpus_score(texts, refs).score


def test_sentence_scores_and_length_ratio_are_sacrebleus():
    counted = CountedSentences(POOR, REFS)
    expected = [CHRF().sentence_score(text, list(refs)).score for text, *refs in zip(POOR, *REFS, strict=True)]
    assert counted.sentence_chrf() == expected
    assert counted.length_ratio() == BLEU(force=True).corpus_score(POOR, REFS).ratio


@pytest.mark.parametrize("numbers", [None, list(range(10, 50))])
def test_p_is_that_of_sacrebleus_paired_bootstrap(numbers):
    chosen = list(range(60)) if numbers is None else numbers
    texts = [[lines[i] for i in chosen] for lines in (GOOD, damaged(GOOD, 0.03, 4), POOR, *REFS)]
    test = PairedTest(
        [("good", texts[0]), ("close", texts[1]), ("poor", texts[2])],
        {"BLEU": BLEU(force=True), "chrF2": CHRF()},
        texts[3:],
        test_type="bs",
        n_samples=200,
    )
    expected: dict[str, list[Any]] = test()[1]
    counted = [CountedSentences(lines, REFS) for lines in (GOOD, damaged(GOOD, 0.03, 4), POOR)]
    found = compare_parts(counted[0], counted[1:], numbers, chance=Chance(200, 200))
    for name in ("BLEU", "chrF2"):
        for number in (1, 2):
            assert found[number - 1][name].sacrebleu_p_bootstrap == expected[name][number].p_value
            assert found[number - 1][name].difference == expected[name][number].score - expected[name][0].score
    close, poor = found[0]["BLEU"].p_holm, found[1]["BLEU"].p_holm
    assert close is not None and poor is not None
    assert close > 0.05 > poor  # so that the law is seen on either side
    assert not found[0]["BLEU"].is_sure and found[1]["BLEU"].is_sure


def test_a_system_that_is_better_everywhere_is_better_in_every_resampled_test_set():
    perfect, poor = CountedSentences(REFS[0], REFS[:1]), CountedSentences(POOR, REFS[:1])
    [found] = compare_parts(poor, [perfect], chance=Chance(50, 100))
    assert found["chrF2"].better == 1
    low, high = found["chrF2"].low, found["chrF2"].high
    assert low is not None and high is not None
    assert 0 < low <= found["chrF2"].difference <= high
    [back] = compare_parts(perfect, [poor], chance=Chance(50, 100))
    assert back["chrF2"].better == 0
    assert (back["chrF2"].low, back["chrF2"].high) == (-high, -low)


def test_equal_translations_never_differ_significantly():
    [found] = compare_parts(CountedSentences(GOOD, REFS), [CountedSentences(GOOD, REFS)], chance=Chance(50, 100))
    assert found["BLEU"].difference == 0
    assert found["BLEU"].better == 0.5
    assert not found["BLEU"].is_sure


def test_few_sentences_are_scored_but_not_tested():
    good, poor = CountedSentences(GOOD, REFS), CountedSentences(POOR, REFS)
    [few] = compare_parts(good, [poor], list(range(FEWEST - 1)), chance=Chance(50, 100))
    assert few["chrF2"].difference < 0
    assert (few["chrF2"].p, few["chrF2"].low, few["chrF2"].better, few["chrF2"].is_sure) == (None, None, None, False)
    [enough] = compare_parts(good, [poor], list(range(FEWEST)), chance=Chance(50, 100))
    assert enough["chrF2"].p is not None


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match="59 hypotheses with 60"):
        CountedSentences(GOOD[1:], REFS)
    with pytest.raises(ValueError, match="systems of 60, 59 sentences"):
        compare_parts(CountedSentences(GOOD, REFS), [CountedSentences(GOOD[1:], [REFS[0][1:]])])
    with pytest.raises(ValueError, match="a part without sentences"):
        CountedSentences(GOOD, REFS).score([])
