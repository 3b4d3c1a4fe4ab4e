"""Suggestions in messages."""

import pytest

from mtkit.errors import did_you_mean


@pytest.mark.parametrize(
    ("word", "known", "shown", "hint"),
    [
        ("n_head", ["n_heads", "d_model"], None, "did you mean n_heads?"),
        ("n_head", ["n_heads"], {"n_heads": "model.n_heads"}, "did you mean model.n_heads?"),
        ("xyz", ["n_heads"], None, ""),
        ("xyz", [], None, ""),
    ],
)
def test_the_most_similar_word_is_suggested(
    word: str, known: list[str], shown: dict[str, str] | None, hint: str
) -> None:
    assert did_you_mean(word, known, shown=shown) == hint
