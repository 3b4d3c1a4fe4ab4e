"""Language codes."""

from pathlib import Path

import pytest

from mtkit.languages import (
    are_one_language,
    codes_like,
    english_name,
    has_one_shared,
    language_in_name,
    may_be_code,
    primary_code,
    script_of_code,
)


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
        ("eng_Latn", "en", True),
        ("ger", "deu", True),
        ("eng-US", "en_GB", False),
        ("zho_Hant", "zh", True),
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("en", True), ("pt-BR", True), ("pt_br", True), ("zho_Hant", True), ("es-419", True), ("gsw", True)),
        *(("xx", False), ("english", False), ("Latn", False), ("e", False), ("en-", False), ("en us", False)),
    ],
)
def test_what_can_be_a_code_of_a_language(text: str, expected: bool) -> None:
    assert may_be_code(text) is expected


@pytest.mark.parametrize(
    ("text", "codes"),
    [("German", ["de"]), ("germn", ["de"]), ("ge", ["de", "ka"]), ("jp", ["ja"]), ("Deutsch", ["de"]), ("xx", [])],
)
def test_what_is_no_code_suggests_those_of_languages_with_such_names(text: str, codes: list[str]) -> None:
    assert codes_like(text) == codes


@pytest.mark.parametrize(
    ("code", "bare", "script"),
    [
        ("cmn", "zh", None),
        ("zh_TW", "zh", "Hant"),
        ("cmn_Hans", "zh", "Hans"),
        ("zh-Hans-TW", "zh", "Hans"),
        ("arb_Arab", "ar", "Arab"),
        ("pt-BR", "pt", None),
        ("yue", "yue", None),
        ("en-my", "en", None),
    ],
)
def test_a_code_names_a_language_and_perhaps_a_script(code: str, bare: str, script: str | None) -> None:
    assert (primary_code(code), script_of_code(code)) == (bare, script)


def test_a_language_has_one_name_under_all_its_codes() -> None:
    assert {english_name(code) for code in ("nl", "nld", "dut", "nl-BE", "NLD_Latn")} == {"Dutch"}
    assert english_name("tlh") is None


# Intl.PluralRules of Node 20 has these numbers for "one": 0 and 1; 1 and 21; 1 and 101; 1 alone.
@pytest.mark.parametrize("code", ["fr", "pt-BR", "hi", "fas", "ru", "uk_UA", "hrv", "lv", "is", "sl"])
def test_languages_have_the_form_for_one_for_other_numbers_too(code: str) -> None:
    assert has_one_shared(code)


@pytest.mark.parametrize("code", ["en", "de", "es", "it", "nl", "pl", "cs", "ar", "he", "ga", "ja", None])
def test_languages_have_the_form_for_one_alone(code: str | None) -> None:
    assert not has_one_shared(code)
