"""Phrases in the places of the words of a draft that translate their source terms."""

import pytest

from mtkit.search.constraints import Constraints
from mtkit.search.phrases import Form, Phrase, Requirement, Spelling
from mtkit.search.substitution import Places

TEXTS = [
    "",
    "",
    "",
    "",
    " Le",
    " chat",
    " est",
    " dans",
    " le",
    " s",
    "ac",
    ".",
    " matou",
    " tou",
    "tou",
    "matou",
    " l",
    "'",
]
LE_CHAT_EST_DANS_LE_SAC = (4, 5, 6, 7, 8, 9, 10, 11)
# The cat is in the bag . and the end of the sentence
LOOKS_AT = [0, 1, 2, 3, 4, 5, 5, 6]
MATOU = Phrase("matou", (Form((12,)), Form((15,), spaced=False)))
TOUTOU = Phrase("toutou", (Form((13, 14)),))


def attention(*positions, sharpness=0.8, n_src=8):
    rest = (1 - sharpness) / (n_src - 1)
    return [[sharpness if position == looked else rest for position in range(n_src)] for looked in positions]


def places(*requirements, draft=LE_CHAT_EST_DANS_LE_SAC, looks_at=LOOKS_AT):
    return Places(Constraints(Spelling(TEXTS), requirements, draft=draft), -2.0, attention(*looks_at))


def text(ids):
    return "".join(TEXTS[token_id] for token_id in ids).strip()


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        ([Requirement((MATOU,), src_positions=(1,))], "Le matou est dans le sac."),
        ([Requirement((MATOU,), src_positions=(5,))], "Le chat est dans le matou."),  # both tokens of "sac"
        (
            [Requirement((MATOU,), src_positions=(1,)), Requirement((TOUTOU,), src_positions=(5,))],
            "Le matou est dans le toutou.",
        ),
        ([Requirement((MATOU,), src_positions=(3, 4, 5))], "Le chat est matou."),  # in the bag
    ],
)
def test_a_phrase_replaces_the_words_that_translate_its_term(requirements, expected):
    assert text(places(*requirements).substituted()) == expected


@pytest.mark.parametrize(
    ("requirement", "looks_at"),
    [
        (Requirement((MATOU,)), LOOKS_AT),  # a term that applies everywhere
        (Requirement((MATOU,), src_positions=(1,)), [0, 7, 2, 3, 4, 5, 5, 6]),  # the model translated no cat
        (Requirement((MATOU,), src_positions=(1,)), [1, 0, 2, 1, 4, 5, 5, 6]),  # words that are not neighbours
        (Requirement((MATOU,), 2, (1, 2)), LOOKS_AT),  # two occurrences, where one ends is not known
    ],
)
def test_a_phrase_without_a_clear_place_is_left_out(requirement, looks_at):
    assert places(requirement, looks_at=looks_at).substituted() is None


def test_behind_an_apostrophe_a_phrase_begins_without_a_space():
    draft = (16, 17, 10, 11)  # l'ac.
    found = places(Requirement((MATOU,), src_positions=(1,)), draft=draft, looks_at=[0, 0, 1, 2]).substituted()
    assert text(found) == "l'matou."


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ((4, 12, 6, 7, 8, 9, 10, 11), False),  # Le matou est dans le sac.
        ((4, 5, 6, 7, 8, 12, 11), True),  # Le chat est dans le matou.
        ((4, 5, 12, 6, 7, 8, 9, 10, 11), True),  # Le chat matou est dans le sac.
        ((4, 12, 6, 7, 8, 12, 11), True),  # Le matou est dans le matou.
        (LE_CHAT_EST_DANS_LE_SAC, False),
    ],
)
def test_a_phrase_that_does_not_stand_for_its_term_is_misplaced(translation, expected):
    assert places(Requirement((MATOU,), src_positions=(1,))).is_misplaced(translation) is expected


def test_a_phrase_with_the_word_that_it_replaces_is_in_its_place():
    wildcat = Phrase("chat tou", (Form((5, 13)),))
    assert not places(Requirement((wildcat,), src_positions=(1,))).is_misplaced((4, 5, 13, 6, 7, 8, 9, 10, 11))


def test_the_limit_counts_the_words_that_phrases_replace():
    cat = Requirement((MATOU,), src_positions=(1,))
    assert places(cat).most_tokens == len(LE_CHAT_EST_DANS_LE_SAC)  # one token for one
    assert places(Requirement((TOUTOU,), src_positions=(1,))).most_tokens == len(LE_CHAT_EST_DANS_LE_SAC) + 1
    assert places(Requirement((TOUTOU,))).most_tokens == len(LE_CHAT_EST_DANS_LE_SAC) + 2  # nothing to replace
