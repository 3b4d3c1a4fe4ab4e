"""Translations of the base are kept, with the time that they took."""

import pytest

from mtkit.adaptation.base_translations import BaseTranslations


def test_the_expected_time_follows_the_length_of_the_sentences(tmp_path):
    kept = BaseTranslations(tmp_path / "kept.json", {})
    kept.add(["a" * 90, "b" * 110], ["A", "B"], seconds=4.0)
    assert kept.seconds_for(["c" * 50, "d" * 25]) == pytest.approx(1.5)
    assert BaseTranslations(tmp_path / "kept.json", {}).seconds_for(["c" * 50]) == pytest.approx(1.0)
    assert kept.seconds_for([]) == 0


@pytest.mark.parametrize(
    "stored", ['{"one": "un"}', '{"search": {"beam": 1}, "seconds": 1, "translations": {"one": "un"}}']
)
def test_translations_of_an_earlier_version_or_another_search_are_not_used(tmp_path, stored):
    (tmp_path / "kept.json").write_text(stored, encoding="utf-8")
    kept = BaseTranslations(tmp_path / "kept.json", {"beam": 4})
    assert kept.missing(["one"]) == ["one"] and kept.get("one", "none") == "none"
    kept.add(["one"], ["eins"], 1.0)
    assert BaseTranslations(tmp_path / "kept.json", {"beam": 4}).get("one", "none") == "eins"
