"""Lines in the other text's language."""

import numpy as np

from mtkit.corpora.alignment.slips import swapped_lines
from mtkit.corpora.alignment.words import Vocabulary


def test_a_doubtful_line_goes_with_the_clear_ones_around_it():
    # "rot" is said three times in the target alone: at most 3 nats, which are not enough for a line by itself
    src = [f"the cat number{i} sits here" for i in range(60)]
    tgt = [f"die Katze Nummer{i} sitzt hier" for i in range(60)]
    for line in (3, 4, 5, 6, 55):
        tgt[line] = f"rot Wort{line}"
    for line in range(20, 30):
        src[line], tgt[line] = tgt[line], src[line]
    for line in (25, 45):
        src[line] = f"rot Ding{line}"
    vocabulary = Vocabulary()
    flags = swapped_lines(vocabulary.read(src), vocabulary.read(tgt), vocabulary)
    assert flags is not None
    assert np.flatnonzero(flags[0]).tolist() == [*range(20, 30)]


def test_two_words_of_the_other_language_prove_a_short_line_but_not_a_long_one():
    src = [f"the cat number{i} sits here" for i in range(60)]
    tgt = [f"die Katze Nummer{i} sitzt hier" for i in range(60)]
    for line in range(10, 15):
        src[line], tgt[line] = tgt[line], src[line]
    names = [f"name{i}" for i in range(18)]  # which stand nowhere else, and say nothing
    src[30] = " ".join(["die", "Katze", *names])  # 2 * ln(55.5 / 6.5) = 4.3 nats, less than 0.4 for each of 20 words
    src[45] = "die"  # 2.1 nats, less than 3
    src[55] = "die Katze nameA nameB"  # 4.3 nats, more than 0.4 for each of 4 words
    vocabulary = Vocabulary()
    flags = swapped_lines(vocabulary.read(src), vocabulary.read(tgt), vocabulary)
    assert flags is not None
    assert np.flatnonzero(flags[0]).tolist() == [*range(10, 15), 55]
