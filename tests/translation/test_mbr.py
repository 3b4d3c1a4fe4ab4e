"""Minimum-Bayes-risk choice against its definition, with sacreBLEU's own sentence chrF."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.translation.candidates import Candidate
from mtkit.translation.mbr import expected_chrf, pairwise_chrf, rank
from mtkit.translation.translator import Translator

CHRF = pytest.importorskip("sacrebleu.metrics.chrf").CHRF()

words = st.text(alphabet="aab é漢😀.\u00a0", max_size=25)  # few letters: n-grams meet again


def sentence_chrf(hypothesis: str, reference: str) -> float:
    return float(CHRF.sentence_score(hypothesis, [reference]).score)


def expected_by_definition(candidates: list[str]) -> list[float]:
    return [sum(sentence_chrf(one, other) for other in candidates) / len(candidates) for one in candidates]


def draws(texts: list[str]) -> list[Candidate]:
    return [Candidate(text, [index], -float(index), -1.0, True) for index, text in enumerate(texts)]


def choose(texts: list[str]) -> int:
    """The index of the draw that is ranked first."""
    [index] = rank(draws(texts))[0].ids
    return index


@given(st.lists(words, max_size=6))
def test_chrf_of_every_two_texts_is_sacrebleus(texts):
    scores = pairwise_chrf(texts)
    assert scores.shape == (len(texts), len(texts))
    for row, hypothesis in enumerate(texts):
        for column, reference in enumerate(texts):
            assert scores[row, column] == pytest.approx(sentence_chrf(hypothesis, reference), abs=1e-9)


def test_a_repeated_word_counts_as_often_as_both_texts_have_it():
    texts = ["ha " * 40, "ha ha", "h" * 70, "a"]
    expected = [[sentence_chrf(one, other) for other in texts] for one in texts]
    np.testing.assert_allclose(pairwise_chrf(texts), expected, atol=1e-9)


@given(st.lists(words, min_size=1, max_size=6).flatmap(lambda texts: st.lists(st.sampled_from(texts), min_size=1)))
def test_the_choice_has_the_highest_expected_chrf_and_is_the_first_of_those(candidates):
    expected = expected_by_definition(candidates)
    assert expected_chrf(candidates) == pytest.approx(expected, abs=1e-8)
    first = next(index for index, value in enumerate(expected) if value > max(expected) - 1e-8)
    assert choose(candidates) == first


def test_a_text_drawn_twice_weighs_twice():
    near, nearer, far = "the cat sat here", "the cat sat there", "nobody was around"
    assert choose([far, near, nearer]) != 0
    assert choose([far, near, far, nearer, far]) == 0


def test_of_equals_the_first_is_chosen():
    assert choose(["", ""]) == 0
    assert choose(["a b", "ab", "a b"]) == 0  # white space does not count


def test_ranking_gives_each_text_once_the_most_expected_first_with_its_expected_chrf():
    texts = ["nobody was here", "the cat sat here", "the cat sat there", "the cat sat here"]
    ranked = rank(draws(texts))
    expected = dict(zip(texts, expected_by_definition(texts), strict=True))
    best_first = sorted(expected, key=lambda text: -expected[text])
    assert [candidate.text for candidate in ranked] == best_first
    assert [candidate.score for candidate in ranked] == pytest.approx([expected[text] for text in best_first])
    assert ranked[0].ids == [1] and ranked[0].log_prob == -1.0  # the model's own, of the first draw of that text


def test_as_many_samples_are_drawn_as_the_config_says(shared_bundle, monkeypatch):
    translator = Translator.load(shared_bundle, device="cpu", mbr_samples=5)
    decode, asked = translator.engine.decode, []

    def noting(segments, cfg, n_best):
        asked.append((cfg, n_best))
        return decode(segments, cfg, n_best)

    monkeypatch.setattr(translator.engine, "decode", noting)
    translator.search(["It rains."], n_best=2)
    assert asked == [(translator.decode, 5)]


def test_a_line_that_is_split_is_named(shared_bundle, monkeypatch):
    warnings: list[str] = []
    monkeypatch.setattr("mtkit.translation.translator.log.warning", warnings.append)
    translator = Translator.load(shared_bundle, device="cpu", mbr_samples=2, max_src_tokens=20)
    translator.translate(["It rains.", "It rains. " * 9])
    assert [message[:8] for message in warnings if "segments and joined" in message] == ["line 2: "]


def test_with_a_model_the_choice_does_not_depend_on_the_lines_around(shared_bundle):
    translator = Translator.load(shared_bundle, device="cpu", mbr_samples=6, beam_size=4, beam_groups=2)
    lines = ["I love oranges.", "", "The cat sleeps under the table.", "It rains."]
    together = translator.search(lines, n_best=2)
    alone = [translator.search([line], n_best=2)[0] for line in lines]
    assert [[c.text for c in n_best] for n_best in together] == [[c.text for c in n_best] for n_best in alone]
    assert [c.text for c in together[1]] == [""] and together[0][0].text
    first_only = translator.search(lines)
    assert [n_best[0] for n_best in first_only] == [n_best[0] for n_best in together]
    assert all(len(n_best) == 1 for n_best in first_only)


def test_a_utility_of_the_user_chooses_and_gets_every_draw_with_its_source(shared_bundle):
    calls = []

    def length(src, texts):
        calls.append((src, list(texts)))
        return [len(text) for text in texts]

    settings: dict[str, Any] = {"mbr_samples": 6, "seed": 3, "max_len": 8, "on_suspect": "off", "device": "cpu"}
    lines = ["the cat", "", "a dog sleeps"]
    translator = Translator.load(shared_bundle, utility=length, **settings)
    translations = list(translator.stream(lines))
    assert [(src, len(texts)) for src, texts in calls] == [("the cat", 6), ("a dog sleeps", 6)]
    assert [translation.text for translation in translations] == [
        max(calls[0][1], key=len),
        "",
        max(calls[1][1], key=len),
    ]
    assert translations[0].score == len(translations[0].text)
    drawn = {candidate.text for candidate in Translator.load(shared_bundle, **settings).search(lines, n_best=6)[0]}
    assert drawn == set(calls[0][1])


@pytest.mark.parametrize("values", [[1.0], [1.0, float("nan")], [1.0, 2.0, 3.0]])
def test_a_utility_returns_one_finite_number_for_each_draw(values):
    with pytest.raises(ValueError, match=r"'a': 2 draws .* finite numbers"):
        rank(draws(["x", "y"]), "a", lambda src, texts: values)


def test_a_utility_needs_samples(shared_bundle):
    with pytest.raises(ValueError, match="set mbr_samples"):
        Translator.load(shared_bundle, utility=lambda src, texts: [0.0] * len(texts))
