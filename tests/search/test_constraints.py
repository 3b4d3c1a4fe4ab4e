"""Phrases in texts, and the state of a hypothesis's constraints token by token."""

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mtkit.search.constraints import Constraints, ConstraintState
from mtkit.search.phrases import Form, Matcher, Phrase, Requirement, Spelling
from mtkit.tokens.tokenizer import Tokenizer

# A toy vocabulary: ids 0 to 3 are special, as everywhere.
TEXTS = ["", "", "", "", " a", " b", "a", "b", "'", " ", " B"]
EOS, A, B, GLUED_A, GLUED_B, APOSTROPHE, SPACE, CAPITAL_B = 3, 4, 5, 6, 7, 8, 9, 10
SPELLING = Spelling(TEXTS)


def occurrences(text: str, phrases: list[str]) -> int:
    """Return the most whole-word occurrences of the phrases without overlap, by exhaustive search."""
    text = re.sub(" +", " ", text).strip()
    spans = []
    for phrase in phrases:
        edges = [r"(?<!\w)" if phrase[0].isalnum() else "", r"(?!\w)" if phrase[-1].isalnum() else ""]
        written = phrase if phrase != phrase.lower() else f"(?i:{re.escape(phrase)})"
        pattern = re.compile(edges[0] + written + edges[1])
        spans += [m.span() for start in range(len(text)) if (m := pattern.match(text, start))]

    def most(start: int) -> int:
        return max((1 + most(end) for begin, end in spans if begin >= start), default=0)

    return most(0)


@pytest.mark.parametrize(
    ("phrase", "text", "n"),
    [
        ("orange", "Une orange.", 1),
        ("orange", "Deux oranges.", 0),
        ("orange", "J'aime l'orange, orange!", 2),
        ("orange", "Orange ou ORANGE?", 2),
        ("Orange", "Il travaille chez Orange, pas à l'orange.", 1),
        ("tour Eiffel", "Tour Eiffel, tour Eiffel, tour eiffel", 2),
        ("jus d'orange", "du jus  d'orange", 1),  # two spaces
        ("été", "Une étée d'été", 1),
        ("cafe", "cafe\u0301", 0),  # an accent belongs to its letter
        ("C++", "C++ et C++11", 2),
        ("3", "33 et 3", 1),
        ("東京", "私は東京に住んでいます", 1),
        ("กาแฟ", "ฉันดื่มกาแฟทุกวัน", 1),
        ("a a", "a a a", 1),
        ("a a", "a a a a", 2),
    ],
)
def test_phrases_are_whole_words_in_any_case_unless_they_have_capitals(phrase, text, n):
    assert Matcher([phrase]).count(text) == n


@given(
    text=st.text("aB '", max_size=12),
    phrases=st.lists(st.sampled_from(["a", "b", "B", "a b", "b a", "a'b", "b b a", "ab", "'"]), min_size=1, max_size=3),
)
def test_it_counts_as_many_occurrences_as_fit_without_overlap(text, phrases):
    assert Matcher(phrases).count(text) == occurrences(text, phrases)


def constraints(required=(), forbidden=(), times=1) -> Constraints:
    """required: alternatives for each requirement; spelled by the toy vocabulary where it can."""
    ids = {
        "a": (A,),
        "b": (B,),
        "B": (CAPITAL_B,),
        "a b": (A, B),
        "b a": (B, A),
        "b b": (B, B),
        "ab": (A, GLUED_B),
        "'": (APOSTROPHE,),
    }

    def phrase(text):
        forms = [Form(ids[text])] + ([Form((GLUED_A,), spaced=False)] if text == "a" else [])
        return Phrase(text, tuple(forms))

    requirements = tuple(Requirement(tuple(map(phrase, texts)), times) for texts in required)
    return Constraints(SPELLING, requirements, tuple(Phrase(text) for text in forbidden))


def advance(state: ConstraintState, *ids: int) -> ConstraintState:
    """Return the state after tokens of which none is refused."""
    for token_id in ids:
        following = state.advance(token_id)
        assert following is not None
        state = following
    return state


def state_after(wanted: Constraints, ids: list[int]) -> ConstraintState:
    return advance(wanted.start(), *ids)


@given(
    ids=st.lists(st.integers(A, CAPITAL_B), max_size=9),
    required=st.lists(
        st.lists(st.sampled_from(["a", "a b", "b a", "b b", "B", "ab"]), min_size=1, max_size=2), max_size=2
    ),
    times=st.integers(1, 2),
)
@example(ids=[B, B, B], required=[["b b"]], times=2)  # they overlap
@example(ids=[APOSTROPHE, APOSTROPHE], required=[["'"]], times=2)  # nothing is between them
def test_a_state_counts_what_the_text_meets_whatever_its_tokens(ids, required, times):
    state = state_after(constraints(required, times=times), ids)
    text = "".join(TEXTS[token_id] for token_id in ids)
    met = [occurrences(text, alternatives) >= times for alternatives in required]
    assert state.n_requirements_met == sum(met)
    assert state.is_done == state.may_end == all(met)
    assert (state.n_met == state.constraints.n_tokens) or not all(met)
    assert 0 <= state.n_met <= state.constraints.n_tokens


@given(
    ids=st.lists(st.integers(A, CAPITAL_B), max_size=8),
    forbidden=st.lists(st.sampled_from(["a", "a b", "b a", "B", "ab", "'", "b'"]), min_size=1, max_size=2),
)
def test_a_token_that_completes_a_forbidden_phrase_is_refused(ids, forbidden):
    state, text = constraints(forbidden=forbidden).start(), ""
    for token_id in ids:
        following = state.advance(token_id)
        text += TEXTS[token_id]
        certain = all(occurrences(text + end, forbidden) for end in ("a", " "))
        assert (following is None) == certain
        if following is None:
            return
        state = following
        assert state.is_clean == state.may_end == (occurrences(text, forbidden) == 0)


def next_ids(state):
    return sorted(set.union(*state.next_ids()))


def test_next_ids_begin_or_continue_what_is_missing():
    wanted = constraints(required=[["a b", "b b"], ["a"]])
    assert wanted.n_tokens == 3
    start = wanted.start()
    assert (next_ids(start), start.n_met) == ([A, B, GLUED_A], 0)
    after_b = advance(start, B)
    assert (next_ids(after_b), after_b.n_met) == ([A, B], 1)  # no glued form behind a letter
    after_apostrophe = advance(after_b, APOSTROPHE)
    assert (next_ids(after_apostrophe), after_apostrophe.n_met) == ([A, B, GLUED_A], 0)
    after_a = advance(start, A)  # meets the second, begins the first
    assert (next_ids(after_a), after_a.n_met) == ([A, B], 2)
    after_ab = advance(after_a, B)
    assert (next_ids(after_ab), after_ab.n_met, after_ab.may_end) == ([], 3, True)


def test_part_of_one_occurrence_does_not_begin_the_next():
    state = state_after(constraints(required=[["a b", "b b"]], times=2), [A, B])
    assert state.n_met == 2
    assert not advance(state, B).is_done


def test_a_phrase_is_not_tried_again_right_behind_itself():
    state = state_after(constraints(required=[["b"], ["a b"]], times=2), [A, B])
    assert next_ids(state) == []
    assert next_ids(advance(state, APOSTROPHE)) == [A, B]
    assert advance(state, B).n_requirements_met == 1  # but if the model wants it, it counts


def test_a_phrase_that_grows_into_another_word_is_lost_again():
    wanted = constraints(required=[["a"]])
    done = advance(wanted.start(), A)
    assert done.may_end
    lost = advance(done, GLUED_B)
    assert not lost.may_end
    assert (lost.n_met, next_ids(lost)) == (0, [A])


def test_a_capitalised_form_is_tried_only_where_a_sentence_begins():
    phrase = Phrase("b", (Form((B,)), Form((CAPITAL_B,), opens=True)))
    spelling = Spelling([*TEXTS, " a."])
    start = Constraints(spelling, (Requirement((phrase,)),)).start()
    assert next_ids(start) == [B, CAPITAL_B]
    assert next_ids(advance(start, A)) == [B]
    assert next_ids(advance(start, len(TEXTS))) == [B, CAPITAL_B]


def test_a_character_in_bytes_counts_when_it_is_whole():
    first, second = "ж".encode()
    spelling = Spelling([*TEXTS, "<0xD0>", "<0xB6>"], {11: first, 12: second})
    forbidding = Constraints(spelling, forbidden=(Phrase("ж"),)).start()
    begun = advance(forbidding, SPACE, 11)
    assert begun.is_clean
    written = advance(begun, 12)
    assert not written.is_clean
    assert written.advance(A) is None
    assert advance(written, GLUED_A).is_clean
    assert begun.advance(A) is not None  # an unfinished character is none


def test_the_spelling_of_a_tokenizer_is_what_it_decodes(spm):
    tokenizer = Tokenizer.load(spm)
    spelling = Spelling.from_tokenizer(tokenizer)
    for text in ("I love oranges.", "Das große Haus — 42 €", "日本 🙂 ok", "it's  two  spaces"):
        spelled, pending = "", b""
        for token_id in tokenizer.encode(text):
            spelled, pending = spelling.extend(spelled, token_id, pending)
        assert (spelled.replace("\0", ""), pending) == (tokenizer.decode(tokenizer.encode(text)), b"")


def test_the_forms_of_a_phrase_spell_it_with_and_without_a_space(spm):
    tokenizer = Tokenizer.load(spm)
    spelling = Spelling.from_tokenizer(tokenizer)
    forms = Phrase.from_text("big house", tokenizer, spelling).forms
    spelled = {(form.spaced, form.opens): spelling.text(form.ids) for form in forms}
    assert spelled == {
        (True, False): " big house",
        (False, False): "big house",
        (True, True): " Big house",
        (False, True): "Big house",
    }
    assert forms[0].ids == tuple(tokenizer.encode("big house"))


def test_constraints_are_values():
    pairs = itertools.product([constraints([["a"]], ["b"]), constraints([["a"]], ["a b"])], repeat=2)
    for (one, other), same in zip(pairs, (True, False, False, True), strict=True):
        assert (one == other) is same
    assert hash(constraints([["a"]], ["b"])) == hash(constraints([["a"]], ["b"]))
