"""What a word is, in alphabets and in scripts without spaces."""

import numpy as np
import pytest

from mtkit.text.scripts import letter_weights
from mtkit.text.words import n_letters, word_spans, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's 5 p.m., isn't it?", ["It", "s", "5", "p", "m", "isn", "t", "it"]),
        ("snake_case", ["snake", "case"]),
        ("हिन्दी में लिखो।", ["हिन्दी", "में", "लिखो"]),  # vowel signs and virama
        ("e\u0301te\u0301 là", ["e\u0301te\u0301", "là"]),  # decomposed accents
        ("می\u200cخواهم", ["می\u200cخواهم"]),  # a zero-width non-joiner within a Persian word
        ("Silben\u00adtrennung", ["Silben\u00adtrennung"]),  # a soft hyphen
        ("كِتَابٌ", ["كِتَابٌ"]),  # vowels of Arabic
        ("我爱 iPhone。", ["我", "爱", "iPhone"]),
        ("\U00020000ｱ", ["\U00020000", "ｱ"]),  # Han beyond the first plane, half-width kana
        ("한국어", ["한국어"]),
        ("...", []),
    ],
)
def test_words_are_letters_and_digits_with_their_marks(text, words):
    assert words_of(text) == words


def test_words_stand_where_they_are_with_signs_between_them():
    text = "L'été, हिन्दी का 我x"
    assert [text[start:end] for start, end in word_spans(text)] == ["L'", "été", ",", "हिन्दी", "का", "我", "x"]


@pytest.mark.parametrize(("text", "n"), [(" abc ", 3), ("我们", 6), ("かな", 4), ("한국어", 6), ("a我", 4), ("", 0)])
def test_a_character_of_east_asia_counts_as_several_letters_alone_and_in_arrays(text, n):
    assert n_letters(text) == n
    codes = np.frombuffer(text.strip().encode("utf-32-le"), np.uint32)
    assert letter_weights()[codes].sum() == n
