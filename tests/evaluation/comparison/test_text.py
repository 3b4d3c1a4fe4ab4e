"""What differs between two texts: by examples, and the law that nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.evaluation.comparison.text import in_brackets, word_differences


@pytest.mark.parametrize(
    ("a", "b", "a_marked", "b_marked"),
    [
        ("the red cat", "the blue cat", "the [red] cat", "the [blue] cat"),
        ("the cat", "the big cat", "the cat", "the [big] cat"),
        ("the cat", "The cat.", "[the] cat", "[The] cat[.]"),
        ("Êtes-vous sûr ?", "Es-tu sûr ?", "[Êtes-vous] sûr ?", "[Es-tu] sûr ?"),  # one mark, not two with a hyphen
        ("a, b", "a, c", "a, [b]", "a, [c]"),
        ("", "new", "", "[new]"),
        ("same", "same", "same", "same"),
        ("two  spaces", "two spaces", "two  spaces", "two spaces"),
        ("我爱橙子", "我爱苹果", "我爱[橙子]", "我爱[苹果]"),
    ],
)
def test_the_words_that_differ_are_marked(a, b, a_marked, b_marked):
    before, after = word_differences(a, b)
    assert in_brackets(before, "[", "]") == a_marked
    assert in_brackets(after, "[", "]") == b_marked


@given(
    st.text(st.sampled_from("ab -,.'\u3000我\n_1é"), max_size=20), st.text(st.sampled_from("ab -,.'我_1"), max_size=20)
)
def test_the_parts_are_the_texts_and_what_is_unmarked_is_in_both(a, b):
    before, after = word_differences(a, b)
    assert ("".join(before), "".join(after)) == (a, b)
    assert all(before[1:]) and all(after[1:])  # only the first part may be empty
    unmarked = ["".join("".join(parts[::2]).split()) for parts in (before, after)]
    assert unmarked[0] == unmarked[1]
