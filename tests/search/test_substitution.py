"""Phrases in the places of the words of a draft that translate their source terms."""

import pytest
import torch

from mtkit.search.constraints import Constraints
from mtkit.search.hypothesis import Hypothesis
from mtkit.search.phrases import Form, Phrase, Requirement, Spelling
from mtkit.search.substitution import Places, follow

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
    ids = places(Requirement((MATOU,), src_positions=(1,)), draft=draft, looks_at=[0, 0, 1, 2]).substituted()
    assert text(ids) == "l'matou."


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
    assert places(Requirement((MATOU,), src_positions=(1,))).is_misplaced(found(translation, -3.0)) is expected


def found(ids, rest_log_prob, log_prob=-9.0, finished=True):
    return Hypothesis(list(ids), log_prob, log_prob, finished, rest_log_prob)


def test_a_phrase_among_words_that_are_likelier_than_the_draft_is_in_its_place():
    """The draft gives the cat no word: "chat", which looks at it, translates something else."""
    le_chat_matou = (4, 5, 12, 6, 7, 8, 9, 10, 11)
    looks_at_cat = places(Requirement((MATOU,), src_positions=(1,)))
    assert looks_at_cat.is_misplaced(found(le_chat_matou, rest_log_prob=-2.1))
    assert not looks_at_cat.is_misplaced(found(le_chat_matou, rest_log_prob=-1.9))
    twice = (4, 12, 12, 6, 7, 8, 9, 10, 11)
    assert looks_at_cat.is_misplaced(found(twice, rest_log_prob=-1.9))


def test_the_likeliest_translation_comes_first_unless_the_model_knows_no_phrase():
    in_place, elsewhere = (4, 12, 6, 7, 8, 9, 10, 11), (4, 12, 6, 9, 10, 11)
    cat = places(Requirement((MATOU,), src_positions=(1,)))
    unfinished, likely = found(elsewhere, -3.0, -4.0, finished=False), found(elsewhere, -3.0, -7.0)
    for log_prob, is_first, settles in ((-8.0, False, False), (-19.9, False, False), (-20.1, True, True)):
        substituted = found(in_place, -2.0, log_prob)
        expected = [substituted, unfinished, likely] if is_first else [likely, substituted, unfinished]
        assert cat.ranked([unfinished, likely], substituted) == expected
        assert cat.settles(substituted) is settles
    assert not cat.settles(None)
    assert not cat.settles(found(LE_CHAT_EST_DANS_LE_SAC, -2.0, -99.0))  # the phrase is not in it
    longer = tuple(Phrase(f"toutou {word}", (Form((13, 14) * 5),)) for word in "ab")
    many = places(Requirement((MATOU,), src_positions=(1,)), Requirement(longer[:1]), Requirement(longer[1:]))
    assert many.settles(found(in_place, -2.0, -99.0))  # one of three, but they are longer than the draft
    assert not many.settles(found(in_place, -2.0, -19.0))


def test_translations_are_followed_together_as_alone():
    class Step:
        """Log-probabilities by the sentence and the last token; it looks at the token of that number."""

        def __init__(self, sentences):
            self.sentences = sentences

        def __call__(self, last_ids):
            self.last_ids = last_ids
            rows = [[-(s + 1) / 4 - i / 100 - last / 10 for i in range(20)] for s, last in self.pairs()]
            return torch.tensor(rows)[:, None]

        def pairs(self):
            return list(zip(self.sentences, self.last_ids[:, 0].tolist(), strict=True))

        def attention(self):
            return torch.tensor([[[float(s), float(last)]] for s, last in self.pairs()])

        def select(self, rows):
            self.sentences = [self.sentences[row] for row in rows.tolist()]

        def reorder(self, parents):
            raise AssertionError("each hypothesis continues itself")

    translations = [(7, 8, 9), (5,), (), (6, 4)]
    followed = follow(Step([0, 1, 2, 3]), translations, bos_id=2, eos_id=3, device=torch.device("cpu"))
    assert [log_prob for log_prob, _ in followed] == pytest.approx(
        [
            sum(-(s + 1) / 4 - i / 100 - last / 10 for last, i in zip((2, *ids), (*ids, 3), strict=True))
            for s, ids in enumerate(translations)
        ]
    )
    assert [attention for _, attention in followed] == [
        [[float(s), float(last)] for last in (2, *ids[:-1])] if ids else [] for s, ids in enumerate(translations)
    ]


def test_a_phrase_with_the_word_that_it_replaces_is_in_its_place():
    wildcat = Phrase("chat tou", (Form((5, 13)),))
    translation = found((4, 5, 13, 6, 7, 8, 9, 10, 11), -3.0)
    assert not places(Requirement((wildcat,), src_positions=(1,))).is_misplaced(translation)


def test_the_limit_counts_the_words_that_phrases_replace():
    cat = Requirement((MATOU,), src_positions=(1,))
    assert places(cat).most_tokens == len(LE_CHAT_EST_DANS_LE_SAC)  # one token for one
    assert places(Requirement((TOUTOU,), src_positions=(1,))).most_tokens == len(LE_CHAT_EST_DANS_LE_SAC) + 1
    assert places(Requirement((TOUTOU,))).most_tokens == len(LE_CHAT_EST_DANS_LE_SAC) + 2  # nothing to replace
