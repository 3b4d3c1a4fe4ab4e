import itertools
import logging
import re
import unicodedata
from typing import get_args

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.config.tokenizer import Normalization, TokenizerConfig
from mtkit.errors import ConfigError, DataError
from mtkit.text.characters import without_invisible
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mtkit.tokens.tokenizer import Tokenizer, load_tokenizers, sample, train_tokenizer
from mtkit.training.preparation.tokenizer_report import report

TYPES = ["unigram", "bpe", "char"]
NORMALIZATIONS = get_args(Normalization)

# Likely trouble: SentencePiece's marks, spaces of all kinds, controls, emoji, compositions.
TRICKY = ["\u2581", "\u2585", "<s>", "</s>", "<pad>", "<unk>", "<0x41>", " \u2047 ", "the cat"]
TRICKY += ["  ", "\0", "\t", "\r", "\x1c", "\x85", "\xa0", "\u200b", "\u2028", "\u3000", "\ufeff", "\ufffd"]
TRICKY += ["e\u0301", "\xa8", "\ufb01", "\ufdfa", "\u1112\u1161", "\U0001f469\u200d\U0001f467", "\U0001f3f3\ufe0f"]
ANY_CHARACTER = st.characters(exclude_categories=["Cs"])
TEXTS = st.lists(st.sampled_from(TRICKY) | ANY_CHARACTER | st.text(ANY_CHARACTER)).map("".join)


@pytest.fixture(scope="module")
def any_tokenizer(make_lines, tmp_path_factory):
    """any_tokenizer(type, normalization): a small tokenizer of that kind."""
    made: dict[tuple[str, str], Tokenizer] = {}
    folder = tmp_path_factory.mktemp("kinds")

    def make(kind: str, normalization: str) -> Tokenizer:
        if (kind, normalization) not in made:
            cfg = TokenizerConfig(type=kind, vocab_size=300, normalization=normalization)
            path = folder / f"{kind}-{normalization}.spm"
            made[kind, normalization] = train_tokenizer([*make_lines("tgt", 200), "été 10 000"], cfg, path)
        return made[kind, normalization]

    return make


@given(text=TEXTS)
@settings(max_examples=12)  # of each of 15 kinds
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("kind", TYPES)
def test_encode_then_decode_is_the_normalised_text_for_any_text(any_tokenizer, kind, normalization, text):
    tokenizer = any_tokenizer(kind, normalization)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == tokenizer.normalize(text)
    assert not {PAD_ID, UNK_ID, BOS_ID, EOS_ID} & set(ids)
    assert all(0 <= token_id < tokenizer.vocab_size for token_id in ids)


@given(text=TEXTS)
def test_identity_keeps_every_character_but_the_space_mark(any_tokenizer, text):
    assert any_tokenizer("unigram", "identity").normalize(text) == text.replace("▁", " ")


@pytest.mark.parametrize(
    ("normalization", "text", "normalized"),
    [
        ("nfkc", "  \ufb01ve \u3000 \uff21\uff12  ", unicodedata.normalize("NFKC", "\ufb01ve \uff21\uff12")),
        ("nfkc", "e\u0301te\u0301", "été"),
        ("nfkc_cf", "ÉTÉ \uff22", "été b"),
        ("nmt_nfkc", "tab\there\x07 and\u200bzero", "tab here and zero"),
        ("nmt_nfkc", "Vraiment\u202f? Non\xa0!", "Vraiment ? Non !"),
        (
            "nfc",
            "  \uff0c\uff1f\uff01 1\xbd m\xb2 \ufb01 \u2026 \uff12  ",
            "\uff0c\uff1f\uff01 1\xbd m\xb2 \ufb01 \u2026 \uff12",
        ),
        ("nfc", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"),
        ("nfc", "Vraiment\u202f? Non\xa0!\u3000Si\tou\u2028i", "Vraiment ? Non ! Si ou i"),
        ("nfc", "e\u0323\u0302 e\u0302\u0323 \xea\u0323 \u1112\u1161\u11ab \u212b", "\u1ec7 \u1ec7 \u1ec7 \ud55c \xc5"),
        ("nfc", "so\xadft zero\u200bwidth wo\u2060rd \ufeffmark", "soft zerowidth word mark"),
        (
            "nfc_forms",
            "\uff21\uff12\uff0c \ufb01nd \uff76\uff9e \ufe8d m\xb2 \xbd \u2460",
            "A2, find \u30ac \u0627 m\xb2 \xbd \u2460",
        ),
        ("identity", "  Vraiment\u202f?  ", "  Vraiment\u202f?  "),
    ],
)
def test_text_is_normalised_by_the_rule(any_tokenizer, normalization, text, normalized):
    assert any_tokenizer("bpe", normalization).normalize(text) == normalized


@given(text=TEXTS)
@pytest.mark.parametrize("kind", TYPES)
def test_the_default_keeps_every_character_that_shows_something(any_tokenizer, kind, text):
    tokenizer = any_tokenizer(kind, TokenizerConfig().normalization)
    visible = re.sub(r"[\s\u2581]+", " ", without_invisible(text.replace("\0", ""))).strip(" ")
    decoded = tokenizer.decode(tokenizer.encode(text.replace("\0", "")))
    assert unicodedata.normalize("NFC", decoded) == unicodedata.normalize("NFC", visible)


def test_an_older_rule_drops_the_invisible_characters_that_its_model_cannot_know(any_tokenizer, make_lines, tmp_path):
    tokenizer = any_tokenizer("bpe", "nmt_nfkc")
    assert (
        tokenizer.encode("the\ufeff c\xada\u2060t")
        == tokenizer.encode("the c\u2060at\xad")
        == tokenizer.encode("the cat")
    )
    assert tokenizer.spans("th\xade \u2060cat")[-1][1] == len("th\xade \u2060cat")
    text = "the c\xadat sleeps"
    words = "".join(text[start:end] for start, end in tokenizer.spans(text))
    assert words.replace("\xad", "") == "the cat sleeps"
    lines = [line.replace("a", "\xada") for line in make_lines("tgt", 200)]
    knowing = train_tokenizer(lines, TokenizerConfig(type="char", normalization="nmt_nfkc"), tmp_path / "x.spm")
    assert knowing.normalize("c\xadat") == "c\xadat"


@pytest.mark.parametrize("n_lines", [50, 200])  # without and with SentencePiece's threads
def test_a_batch_is_encoded_like_its_lines(tokenizers, make_lines, n_lines):
    lines = [*make_lines("src", n_lines, seed=1), "", "  ", "▁", "unseen ☃"]
    assert tokenizers[0].encode_batch(lines) == [tokenizers[0].encode(line) for line in lines]
    assert tokenizers[0].encode_batch(["", "  ", "▁"]) == [[], [], []]


def test_decoding_skips_special_ids_and_replaces_invalid_utf8(tokenizers):
    tokenizer = tokenizers[0]
    ids = tokenizer.encode("the cat")
    assert tokenizer.decode([BOS_ID, *ids, EOS_ID, PAD_ID]) == "the cat"
    assert tokenizer.decode([]) == ""
    assert tokenizer.decode(tokenizer.piece_ids(["<0xE2>", "<0x98>"])) == "\ufffd\ufffd"


def test_pieces_are_readable_and_lead_back_to_their_ids(tokenizers):
    ids = tokenizers[0].encode("The cat ☃")
    pieces = tokenizers[0].pieces(ids)
    assert "".join(pieces[:-3]) == "▁The▁cat▁"
    assert pieces[-3:] == ["<0xE2>", "<0x98>", "<0x83>"]
    assert tokenizers[0].piece_ids(pieces) == ids
    with pytest.raises(DataError, match=r"'☃' is not a piece of .*src\.spm"):
        tokenizers[0].piece_ids(["▁", "☃"])


def test_half_a_surrogate_pair_is_a_value_error(tokenizers):
    for call in (tokenizers[0].encode, tokenizers[0].normalize):
        with pytest.raises(ValueError, match="surrogates not allowed"):
            call("\ud83d")


def test_without_byte_fallback_a_character_without_a_piece_is_unknown(make_lines, tmp_path):
    cfg = TokenizerConfig(type="char", byte_fallback=False)
    tokenizer = train_tokenizer(make_lines("src", 50), cfg, tmp_path / "src.spm")
    assert UNK_ID in tokenizer.encode("the ☃")
    assert tokenizer.byte_ids() == []


@pytest.mark.parametrize("kind", TYPES)
def test_a_vocabulary_too_large_for_the_text_is_lowered_with_a_message(make_lines, tmp_path, log_text, kind):
    path = tmp_path / "src.spm"
    tokenizer = train_tokenizer(make_lines("src", 200), TokenizerConfig(type=kind, vocab_size=30_000), path)
    assert 264 < tokenizer.vocab_size < 2000
    message = log_text()
    assert all(fact in message for fact in (f"{path}: ", "30,000", f"{tokenizer.vocab_size:,}", kind))
    assert tokenizer.decode(tokenizer.encode("The cat.")) == "The cat."


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_vocabulary_that_the_text_supports_has_the_wanted_size(make_lines, tmp_path, log_text, kind):
    cfg = TokenizerConfig(type=kind, vocab_size=300)
    assert train_tokenizer(make_lines("src", 500), cfg, tmp_path / "src.spm").vocab_size == 300
    assert "lowered" not in log_text()


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_vocabulary_too_small_for_the_characters_is_an_error_with_the_size_needed(tmp_path, kind):
    lines = ["".join(map(chr, range(0x4E00, 0x4E00 + 100)))] * 20
    cfg = TokenizerConfig(type=kind, vocab_size=300, character_coverage=1.0)
    # 4 special, 256 bytes, 100 characters, the space
    with pytest.raises(ConfigError, match=r"vocab_size=300 .*361.*character_coverage=1"):
        train_tokenizer(lines, cfg, tmp_path / "src.spm")
    train_tokenizer(lines, cfg.model_copy(update={"vocab_size": 361}), tmp_path / "src.spm")


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("lines", [[], [""], ["", "  ", "\u200b", "▁"]])
def test_no_text_is_an_error_and_leaves_no_file(tmp_path, capfd, kind, lines):
    with pytest.raises(DataError, match=r"src\.spm: no text"):
        train_tokenizer(lines, TokenizerConfig(type=kind), tmp_path / "src.spm")
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("kind", TYPES)
def test_training_is_repeatable_and_quiet(make_lines, tmp_path, capfd, monkeypatch, kind):
    monkeypatch.setattr(logging.getLogger("mtkit"), "handlers", [logging.NullHandler()])  # SentencePiece has its own
    cfg = TokenizerConfig(type=kind, vocab_size=310)
    for name in ("a.spm", "b.spm"):
        train_tokenizer(iter(make_lines("src", 300)), cfg, tmp_path / name)
    assert (tmp_path / "a.spm").read_bytes() == (tmp_path / "b.spm").read_bytes()
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize("odd_line", ["zzz\0zzz", "zzz\tzzz", "zzz▁zzz", "zzz▅zzz", "zzz " * 5000])
def test_no_line_is_too_odd_or_too_long_to_train_on(tmp_path, odd_line):
    """By default SentencePiece's trainer skips such lines silently."""
    cfg = TokenizerConfig(type="char", character_coverage=1.0)
    tokenizer = train_tokenizer(["aaa bbb", odd_line], cfg, tmp_path / "src.spm")
    assert "z" in tokenizer.pieces(range(tokenizer.vocab_size))


@pytest.mark.parametrize(("n_lines", "n_wanted"), [(10, 10), (10, 20), (10, 1), (10, 3), (1000, 7), (7, 6), (0, 5)])
def test_a_sample_has_the_wanted_size_and_is_evenly_spread(n_lines, n_wanted):
    taken = [int(line) for line in sample(map(str, range(n_lines)), n_lines, n_wanted)]
    assert len(taken) == min(n_lines, n_wanted)
    assert taken == sorted(set(taken))
    gaps = {after - before for before, after in itertools.pairwise(taken)}
    assert not gaps or max(gaps) - min(gaps) <= 1
    step = n_lines / max(1, len(taken))
    assert not taken or (taken[0] < step and taken[-1] >= n_lines - step)


def test_missing_and_wrong_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"src\.spm: cannot be read \(No such file"):
        load_tokenizers(tmp_path)
    path = tmp_path / "src.spm"
    path.write_text("not a model")
    with pytest.raises(DataError, match=r"src\.spm: not a SentencePiece model"):
        Tokenizer.load(path)


def test_a_model_with_other_special_ids_is_refused(make_lines, tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(make_lines("src", 50)),
        model_prefix=str(tmp_path / "foreign"),
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )  # SentencePiece's defaults: no pad, unk 0, bos 1, eos 2
    with pytest.raises(DataError, match=r"foreign\.model: .* ids are \(-1, 0, 1, 2\)"):
        Tokenizer.load(tmp_path / "foreign.model")


def test_a_model_without_dummy_prefix_decodes_what_it_encoded(make_lines, tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(make_lines("src", 50)),
        model_prefix=str(tmp_path / "foreign"),
        vocab_size=300,
        hard_vocab_limit=False,
        minloglevel=2,
        byte_fallback=True,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
    )
    tokenizer = Tokenizer.load(tmp_path / "foreign.model")
    for text in (" the cat", "the cat", "  "):
        assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalize(text) == text


def test_the_report_equals_a_count_by_hand(tmp_path):
    training_lines = ["aab"] * 60 + ["a"] * 40
    cfg = TokenizerConfig(type="char", character_coverage=1.0)
    tokenizer = train_tokenizer(training_lines, cfg, tmp_path / "src.spm")
    # Tokens: ▁ab▁ba | none | ▁é as ▁ and two bytes. In training: ▁ 100 times, a 160, b 60.
    counted = report(tokenizer, ["ab ba", "", "é"], training_lines)
    assert counted.vocab_size == 4 + 256 + 3
    assert (counted.n_sentences, counted.n_tokens, counted.longest, counted.n_unknown) == (2, 9, 6, 0)
    assert counted.tokens_per_word == 9 / 3
    assert counted.rare_vocab_share == 1 / 3
    assert counted.rare_token_share == 2 / 9
    assert counted.byte_token_share == 2 / 9
    assert report(tokenizer, [], []).longest == 0
    # an even half of the text: scaled to the whole
    assert report(tokenizer, ["ab ba", "", "é"], training_lines[::2], share=0.5) == counted
