"""Where the lines of one text stand in the other, by their common rare words."""

import numpy as np
import pytest

from mtkit.corpora.alignment.anchors import anchored_band
from mtkit.corpora.alignment.likeness import BLOCK_LINES


@pytest.mark.parametrize(("votes", "follows"), [(3.5, False), (4.5, True)])
def test_the_last_block_is_elsewhere_only_if_more_than_the_cost_of_a_jump_says_so(votes, follows):
    n, offset = 5 * BLOCK_LINES, -8 * 16  # in the middle of the text, in whole bins of offsets
    points = np.array([n - 8]), np.array([n - 8 + offset]), np.array([votes], np.float32)
    windows = anchored_band(n, n, points, None, 4).windows
    reached = [any(first <= offset <= last for first, last in each) for each in windows]
    assert reached == [False, False, False, follows, follows]  # the block before covers the way there
