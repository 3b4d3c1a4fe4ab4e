"""Language codes."""

from pathlib import Path

import pytest

from mtkit.languages import are_one_language, language_in_name


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


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("test.en", "en"),
        ("a/train.de.gz", "de"),
        ("x.DE", "de"),
        ("a.zh_CN.gz", "zh_cn"),
        ("dev.eng_Latn", "eng_latn"),
        ("dev.jpn", "jpn"),
        ("test.txt", None),
        ("train.de.txt", None),
        ("train.tok.gz", None),
        ("train.src", None),
        ("en", None),
        ("train.gz", None),
    ],
)
def test_a_files_name_ends_with_its_language(name: str, code: str | None) -> None:
    assert language_in_name(Path(name)) == code
