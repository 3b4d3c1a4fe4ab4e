"""Retries of faulty translations; a table of answers replaces the model, so that every search can be counted."""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.alignment.checks import Checks
from mtkit.config.decoding import DecodeConfig
from mtkit.quality.faults import Fault, find_left
from mtkit.tokens.placeholders import Replaced
from mtkit.translation.candidates import Candidate
from mtkit.translation.piece_search import PieceSearch
from mtkit.translation.pieces import Piece
from mtkit.translation.review import Review, Tally, marked
from mtkit.translation.translator import Translator

SRC = "The old man walks slowly along the river with 25 dogs."
GOOD = "Le vieil homme marche lentement le long de la rivière avec 25 chiens."
NO_NUMBER = "Le vieil homme marche lentement le long de la rivière avec ses chiens."
LOOP = "Le vieil homme marche avec 25 chiens avec 25 chiens avec 25 chiens avec 25 chiens"
SHORT = "25."


def candidate(text: str, score: float = -1.0, finished: bool = True) -> Candidate:
    return Candidate(text, [1] * len(text), score, score, finished)


@dataclass
class Answers:
    """Gives these candidates to whatever is asked, and keeps what was asked for."""

    of: dict[str, list[str]]
    with_rules: str = ""  # the answer to a search with rules, if it has another

    def __post_init__(self) -> None:
        self.asked: list[tuple[list[str], DecodeConfig, int]] = []
        self.reader = self

    def sentences(self, piece: Piece) -> list[Piece]:
        return [piece]

    def candidates(self, pieces: Sequence[Piece], *, decode=None, n_best=1):
        texts = [piece.text for piece in pieces]
        self.prefixes = [piece.prefix for piece in pieces]
        self.asked.append((list(texts), decode, n_best))
        if self.with_rules and (decode.no_repeat_ngram or decode.min_len):
            return [[candidate(self.with_rules)] for _ in texts]
        return [[candidate(text) for text in self.of[src]][:n_best] for src in texts]


def line_of(*texts: str) -> list[Piece]:
    """A line that was cut into these texts."""
    return [Piece(text, ([5],), Replaced(text, {})) for text in texts]


def review(answers: Answers, *, rules_in_beam: bool = True, **decode: object) -> Review:
    return Review(cast(PieceSearch, answers), DecodeConfig(**decode), checks=Checks("fr"), rules_in_beam=rules_in_beam)


def texts(candidates: list[Candidate]) -> list[str]:
    return [candidate.text for candidate in candidates]


def test_a_resumed_job_names_lines_by_their_place_in_the_whole_file():
    tally = Tally(n_before=100)
    tally.add([], changed=False)
    tally.add([Fault("number", "25")], changed=False)
    assert "(line 102)" in tally.message()


def test_a_sound_translation_is_not_searched_again():
    answers = Answers({})
    [line] = review(answers).window([line_of(SRC)], [[candidate(GOOD)]])
    assert (texts(line.n_best), line.faults, answers.asked) == ([GOOD], (), [])


def test_the_first_faultless_candidate_of_the_beam_replaces_a_faulty_translation():
    answers = Answers({SRC: [NO_NUMBER, GOOD, "Le vieux marche lentement le long de la rivière avec 25 chiens."]})
    checked = review(answers, beam_size=6, beam_groups=3, mbr_samples=0)
    [line] = checked.window([line_of(SRC)], [[candidate(NO_NUMBER)]])
    assert (texts(line.n_best), line.faults) == ([GOOD], ())
    [(asked, decode, n_best)] = answers.asked
    assert (asked, decode.beam_size, decode.beam_groups, n_best) == ([SRC], 6, 3, 6)
    assert (checked.tally.n_lines, checked.tally.n_faulty, checked.tally.n_changed) == (1, 0, 1)
    assert "1 of 1 " in checked.tally.message()


def test_a_second_search_that_is_not_better_changes_only_the_warning():
    answers = Answers({SRC: [NO_NUMBER, LOOP, ""]})
    checked = review(answers)
    [line] = checked.window([line_of(SRC)], [[candidate(NO_NUMBER, -0.5)]])
    assert line.n_best == [candidate(NO_NUMBER, -0.5)]
    assert line.faults == (Fault("number", "25"),)
    assert (checked.tally.n_lines, checked.tally.n_faulty, checked.tally.n_changed) == (1, 1, 0)
    assert all(part in checked.tally.message() for part in ("1 of 1", "1 loses a number", "(line 1)"))


@pytest.mark.parametrize(("broken", "rule"), [(LOOP, "no_repeat_ngram"), (SHORT, "min_len_factor"), ("", "min_len")])
@pytest.mark.parametrize("rules_in_beam", [True, False])
def test_a_fault_is_searched_with_a_rule_against_it(broken, rule, rules_in_beam):
    answers = Answers({SRC: [broken]}, with_rules=GOOD)
    [line] = review(answers, rules_in_beam=rules_in_beam).window([line_of(SRC)], [[candidate(broken)]])
    assert (texts(line.n_best), line.faults) == ([GOOD], ())
    [(_, decode, n_best)] = answers.asked
    assert getattr(decode, rule) > 0
    assert (decode.beam_size, n_best) == ((2, 2) if rules_in_beam else (1, 1))


def test_a_translation_that_hit_its_length_limit_is_searched_for_again():
    answers = Answers({SRC: [NO_NUMBER]}, with_rules=GOOD)
    [line] = review(answers).window([line_of(SRC)], [[candidate(GOOD, finished=False)]])
    assert line.faults == () and line.n_best[0].finished


def test_a_copy_of_what_the_model_does_not_read_is_not_suspect():
    answers = Answers({})
    piece = Piece("order_id", ([],), Replaced("", {}))
    [line] = review(answers).window([[piece]], [[candidate("order_id")]])
    assert (line.text, line.faults, answers.asked) == ("order_id", (), [])


def test_a_retry_of_sampling_draws_from_another_seed():
    answers = Answers({SRC: [GOOD]})
    review(answers, sampling=True, seed=2**32 - 1).window([line_of(SRC)], [[candidate(NO_NUMBER)]])
    [(_, decode, n_best)] = answers.asked
    assert (decode.sampling, decode.seed, n_best) == (True, 0, 1)


def test_a_forced_beginning_stays_forced():
    answers = Answers({SRC: [GOOD]})
    candidates = [[candidate(GOOD)], [candidate(NO_NUMBER)]]

    def with_prefix(*ids: int) -> list[Piece]:
        return [replace(piece, prefix=ids) for piece in line_of(SRC)]

    review(answers).window([with_prefix(5), with_prefix(6, 7)], candidates)
    assert answers.prefixes == [(6, 7)]


@pytest.mark.parametrize("n_best", [1, 2, 3])
def test_the_new_translation_comes_first_whatever_n_best_and_the_others_follow(n_best):
    candidates = [candidate(NO_NUMBER, -1.0), candidate(GOOD, -2.0), candidate(LOOP, -3.0)][:n_best]
    [line] = review(Answers({SRC: ["", GOOD]})).window([line_of(SRC)], [candidates])
    assert texts(line.n_best) == [GOOD, NO_NUMBER, LOOP][:n_best]


@settings(max_examples=25)
@given(st.lists(st.sampled_from([GOOD, NO_NUMBER, LOOP, SHORT, ""]), max_size=12), st.integers(1, 5))
def test_windows_of_any_size_give_the_same(outputs, size):
    def reviewed(size: int) -> tuple[list[tuple[list[str], tuple[Fault, ...]]], Tally]:
        checked = review(Answers({SRC: [LOOP, NO_NUMBER]}, with_rules=NO_NUMBER))
        lines = []
        for start in range(0, len(outputs), size):
            window = outputs[start : start + size]
            lines += checked.window([line_of(SRC)] * len(window), [[candidate(text)] for text in window])
        return [(texts(line.n_best), line.faults) for line in lines], checked.tally

    assert reviewed(size) == reviewed(100)


@pytest.mark.parametrize(("mode", "n_faults"), [("warn", 1), ("mark", 1), ("off", 0)])
def test_no_other_mode_searches_again(mode, n_faults):
    answers = Answers({})
    checked = review(answers, on_suspect=mode)
    [line] = checked.window([line_of(SRC)], [[candidate(NO_NUMBER)]])
    assert (texts(line.n_best), len(line.faults), answers.asked) == ([NO_NUMBER], n_faults, [])
    assert checked.tally.n_faulty == n_faults


def test_a_mark_names_each_kind_once_and_an_unmarked_line_stays_as_it_was():
    faults = [Fault("loop"), Fault("number", "1"), Fault("number", "2")]
    assert marked("bla bla", faults) == "[suspect: loop, number] bla bla"
    assert marked("", [Fault("empty")]) == "[suspect: empty]"
    assert marked("bla ", []) == "bla "


def test_the_message_counts_by_kind_and_names_the_first_lines():
    tally = Tally()
    for line in range(1, 2001):
        faults = [Fault("number", "1"), Fault("number", "2"), Fault("loop")] if line % 80 == 0 else []
        tally.add(faults + ([Fault("url")] if line == 80 else []), changed=line in (7, 8))
    lines = ", ".join(str(80 * number) for number in range(1, 21))
    assert tally.message().startswith("25 of 2,000 ")
    assert f"25 loop, 25 lose a number, 1 loses a URL (lines {lines}, ...); 2 more " in tally.message()
    assert Tally(n_lines=3).message() == ""


def test_the_message_says_which_text_is_left_and_why():
    tally = Tally()
    tally.add(find_left("word " * 2_001), changed=False)
    assert all(fact in tally.message() for fact in ("untranslated", "10,000 characters", "(line 1)"))


def test_remaining_faults_are_a_warning_and_repaired_ones_are_news(monkeypatch):
    levels: list[int] = []
    monkeypatch.setattr("mtkit.translation.review.log.info", lambda _: levels.append(logging.INFO))
    monkeypatch.setattr("mtkit.translation.review.log.warning", lambda _: levels.append(logging.WARNING))
    for answer in (GOOD, NO_NUMBER):
        checked = review(Answers({SRC: [answer]}))
        checked.window([line_of(SRC)], [[candidate(NO_NUMBER)]])
        checked.warn()
    review(Answers({})).warn()
    assert levels == [logging.INFO, logging.WARNING]


LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
LONG_GOOD = "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept"


def test_the_segments_of_a_long_line_are_checked_and_repaired_one_by_one():
    answers = Answers({SRC: [GOOD], "Two.": [""]})
    checked = review(answers)
    outputs = [NO_NUMBER, "Un.", GOOD, "", "Trois."]
    src = [line_of(SRC), line_of("One.", SRC, "Two."), line_of("Three.")]
    lines = checked.window(src, [[candidate(text)] for text in outputs])
    assert [line.text for line in lines] == [GOOD, f"Un. {GOOD}", "Trois."]
    assert [line.faults for line in lines] == [(), (Fault("empty", segment=3),), ()]
    assert {text for asked, _, _ in answers.asked for text in asked} == {SRC, "Two."}
    assert (checked.tally.n_lines, checked.tally.n_faulty, checked.tally.n_changed) == (3, 1, 1)
    assert "(line 2 [segment 3 of 3])" in checked.tally.message()


def test_a_line_that_lacks_a_sentence_is_searched_sentence_by_sentence():
    class Sentences(Answers):
        def sentences(self, piece):
            return [replace(part, gap="  ") for part in line_of("He sings for an hour.", "He loves your aunt.")]

    answers = Sentences(
        {"He sings for an hour.": ["Il chante une heure."], "He loves your aunt.": ["Il aime ta tante."]}
    )
    checked = review(answers, mbr_samples=8)
    [line] = checked.window(
        [line_of("He sings for an hour.  He loves your aunt.")], [[candidate("Il chante une heure.")]]
    )
    assert (line.text, line.faults, line.n_segments) == ("Il chante une heure.  Il aime ta tante.", (), 2)
    assert [asked for asked, _, _ in answers.asked] == [["He sings for an hour.", "He loves your aunt."]]
    assert re.search("1 of 1 .*suspect; a second search changed it", checked.tally.message())


@pytest.mark.parametrize("second", ["", "Il aime ta tante ta tante ta tante ta tante ta tante."])
def test_a_second_result_with_as_many_faults_does_not_replace_the_first(second):
    class Sentences(Answers):
        def sentences(self, piece):
            return line_of("He sings for an hour.", "He loves your aunt.")

    of = {
        "He sings for an hour.": ["Il chante une heure."],
        "He loves your aunt.": [second],
        "He sings for an hour. He loves your aunt.": ["Il chante une heure."],
    }
    checked = review(Sentences(of))
    [line] = checked.window(
        [line_of("He sings for an hour. He loves your aunt.")], [[candidate("Il chante une heure.")]]
    )
    assert (line.text, [fault.kind for fault in line.faults]) == ("Il chante une heure.", ["omission"])
    assert (checked.tally.n_faulty, checked.tally.n_changed) == (1, 0)


def test_words_without_a_counterpart_are_a_fault_and_must_be_translated_the_second_time():
    asked = []

    class Lexicon(Checks):
        def faults(self, src, text, ids=None, *, finished=True, before=()):
            asked.append((text, [fault.detail for fault in before]))
            return () if text == GOOD else (Fault("omission", "with 25 dogs"),)

    for second, kinds in (([SHORTER, GOOD], []), ([SHORTER], ["omission"])):
        asked.clear()
        checked = Review(cast(PieceSearch, Answers({SRC: second})), DecodeConfig(), checks=Lexicon())
        [line] = checked.window([line_of(SRC)], [[candidate(NO_DOGS)]])
        assert [fault.kind for fault in line.faults] == kinds
        assert line.text == (NO_DOGS if kinds else GOOD)
        assert asked == [(NO_DOGS, []), *((text, ["with 25 dogs"]) for text in second)]


NO_DOGS = "Le vieil homme marche lentement le long de la rivière 25."
SHORTER = "Le vieil homme marche lentement de la rivière 25."


def test_text_that_stays_too_short_is_searched_in_shorter_segments():
    class Short(Answers):
        def candidates(self, pieces, *, decode=None, n_best=1):
            super().candidates(pieces, decode=decode, n_best=n_best)
            return [[candidate(LONG_GOOD if decode.max_src_tokens <= 16 else "un deux")] for _ in pieces]

    answers = Short({LONG: [SHORT]})
    [line] = review(answers).window([line_of(LONG)], [[candidate("un deux")]])
    assert (line.text, line.faults) == (LONG_GOOD, ())
    assert [decode.max_src_tokens for _, decode, _ in answers.asked][-2:] == [32, 16]


@pytest.mark.parametrize("repaired", [True, False])
def test_a_long_line_that_loses_a_little_in_each_segment_is_noticed(repaired):
    """Half of each segment could pass; half of 1,700 letters cannot."""

    class Halves(Answers):
        def candidates(self, pieces, *, decode=None, n_best=1):
            super().candidates(pieces, decode=decode, n_best=n_best)
            return [[candidate(LONG_GOOD if repaired else half)] for _ in pieces]

    half = LONG_GOOD[: int(0.5 * len(LONG))]
    answers = Halves({LONG: [half]})
    checked = review(answers)
    [line] = checked.window([line_of(*[LONG] * 17)], [[candidate(half)]] * 17)
    assert line.faults == (() if repaired else (Fault("length", "too short"),))
    assert (LONG_GOOD in line.text) == repaired
    assert (checked.tally.n_faulty, checked.tally.n_changed) == (1 - repaired, repaired)
    [line] = review(Halves({})).window([line_of(LONG)], [[candidate(half)]])
    assert line.faults == ()


@pytest.mark.parametrize("beam_size", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("rules_in_beam", [True, False])
@pytest.mark.parametrize("broken", ["", "un deux", LOOP, "Un mot. " * 60])
def test_all_searches_of_a_line_together_have_at_most_the_beam_of_the_first_pass(beam_size, rules_in_beam, broken):
    """Each lasts at most as long as the first pass may: so text that the model does not know takes twice as long."""

    class Sentences(Answers):
        def sentences(self, piece):
            return line_of(*[SRC] * 17)

    sources = [SRC, LONG, LONG * 3]
    answers = Sentences({source: [broken] * 8 for source in sources})
    pieces = [*map(line_of, sources), line_of(LONG, LONG * 3, LONG)]
    candidates = [[candidate(broken)] for line in pieces for _ in line]
    review(answers, rules_in_beam=rules_in_beam, beam_size=beam_size).window(pieces, candidates)
    n_hypotheses: Counter[str] = Counter()
    for asked, decode, n_best in answers.asked:
        assert n_best <= decode.beam_size
        for source in set(asked):
            n_hypotheses[source] += decode.beam_size
    assert max(n_hypotheses.values(), default=0) <= beam_size


def test_with_a_model_other_lines_do_not_change_the_review_of_a_line(shared_bundle):
    translator = Translator.load(shared_bundle, device="cpu")
    lines = ["I love 12 oranges.", "The cat sleeps under the table.", "", "Do you see www.example.org?", "It rains."]
    first_search = translator.search(lines)
    decode = translator.decode.model_copy(update={"on_suspect": "retry"})
    pieces = translator.pieces(lines)
    together = Review(translator.piece_search, decode, checks=Checks()).window(pieces, first_search)
    assert sum(bool(line.faults) for line in together) > 1  # so that several were searched for again, side by side
    for line, candidates, reviewed in zip(pieces, first_search, together, strict=True):
        [alone] = Review(translator.piece_search, decode, checks=Checks()).window([line], [candidates])
        assert (texts(alone.n_best), alone.faults) == (texts(reviewed.n_best), reviewed.faults)
