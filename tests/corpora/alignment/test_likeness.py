"""How evidence of several kinds is put together."""

import numpy as np
import pytest

from mtkit.corpora.alignment.likeness import BLOCK_LINES, Block, Likeness, Mixture, Table, Tables
from mtkit.corpora.alignment.words import Vocabulary


class Part(Likeness):
    """Scores that are given."""

    def __init__(self, score):
        vocabulary = Vocabulary()
        super().__init__(vocabulary.read(["a", "b"]), vocabulary.read(["c", "d", "e"]), vocabulary)
        self.scores = np.full((2, 3), score, np.float32)

    def block(self, rows, cols):
        return Block(*[self.scores] * 4)


def test_two_views_of_a_pair_are_averaged_as_probabilities():
    block = Mixture([Part(np.log(3.0)), Part(np.log(5.0))]).block(range(2), range(3))
    for scores in (block.one_one, block.two_one, block.one_two, block.two_two):
        np.testing.assert_allclose(scores, np.log(4.0), rtol=1e-6)
        assert scores.dtype == np.float32


def test_one_view_is_taken_as_it_is_and_the_impossible_stays_so():
    assert (Mixture([Part(-2.5)]).block(range(2), range(3)).one_one == -2.5).all()
    assert (Mixture([Part(-np.inf), Part(-np.inf)]).block(range(2), range(3)).two_two == -np.inf).all()


@pytest.mark.parametrize(
    ("first", "last", "fold"), [(0, 3, 0), (BLOCK_LINES, BLOCK_LINES + 2, 1), (2 * BLOCK_LINES, 2 * BLOCK_LINES + 1, 0)]
)
@pytest.mark.parametrize("n_before", [0, 1])  # lines of the block before, for merges
def test_a_block_is_scored_by_the_lexicon_of_its_fold(first, last, fold, n_before):
    vocabulary = Vocabulary()
    lines = vocabulary.read([f"a{i}" for i in range(3 * BLOCK_LINES)])
    used = []

    class Recording(Likeness):
        def _scores(self, src, tgt, tables):
            used.append(tables)
            return super()._scores(src, tgt, tables)

    n = len(vocabulary)
    folds = [Tables(Table.empty(n), Table.empty(n)) for _ in range(2)]
    Recording(lines, lines, vocabulary, folds).block(range(max(0, first - n_before), last), range(3))
    assert len(used) == 1 and used[0] is folds[fold]
