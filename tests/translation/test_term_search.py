"""Terms that would wreck a sentence are left out; a table of answers replaces the model."""

from dataclasses import dataclass, field

import pytest

from mtkit.config.decoding import DecodeConfig
from mtkit.search.constraints import Constraints, Phrase, Requirement, Spelling
from mtkit.search.hypothesis import Hypothesis, Segment
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
    asked: list[tuple[tuple[str, ...], int]] = field(default_factory=list)
    name = "native"
    max_positions: int | None = None
    arithmetic = "fp32 on cpu"

    def decode(self, segments, cfg, n_best):
        for index, segment in enumerate(segments):
            constraints = segment.constraints
            wanted = tuple(r.phrases[0].text for r in constraints.required) if constraints else ()
            if constraints:
                assert constraints.with_partial
                wanted += tuple(f"not {phrase.text}" for phrase in constraints.forbidden)
            self.asked.append((wanted, cfg.beam_size))
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
    assert search({(): [(PLAIN, -2.0)]}, ["keys"]) == ([PLAIN], [((), 4)])


def test_a_term_in_its_place_replaces_the_plain_translation(search):
    texts, _ = search({(): [(PLAIN, -2.0)], ("mice",): [(PLACED, -3.0)]}, ["mice"])
    assert texts == [PLACED]


@pytest.mark.parametrize("wreck", [(APPENDED, -3.0), (PLACED, -40.0)], ids=["repeats", "unlikely"])
def test_a_sentence_that_the_term_would_wreck_is_given_without_it(search, wreck):
    texts, asked = search({(): [(PLAIN, -2.0)], ("mice",): [wreck]}, ["mice"])
    assert texts == [PLAIN]
    assert asked == [((), 4), (("mice",), 4), (("mice",), 16)]  # the second time with a wider beam


@pytest.mark.parametrize(("lost", "expected"), [(0.7, PLACED), (0.9, PLAIN)])
def test_a_sentence_may_lose_more_the_longer_it_is(search, spm, lost, expected):
    n_tokens = len(Tokenizer.load(spm).encode(PLAIN)) + 1
    texts, _ = search({(): [(PLAIN, -2.0)], ("mice",): [(PLACED, -2.0 - lost * n_tokens)]}, ["mice"])
    assert texts == [expected]


def test_a_term_longer_than_the_segment_may_be_is_not_searched_for(search):
    texts, asked = search({(): [(PLAIN, -2.0)]}, [" ".join(["mice"] * 40)])
    assert (texts, asked) == ([PLAIN], [((), 4)])


def test_the_number_of_searches_is_bounded_for_any_number_of_terms(search):
    wreck = [(APPENDED, -3.0)]
    words = [f"mice{n}" for n in range(200)]
    known: dict[tuple[str, ...], list[tuple[str, float]]] = {(word,): wreck for word in words}
    texts, asked = search({(): [(PLAIN, -2.0)], **known}, words)
    assert texts == [PLAIN]
    assert 2 <= len(asked) < 12


def test_a_long_sentence_is_searched_less_often(search):
    words = ["mice", "cat", "dog"]
    known: dict[tuple[str, ...], list[tuple[str, float]]] = {(word,): [(PLACED, -3.0)] for word in words}
    answers = {(): [(PLAIN, -2.0)], **known, tuple(words): [(APPENDED, -3.0)]}
    texts, asked = search(answers, words, max_len=40)
    assert (texts, len(asked)) == ([PLACED], 6)  # the plain one, two for all terms, one for each term
    texts, asked = search(answers, words, max_len=4_000)
    assert texts == [PLAIN]
    assert asked == [((), 4), (tuple(words), 4)]


def test_a_translation_with_some_of_the_terms_is_better_than_one_without_any(search):
    answers = {(): [(PLAIN, -2.0)], ("cat", "mice"): [(APPENDED, -3.0), (PLACED, -4.0)]}
    texts, asked = search(answers, ["cat", "mice"], n_best=2)
    assert texts == [PLACED, PLAIN]
    assert asked == [((), 4), (("cat", "mice"), 4), (("cat", "mice"), 16)]


def test_of_several_translations_with_the_term_a_harmless_one_is_taken(search):
    texts, _ = search({(): [(PLAIN, -2.0)], ("mice",): [(APPENDED, -3.0), (PLACED, -4.0)]}, ["mice"], n_best=2)
    assert texts == [PLACED, APPENDED]


def test_of_several_terms_those_that_do_no_harm_are_kept(search):
    wreck = [(APPENDED, -3.0)]
    answers = {(): [(PLAIN, -2.0)], ("cat", "mice"): wreck, ("cat",): wreck, ("mice",): [(PLACED, -3.0)]}
    texts, _ = search(answers, ["cat", "mice"])
    assert texts == [PLACED]


def test_a_forbidden_phrase_stays_forbidden_without_the_term(search):
    answers = {(): [(PLAIN, -2.0)], ("mice", "not keys"): [(APPENDED, -3.0)], ("not keys",): [(PLACED, -30.0)]}
    texts, _ = search(answers, ["mice"], ["keys"])
    assert texts == [PLACED]
