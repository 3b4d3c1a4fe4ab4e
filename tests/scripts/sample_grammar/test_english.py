"""English word forms against a grammar book."""

import pytest
from sample_grammar import english, verbs
from sample_grammar.entries import Verb
from sample_grammar.nouns import NOUNS


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("apple", "apples"),
        ("cherry", "cherries"),
        ("boy", "boys"),
        ("box", "boxes"),
        ("watch", "watches"),
        ("tomato", "tomatoes"),
        ("knife", "knives"),
        ("mouse", "mice"),
        ("child", "children"),
        ("shelf", "shelves"),
        ("living room", "living rooms"),
    ],
)
def test_nouns_have_their_plural(singular: str, plural: str) -> None:
    assert english.plural(next(noun for noun in NOUNS if noun.en == singular)) == plural


@pytest.mark.parametrize(
    ("words", "with_article"),
    [
        ("apple", "an apple"),
        ("old house", "an old house"),
        ("red apple", "a red apple"),
        ("umbrella", "an umbrella"),
        ("university", "a university"),
    ],
)
def test_a_becomes_an_before_a_vowel_sound(words: str, with_article: str) -> None:
    assert english.with_article(words) == with_article


@pytest.mark.parametrize(
    ("verb", "she", "past", "ing"),
    [
        (verbs.BE_BORN, "is born", "was born", None),
        (verbs.HAVE, "has", "had", "having"),
        (verbs.GO, "goes", "went", "going"),
        (verbs.GO_HOME, "goes home", "went home", "going home"),
        (verbs.WATCH, "watches", "watched", "watching"),
        (verbs.STUDY, "studies", "studied", "studying"),
        (verbs.PLAY, "plays", "played", "playing"),
        (verbs.WRITE, "writes", "wrote", "writing"),
        (verbs.SEE, "sees", "saw", "seeing"),
        (verbs.LOOK_FOR, "looks for", "looked for", "looking for"),
        (verbs.PUT, "puts", "put", "putting"),
        (verbs.SWIM, "swims", "swam", "swimming"),
        (verbs.CAN, "can", None, None),
    ],
)
def test_verbs_are_conjugated(verb: Verb, she: str, past: str | None, ing: str | None) -> None:
    assert english.present(verb, 3, plural=False) == she
    assert past is None or english.past(verb, 3, plural=False) == past
    assert ing is None or english.progressive(verb) == ing


def test_to_be_has_its_persons() -> None:
    persons = ((1, False), (2, False), (3, False), (1, True), (3, True))
    assert [english.present(verbs.BE, *person) for person in persons] == ["am", "are", "is", "are", "are"]
    assert [english.past(verbs.BE, *person) for person in persons] == ["was", "were", "was", "were", "were"]


@pytest.mark.parametrize(
    ("owner", "plural", "possessive"),
    [
        ("Paul", False, "Paul's"),
        ("Thomas", False, "Thomas's"),
        ("my parents", True, "my parents'"),
        ("the children", True, "the children's"),
    ],
)
def test_possessives_follow_number_and_last_letter(owner: str, plural: bool, possessive: str) -> None:
    assert english.possessive(owner, plural) == possessive
