"""Terms that would wreck a sentence are left out; a table of answers replaces the model."""

from dataclasses import dataclass, field, replace

import pytest
from tiny_models import tiny_transformer

from mtkit.config.decoding import DecodeConfig
from mtkit.engines.native import NativeEngine
from mtkit.engines.steps import ModelStep
from mtkit.search.constraints import Constraints
from mtkit.search.hypothesis import Hypothesis, Segment
from mtkit.search.phrases import Phrase, Requirement, Spelling
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.translation.term_search import TermSearch

SRC = "Where are my keys?"
PLAIN = "Where are the keys?"
PLACED = "Where are the mice?"
APPENDED = "Where are the keys? The mice the mice the mice the mice?"


@dataclass
class Answers:
    """An engine that answers by the phrases required: texts, with what the rest of each one costs."""

    tokenizer: Tokenizer
    of: dict[tuple[str, ...], list[tuple[str, float]]]
    asked: list[tuple[str, ...]] = field(default_factory=list)
    name = "native"
    max_positions: int | None = None
    arithmetic = "fp32 on cpu"

    def decode(self, segments, cfg, n_best):
        for index, segment in enumerate(segments):
            constraints = segment.constraints
            wanted = tuple(r.phrases[0].text for r in constraints.required) if constraints else ()
            if constraints:
                assert constraints.draft is not None
                wanted += tuple(f"not {phrase.text}" for phrase in constraints.forbidden)
            self.asked.append(wanted)
            answers = self.of[wanted] if wanted in self.of else self.of[()]
            yield index, [self.hypothesis(text, rest, bool(constraints)) for text, rest in answers][:n_best]

    def hypothesis(self, text, rest, constrained):
        log_prob = rest - 20.0 if constrained else rest
        return Hypothesis(self.tokenizer.encode(text), log_prob, log_prob, True, rest if constrained else None)


@pytest.fixture
def search(spm):
    """search(answers, required, forbidden) gives the texts of a segment, and what was asked of the engine."""
    tokenizer = Tokenizer.load(spm)
    spelling = Spelling.from_tokenizer(tokenizer)

    def run(answers, required=(), forbidden=(), n_best=1, max_len=40):
        phrases = [Requirement((Phrase.from_text(text, tokenizer, spelling),)) for text in required]
        constraints = Constraints(spelling, tuple(phrases), tuple(map(Phrase, forbidden)))
        segment = Segment(tokenizer.encode(SRC), max_len, constraints=constraints, text=SRC)
        engine = Answers(tokenizer, answers)
        [hypotheses] = TermSearch(engine, tokenizer, DecodeConfig(), n_best)([segment])
        return [tokenizer.decode(hypothesis.ids) for hypothesis in hypotheses], engine.asked

    return run


def test_a_plain_translation_with_the_term_is_taken_without_another_search(search):
    assert search({(): [(PLAIN, -2.0)]}, ["keys"]) == ([PLAIN], [()])


def test_a_term_in_its_place_replaces_the_plain_translation(search):
    texts, _ = search({(): [(PLAIN, -2.0)], ("mice",): [(PLACED, -3.0)]}, ["mice"])
    assert texts == [PLACED]


@pytest.mark.parametrize("wreck", [(APPENDED, -3.0), (PLACED, -40.0)], ids=["repeats", "unlikely"])
def test_a_sentence_that_the_term_would_wreck_is_given_without_it(search, wreck):
    texts, asked = search({(): [(PLAIN, -2.0)], ("mice",): [wreck]}, ["mice"])
    assert texts == [PLAIN]
    assert asked == [(), ("mice",)]


def test_a_translation_with_the_term_is_better_than_an_empty_one(search):
    texts, _ = search({(): [("", -4.0)], ("mice",): [(PLACED, -16.0)]}, ["mice"])
    assert texts == [PLACED]


@pytest.mark.parametrize(("lost", "expected"), [(0.7, PLACED), (0.9, PLAIN)])
def test_a_sentence_may_lose_more_the_longer_it_is(search, spm, lost, expected):
    n_tokens = len(Tokenizer.load(spm).encode(PLAIN)) + 1
    texts, _ = search({(): [(PLAIN, -2.0)], ("mice",): [(PLACED, -2.0 - lost * n_tokens)]}, ["mice"])
    assert texts == [expected]


def test_of_two_translations_with_the_term_the_first_harmless_one_is_taken(search):
    placed_otherwise = "Are the mice here?"
    answers = {(): [(PLAIN, -2.0)], ("mice",): [(PLACED, -40.0), (placed_otherwise, -3.0)]}
    assert search(answers, ["mice"], n_best=2)[0][0] == placed_otherwise
    answers = {(): [(PLAIN, -2.0)], ("mice",): [(PLACED, -3.0), (placed_otherwise, -2.0)]}
    assert search(answers, ["mice"], n_best=2)[0][0] == PLACED


@pytest.mark.parametrize("n_terms", [1, 12, 200])
def test_any_number_of_terms_takes_one_more_search(search, n_terms):
    words = [f"mice{n}" for n in range(n_terms)]
    texts, asked = search({(): [(PLAIN, -2.0)], tuple(words): [(APPENDED, -3.0)]}, words)
    assert texts == [PLAIN]
    assert asked == [(), tuple(words)]


def test_a_translation_with_some_of_the_terms_is_better_than_one_without_any(search):
    answers = {(): [(PLAIN, -2.0)], ("cat", "mice"): [(APPENDED, -3.0), (PLACED, -4.0)]}
    texts, asked = search(answers, ["cat", "mice"], n_best=2)
    assert texts == [PLACED, PLAIN]
    assert asked == [(), ("cat", "mice")]


def test_of_several_translations_with_the_term_a_harmless_one_is_taken(search):
    texts, _ = search({(): [(PLAIN, -2.0)], ("mice",): [(APPENDED, -3.0), (PLACED, -4.0)]}, ["mice"], n_best=2)
    assert texts == [PLACED, APPENDED]


def test_a_forbidden_phrase_stays_forbidden_without_the_term(search):
    answers = {(): [(PLAIN, -2.0)], ("mice", "not keys"): [(APPENDED, -3.0)], ("not keys",): [(PLACED, -30.0)]}
    texts, _ = search(answers, ["mice"], ["keys"])
    assert texts == [PLACED]


@pytest.mark.parametrize("harm", ["", "Where are are are are are are the?"], ids=["empty", "loops"])
def test_a_translation_with_a_forbidden_phrase_is_better_than_a_wrecked_one(search, harm):
    texts, _ = search({(): [(PLAIN, -2.0)], ("not keys",): [(harm, -3.0)]}, [], ["keys"])
    assert texts == [PLAIN]


@pytest.mark.parametrize("n_terms", [1, 2, 4, 8, 12, 16])
def test_terms_take_at_most_five_times_the_work_of_a_plain_search(spm, monkeypatch, n_terms):
    """Work is decoding steps x hypotheses. A model that was never trained uses its whole length limit."""
    tokenizer = Tokenizer.load(spm)
    spelling = Spelling.from_tokenizer(tokenizer)
    words = [f"{letter}ou" for letter in "bcdfghjklmnprstv"[:n_terms]]
    required = [
        Requirement((Phrase.from_text(word, tokenizer, spelling),), src_positions=(n,)) for n, word in enumerate(words)
    ]
    plain = Segment(range(5, 25), max_len=40, text=SRC)
    model = tiny_transformer(tokenizer.vocab_size)
    n_hypotheses: list[int] = []
    for name in ("__call__", "likeliest"):
        monkeypatch.setattr(ModelStep, name, counted(getattr(ModelStep, name), n_hypotheses))
    works = []
    for segment in (plain, replace(plain, constraints=Constraints(spelling, tuple(required)))):
        n_hypotheses.clear()
        TermSearch(NativeEngine([model]), tokenizer, DecodeConfig(), 1)([segment])
        works.append(sum(n_hypotheses))
    assert 0 < works[0] < works[1] <= 5 * works[0]


def test_a_segment_with_terms_is_searched_the_same_alone_and_among_others(spm):
    tokenizer = Tokenizer.load(spm)
    spelling = Spelling.from_tokenizer(tokenizer)
    segments = []
    for n, words in enumerate((["bou"], ["cou", "dou"], [], ["fou"], ["gou"])):
        phrases = [Phrase.from_text(word, tokenizer, spelling) for word in words]
        required = tuple(Requirement((phrase,), src_positions=(i,)) for i, phrase in enumerate(phrases))
        constraints = Constraints(spelling, required) if required else None
        segments.append(Segment(range(5, 13 + 2 * n), max_len=12 + n, constraints=constraints, text=SRC))
    search = TermSearch(NativeEngine([tiny_transformer(tokenizer.vocab_size)]), tokenizer, DecodeConfig(), 2)
    assert search(segments) == [search([segment])[0] for segment in segments]


def counted(method, n_hypotheses):
    """Return a method of `ModelStep` that notes how many hypotheses it extends."""

    def extend(step, last_ids, *arguments):
        result = method(step, last_ids, *arguments)
        if result is not None:
            n_hypotheses.append(last_ids.numel())
        return result

    return extend
