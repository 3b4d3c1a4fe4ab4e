"""One drawing of the sample corpus for all its tests."""

import pytest
from sample_grammar.corpus import Splits, sample_pairs, split


@pytest.fixture(scope="session")
def pairs() -> list[tuple[str, str]]:
    return sample_pairs(seed=1)


@pytest.fixture(scope="session")
def splits(pairs: list[tuple[str, str]]) -> Splits:
    return split(pairs, seed=1)
