"""Mistakes made in right translations."""

import random
from collections import Counter

import pytest

from mtkit.corpora.filter.negatives import KINDS, Mistakes
from mtkit.quality.negation import has_negation, without_negation

PAIRS = [
    ("Tom bought 12 green apples in Boston.", "Tom kaufte 12 grüne Äpfel in Boston."),
    ("Mary has never seen the old house near the river.", "Maria hat das alte Haus am Fluss nie gesehen."),
    ("The old house was sold to a family in 1987.", "Das alte Haus wurde 1987 an eine Familie verkauft."),
    ("I do not know where the children play.", "Ich weiß nicht, wo die Kinder spielen."),
    ("Where do the children of Boston play today?", "Wo spielen die Kinder von Boston heute?"),
    ("A family with three children lives here.", "Hier lebt eine Familie mit drei Kindern."),
    ("Anna sings a song about the river and the trees.", "Anna singt ein Lied über den Fluss und die Bäume."),
    ("We looked at the trees for a long time.", "Wir sahen die Bäume lange an."),
]


@pytest.fixture
def mistakes():
    return Mistakes(PAIRS, ("en", "de"), seed=1)


def of_kind(mistakes, kind, index):
    """Return different mistakes of a kind in a pair."""
    made = {KINDS[kind](mistakes, index, random.Random(seed)) for seed in range(60)} - {None, PAIRS[index]}
    assert made
    return made


def test_every_kind_finds_a_pair_to_spoil_and_leaves_none_as_it_was(mistakes):
    kinds: Counter[str] = Counter()
    for index, pair in enumerate(PAIRS):
        for attempt in range(200):
            made = mistakes.make(index, attempt)
            assert made is not None
            assert made[:2] != pair
            kinds[made[2]] += 1
    assert set(kinds) == set(KINDS)


def test_the_seed_the_index_and_the_round_fix_a_mistake(mistakes):
    again = Mistakes(PAIRS, ("en", "de"), seed=1)
    assert [mistakes.make(i) for i in range(8)] == [again.make(i) for i in reversed(range(8))][::-1]
    other = Mistakes(PAIRS, ("en", "de"), seed=2)
    assert [mistakes.make(i) for i in range(8)] != [other.make(i) for i in range(8)]
    assert len({mistakes.make(0, attempt) for attempt in range(20)}) > 5


@pytest.mark.parametrize(
    "kind", ["number", "name", "negation", "truncated", "missing", "added", "replaced", "order", "copy", "garbled"]
)
def test_one_side_stays_as_it_is(mistakes, kind):
    index = 3 if kind == "negation" else 0
    assert all((src == PAIRS[index][0]) != (tgt == PAIRS[index][1]) for src, tgt in of_kind(mistakes, kind, index))


def changed(kind, mistakes, index=0):
    return {(src if tgt == PAIRS[index][1] else tgt) for src, tgt in of_kind(mistakes, kind, index)}


def test_a_number_becomes_another_number_of_as_many_digits(mistakes):
    for text in changed("number", mistakes):
        digits = [word for word in text.split() if word.isdigit()]
        assert digits != ["12"]
        assert [len(word) for word in digits] == [2]


def test_a_name_becomes_another_name(mistakes):
    words = {word.strip(".") for text in changed("name", mistakes) for word in text.split()}
    assert "Anna" in words
    assert "Äpfel" in words  # German nouns are capitalised, too, but are not the same word in English


def test_a_truncated_side_is_a_beginning_or_an_end(mistakes):
    for text in changed("truncated", mistakes):
        words = text.rstrip(".").split()
        side = PAIRS[0][0] if "bought" in text or "apples" in text or "green" in text else None
        whole = [(side or whole).rstrip(".").split() for whole in PAIRS[0]]
        assert any(words in (full[: len(words)], full[-len(words) :]) for full in whole)
        assert len(words) < 7


def test_other_order_has_the_same_words(mistakes):
    for text in changed("order", mistakes):
        assert any(sorted(text.split()) == sorted(whole.split()) for whole in PAIRS[0])


def test_an_unrelated_target_belongs_to_another_source(mistakes):
    targets = {tgt for _, tgt in PAIRS[1:]}
    assert all(src == PAIRS[0][0] and tgt in targets for src, tgt in of_kind(mistakes, "unrelated", 0))


def test_a_similar_target_shares_a_word(mistakes):
    assert {tgt for _, tgt in of_kind(mistakes, "similar", 1)} <= {PAIRS[2][1], PAIRS[6][1]}  # Haus, alte; Fluss


def test_another_translation_of_the_same_source_is_no_mistake():
    pairs = [("I am leaving.", "Ich gehe jetzt."), ("I am leaving!", "Ich gehe jetzt weg."), ("Go!", "Geh weg!")]
    mistakes = Mistakes(pairs, ("en", "de"), 1)
    for kind in ("unrelated", "similar"):
        made = {KINDS[kind](mistakes, 0, random.Random(seed)) for seed in range(60)}
        assert ("I am leaving.", "Ich gehe jetzt weg.") not in made


def test_text_without_spaces_is_cut_between_characters():
    pairs = [("I like the red apples.", "我喜欢红苹果。"), ("He came home late.", "他很晚才回家。")]
    mistakes = Mistakes(pairs, ("en", "zh"), 1)
    made = {KINDS["missing"](mistakes, 0, random.Random(seed)) for seed in range(60)}
    assert any("我" in pair[1] and " " not in pair[1] and len(pair[1]) < 7 for pair in made if pair)


def test_a_corpus_of_one_short_pair_yields_few_mistakes_but_no_error():
    mistakes = Mistakes([("Hi", "Hallo")], ("en", "de"), 1)
    made = [mistakes.make(0, attempt) for attempt in range(100)]
    assert {spoilt[2] for spoilt in made if spoilt} <= {"copy", "language", "garbled", "added"}


@pytest.mark.parametrize(
    ("lang", "text", "affirmed"),
    [
        ("en", "I don't know.", "I do know."),
        ("en", "Don't go!", "Do go!"),
        ("en", "He cannot swim, and won't learn.", "He can swim, and will learn."),
        ("de", "Das ist kein Hund.", "Das ist ein Hund."),
        ("de", "Ich habe nichts gesehen.", "Ich habe alles gesehen."),
        ("fr", "Je ne sais pas.", "Je sais."),
        ("fr", "Il n'est jamais là.", "Il est toujours là."),
        ("es", "No hay nadie.", "Hay todos."),
    ],
)
def test_a_negation_is_taken_out(lang, text, affirmed):
    assert (without_negation(text, lang) or "").lower() == affirmed.lower()
    assert not has_negation(affirmed, lang)


def test_text_without_a_known_negation_has_none_to_take_out():
    assert without_negation("I know.", "en") is None
    assert without_negation("Jag vet inte.", "sv") is None
