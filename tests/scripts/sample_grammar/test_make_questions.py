"""The labelled sample: questions, statements and orders."""

import random
import re
from collections import Counter

import pytest
from make_questions import Row, as_heard, sample_rows


@pytest.fixture(scope="module")
def parts() -> dict[str, list[Row]]:
    return sample_rows(n_each=300)


def test_a_seed_always_gives_the_same_rows(parts: dict[str, list[Row]]) -> None:
    assert sample_rows(n_each=300) == parts


def test_the_parts_share_no_text_and_each_text_has_one_label(parts: dict[str, list[Row]]) -> None:
    texts = [text for rows in parts.values() for text, _ in rows]
    assert len(texts) == len(set(texts))
    labels = Counter(label for rows in parts.values() for _, label in rows)
    assert set(labels) == {"question", "statement", "order"}
    assert all(300 <= n <= 301 for n in labels.values())


def test_questions_have_their_words_and_orders_none_of_them(parts: dict[str, list[Row]]) -> None:
    asking = re.compile(r"^(qui|où|pourquoi|combien|who|where|why)\b")
    labels = {label for rows in parts.values() for text, label in rows if asking.match(text)}
    assert labels == {"question"}


def test_what_is_heard_has_no_capitals_no_marks_and_lacks_a_tenth_of_the_words() -> None:
    heard = as_heard("Est-ce que l'étudiant a une voiture ? " * 1000, random.Random(0))
    words = heard.split()
    assert set(words) == {"est-ce", "que", "l'étudiant", "a", "une", "voiture"}
    assert 0.88 < len(words) / 6000 < 0.92
