"""Language codes."""

import pytest

from mtkit.languages import are_one_language


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("de", "de", True),
        ("pt", "pt-BR", True),
        ("zh_TW", "ZH", True),
        ("en-US", "en_us", True),
        ("zh-Hans", "zh-Hant", False),
        ("sr-Latn", "sr-Cyrl", False),
        ("de", "nl", False),
    ],
)
def test_codes_are_of_one_language_as_far_as_both_tell(one: str, other: str, expected: bool) -> None:
    assert are_one_language(one, other) is expected
    assert are_one_language(other, one) is expected
