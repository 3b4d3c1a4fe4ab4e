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
