"""Search against exhaustive enumeration of sequences; log-probabilities come from a table."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import BOS, EOS, Prefix, RandomTable, TableStep

from mtkit.errors import MtkitError
from mtkit.search.beam import beam_search, search
from mtkit.search.greedy import greedy
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.step import DecodeStep, SearchConfig


def run(tables: list[RandomTable], max_lens: list[int], cfg: SearchConfig, method=beam_search):
    step: DecodeStep = TableStep(tables, cfg.beam_size)
    results = method(step, torch.tensor(max_lens, dtype=torch.long), cfg, bos_id=BOS, eos_id=EOS)
    return [result.n_best for result in results]


def beams(beam_size: int, alpha: float = 0.6, n_best: int = 1) -> SearchConfig:
    return SearchConfig(beam_size=beam_size, length_penalty=alpha, n_best=n_best)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(10))
def test_a_beam_as_wide_as_the_space_finds_the_best_sequences_in_order(alpha, seed):
    table = RandomTable(vocab_size=5, seed=seed)
    best = table.ranking(max_len=4, alpha=alpha)
    [hypotheses] = run([table], [4], beams(5**3, alpha, n_best=10))
    assert [h.ids for h in hypotheses] == [ids for _, ids in best[:10]]
    assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in best[:10]])
    assert all(h.finished for h in hypotheses)


@pytest.mark.parametrize("n_best", [1, 3])
def test_stopping_early_loses_no_hypothesis(n_best):
    """The stop rule is exact: the hypotheses equal those of the same beam run to the length limit."""
    n_early = 0
    for seed in range(60):
        table = RandomTable(vocab_size=5, seed=seed)
        cfg = beams(3, alpha=1.0, n_best=n_best)
        step = TableStep([table], 3)
        [result] = beam_search(step, torch.tensor([12]), cfg, bos_id=BOS, eos_id=EOS)
        assert result.n_best == _exhausted(table, 12, cfg)
        n_early += step.n_steps < 12
    assert n_early > 30  # or the comparison would say nothing


def _exhausted(table: RandomTable, max_len: int, cfg: SearchConfig) -> list[Hypothesis]:
    """The same beam without a stop rule, written plainly: lists, one hypothesis at a time."""
    live: list[tuple[Prefix, float]] = [((), 0.0)]
    finished: list[tuple[Prefix, float]] = []
    for _ in range(max_len):
        candidates = [((*p, i), lp + x) for p, lp in live for i, x in enumerate(table.row(p)) if x > -math.inf]
        best = sorted(candidates, key=lambda c: -c[1])[: cfg.beam_size]
        finished += [(tokens, lp) for tokens, lp in best if tokens[-1] == EOS]
        live = [(tokens, lp) for tokens, lp in best if tokens[-1] != EOS]
    hypotheses = [
        Hypothesis(list(t[: len(t) - done]), lp, lp / ((5 + len(t)) / 6) ** cfg.length_penalty, done)
        for done, group in ((True, finished), (False, live))
        for t, lp in group
    ]
    return sorted(hypotheses, key=lambda h: (not h.finished, -h.score))[: cfg.n_best]


@pytest.mark.parametrize("decimals", [None, 1])
def test_a_beam_of_one_is_greedy_search(decimals):
    """With one decimal equal log-probabilities abound: both must break ties alike."""
    tables = [RandomTable(vocab_size=9, seed=seed, decimals=decimals) for seed in range(40)]
    max_lens = [1 + seed % 9 for seed in range(40)]
    one_beam = run(tables, max_lens, beams(1))
    assert run(tables, max_lens, beams(1), method=greedy) == one_beam
    assert run(tables, max_lens, beams(1), method=search) == one_beam
    assert {h.finished for [h] in one_beam} == {True, False}


def test_greedy_takes_the_likeliest_token_at_each_position():
    for seed in range(20):
        table = RandomTable(vocab_size=6, seed=seed)
        prefix: Prefix = ()
        while len(prefix) < 8 and EOS not in prefix:
            row = table.row(prefix)
            prefix += (row.index(max(row)),)
        [[hypothesis]] = run([table], [8], beams(1), method=greedy)
        assert hypothesis.ids == [token for token in prefix if token != EOS]
        assert hypothesis.finished == (EOS in prefix)
        assert hypothesis.log_prob == pytest.approx(table.log_prob(prefix))


def test_the_score_counts_eos_as_wu_et_al_do():
    certain = [[-math.inf, -math.inf, -0.5], [-0.25, -math.inf, -9.0]]  # token 2, then EOS

    class Table(RandomTable):
        def row(self, prefix):
            return certain[min(len(prefix), 1)]

    [[hypothesis]] = run([Table(3, 0)], [5], beams(2, alpha=0.6))
    assert (hypothesis.ids, hypothesis.log_prob) == ([2], -0.75)
    assert hypothesis.score == pytest.approx(-0.75 / (7 / 6) ** 0.6)


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_n_best_lists_are_sorted_distinct_and_led_by_the_same_best(beam_size):
    tables = [RandomTable(vocab_size=7, seed=seed) for seed in range(25)]
    [best, many] = [run(tables, [9] * 25, beams(beam_size, n_best=n)) for n in (1, beam_size)]
    for [first], hypotheses in zip(best, many, strict=True):
        assert hypotheses[0] == first
        assert len(hypotheses) == beam_size
        assert len({(*h.ids, h.finished) for h in hypotheses}) == beam_size
        scores = [(h.finished, h.score) for h in hypotheses]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("method", [greedy, beam_search])
def test_no_hypothesis_is_longer_than_the_limit(method):
    class Endless(RandomTable):  # EOS is possible, and never worth it
        def row(self, prefix):
            return [-9.0, -math.inf, -0.5, -1.0, -1.0]

    limits = [1, 2, 7, 30]
    results = run([Endless(5, 0)] * 4, limits, beams(1 if method is greedy else 3), method=method)
    assert [h.ids for [h] in results] == [[2] * limit for limit in limits]
    assert not any(h.finished for [h] in results)
    assert [h.log_prob for [h] in results] == [-0.5 * limit for limit in limits]


def test_a_hypothesis_that_ended_comes_before_a_likelier_one_that_did_not():
    class EndsAtOnceOrNever(RandomTable):
        def row(self, prefix):
            return [-9.0 if prefix == () else -math.inf, -math.inf, -0.1]

    [hypotheses] = run([EndsAtOnceOrNever(3, 0)], [4], beams(2, alpha=0.0, n_best=2))
    assert [(h.ids, h.finished) for h in hypotheses] == [([], True), ([2] * 4, False)]
    assert hypotheses[0].score < hypotheses[1].score


@settings(max_examples=25)
@given(data=st.data(), beam_size=st.integers(1, 4), n_best=st.integers(1, 4), decimals=st.sampled_from([None, 1]))
def test_a_sentence_is_translated_the_same_alone_in_any_batch_and_in_any_order(data, beam_size, n_best, decimals):
    cfg = beams(beam_size, n_best=min(n_best, beam_size))
    cases = data.draw(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 12)), min_size=1, max_size=9))
    tables = [RandomTable(vocab_size=6, seed=seed, decimals=decimals) for seed, _ in cases]
    limits = [limit for _, limit in cases]
    alone = [run([table], [limit], cfg, method=search)[0] for table, limit in zip(tables, limits, strict=True)]
    order = data.draw(st.permutations(range(len(cases))))
    together = run([tables[i] for i in order], [limits[i] for i in order], cfg, method=search)
    assert together == [alone[i] for i in order]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_finished_sentences_leave_the_batch(beam_size):
    tables = [RandomTable(vocab_size=6, seed=seed) for seed in range(32)]
    step = TableStep(tables, beam_size)
    limits = [2] * 16 + [12] * 16
    search(step, torch.tensor(limits), beams(beam_size), bos_id=BOS, eos_id=EOS)
    assert step.n_rows < 0.75 * step.n_steps * 32 * beam_size
    assert len(step.tables) < 32


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_sentence_that_is_done_stays_as_it_is_while_it_waits_for_others(beam_size):
    class AlwaysEnds(RandomTable):
        def row(self, prefix):
            return [-0.1, -math.inf, -3.0, -3.0]

    class NeverEnds(RandomTable):
        def row(self, prefix):
            return [-math.inf, -math.inf, -0.5, -1.0]

    step = TableStep([AlwaysEnds(4, 0)] + [NeverEnds(4, 0)] * 7, beam_size)
    limits = torch.tensor([3] + [9] * 7)
    results = search(step, limits, beams(beam_size), bos_id=BOS, eos_id=EOS)
    [[first], *others] = [result.n_best for result in results]
    assert (first.ids, first.log_prob, first.finished) == ([], -0.1, True)
    assert all(h.ids == [2] * 9 for [h] in others)


def test_equal_scores_keep_the_lower_token_first():
    class Flat(RandomTable):
        def row(self, prefix):
            return [-math.inf if prefix == () else -1.0, -math.inf, *[-1.0] * 40]

    [hypotheses] = run([Flat(42, 0)], [2], beams(4, alpha=0.0, n_best=4))
    assert [h.ids for h in hypotheses] == [[2], [2, 2], [2, 3], [2, 4]]


@pytest.mark.parametrize("method", [greedy, beam_search])
def test_a_model_that_gives_nan_is_refused(method):
    class Broken(RandomTable):
        def row(self, prefix):
            return [math.nan if len(prefix) == 2 else -1.0, -math.inf, -0.5]

    with pytest.raises(MtkitError, match="NaN"):
        run([RandomTable(3, 0), Broken(3, 0)], [9, 9], beams(1 if method is greedy else 2), method=method)


def test_no_sentences_give_no_hypotheses():
    assert run([], [], beams(3)) == []
    assert run([], [], beams(1), method=greedy) == []


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match=r"n_best=3.*beam_size=2"):
        SearchConfig(beam_size=2, n_best=3)
    with pytest.raises(ValueError, match=r"length_penalty=-0\.1"):
        SearchConfig(length_penalty=-0.1)
    with pytest.raises(ValueError, match=r"max_lens.*\b0"):
        run([RandomTable(3, 0)], [0], beams(2))
