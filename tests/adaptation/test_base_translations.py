"""Translations of the base are kept, with the time that they took."""

import pytest

from mtkit.adaptation.base_translations import BaseTranslations


def test_the_expected_time_follows_the_length_of_the_sentences(tmp_path):
    kept = BaseTranslations(tmp_path / "kept.json", {})
    kept.add(["a" * 90, "b" * 110], ["A", "B"], seconds=4.0)
    assert kept.seconds_for(["c" * 50, "d" * 25]) == pytest.approx(1.5)
    assert BaseTranslations(tmp_path / "kept.json", {}).seconds_for(["c" * 50]) == pytest.approx(1.0)
    assert kept.seconds_for([]) == 0
