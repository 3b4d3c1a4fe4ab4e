"""The index of nearly equal texts against the comparison of all pairs of sets."""

import random

import pytest

from mtkit.text import near_texts as near
from mtkit.text.near_texts import NearTexts, loose_keys


def ngrams(text: str) -> set[str]:
    padded = f" {text} "
    return {padded[i : i + 4] for i in range(max(1, len(padded) - 3))}


def edited(text: str, rng: random.Random) -> str:
    chars = list(text)
    for _ in range(rng.randint(0, 2)):
        chars[rng.randrange(len(chars))] = rng.choice(["", "a", "\U0001f600", "b c"])
    at = rng.randrange(len(chars))
    return "".join([*chars[:at], rng.choice(["", "z", "house", "\u00e4\u00df\u4e2d"]), *chars[at:]])


def test_the_pairs_are_those_that_comparing_all_finds(monkeypatch):
    rng = random.Random(1)
    texts = sorted({"".join(rng.choices("aab c\u00e4", k=rng.randint(1, 60))) for _ in range(100)} | {"a", "b", "aa"})
    others = ["", "a", "aa", "z", *(edited(rng.choice(texts), rng) for _ in range(150))]
    sets = [(text, ngrams(text)) for text in texts]
    expected = {
        (i, text)
        for i, (other, grams) in enumerate((other, ngrams(other)) for other in others)
        for text, theirs in sets
        if other and 10 * len(theirs & grams) >= 7 * len(theirs | grams)
    }
    assert 50 < len(expected) < 500
    index = NearTexts(texts)
    for piece in (1, 50, near._PIECE):
        monkeypatch.setattr(near, "_PIECE", piece)
        assert set(index.find(others)) == expected


def test_without_texts_nothing_is_found():
    assert not list(NearTexts([]).find(["a"]))
    assert not list(NearTexts(["a"]).find([]))


@pytest.mark.parametrize(("one", "other"), [("दिन", "दान"), ("मैं जाता हूँ", "मैं जाती हूँ"), ("ใกล้", "ไกล"), ("น้ำมัน", "นำมน")])
def test_words_that_differ_in_a_vowel_sign_are_different(one, other):
    keys = loose_keys([f"{one}!", one, other])
    assert keys[0] == keys[1] != keys[2]
    assert keys[1] == one
