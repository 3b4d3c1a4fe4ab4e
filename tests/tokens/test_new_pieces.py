"""New pieces for a tokenizer: what is learned from text, and how the larger model cuts text."""

from pathlib import Path

import pytest

from mtkit.config.tokenizer import TokenizerConfig
from mtkit.errors import DataError
from mtkit.tokens.new_pieces import can_have_more, learn_pieces, with_new_pieces
from mtkit.tokens.special_ids import UNK_ID
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer

OLD = ["the cat sees the dog", "a dog and a cat sleep in the sun", "kites turn below the stormy sky"] * 3
NEW = ["the kubernetes \N{SNOWMAN} cluster"] * 6


@pytest.fixture(params=["unigram", "bpe"])
def tokenizer(request, tmp_path):
    cfg = TokenizerConfig(type=request.param, vocab_size=300)
    return train_tokenizer(OLD, cfg, tmp_path / "old.spm")


def larger(tokenizer, texts, most=100):
    pieces = learn_pieces(tokenizer, texts, most)
    texts = [piece.text for piece in pieces]
    return pieces, Tokenizer(with_new_pieces(tokenizer.serialized(), texts, pieces), Path("new.spm"))


def test_frequent_words_and_characters_become_pieces(tokenizer):
    pieces, new = larger(tokenizer, NEW)
    assert new.pieces(new.encode(NEW[0])) == ["\u2581the", "\u2581kubernetes", "\u2581", "\N{SNOWMAN}", "\u2581cluster"]
    assert pieces[0].text == "\N{SNOWMAN}"
    assert tokenizer.pieces(pieces[0].old_ids) == ["<0xE2>", "<0x98>", "<0x83>"]
    word = next(piece for piece in pieces if piece.text == "\u2581kubernetes")
    assert list(word.old_ids) == tokenizer.encode("kubernetes")
    assert new.decode(new.encode(NEW[0])) == NEW[0]


def test_text_without_a_new_piece_is_cut_as_before(tokenizer):
    pieces, new = larger(tokenizer, NEW)
    spaced = {line: "\u2581" + line.replace(" ", "\u2581") for line in [*OLD, "a dog", "\u00e9 on", "<0x41>"]}
    old = [line for line, text in spaced.items() if not any(one.text in text for one in pieces)]
    assert len(old) >= 3
    assert new.encode_batch(old) == tokenizer.encode_batch(old)


def test_the_most_frequent_neighbours_are_merged_first(tmp_path):
    letters = train_tokenizer([" ".join("lowernstwid")] * 20, TokenizerConfig(vocab_size=290), tmp_path / "letters.spm")
    # the example of Sennrich et al. 2016: "es" and "est" come 9 times, then "lo" and "low" 7 times
    text = ["xlow"] * 5 + ["xlower"] * 2 + ["xnewest"] * 6 + ["xwidest"] * 3
    texts = [piece.text for piece in learn_pieces(letters, text, 100)]
    assert [text for text in texts if text in ("es", "est", "lo", "low")] == ["es", "est", "lo", "low"]


def test_rare_words_are_left_alone_and_only_letters_are_joined(tokenizer):
    assert learn_pieces(tokenizer, ["zebra"] * 4, 100) == []
    assert len(learn_pieces(tokenizer, NEW, 3)) == 3
    texts = [piece.text for piece in learn_pieces(tokenizer, ["<%1-2>zebra"] * 9, 100)]
    assert "zebra" in texts
    assert not [text for text in texts if len(text) > 1 and set(text) & set("<>%-12")]


def test_characters_without_bytes_become_pieces(tmp_path):
    old = train_tokenizer(OLD, TokenizerConfig(vocab_size=264, byte_fallback=False), tmp_path / "old.spm")
    assert UNK_ID in old.encode(NEW[0])
    _, new = larger(old, NEW)
    assert UNK_ID not in new.encode(NEW[0])
    assert new.decode(new.encode(NEW[0])) == NEW[0]


def test_a_tokenizer_of_characters_cannot_have_more(tokenizer, tmp_path):
    characters = train_tokenizer(OLD, TokenizerConfig(type="char", vocab_size=300), tmp_path / "characters.spm")
    with pytest.raises(DataError, match=r"of type char .*unigram or bpe"):
        learn_pieces(characters, NEW, 10)
    assert can_have_more(tokenizer) and not can_have_more(characters)
