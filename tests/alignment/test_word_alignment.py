"""Word alignment: by hand, against torch's attention, and with a model whose attention sees only positions."""

import pytest
import torch
from tiny_models import tiny_transformer
from torch import Tensor

from mtkit.alignment.attention import align, attention_weights, interval_weights, piece_words, token_words, word_links
from mtkit.alignment.forced import ForcedPair
from mtkit.bundle import load_bundle
from mtkit.model.transformer import Transformer, alignment_layer

SENTENCES = ["I love oranges.", "The cat sleeps under the table.", "It rains, it rains."]


@pytest.fixture(scope="module")
def loaded(shared_bundle):
    return load_bundle(shared_bundle)


@pytest.fixture(scope="module")
def same_place(loaded):
    """Return a model in which each target token looks at the source token of the same position."""
    cfg = loaded.config.model.model_copy(update={"n_heads": 1, "n_decoder_layers": 3})
    model = Transformer(cfg, loaded.src_tokenizer.vocab_size, loaded.tgt_tokenizer.vocab_size).eval()
    with torch.no_grad():
        model.src_embedding.weight.zero_()
        model.tgt_embedding.weight.zero_()
        for layer in [*model.encoder_layers, *model.decoder_layers]:
            layer.get_parameter("self_attention.out_proj.weight").zero_()
            layer.get_parameter("feed_forward.out_proj.weight").zero_()
        for layer in model.decoder_layers:
            layer.cross_attention.q_proj.weight.copy_(10 * torch.eye(cfg.d_model))
            layer.cross_attention.kv_proj.weight[: cfg.d_model] = 10 * torch.eye(cfg.d_model)
            layer.cross_attention.out_proj.weight.zero_()
    return model


def test_a_word_is_linked_to_the_word_with_most_attention():
    attention = torch.tensor(
        [
            [0.3, 0.3, 0.4, 0.0],  # word 0 of the source has 0.6 in two tokens
            [0.1, 0.1, 0.7, 0.1],
            [0.5, 0.0, 0.2, 0.3],  # these two are one word, which likes word 0 best on average
            [0.3, 0.1, 0.5, 0.1],
            [0.2, 0.1, 0.3, 0.4],  # most for the end of the sentence: no link
        ]
    )
    links = word_links(attention, src_words=[0, 0, 1], tgt_words=[0, 1, 2, 2, 3])
    assert links == {(0, 0), (1, 1), (0, 2)}


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["▁I", "▁lo", "ve", "▁", "orange", "s", "."], [0, 1, 1, 2, 2, 2, 2]),
        (["I", "▁love"], [0, 1]),
        (["▁a▁b", "▁c"], [0, 2]),
        (["▁a", "▁", "▁"], [0, 0, 0]),
        (["▁", "<0xE2>", "<0x82>", "<0xAC>", "5", "▁<", "0x20>"], [0, 0, 0, 0, 0, 1, 1]),
        (["▁a", "<0x20>", "b", "<0xC2>", "<0xA0>", "c"], [0, 1, 1, 2, 2, 2]),  # U+00A0 is a space, too
        (["▁", "<0xE2>", "<0x28>"], [0, 0, 0]),  # no UTF-8
        (["▁"], [0]),
        ([], []),
    ],
)
def test_each_piece_gets_the_index_of_its_word(pieces, words):
    assert piece_words(pieces) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the cat", ["the", "cat"]),
        ("the\u00a0cat", ["the", "cat"]),
        ("the \u200b cat", ["the", "cat"]),  # a word of nothing visible: it has no tokens
        ("rain\u00b4s the cat", ["rain\u00b4s", "the", "cat"]),  # NFKC puts a space before the accent
    ],
)
def test_words_are_those_of_the_text_before_normalisation(loaded, text, words):
    tokenizer = loaded.src_tokenizer
    ids = tokenizer.encode(text)
    owners = token_words(text, tokenizer)
    assert len(owners) == len(ids)
    for word in words:
        index = text.split().index(word)
        word_ids = [token_id for token_id, owner in zip(ids, owners, strict=True) if owner == index]
        assert tokenizer.decode(word_ids) == tokenizer.normalize(word)
    assert set(owners) == {text.split().index(word) for word in words}


def test_weights_are_those_of_torchs_attention(loaded):
    model, layer = loaded.model, loaded.model.decoder_layers[0].cross_attention
    d_model = loaded.config.model.d_model
    torchs = torch.nn.MultiheadAttention(d_model, layer.n_heads, batch_first=True).eval()
    torchs.in_proj_weight.data = torch.cat([layer.q_proj.weight, layer.kv_proj.weight])
    torchs.in_proj_bias.data = torch.cat([layer.q_proj.bias, layer.kv_proj.bias])
    pairs = [ForcedPair([5, 6, 7, 8], [9, 10]), ForcedPair([11], [12, 13, 14])]
    for pair, weights in zip(pairs, attention_weights(model, pairs), strict=True):
        queries: list[Tensor] = []
        handle = layer.register_forward_pre_hook(lambda _, inputs, queries=queries: queries.append(inputs[0]))
        with torch.no_grad():
            src = torch.tensor([[*pair.src, 3]])
            model(src, torch.tensor([[2, *pair.tgt]]))
            memory, _ = model.encode(src)
            expected = torchs(queries[0], memory, memory, need_weights=True)[1][0]
        handle.remove()
        assert weights.shape == (len(pair.tgt), len(pair.src) + 1)
        torch.testing.assert_close(weights, expected[: len(pair.tgt)])


@pytest.mark.parametrize(("n_layers", "layer"), [(1, 0), (2, 1), (3, 1), (6, 4)])
def test_the_layer_that_shows_alignment_best(n_layers, layer):
    assert alignment_layer(n_layers) == layer


def test_weights_come_from_the_last_layer_but_one_and_its_first_head_if_guided(monkeypatch):
    model = tiny_transformer(90, n_decoder_layers=3)
    heads = [torch.rand(1, 2, 2, 2).softmax(-1) for _ in model.decoder_layers]
    for layer, weights in zip(model.decoder_layers, heads, strict=True):
        monkeypatch.setattr(layer.cross_attention, "weights", lambda x, keys, bias, weights=weights: weights)
    pairs = [ForcedPair([5], [6])]

    def found(**options) -> Tensor:
        return attention_weights(model, pairs, **options)[0]

    torch.testing.assert_close(found(), heads[1].mean(1)[0, :1])
    torch.testing.assert_close(found(layer=2), heads[2].mean(1)[0, :1])
    monkeypatch.setattr(model, "is_guided", True)
    torch.testing.assert_close(found(), heads[1][0, 0, :1])
    torch.testing.assert_close(found(layer=2), heads[2].mean(1)[0, :1])


def test_a_copy_is_aligned_word_by_word(loaded, same_place):
    tokenizers = loaded.src_tokenizer, loaded.tgt_tokenizer
    assert align(same_place, *tokenizers, [(text, text) for text in SENTENCES]) == [
        " ".join(f"{index}-{index}" for index in range(len(text.split()))) for text in SENTENCES
    ]


@pytest.mark.parametrize(
    ("src", "tgt", "expected"),
    [
        ("a bcd", "a b c", "0-0 1-1 1-2"),  # the tokens of b and c stand where those of bcd do
        ("a bc", "a bc d", "0-0 1-1"),  # and those of d where the source has ended
    ],
)
def test_links_go_from_source_to_target_and_never_to_the_end(loaded, same_place, src, tgt, expected):
    tokenizers = loaded.src_tokenizer, loaded.tgt_tokenizer
    assert all(len(tokenizers[0].encode(text)) == len(text) + 1 for text in (src, tgt))  # each letter and space
    assert align(same_place, *tokenizers, [(src, tgt)]) == [expected]


def test_blank_and_too_long_sides_have_no_links(loaded, caplog):
    cfg = loaded.config.model.model_copy(update={"positions": "learned", "max_positions": 8})
    model = Transformer(cfg, loaded.src_tokenizer.vocab_size, loaded.tgt_tokenizer.vocab_size)
    alignments = align(
        model, loaded.src_tokenizer, loaded.tgt_tokenizer, [("", "a"), ("a", " "), ("a" * 9, "a"), ("a", "a")]
    )
    assert alignments[:3] == ["", "", ""]
    [message] = caplog.messages
    assert "1 of 4 pairs" in message and "model.max_positions=8" in message
    assert align(model, loaded.src_tokenizer, loaded.tgt_tokenizer, []) == []
    assert model.training


def test_the_spans_of_tokens_spell_the_text(loaded):
    tokenizer = loaded.src_tokenizer
    for text in ("I love  oranges.", " the cat", "\u00bd \ufb01ne\u2026", "\u65e5\u672c", "a\u2581b", ""):
        spans = tokenizer.spans(text)
        assert len(spans) == len(tokenizer.encode(text))
        assert "".join(text[start:end] for start, end in spans).strip() == text.strip()
        assert all(0 <= start <= end <= len(text) for start, end in spans)


def test_weights_of_words_are_the_attention_of_their_tokens(loaded):
    src, tgt = "I love oranges.", "J'aime les oranges."
    src_words, tgt_words = [(0, 1), (2, 6), (7, 14), (14, 15)], [(0, 2), (2, 6), (7, 10), (11, 18), (18, 19)]
    tokenizers = loaded.src_tokenizer, loaded.tgt_tokenizer
    [found] = interval_weights(loaded.model, *tokenizers, [(src, tgt)], [(src_words, tgt_words)])
    pair = ForcedPair(tokenizers[0].encode(src), tokenizers[1].encode(tgt))
    [attention] = attention_weights(loaded.model, [pair])

    def share(token, word) -> float:
        """Of the token's characters without spaces, by counting them."""
        places = [index for index in range(*token[0]) if not token[1][index].isspace()]
        return sum(word[0] <= index < word[1] for index in places) / max(1, len(places))

    of_src = [[share((span, src), word) for word in src_words] for span in tokenizers[0].spans(src)]
    of_tgt = [[share((span, tgt), word) for word in tgt_words] for span in tokenizers[1].spans(tgt)]
    for row, tokens in enumerate(zip(*of_tgt, strict=True)):
        for column, src_tokens in enumerate(zip(*of_src, strict=True)):
            expected = sum(
                a * b * float(attention[t, s]) for t, a in enumerate(tokens) for s, b in enumerate(src_tokens)
            ) / sum(tokens)
            assert found[row, column] == pytest.approx(expected, abs=1e-6)
    assert (found.sum(1) <= 1 + 1e-6).all()
    blank = interval_weights(loaded.model, *tokenizers, [("", tgt)], [([], tgt_words)])
    assert blank[0].shape == (5, 0)
