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
    assert protector.find(text).has_unknown == has_unknown


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


def test_foreign_letters_are_protected_only_where_the_language_is_known(tokenizer):
    assert Protector(tokenizer).values("a word 日本") == []


def test_what_a_model_has_tokens_for_is_not_protected(tmp_path):
    cfg = TokenizerConfig.model_validate({"type": "char", "vocab_size": 400})
    trained = train_tokenizer([" ".join(KNOWN), KNOWN], cfg, tmp_path / "ph.spm", TOKENS)
    own = trained.with_placeholders([r"www\.\S+"])
    assert Protector(own, src_lang="en").values("See www.example.org or ✅") == ["✅"]
