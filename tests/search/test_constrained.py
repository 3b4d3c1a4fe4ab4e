"""Constrained search against exhaustive enumeration; log-probabilities come from a table."""

import itertools
import math
import random
import re
from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.config.decoding import DecodeConfig
from mtkit.errors import MtkitError
from mtkit.search.constrained import _all_extensions, _Live, constrained_search
from mtkit.search.constraints import Constraints, ConstraintState
from mtkit.search.phrases import Form, Phrase, Requirement, Spelling
from mtkit.search.rules import MinLength, RepetitionPenalty, Rules
from mtkit.search.step import SearchConfig

EOS, BOS, A, B, C, GLUED = 0, 1, 2, 3, 4, 5
TEXTS = ["", "", " a", " b", " c", "b"]
FORMS = {"a": (A,), "b": (B,), "c": (C,), "ab": (A, GLUED), "a b": (A, B), "b a": (B, A), "b c": (B, C), "a a": (A, A)}
SPELLING = Spelling(TEXTS)


@cache
def drawn_row(seed, prefix):
    draw = random.Random(f"{seed} {prefix}")
    weights = [0.0 if token == BOS else math.exp(draw.gauss(0, 1.5)) for token in range(len(TEXTS))]
    return [math.log(w / sum(weights)) if w else -math.inf for w in weights]


class Table:
    """Log-probabilities of the next token per prefix, drawn from a seed."""

    def __init__(self, seed):
        self.seed = seed

    def row(self, prefix):
        return drawn_row(self.seed, prefix)

    def log_prob(self, tokens):
        return sum(self.row(tokens[:i])[token] for i, token in enumerate(tokens))


class TableStep:
    """A DecodeStep over one table per sentence."""

    def __init__(self, tables, beam_size):
        self.tables, self.beam_size = list(tables), beam_size
        self.prefixes: list[list[tuple[int, ...]]] = [[()] * beam_size for _ in tables]
        self.begun = False

    def __call__(self, last_ids):
        if self.begun:
            pairs = zip(self.prefixes, last_ids.tolist(), strict=True)
            self.prefixes = [[(*p, i) for p, i in zip(ps, ids, strict=True)] for ps, ids in pairs]
        self.begun = True
        rows = [[t.row(p) for p in ps] for t, ps in zip(self.tables, self.prefixes, strict=True)]
        return torch.tensor(rows, dtype=torch.float64)

    def attention(self):
        return torch.tensor([[t.attention(p) for p in ps] for t, ps in zip(self.tables, self.prefixes, strict=True)])

    def reorder(self, parents):
        self.prefixes = [[ps[k] for k in ks] for ps, ks in zip(self.prefixes, parents.tolist(), strict=True)]

    def select(self, sentences):
        self.tables = [self.tables[n] for n in sentences.tolist()]
        self.prefixes = [self.prefixes[n] for n in sentences.tolist()]


def asking(required=(), forbidden=(), times=1, src_positions=(), draft=None):
    """Make constraints. required: the alternatives of each requirement."""
    requirements = [
        Requirement(tuple(Phrase(t, (Form(FORMS[t]),)) for t in texts), times, src_positions) for texts in required
    ]
    return Constraints(SPELLING, tuple(requirements), tuple(map(Phrase, forbidden)), draft)


def run(tables, max_lens, cfg, constraints, rules=None):
    options = {} if rules is None else {"rules": rules}
    step, limits = TableStep(tables, cfg.beam_size), torch.tensor(max_lens)
    return [r.n_best for r in constrained_search(step, limits, cfg, constraints, bos_id=BOS, eos_id=EOS, **options)]


def text_of(ids):
    return "".join(TEXTS[i] for i in ids).strip()


def n_times(text, phrases):
    """Whole-word occurrences; the phrases of these tests do not overlap themselves."""
    return len(re.findall(rf"(?<!\w)(?:{'|'.join(phrases)})(?!\w)", text))


def satisfies(ids, required, forbidden, times=1):
    text = text_of(ids)
    return all(n_times(text, phrases) >= times for phrases in required) and not (forbidden and n_times(text, forbidden))


def is_natural(table, ids, forbidden):
    """Whether each word that begins with a forbidden one continues with a probability of at least 0.1."""
    ends = [
        n for n in range(1, len(ids)) if re.search(rf"(?<!\w)(?:{'|'.join(forbidden or ['-'])})$", text_of(ids[:n]))
    ]
    return all(table.row(ids[:n])[ids[n]] >= math.log(0.1) for n in ends)


CASES = [
    ([], [], 1),
    ([["a"]], [], 1),
    ([["c"]], [], 2),
    ([["a b"]], [], 1),
    ([["ab"]], [], 1),
    ([["a b", "c"]], [], 1),
    ([["a b"], ["b a"]], [], 1),  # a b a has both
    ([["a b"], ["b c"]], [], 1),
    ([["a"], ["b"], ["c"]], [], 1),
    ([["a a", "b"], ["c"]], [], 1),
    ([], ["a"], 1),
    ([], ["a", "b", "c"], 1),  # only ab, cb and the like are left
    ([["b"]], ["a b", "c"], 1),
    ([["ab"]], ["a"], 1),
]


@pytest.mark.parametrize(("required", "forbidden", "times"), CASES)
def test_a_beam_as_wide_as_the_space_finds_the_best_of_what_is_allowed(required, forbidden, times):
    max_len, alpha = 5, 0.6
    texts = [ids for n in range(max_len) for ids in itertools.product((A, B, C, GLUED), repeat=n)]
    for seed in range(3):
        table = Table(seed)
        allowed = [ids for ids in texts if satisfies(ids, required, forbidden, times)]
        allowed = [ids for ids in allowed if is_natural(table, ids, forbidden)]
        scored = [(table.log_prob((*ids, EOS)) / ((6 + len(ids)) / 6) ** alpha, list(ids)) for ids in allowed]
        best = sorted(scored, key=lambda item: -item[0])[:3]
        cfg = SearchConfig(beam_size=4**4, length_penalty=alpha, n_best=3)
        [hypotheses] = run([table], [max_len], cfg, [asking(required, forbidden, times)])
        finished = [h for h in hypotheses if h.finished]
        assert [h.ids for h in finished] == [ids for _, ids in best]
        assert [h.score for h in finished] == pytest.approx([score for score, _ in best])


@given(seed=st.integers(0, 999), case=st.sampled_from(CASES), beam_size=st.integers(1, 6), max_len=st.integers(1, 9))
def test_finished_hypotheses_meet_their_constraints_and_none_has_a_forbidden_phrase(seed, case, beam_size, max_len):
    required, forbidden, times = case
    cfg = SearchConfig(beam_size=beam_size, n_best=beam_size)
    table = Table(seed)
    [hypotheses] = run([table], [max_len], cfg, [asking(*case)])
    assert hypotheses
    for h in hypotheses:
        assert satisfies(h.ids, required if h.finished else [], forbidden, times)
        assert len(h.ids) + h.finished <= max_len
        assert h.log_prob == pytest.approx(table.log_prob((*h.ids, *([EOS] if h.finished else []))))
    assert len({(*h.ids, h.finished) for h in hypotheses}) == len(hypotheses)


def test_the_best_translation_for_each_set_of_phrases_follows_if_it_is_asked_for():
    table, max_len, required = Table(seed=3), 4, [["a"], ["b c"]]
    best: dict[tuple[bool, ...], tuple[float, tuple[int, ...]]] = {}
    for n in range(max_len):
        for ids in itertools.product((A, B, C, GLUED), repeat=n):
            which = tuple(bool(n_times(text_of(ids), phrases)) for phrases in required)
            if not n_times(text_of(ids), ["ab"]):
                best[which] = max(best.get(which, (-math.inf, ())), (table.log_prob((*ids, EOS)) / (n + 1), ids))
    cfg = SearchConfig(beam_size=4**max_len, length_normalization="average", n_best=1)
    [found] = run([table], [max_len], cfg, [asking(required, ["ab"], draft=())])
    sets = sorted(best, key=lambda which: (-sum(which), -best[which][0]))
    assert sets[0] == (True, True)
    assert len(sets) == 4
    assert [tuple(hypothesis.ids) for hypothesis in found] == [best[which][1] for which in sets]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([best[which][0] for which in sets])
    assert all(hypothesis.finished for hypothesis in found)


def test_the_work_of_a_step_grows_with_the_beam_and_not_with_the_tokens_of_the_phrases(monkeypatch):
    n_words, beam_size, n_phrases = 40, 16, 4
    spelling = Spelling(["", "", *(f" w{n}" for n in range(n_words))])
    phrases = [
        Phrase(" ".join(f"w{3 * n + i}" for i in range(3)), (Form(tuple(2 + 3 * n + i for i in range(3))),))
        for n in range(n_phrases)
    ]
    constraints = Constraints(spelling, tuple(Requirement((phrase,)) for phrase in phrases))
    n_calls = 0
    advance = ConstraintState.advance

    def counted(*arguments, **options):
        nonlocal n_calls
        n_calls += 1
        return advance(*arguments, **options)

    monkeypatch.setattr(ConstraintState, "advance", counted)
    max_len, generator = 20, torch.Generator().manual_seed(0)

    class Random(TableStep):
        def __call__(self, last_ids):
            return torch.randn(1, beam_size, 2 + n_words, generator=generator).log_softmax(-1)

    step, cfg = Random([None], beam_size), SearchConfig(beam_size=beam_size)
    constrained_search(step, torch.tensor([max_len]), cfg, [constraints], bos_id=BOS, eos_id=EOS)
    # The beam, and for each hypothesis its best token, the end, the beginnings of all phrases and one next token.
    assert max_len * beam_size <= n_calls <= max_len * beam_size * (1 + 2 + n_phrases + 1)


@pytest.mark.parametrize("least_rest", [-9.0, -15.0, -25.0])
def test_what_is_unlikely_around_its_phrases_is_dropped_and_nothing_else(least_rest):
    table, required = Looking(seed=0), [["a b"], ["c"]]
    wanted = asking(required, src_positions=(1,))
    cfg = SearchConfig(beam_size=4**4, n_best=200)
    [everything] = run([table], [5], cfg, [wanted])
    [kept] = run([table], [5], cfg, [replace(wanted, least_rest=least_rest)])
    finished = [h for h in everything if h.finished and h.rest_log_prob >= least_rest]
    assert 0 < len(finished) < len(everything)
    assert [h for h in kept if h.finished] == finished
    [partial] = run([table], [5], cfg, [replace(wanted, least_rest=least_rest, draft=())])
    assert min(h.rest_log_prob for h in partial if h.finished) >= least_rest


def test_even_a_narrow_beam_gets_all_phrases_in():
    required = [["a b"], ["b c"], ["ab"]]
    for seed in range(20):
        [[hypothesis]] = run([Table(seed)], [30], SearchConfig(beam_size=4), [asking(required)])
        assert hypothesis.finished
        assert satisfies(hypothesis.ids, required, [])


def test_a_phrase_that_the_model_hardly_considers_gets_in_too():
    class Averse(Table):
        def row(self, prefix):
            rare = [-20.0, -30.0, -40.0][: 3 - (len(prefix) > 2)]
            return [-0.7, -math.inf, rare[-1], rare[0], -0.5, -1.0]

    [[hypothesis]] = run([Averse(0)], [8], SearchConfig(beam_size=2, length_penalty=0.0), [asking([["a b"]])])
    assert hypothesis.finished
    assert text_of(hypothesis.ids) in ("a b", "c c c a b")  # at once, or when a has become less unlikely


class Looking(Table):
    """c c c and the end are likely, a is unlikely everywhere, and the third token translates source token 1."""

    def row(self, prefix):
        ends = math.log(0.9) if len(prefix) == 3 else -7.0
        return [ends, -math.inf, -9.0, -9.0, -0.2 if len(prefix) < 3 else -3.0, -9.0]

    def attention(self, prefix):
        return [0.1, 0.9] if len(prefix) == 2 else [0.95, 0.05]


def test_an_unlikely_phrase_goes_where_the_model_looks_at_its_source():
    cfg = SearchConfig(beam_size=8, length_penalty=0.0)
    [[placed]] = run([Looking(0)], [8], cfg, [asking([["a"]], src_positions=(1,))])
    assert text_of(placed.ids) == "c c a"
    phrase_and_place = -9.0 + 2 * -math.log(0.9)
    assert placed.rest_log_prob == pytest.approx(placed.log_prob - phrase_and_place, abs=0.3)
    assert placed.rest_log_prob < placed.log_prob + 9.0  # attention of 0.9, not of 1


def test_what_is_translated_by_the_phrase_is_not_translated_again():
    class Again(Looking):
        """After a, the model still looks at the source of a, and prefers b there, unless it ends."""

        def row(self, prefix):
            if 2 in prefix:
                return [-1.5, -math.inf, -9.0, -0.4, -9.0, -9.0] if prefix[-1] == A else [-0.1, -math.inf, *[-9.0] * 4]
            return super().row(prefix)

        def attention(self, prefix):
            return [0.1, 0.9] if len(prefix) >= 2 else [0.95, 0.05]

    cfg = SearchConfig(beam_size=8, length_penalty=0.0)
    [[blind]] = run([Again(0)], [8], cfg, [asking([["a"]])])
    [[placed]] = run([Again(0)], [8], cfg, [asking([["a"]], src_positions=(1,))])
    assert text_of(blind.ids).endswith("a b")
    assert text_of(placed.ids) == "c c a"


def test_no_phrase_begins_where_the_model_looks_elsewhere():
    """However likely it is there, and however unlikely in its place."""

    class Tempted(Looking):
        def row(self, prefix):
            row = super().row(prefix)
            return [*row[:2], -0.1 if not prefix else row[2], *row[3:]]

        def attention(self, prefix):
            return [0.1, 0.9] if len(prefix) == 2 else [0.99, 0.01]

    cfg = SearchConfig(beam_size=1, length_penalty=0.0)
    constraints = asking([["a b"]], src_positions=(1,))
    tokens, state = [], constraints.start()
    for token_id, attention in ((C, (0.99, 0.01)), (C, (0.1, 0.9))):
        beginning = state.next_ids(attention)[1]
        tokens.append(sorted(beginning))
        state = state.advance(token_id, attention=attention)
    assert tokens == [[], [A]]
    [[placed]] = run([Tempted(0)], [8], cfg, [asking([["a"]], src_positions=(1,))])
    assert placed.ids.index(A) in (0, 2)


def test_the_search_goes_on_while_any_live_hypothesis_can_become_the_best():
    """A text of a alone is finished first; a long one of many c, with a at the end, has the best mean in the end."""

    class Patient(Table):
        def row(self, prefix):
            rows = {(): [-9.0, -math.inf, -0.9, -9.0, -0.6, -9.0], (A,): [-0.5, -math.inf, -9.0, -1.0, -9.0, -9.0]}
            if A in prefix and C in prefix:
                return [-0.01, -math.inf, -9.0, -9.0, -9.0, -9.0]
            return rows.get(tuple(prefix), [-9.0, -math.inf, -0.1 if len(prefix) > 3 else -9.0, -9.0, -0.01, -9.0])

    cfg = SearchConfig(beam_size=3, length_normalization="average")
    [[best]] = run([Patient(0)], [8], cfg, [asking([["a"]])])
    assert best.ids == [C] * 6 + [A]  # (-0.6 - 5 x 0.01 - 0.1 - 0.01) / 8 is more than (-0.9 - 0.5) / 2


def test_unfinished_hypotheses_meet_as_much_as_possible():
    for seed in range(10):
        [hypotheses] = run([Table(seed)], [2], SearchConfig(beam_size=8, n_best=8), [asking([["a"], ["b"], ["c"]])])
        n_met = [len({"a", "b", "c"} & set(text_of(h.ids).split())) for h in hypotheses]
        assert not any(h.finished for h in hypotheses)
        assert n_met[0] == 2
        assert n_met == sorted(n_met, reverse=True)


def test_if_everything_is_forbidden_the_translation_is_empty():
    class OnlyC(Table):
        def row(self, prefix):
            return [math.log(0.5), -math.inf, -math.inf, -math.inf, math.log(0.5), -math.inf]

    [[hypothesis]] = run([OnlyC(0)], [5], SearchConfig(beam_size=2), [asking([["a"]], ["c"])])
    assert (hypothesis.ids, hypothesis.finished) == ([], False)


def test_a_likely_forbidden_word_does_not_crowd_out_the_others():
    class Tempting(Table):
        """c is nearly certain and cannot go on to another word; a and b lead to texts that can end."""

        def row(self, prefix):
            if len(prefix) >= 3:
                return [math.log(0.9), -math.inf, *[math.log(0.025)] * 4]
            return [math.log(0.01), -math.inf, math.log(0.02), math.log(0.03), math.log(0.93), math.log(0.01)]

    [[hypothesis]] = run([Tempting(0)], [4], SearchConfig(beam_size=1, length_penalty=0.0), [asking([], ["c"])])
    assert (hypothesis.ids, hypothesis.finished) == ([B, B, B], True)


@settings(max_examples=20)
@given(seeds=st.lists(st.integers(0, 99), min_size=1, max_size=5), data=st.data())
def test_a_sentence_is_searched_the_same_alone_and_among_others(seeds, data):
    n = len(seeds)
    wanted = [data.draw(st.sampled_from([None, *(asking(*case) for case in CASES)])) for _ in seeds]
    limits = data.draw(st.lists(st.integers(1, 8), min_size=n, max_size=n))
    tables = [Table(seed) for seed in seeds]
    min_lens = data.draw(st.lists(st.integers(0, 7), min_size=n, max_size=n))
    cfg = SearchConfig(beam_size=3, n_best=2)

    def rules(*sentences):
        return Rules([MinLength(torch.tensor([min_lens[i] for i in sentences]), EOS)], EOS)

    alone = [run([tables[i]], [limits[i]], cfg, [wanted[i]], rules(i))[0] for i in range(n)]
    assert run(tables, limits, cfg, wanted, rules(*range(n))) == alone


def test_rules_hold_as_in_the_other_searches():
    """The score follows the rules, the log-prob stays the model's, and the least length holds."""
    table, required = Table(4), [["a a"]]
    rules = Rules([RepetitionPenalty(1.5), MinLength(torch.tensor([4]), EOS)], EOS)
    [[hypothesis]] = run([table], [7], SearchConfig(beam_size=40, length_penalty=0.0), [asking(required)], rules)
    tokens = (*hypothesis.ids, EOS)
    adjusted = sum(table.row(tokens[:i])[token] * (1.5 if token in tokens[:i] else 1) for i, token in enumerate(tokens))
    assert hypothesis.finished
    assert len(hypothesis.ids) >= 4
    assert satisfies(hypothesis.ids, required, [])
    assert hypothesis.score == pytest.approx(adjusted)
    assert hypothesis.log_prob == pytest.approx(table.log_prob(tokens))


@pytest.mark.parametrize(("option", "value"), [("coverage_penalty", 0.2), ("beam_groups", 2)])
def test_settings_that_this_search_lacks_are_refused(option, value):
    with pytest.raises(ValueError, match=r"terminology=.*coverage_penalty.*beam_groups"):
        DecodeConfig(beam_size=4, terminology="terms.tsv", **{option: value})


def test_a_model_that_gives_nan_is_refused():
    class Broken(Table):
        def row(self, prefix):
            return [math.nan if len(prefix) == 1 else -1.0, -math.inf, *[-1.5] * 4]

    with pytest.raises(MtkitError, match="NaN"):
        run([Broken(0)], [5], SearchConfig(beam_size=2), [asking([["a"]])])


def test_a_limit_below_one_is_a_wrong_call():
    with pytest.raises(ValueError, match=r"max_lens.*\b0"):
        run([Table(0)], [0], SearchConfig(beam_size=2), [None])


class Fragment(Table):
    """c begins a word that is not over: what follows is glued to it."""

    def row(self, prefix):
        rows = {(): [-9.0, -math.inf, -9.0, -9.0, -0.1, -9.0], (C,): [-8.0, -math.inf, -5.0, -5.0, -5.0, -0.01]}
        return rows.get(tuple(prefix), [-0.01, -math.inf, -9.0, -9.0, -9.0, -9.0])

    def attention(self, prefix):
        return [1.0]


def test_a_phrase_in_the_middle_of_a_word_costs_that_a_new_word_begins_there():
    """It is two nats of log-probability ahead; that a, b or c begins after the fragment costs -5 + log 3, twice."""
    cfg = SearchConfig(beam_size=8, length_penalty=0.0, n_best=8)
    [hypotheses] = run([Fragment(0)], [8], cfg, [asking([["a"]], src_positions=(0,))])
    of = {text_of(hypothesis.ids): hypothesis for hypothesis in hypotheses}
    assert of["c a"].log_prob == pytest.approx(-0.1 - 5.0 - 0.01)
    assert of["a"].log_prob == pytest.approx(-9.0 - 0.01)
    assert text_of(hypotheses[0].ids) == "a"
    assert of["c a"].rest_log_prob == pytest.approx(-0.1 + (math.log(3) - 5.0) - 0.01)
    assert of["a"].rest_log_prob == pytest.approx(math.log(math.exp(-0.1) + 2 * math.exp(-9.0)) - 0.01)


def test_of_thousands_of_alternatives_the_likeliest_are_tried():
    texts = ["", "x", *(f" w{n}" for n in range(500))]
    phrases = tuple(Phrase(f"w{n}", (Form((n + 2,)),)) for n in range(500))
    constraints = Constraints(Spelling(texts), (Requirement(phrases),))
    log_probs = torch.linspace(-20.0, -1.0, len(texts))
    live = _Live((), 0.0, 0.0, constraints.start(), 0)
    [extensions] = _all_extensions([[live]], log_probs[None, None], log_probs[None, None], [[()]], EOS)
    tried = [candidate.ids[-1] for candidate in extensions.candidates(4)]
    assert tried[0] == len(texts) - 1
    assert 4 <= len(tried) < 100
