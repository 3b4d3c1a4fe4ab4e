"""Identifiers, which no language changes, and words with digits, which languages write in their ways."""

import pytest

from mtkit.text.identifiers import is_identifier


@pytest.mark.parametrize(
    "text",
    ["A-12", "B2", "(A-12).", "EN-60601", "12/A", "SKU_12", "order_id", "v1.2.3", "3.0-beta1", "4f2a91c0", "Д-12",
     "123e4567-e89b-12d3-a456-426614174000"],
)  # fmt: skip
def test_identifiers_are_recognised(text):
    assert is_identifier(text)


@pytest.mark.parametrize(
    "text",
    ["", "12", "3.50", "EXIT", "T-SHIRT", "cat", "3-year-old", "21ST", "21st", "9AM", "1990S", "10km", "第3章", "A 12",
     "ROOM 12", "I saw B2", "well-known", "cafe", "added", "الغرفة12"],
)  # fmt: skip
def test_words_and_numbers_are_not_identifiers(text):
    assert not is_identifier(text)
