"""The rule for what a config leaves out."""

import pytest

from mtkit.training.preparation.rule import vocab_size


@pytest.mark.parametrize(
    ("n_characters", "n_distinct", "size"),
    [
        (180_000, 80, 2000),  # 5,000 pairs of Tatoeba: the better of the measured sizes
        (1_000_000, 100, 8000),  # its 30,000 pairs
        (1_000_000_000, 100, 8000),  # nothing larger has been measured
        (424_264, 80, 4000),  # half way between the two in logarithms: the square root of their product
        (10_000, 40, 500),
        (60_000, 2_500, 5300),  # a script with thousands of characters: 264 + 2 x 2,500, in hundreds
    ],
)
def test_the_vocabulary_grows_with_the_text(n_characters, n_distinct, size):
    assert vocab_size(n_characters, n_distinct) == pytest.approx(size, abs=100)
