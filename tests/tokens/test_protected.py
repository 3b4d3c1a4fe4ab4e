"""What a translation must keep: text of patterns, and characters that the model does not see."""

import pytest

from mtkit.config.tags import TOKENS
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.tokens.protected import Protector
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer

KNOWN = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ.,!'"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    cfg = TokenizerConfig.model_validate({"type": "char", "vocab_size": 400})
    return train_tokenizer([" ".join(KNOWN), KNOWN], cfg, tmp_path_factory.mktemp("some") / "any.spm")


@pytest.mark.parametrize(
    ("text", "values", "has_unknown"),
    [
        ("The cat sleeps.", [], False),
        ("See www.example.org, please.", ["www.example.org"], False),
        ("Write to julie.b@mail.example.", ["julie.b@mail.example"], True),  # the model knows no @
        ("✅ The door", ["✅"], True),
        ("he said ❤️❤️!", ["❤️❤️"], True),
        ("@julie likes #cats :blobcat: today", ["@julie", "#cats", ":blobcat:"], True),
        ("It is 12:30, not 12.", ["12:30", "12"], True),  # a number is kept whole
        ("a word 日本 and α", ["日本", "α"], True),
        ("Łódź is naïve", [], False),  # the letters around them tell a model more than nothing
        ("it’s well-known", [], False),
        ("the door → house", ["→"], True),
        ("#1 and a:b: c", ["#1", ":"], True),
    ],
)
def test_what_the_model_cannot_know_is_protected(tokenizer, text, values, has_unknown):
    protector = Protector(tokenizer, src_lang="en")
    assert protector.values(text) == values
    assert bool(protector.find(text).unknown) == has_unknown


def test_a_speaker_is_protected_with_an_unknown_colon_but_a_word_is_not(tokenizer, tmp_path):
    assert Protector(tokenizer, src_lang="en").values("Marie: the cat") == ["Marie:"]
    assert Protector(tokenizer, src_lang="en").values("- OLD MAN: the cat") == ["-", "OLD MAN:"]
    assert Protector(tokenizer, src_lang="en").values("The cat: it sleeps") == [":"]
    cfg = TokenizerConfig.model_validate({"type": "bpe", "vocab_size": 300})
    words = train_tokenizer(["the note is old", "the cat"] * 9, cfg, tmp_path / "words.spm")
    assert "Note:" not in Protector(words, src_lang="en").values("Note: the cat")


def test_a_character_that_the_tokenizer_knows_is_for_the_model(tmp_path):
    cfg = TokenizerConfig.model_validate({"type": "char", "vocab_size": 400})
    knows = train_tokenizer([" ".join(KNOWN + "✅→12"), KNOWN], cfg, tmp_path / "knows.spm")
    assert Protector(knows, src_lang="en").values("✅ The door → 12") == []
    assert Protector(knows, src_lang="en").values("open 12–21, Mon–Fri") == ["12–21"]  # a range with an unknown dash


def test_raised_signs_are_protected_from_a_normalisation_that_would_lower_them(tmp_path):
    cfg = TokenizerConfig.model_validate({"type": "char", "vocab_size": 400, "normalization": "nfkc"})
    lowers = train_tokenizer([" ".join(KNOWN + "²₂™" + "12"), KNOWN], cfg, tmp_path / "lowers.spm")
    assert lowers.normalize("m²") == "m2"
    assert Protector(lowers, src_lang="en").values("12 m² of CO₂, any™ ﬁsh at 21\u00a0m") == ["²", "₂", "™"]


def test_foreign_letters_are_protected_only_where_the_language_is_known(tokenizer):
    assert Protector(tokenizer).values("a word 日本") == []


def test_what_a_model_has_tokens_for_is_not_protected(tmp_path):
    cfg = TokenizerConfig.model_validate({"type": "char", "vocab_size": 400})
    trained = train_tokenizer([" ".join(KNOWN), KNOWN], cfg, tmp_path / "ph.spm", TOKENS)
    own = trained.with_placeholders([r"www\.\S+"])
    assert Protector(own, src_lang="en").values("See www.example.org or ✅") == ["✅"]


def test_a_part_of_a_text_has_what_is_protected_in_it(tokenizer):
    text = "See www.example.org. It is 日本 now, www.example.org"
    protected = Protector(tokenizer, src_lang="en").find(text)
    for start, end in ((0, 20), (21, len(text)), (21, 30), (8, 10), (20, 27)):
        part = protected.within(start, end)
        parts = [text[start:end][slice(*span)] for span in part.spans]
        inside = [(max(first, start), min(last, end)) for first, last in protected.spans]
        assert parts == [text[first:last] for first, last in inside if first < last]
        assert [text[start:end][slice(*span)] for span in part.unknown] == [one for one in parts if "日" in one]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("The key is " + "aBcd" * 25 + " today.", ["aBcd" * 25]),
        ("The key is " + "aBcd" * 24 + "aBc today.", []),
        ("猫" * 150, ["猫" * 150]),  # the model does not know it, but it is text
        ("www." + "a" * 99 + ".org/{x}", ["www." + "a" * 99 + ".org/{x}"]),
    ],
)
def test_a_hundred_characters_without_a_space_are_not_a_word(tokenizer, text, values):
    assert Protector(tokenizer, src_lang="en").values(text) == values


def test_the_backslash_of_a_written_line_break_is_not_protected(tokenizer):
    protector = Protector(tokenizer)
    assert protector.values("The cat sleeps.\\nIt snores.") == []
    assert protector.values("A \\ mark and C:\\new\\red.") == ["\\", "C:\\new\\red"]
