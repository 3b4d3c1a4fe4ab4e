"""Characters that a model does not see as written."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config.tokenizer import TokenizerConfig
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer
from mtkit.tokens.unseen_characters import UnknownCharacters, table

TEXT = ["I love oranges.", "The cat sleeps under the table.", "Do you see the big house? Café, it rains 12 days!"]
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
FLAG = "\U0001f1eb\U0001f1f7"


@pytest.fixture(scope="session")
def make_tokenizer(tmp_path_factory):
    def make(**settings: object) -> Tokenizer:
        path = tmp_path_factory.mktemp("unknown") / "any.spm"
        return train_tokenizer(TEXT, TokenizerConfig(vocab_size=300, character_coverage=1.0, **settings), path)

    return make


@pytest.fixture(scope="session")
def tokenizer(make_tokenizer) -> Tokenizer:
    return make_tokenizer(normalization="nmt_nfkc")


def unknown_characters(lines, tokenizer):
    collector = UnknownCharacters(tokenizer)
    for line in lines:
        collector.add(line)
    return collector.all()


CASES = [  # the character, its treatment, what the model sees
    ("☕", "bytes", "<0xE2> <0x98> <0x95>"),
    ("\x00", "bytes", "<0x00>"),
    ("\ue000", "bytes", "<0xEE> <0x80> <0x80>"),
    (FLAG, "bytes", "<0xF0> <0x9F> <0x87> <0xAB> <0xF0> <0x9F> <0x87> <0xB7>"),
    ("x\u0301", "bytes", "<0x78> <0xCC> <0x81>"),
    ("\u00a0", "changed", " "),
    ("\t", "changed", " "),
    ("\u200b", "changed", " "),
    ("\u2581", "changed", " "),
    ("e\u0301", "changed", "é"),
    ("…", "changed", "..."),
    ("\uff11", "changed", "1"),
    ("\x1b", "dropped", ""),
]


@pytest.mark.parametrize(("character", "treatment", "seen"), CASES)
def test_a_character_is_reported_with_what_the_model_sees(tokenizer, character, treatment, seen):
    [unknown] = unknown_characters(["The cat.", f"The {character}at, {character}"], tokenizer)
    assert (unknown.text, unknown.treatment, unknown.seen) == (character, treatment, seen)
    assert (unknown.count, unknown.first_line) == (2, 2)


@pytest.mark.parametrize("rule", ["nfc", "nfc_forms"])
def test_invisible_characters_that_a_rule_drops_are_counted(make_tokenizer, rule):
    unknown = unknown_characters(
        ["The\ufeff c\xadat sl\u2060eeps u\u200bnder t\xadhe"], make_tokenizer(normalization=rule)
    )
    assert {c.text: c.count for c in unknown} == {"\ufeff": 1, "\xad": 2, "\u2060": 1, "\u200b": 1}
    assert {(c.treatment, c.seen) for c in unknown} == {("dropped", "")}


def test_known_characters_are_not_reported(tokenizer):
    assert unknown_characters([*TEXT, "", "  The   cat  "], tokenizer) == []


def test_without_byte_fallback_a_character_is_unknown(make_tokenizer):
    [unknown] = unknown_characters(["a ☕"], make_tokenizer(byte_fallback=False))
    assert (unknown.treatment, unknown.seen) == ("unknown", "<unk>")


def test_case_folding_is_a_change_and_identity_changes_nothing(make_tokenizer):
    folded = unknown_characters(["The cat"], make_tokenizer(normalization="nmt_nfkc_cf"))
    assert [(c.text, c.seen) for c in folded] == [("T", "t")]
    kept = unknown_characters(["a\u00a0b…"], make_tokenizer(normalization="identity"))
    assert {c.treatment for c in kept} == {"bytes"}


def test_a_known_letter_and_a_known_accent_are_reported_if_together_they_change(tmp_path):
    settings = TokenizerConfig(vocab_size=300, character_coverage=1.0)
    tokenizer = train_tokenizer([*TEXT, "x\u0301 x\u0301"], settings, tmp_path / "any.spm")
    unknown = unknown_characters(["e", "\u0301", "e\u0301"], tokenizer)
    assert [(c.text, c.seen, c.first_line) for c in unknown] == [("e\u0301", "é", 3)]


def test_the_worst_treated_come_first_then_the_most_frequent(tokenizer):
    unknown = unknown_characters(["\x1b… ☕ € € …"], tokenizer)
    assert [c.text for c in unknown] == ["€", "☕", "\x1b", "…"]


def test_a_character_without_a_unicode_name_is_named_by_its_category(tokenizer):
    unknown = {c.text: c for c in unknown_characters([f"{FAMILY} \ue000 \x07 \u0378 e\u0301"], tokenizer)}
    assert unknown["e\u0301"].code_points == "U+0065 U+0301"
    assert unknown["e\u0301"].name == "LATIN SMALL LETTER E + COMBINING ACUTE ACCENT"
    assert unknown[FAMILY].name.startswith("MAN + ZERO WIDTH JOINER + WOMAN")
    names = {text: unknown[text].name for text in ("\ue000", "\x07", "\u0378") if text in unknown}
    assert names == {"\ue000": "private use", "\x07": "control character", "\u0378": "not assigned"}


@given(st.text(alphabet=st.one_of(st.sampled_from("".join(TEXT)), st.sampled_from("\u00a0☕\u0301…é\t①"))))
def test_a_text_is_clean_exactly_if_it_needs_no_bytes_and_is_not_changed(tokenizer, text):
    clean = tokenizer.normalize(text) == re.sub(" +", " ", text).strip(" ")
    clean = clean and not set(tokenizer.encode(text)) & set(tokenizer.byte_ids())
    assert (unknown_characters([text], tokenizer) == []) == clean


@given(st.lists(st.text(alphabet="ab☕€ ", max_size=8), max_size=6))
def test_counts_and_first_lines_are_those_of_the_lines(tokenizer, lines):
    collector = UnknownCharacters(tokenizer)
    for line in lines:
        collector.add(line)
    assert collector.n_lines == len(lines)
    counted = {c.text: (c.count, c.first_line) for c in collector.all()}
    expected = {
        c: ("".join(lines).count(c), next(number for number, line in enumerate(lines, start=1) if c in line))
        for c in "☕€"
        if c in "".join(lines)
    }
    assert counted == expected


def test_a_line_may_be_given_its_number(tokenizer):
    collector = UnknownCharacters(tokenizer)
    collector.add("№", 9)
    collector.add("\N{TANGERINE}")
    assert [c.first_line for c in collector.all()] == [9, 10]


def test_the_table_escapes_control_characters_and_counts_the_rows_left_out(tokenizer):
    lines = [f"\x1b[31m \u202e {FAMILY} x\u0301 \u00a0 " + "".join(map(chr, range(0x4E00, 0x4E40)))]
    shown = list(table(unknown_characters(lines, tokenizer), at_most=70))
    assert len(shown) == 72
    assert not any(unicodedata.category(c) in ("Cc", "Co") or c == "\u202e" for c in "".join(shown))
    text = "\n".join(shown)
    assert "18 bytes" in text and "MAN + ZERO WIDTH JOINER + WOMAN, and 2 more" in text
    everything = list(table(unknown_characters(lines, tokenizer), at_most=1000))
    assert f"{len(everything) - 1 - 70} further characters" in shown[-1]
    assert any("\\x1b" in line and "nothing" in line for line in everything)
    assert any("\\xa0" in line and "a space" in line for line in everything)


def test_an_empty_table_is_a_single_sentence():
    assert len(list(table([]))) == 1
