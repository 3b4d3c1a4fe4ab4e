"""A text is compared with both sides of a model's training text, word by word."""

from typing import cast

import numpy as np
import pytest
from tiny_corpus import WORDS

from mtkit.config.tokenizer import TokenizerConfig
from mtkit.data.sides import Resemblance, Sides, load_counts, save_counts
from mtkit.errors import DataError
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer

ENGLISH, FRENCH = list(WORDS), list(WORDS.values())


def learned(folder, name, lines, **settings) -> Tokenizer:
    return train_tokenizer(lines, TokenizerConfig(vocab_size=300, **settings), folder / f"{name}.spm")


def occurrences(tokenizer, lines):
    ids = [token_id for line in lines for token_id in tokenizer.encode(line)]
    return np.bincount(ids, minlength=tokenizer.vocab_size)


@pytest.fixture(scope="module", params=["separate", "shared", "bpe"])
def sides(request, tmp_path_factory) -> Sides:
    folder = tmp_path_factory.mktemp("sides")
    if request.param == "separate":
        found = Sides.from_tokenizers(learned(folder, "src", ENGLISH * 50), learned(folder, "tgt", FRENCH * 50))
        assert found is not None
        return found
    kind = "bpe" if request.param == "bpe" else "unigram"
    both = learned(folder, "both", (ENGLISH + FRENCH) * 50, type=kind)
    assert Sides.from_tokenizers(both, both) is None
    return Sides.from_counts(both, both, occurrences(both, ENGLISH * 50), occurrences(both, FRENCH * 50))


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("one red cat sees two dogs", "src"),
        ("un chat rouge voit deux chiens", "tgt"),
        ("UN CHAT ROUGE VOIT DEUX CHIENS", "tgt"),
        ("one cat sees un chien", "unclear"),  # foreign words in a sentence
        ("rouge bleu", "unclear"),  # too few: names look like this
        ("12 34 56 !", "unclear"),
        ("", "unclear"),
    ],
)
def test_words_lean_to_the_side_where_they_are_frequent(sides, text, verdict):
    assert Resemblance(sides).add([text]).verdict(3) == verdict


def test_a_side_remembers_a_bounded_number_of_words(sides, monkeypatch):
    monkeypatch.setattr("mtkit.data.sides._MOST_REMEMBERED", 10)
    leans = [sides.lean(word) for word in ENGLISH[0].split() * 2]
    for number in range(50):
        sides.lean(f"{'x' * number}y")
        assert len(sides._words) <= 10
    assert [sides.lean(word) for word in ENGLISH[0].split() * 2] == leans


def test_a_third_language_is_neither(tmp_path):
    both = learned(tmp_path, "both", (ENGLISH + FRENCH) * 50)
    counts = occurrences(both, ENGLISH * 50), occurrences(both, FRENCH * 50)
    sides = Sides.from_counts(both, both, *counts)
    assert Resemblance(sides).add(["жили были дед и баба " * 8]).verdict(3) == "neither"
    assert Resemblance(sides).add(["жили были дед и баба"]).verdict(3) == "unclear"  # a few words prove nothing
    assert Resemblance(sides).add(["one red cat sees two dogs " * 8]).verdict(3) == "src"


def test_bpe_models_have_no_frequencies(tmp_path):
    src, tgt = (learned(tmp_path, n, text, type="bpe") for n, text in (("src", ENGLISH), ("tgt", FRENCH)))
    assert Sides.from_tokenizers(src, tgt) is None


def test_counts_of_another_vocabulary_are_refused(tmp_path):
    src = learned(tmp_path, "src", ENGLISH * 9)
    path = tmp_path / "sides.npz"
    save_counts(path, np.ones(5, np.int64), np.ones(5, np.int64))
    with pytest.raises(DataError, match=rf"sides\.npz: .*{src.vocab_size}"):
        load_counts(path, src, src)
    path.write_bytes(b"PK no")
    with pytest.raises(DataError, match=r"sides\.npz: cannot read the file"):
        load_counts(path, src, src)


class Predicted:
    """Sides to which every word is equally hard to predict."""

    usual = 1.0

    def __init__(self, times):
        self.times = times

    def lean(self, word):
        return 0.0, self.times * (len(word) + 1)

    def own_text(self, line):
        return line


@pytest.mark.parametrize(
    ("n_words", "times", "is_unfamiliar"),
    [(4, 9.0, False), (5, 2.5, False), (5, 2.7, True), (29, 2.5, False), (30, 1.7, False), (30, 1.8, True)],
)
def test_text_that_is_unlike_the_training_text(n_words, times, is_unfamiliar):
    text = Resemblance(cast(Sides, Predicted(times))).add(["word " * n_words])
    assert text.is_unfamiliar == is_unfamiliar


@pytest.mark.parametrize(
    ("n_words", "times", "limits", "verdict"),
    [
        (4, 9.0, (3, 5), "unclear"),
        (5, 3.1, (3, 5), "neither"),
        (5, 2.9, (3, 5), "unclear"),
        (29, 2.9, (3, 5), "unclear"),
        (30, 2.9, (3, 5), "neither"),
        (29, 9.0, (20,), "unclear"),
        (30, 2.9, (20,), "neither"),
    ],
)
def test_fewer_words_must_be_stranger(n_words, times, limits, verdict):
    assert Resemblance(cast(Sides, Predicted(times))).add(["word " * n_words]).verdict(*limits) == verdict
