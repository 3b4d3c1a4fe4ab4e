"""Sampling against the distribution that it should follow; draws depend only on seed and sentence."""

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import BOS, EOS, RandomTable, TableStep

from mtkit.config.decoding import DecodeConfig
from mtkit.errors import MtkitError
from mtkit.search.greedy import greedy
from mtkit.search.sampling import Truncation, sample, uniform_numbers
from mtkit.search.step import SearchConfig

PROBS = [0.05, 0.4, 0.15, 0.1, 0.3]


def shares(truncation: Truncation, probs=PROBS, n: int = 20_000) -> list[float]:
    """How often each token is drawn, for evenly spaced uniform numbers: exact up to 1/n."""
    uniforms = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    drawn = truncation.draw(torch.tensor(probs, dtype=torch.float64).log().expand(n, -1), uniforms)
    counts = Counter(drawn.tolist())
    return [counts[token] / n for token in range(len(probs))]


def normalised(weights: list[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize(
    "truncation, expected",
    [
        (Truncation(), PROBS),
        (Truncation(temperature=0.5), normalised([p**2 for p in PROBS])),
        (Truncation(temperature=2.0), normalised([p**0.5 for p in PROBS])),
        (Truncation(top_k=1), [0, 1, 0, 0, 0]),
        (Truncation(top_k=2), normalised([0, 0.4, 0, 0, 0.3])),
        (Truncation(top_k=9), PROBS),
        (Truncation(top_p=0.39), [0, 1, 0, 0, 0]),
        (Truncation(top_p=0.5), normalised([0, 0.4, 0, 0, 0.3])),
        (Truncation(top_p=0.8), normalised([0, 0.4, 0.15, 0, 0.3])),
        (Truncation(epsilon=0.12), normalised([0, 0.4, 0.15, 0, 0.3])),
        (Truncation(epsilon=0.9), [0, 1, 0, 0, 0]),
        (Truncation(top_k=4, epsilon=0.12, top_p=0.5), normalised([0, 0.4, 0, 0, 0.3])),
    ],
)
def test_tokens_are_drawn_as_often_as_their_truncated_probability_says(truncation, expected):
    assert shares(truncation) == pytest.approx(expected, abs=1e-3)


def test_a_forbidden_token_is_never_drawn_not_even_at_the_ends():
    log_probs = torch.tensor([[-math.inf, math.log(0.5), math.log(0.5), -math.inf]])
    for uniform in (0.0, 0.25, 0.999999, 1 - 2**-53):
        [token] = Truncation().draw(log_probs, torch.tensor([uniform], dtype=torch.float64)).tolist()
        assert token in (1, 2)


def run(tables, sources, max_lens, *, n: int, seed: int = 1, truncation=None):
    uniforms = uniform_numbers(seed, sources, n, max_lens)
    step, cfg = TableStep(tables, n), SearchConfig(beam_size=n, n_best=n)
    limits = torch.tensor(max_lens)
    results = sample(step, limits, cfg, truncation or Truncation(), uniforms, bos_id=BOS, eos_id=EOS)
    return [result.n_best for result in results]


def test_whole_sequences_come_as_often_as_the_model_says():
    table, n = RandomTable(vocab_size=4, seed=0), 4000
    [draws] = run([table], [[5, 6]], [3], n=n)
    counts = Counter((*h.ids, EOS) if h.finished else tuple(h.ids) for h in draws)
    words = [2, 3]
    sequences = [*table.all_finished(3), *itertools.product(words, repeat=3)]
    chi_square = 0.0
    for tokens in sequences:
        expected = n * math.exp(table.log_prob(tokens))
        chi_square += (counts[tokens] - expected) ** 2 / expected
    assert sum(counts[tokens] for tokens in sequences) == n
    assert chi_square < 36  # 14 degrees of freedom: 1 in 1,000 beyond
    first = draws[0]
    assert first.log_prob == pytest.approx(table.log_prob((*first.ids, EOS) if first.finished else tuple(first.ids)))


def test_a_model_that_gives_nan_is_refused():
    class Broken(RandomTable):
        def row(self, prefix):
            return [math.nan] * 4

    with pytest.raises(MtkitError, match="NaN"):
        run([Broken(vocab_size=4, seed=0)], [[5]], [3], n=2)


def test_the_log_prob_is_the_models_own_whatever_the_temperature():
    table = RandomTable(vocab_size=6, seed=1)
    for h in run([table], [[9]], [7], n=30, truncation=Truncation(temperature=3.0, top_k=3))[0]:
        assert h.log_prob == pytest.approx(table.log_prob((*h.ids, EOS) if h.finished else tuple(h.ids)))
        assert h.score == pytest.approx(h.log_prob / ((5 + len(h.ids) + h.finished) / 6) ** 0.6)


def test_the_likeliest_alone_is_greedy_search():
    tables = [RandomTable(vocab_size=9, seed=seed) for seed in range(20)]
    drawn = run(tables, [[seed] for seed in range(20)], [8] * 20, n=1, truncation=Truncation(top_k=1))
    searched = greedy(TableStep(tables, 1), torch.tensor([8] * 20), SearchConfig(1), bos_id=BOS, eos_id=EOS)
    assert [h.ids for [h] in drawn] == [result.n_best[0].ids for result in searched]


@settings(max_examples=20)
@given(data=st.data(), n=st.integers(1, 4))
def test_draws_depend_only_on_seed_and_sentence(data, n):
    seeds = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=8))
    tables = [RandomTable(vocab_size=6, seed=seed) for seed in seeds]
    limits = [2 + seed % 9 for seed in seeds]
    together = run(tables, [[seed] for seed in seeds], limits, n=n)
    for table, seed, limit, hypotheses in zip(tables, seeds, limits, together, strict=True):
        assert run([table], [[seed]], [limit], n=n) == [hypotheses]
        assert run([table], [[seed]], [limit], n=n + 2)[0][:n] == hypotheses  # more draws add, and change none


def test_another_seed_or_sentence_gives_other_draws():
    table = RandomTable(vocab_size=30, seed=0)
    results = {
        tuple(run([table], [[source]], [12], n=1, seed=seed)[0][0].ids) for seed in range(5) for source in range(5)
    }
    assert len(results) > 12  # some end at once


def test_the_config_reaches_the_sampler():
    cfg = DecodeConfig(temperature=0.7, top_k=5, top_p=0.9)
    assert Truncation.from_config(cfg) == Truncation(0.7, 5, 0.9)


@pytest.mark.parametrize(
    "limits, epsilon", [({}, 0.02), ({"temperature": 0.5}, 0.02), ({"top_k": 5}, 0.0), ({"top_p": 0.9}, 0.0)]
)
def test_draws_for_minimum_bayes_risk_are_likely_tokens_unless_the_config_limits_them(limits, epsilon):
    assert Truncation.from_config(DecodeConfig(mbr_samples=5, **limits)).epsilon == epsilon
    assert Truncation.from_config(DecodeConfig(sampling=True, **limits)).epsilon == 0.0
