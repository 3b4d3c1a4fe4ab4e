"""Penalties, limits, rules, prefixes and groups of a search against exhaustive enumeration of sequences."""

import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from tables import BOS, EOS, Prefix, RandomTable, TableStep
from torch import Tensor

from mtkit.config.decoding import DecodeConfig
from mtkit.search.beam import beam_search, search
from mtkit.search.hypothesis import Segment
from mtkit.search.rules import make_rules
from mtkit.search.sampling import Truncation, sample
from mtkit.search.step import SearchConfig

MAX_LEN = 4
WIDE = 5**3  # of 5 tokens, three words: every sequence of MAX_LEN tokens
SEEDS = range(8)


def run(table, cfg: DecodeConfig, *, step=None, max_len=MAX_LEN, n_best=1, **segment):
    asked = Segment([7], max_len, **segment)
    rules = make_rules(cfg, [asked], EOS, torch.device("cpu"))
    step = step or TableStep([table], cfg.beam_size)
    [result] = search(
        step, torch.tensor([max_len]), SearchConfig.from_config(cfg, n_best), bos_id=BOS, eos_id=EOS, rules=rules
    )
    return result


def best_of(table: RandomTable, score: Callable[[Prefix], float], allowed=lambda tokens: True) -> list[Prefix]:
    return sorted(filter(allowed, table.all_finished(MAX_LEN)), key=score, reverse=True)


def gnmt(table: RandomTable, alpha: float = 0.6) -> Callable[[Prefix], float]:
    return lambda tokens: table.log_prob(tokens) / ((5 + len(tokens)) / 6) ** alpha


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "kind, divisor", [("gnmt", lambda n: ((5 + n) / 6) ** 0.6), ("average", lambda n: n), ("none", lambda n: 1)]
)
def test_each_length_normalisation_ranks_as_its_formula(seed, kind, divisor):
    table = RandomTable(vocab_size=5, seed=seed)
    ranking = best_of(table, lambda tokens: table.log_prob(tokens) / divisor(len(tokens)))
    hypotheses = run(table, DecodeConfig(beam_size=WIDE, length_normalization=kind), n_best=5).n_best
    assert [(*h.ids, EOS) for h in hypotheses] == ranking[:5]
    assert hypotheses[0].score == pytest.approx(table.log_prob(ranking[0]) / divisor(len(ranking[0])))
    assert hypotheses[0].log_prob == pytest.approx(table.log_prob(ranking[0]))


class AttendingStep(TableStep):
    """Looks at three source tokens by amounts drawn for each prefix; a fourth is padding."""

    @staticmethod
    def weights(prefix: Prefix) -> list[float]:
        generator = torch.Generator().manual_seed(hash(prefix) % 2**31)
        return [*(3 * torch.randn(3, generator=generator, dtype=torch.float64)).softmax(0).tolist(), 0.0]

    def attention(self) -> Tensor:
        return torch.tensor([[self.weights(prefix) for prefix in prefixes] for prefixes in self.prefixes])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("beta", [0.2, 1.0])
@pytest.mark.parametrize(("tag", "n_tags"), [(None, 0), ("<2de>", 1)])
def test_coverage_of_all_but_the_tag_is_what_wu_et_al_define(seed, beta, tag, n_tags):
    table = RandomTable(vocab_size=5, seed=seed)

    def score(tokens: Prefix) -> float:
        looks = [AttendingStep.weights(tokens[:i]) for i in range(len(tokens))]
        covered = sum(math.log(min(sum(column), 1.0)) for column in list(zip(*looks, strict=True))[n_tags:3])
        return gnmt(table)(tokens) + beta * covered

    cfg = DecodeConfig(beam_size=WIDE, coverage_penalty=beta, tag=tag)
    hypotheses = run(table, cfg, step=AttendingStep([table], WIDE), n_best=3).n_best
    assert [(*h.ids, EOS) for h in hypotheses] == best_of(table, score)[:3]
    assert hypotheses[0].score == pytest.approx(score((*hypotheses[0].ids, EOS)), abs=1e-5)


def test_coverage_follows_a_beam_that_is_reordered():
    """A narrow beam: the score of each hypothesis is still that of the formula."""
    for seed in range(20):
        table = RandomTable(vocab_size=6, seed=seed)
        cfg = DecodeConfig(beam_size=2, coverage_penalty=0.5)
        for hypothesis in run(table, cfg, step=AttendingStep([table], 2), n_best=2, max_len=9).n_best:
            tokens = (*hypothesis.ids, EOS) if hypothesis.finished else tuple(hypothesis.ids)
            looks = [AttendingStep.weights(tokens[:i]) for i in range(len(tokens))]
            covered = sum(math.log(min(sum(column), 1.0)) for column in list(zip(*looks, strict=True))[:3])
            assert hypothesis.score == pytest.approx(gnmt(table)(tokens) + 0.5 * covered, abs=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("min_len", [1, 2, 3])
def test_min_len_finds_the_best_of_the_longer_ones(seed, min_len):
    table = RandomTable(vocab_size=5, seed=seed)
    ranking = best_of(table, gnmt(table), lambda tokens: len(tokens) > min_len)
    [hypothesis] = run(table, DecodeConfig(beam_size=WIDE), min_len=min_len).n_best
    assert (*hypothesis.ids, EOS) == ranking[0]


@pytest.mark.parametrize(
    ("written", "max_len", "allowed"),
    [
        ((), 4, {1, 2, 3, 4}),  # room for another token, 2 and 3, and EOS
        ((), 3, {2, 3}),  # room for 2, 3 and EOS alone
        ((3,), 4, {1, 2, 4}),
        ((3,), 3, {2}),
        ((3,), 2, {2}),
        ((3, 2), 3, {0, 1, 4}),  # all are there: nothing is forced, not even at the limit
        ((3, 2, 4), 4, {0, 1, 4}),
    ],
)
def test_tokens_that_must_appear_come_next_only_where_there_is_just_enough_room(written, max_len, allowed):
    rules = make_rules(DecodeConfig(), [Segment([7], max_len, once=(2, 3))], 0, torch.device("cpu"))
    adjusted = rules.apply(torch.zeros(1, 1, 5), torch.tensor([[[BOS, *written]]]))
    assert {token for token in range(5) if adjusted[0, 0, token] == 0} == allowed


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("once", "never"), [((2,), ()), ((2, 4), ()), ((3,), (2,)), ((), (2, 3)), ((2, 3, 4), ())])
def test_asking_for_tokens_once_finds_the_best_that_has_each_of_them_once(seed, once, never):
    table = RandomTable(vocab_size=5, seed=seed)
    ranking = best_of(
        table, gnmt(table), lambda s: all(s.count(i) == 1 for i in once) and not any(i in s for i in never)
    )
    [hypothesis] = run(table, DecodeConfig(beam_size=WIDE), once=once, never=never).n_best
    assert (*hypothesis.ids, EOS) == ranking[0]
    assert hypothesis.log_prob == pytest.approx(table.log_prob(ranking[0]))


@pytest.mark.parametrize("beam_size", [1, 2])
@pytest.mark.parametrize("sampling", [False, True])
def test_a_batch_asks_each_sentence_for_its_own_tokens(beam_size, sampling):
    """More rows than one, some of which end earlier, and little room."""
    tables = [RandomTable(vocab_size=8, seed=seed) for seed in range(12)]
    segments = [Segment([7], 3 + n % 3, once=(2, 3, 4)[: n % 3], never=(2, 3, 4)[n % 3 :]) for n in range(len(tables))]
    cfg = DecodeConfig(beam_size=beam_size, sampling=sampling)
    rules = make_rules(cfg, segments, EOS, torch.device("cpu"))
    limits = torch.tensor([segment.max_len for segment in segments])
    step = TableStep(tables, beam_size)
    search_cfg = SearchConfig.from_config(cfg, beam_size)
    if sampling:
        uniforms = torch.rand(12, beam_size, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        ids = {"bos_id": BOS, "eos_id": EOS}
        results = sample(step, limits, search_cfg, Truncation(), uniforms, rules=rules, **ids)
    else:
        results = search(step, limits, search_cfg, bos_id=BOS, eos_id=EOS, rules=rules)
    for segment, result in zip(segments, results, strict=True):
        assert result.n_best and all(segment.has_each_once(hypothesis.ids) for hypothesis in result.n_best)


def test_tokens_to_ask_for_beyond_the_room_come_as_far_as_there_is_room():
    [hypothesis] = run(RandomTable(vocab_size=9, seed=0), DecodeConfig(beam_size=2), once=(2, 3, 4, 5, 6)).n_best
    assert len(set(hypothesis.ids) & {2, 3, 4, 5, 6}) == MAX_LEN


def test_a_least_length_beyond_the_limit_gives_way_to_it():
    table = RandomTable(vocab_size=5, seed=0)
    [hypothesis] = run(table, DecodeConfig(beam_size=3), min_len=99).n_best
    assert len(hypothesis.ids) == MAX_LEN - 1
    assert hypothesis.finished


def _repeats(tokens: Prefix, n: int) -> bool:
    grams = [tokens[i : i + n] for i in range(len(tokens) - n + 1)]
    return len(grams) != len(set(grams))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n", [1, 2])
def test_no_n_gram_comes_twice(seed, n):
    table = RandomTable(vocab_size=4, seed=seed)  # two words: repetition is the rule
    ranking = best_of(table, gnmt(table), lambda tokens: not _repeats(tokens, n))
    [hypothesis] = run(table, DecodeConfig(beam_size=WIDE, no_repeat_ngram=n)).n_best
    assert (*hypothesis.ids, EOS) == ranking[0]
    assert hypothesis.log_prob == pytest.approx(table.log_prob(ranking[0]))


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_loop_is_broken_by_n_gram_blocking_and_only_by_it(beam_size):
    class Loop(RandomTable):
        def row(self, prefix):
            return [-3.0, -math.inf, -0.2, -2.0, -2.5]

    free, blocked = (run(Loop(5, 0), DecodeConfig(beam_size=beam_size, no_repeat_ngram=n), max_len=12) for n in (0, 3))
    assert _repeats(tuple(free.n_best[0].ids), 3)
    assert not _repeats(tuple(blocked.n_best[0].ids), 3)


def test_where_everything_is_forbidden_the_hypothesis_ends():
    class Never(RandomTable):  # a model that never ends by itself
        def row(self, prefix):
            return [-50.0, -math.inf, -0.1, -2.0]

    [hypothesis] = run(Never(4, 0), DecodeConfig(beam_size=1, no_repeat_ngram=1), max_len=9).n_best
    assert (hypothesis.ids, hypothesis.finished) == ([2, 3], True)
    assert hypothesis.log_prob == pytest.approx(-0.1 - 2.0 - 50.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("penalty", [1.2, 3.0])
def test_used_tokens_cost_more_and_the_log_prob_stays_the_models(seed, penalty):
    table = RandomTable(vocab_size=5, seed=seed)

    def score(tokens: Prefix) -> float:
        costs = [table.row(tokens[:i])[t] * (penalty if t in tokens[:i] else 1) for i, t in enumerate(tokens)]
        return sum(costs) / ((5 + len(tokens)) / 6) ** 0.6

    best = best_of(table, score)[0]
    [hypothesis] = run(table, DecodeConfig(beam_size=WIDE, repetition_penalty=penalty)).n_best
    assert (*hypothesis.ids, EOS) == best
    assert hypothesis.score == pytest.approx(score(best))
    assert hypothesis.log_prob == pytest.approx(table.log_prob(best))


@pytest.mark.parametrize("prefix", [(2,), (3, 3), (4, 2, 3)])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("other_rules", [{}, {"no_repeat_ngram": 1}, {"min_len": 3}])
def test_a_forced_prefix_finds_the_best_that_begins_with_it(seed, prefix, other_rules):
    table = RandomTable(vocab_size=5, seed=seed)

    def allowed(tokens: Prefix) -> bool:
        if tokens[: len(prefix)] != prefix or len(tokens) <= other_rules.get("min_len", 0):
            return False
        n_free = len(tokens) - len(prefix)  # what is forced may repeat itself, what follows may not
        return not (
            "no_repeat_ngram" in other_rules
            and any(t in tokens[: -n_free + i] for i, t in enumerate(tokens[len(prefix) :]))
        )

    cfg = DecodeConfig(beam_size=WIDE, no_repeat_ngram=other_rules.get("no_repeat_ngram", 0))
    [hypothesis] = run(table, cfg, prefix=prefix, min_len=other_rules.get("min_len", 0)).n_best
    best = best_of(table, gnmt(table), allowed)[0]
    assert (*hypothesis.ids, EOS) == best
    assert hypothesis.log_prob == pytest.approx(table.log_prob(best))


def test_rules_follow_their_sentences_when_others_leave():
    tables = [RandomTable(vocab_size=6, seed=seed) for seed in range(12)]
    asked = [Segment([7], 2 + seed % 7, min_len=seed % 4, prefix=(3,) * (seed % 3)) for seed in range(12)]
    cfg = DecodeConfig(beam_size=2, no_repeat_ngram=2)

    def search_batch(indices: list[int]):
        segments = [asked[n] for n in indices]
        step = TableStep([tables[n] for n in indices], 2)
        rules = make_rules(cfg, segments, EOS, torch.device("cpu"))
        limits = torch.tensor([segment.max_len for segment in segments])
        return beam_search(step, limits, SearchConfig.from_config(cfg, 1), bos_id=BOS, eos_id=EOS, rules=rules)

    assert search_batch(list(range(12))) == [search_batch([n])[0] for n in range(12)]


# Diverse beam groups


def diverse(table: RandomTable, n_groups: int, width: int, penalty: float, max_len: int) -> list[list[Prefix]]:
    """Return the finished sequences of each group, best first, by a plain version of Vijayakumar et al. 2018."""
    live: list[list[tuple[Prefix, float]]] = [[((), 0.0)] for _ in range(n_groups)]
    finished: list[list[tuple[Prefix, float]]] = [[] for _ in range(n_groups)]
    for _ in range(max_len):
        chosen: Counter[int] = Counter()
        for group in range(n_groups):
            candidates = [
                ((*p, i), lp + x) for p, lp in live[group] for i, x in enumerate(table.row(p)) if x > -math.inf
            ]
            best = sorted(candidates, key=lambda c: -(c[1] - penalty * chosen[c[0][-1]]))[:width]
            chosen.update(tokens[-1] for tokens, _ in best)
            finished[group] += [c for c in best if c[0][-1] == EOS]
            live[group] = [c for c in best if c[0][-1] != EOS]
    return [[t for t, _ in sorted(group, key=lambda c: -c[1] / ((5 + len(c[0])) / 6) ** 0.6)] for group in finished]


@pytest.mark.parametrize("seed", range(30))
def test_groups_find_what_a_plain_diverse_beam_finds(seed):
    table = RandomTable(vocab_size=6, seed=seed)
    expected = diverse(table, 2, 2, 0.7, max_len=10)
    cfg = DecodeConfig(beam_size=4, beam_groups=2, diversity_penalty=0.7)
    hypotheses = run(table, cfg, max_len=10, n_best=4).n_best
    leaders = sorted({group[0] for group in expected if group}, key=gnmt(table), reverse=True)
    assert [(*h.ids, EOS) for h in hypotheses[: len(leaders)]] == leaders
    assert len({tuple(h.ids) for h in hypotheses if h.finished}) == sum(h.finished for h in hypotheses)


@pytest.mark.parametrize("seed", range(20))
def test_groups_without_a_penalty_are_narrow_beams_that_agree(seed):
    table = RandomTable(vocab_size=6, seed=seed)
    cfg = DecodeConfig(beam_size=6, beam_groups=3, diversity_penalty=0.0)
    hypotheses = run(table, cfg, max_len=9).n_best
    assert hypotheses == run(table, DecodeConfig(beam_size=2), max_len=9).n_best


def test_groups_that_must_differ_begin_differently():
    table = RandomTable(vocab_size=8, seed=3)
    hypotheses = run(
        table, DecodeConfig(beam_size=3, beam_groups=3, diversity_penalty=99.0), max_len=9, n_best=3
    ).n_best
    assert len({h.ids[0] if h.ids else EOS for h in hypotheses}) == 3


# Margins


def test_the_margin_is_that_of_the_closest_choice():
    rows = {(): [-9.0, -math.inf, -0.5, -0.75], (2,): [-0.1, -math.inf, -4.0, -4.0]}

    class Table(RandomTable):
        def row(self, prefix):
            return rows[prefix]

    result = run(Table(4, 0), DecodeConfig(beam_size=1))
    assert result.n_best[0].ids == [2]
    assert result.margin == pytest.approx(0.25)


def test_a_near_tie_between_results_shows_in_the_margin():
    rows = {(): [-30.0, -math.inf, -0.5, -0.501]}

    class Table(RandomTable):
        def row(self, prefix):
            return rows.get(prefix, [-0.1, -math.inf, -20.0, -20.0])

    result = run(Table(4, 0), DecodeConfig(beam_size=2, length_normalization="none"))
    assert result.n_best[0].ids == [2]
    assert result.margin == pytest.approx(0.001, abs=1e-6)


def test_a_near_tie_between_hypotheses_that_hit_the_limit_shows_in_the_margin():
    class NeverEnds(RandomTable):
        def row(self, prefix):
            return [-math.inf, -math.inf, -0.5, -0.501 if prefix else -9.0, -30.0]

    result = run(NeverEnds(5, 0), DecodeConfig(beam_size=2), max_len=2)
    assert (result.n_best[0].ids, result.n_best[0].finished) == ([2, 2], False)
    assert result.margin == pytest.approx(0.001 / (7 / 6) ** 0.6, abs=1e-6)
