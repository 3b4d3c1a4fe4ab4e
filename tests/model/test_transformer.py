"""The model against torch's own Transformer with the same weights, and the laws that hold for every variant."""

import itertools
import math
from functools import cache
from typing import Any

import pytest
import torch
from tiny_models import tiny_transformer
from torch import Tensor, nn

from mtkit.config.model import ModelConfig
from mtkit.model.transformer import Transformer, count_weights

SRC_VOCAB, TGT_VOCAB, PAD = 13, 11, 0

VARIANTS = [
    {"norm": norm, "norm_position": position, "positions": positions, "activation": activation}
    for norm, position, positions, activation in itertools.product(
        ["layernorm", "rmsnorm"], ["pre", "post"], ["sinusoidal", "learned", "rotary"], ["relu", "swiglu"]
    )
] + [{"positions": "relative", "norm_position": "post"}, {"positions": "alibi", "norm": "rmsnorm"}]


def small_model(**choices: Any) -> Transformer:
    sizes: dict[str, Any] = {"d_ff": 24, "n_encoder_layers": 2, "n_decoder_layers": 2}
    sizes["max_relative_distance"] = 3  # below the sentences' lengths
    return tiny_transformer(SRC_VOCAB, TGT_VOCAB, noise=0.1, **{**sizes, **choices})


@cache
def variant(**choices: str) -> Transformer:
    """A model that tests share, so they leave its weights as they are."""
    return small_model(**choices)


CHOICES: dict[str, list[str]] = {
    "decoder": ["attention", "ssru"],
    "tie": ["none", "decoder", "all"],
    "norm": ["layernorm", "rmsnorm"],
    "norm_position": ["pre", "post"],
    "positions": ["sinusoidal", "marian", "fairseq", "learned", "rotary", "relative", "alibi"],
    "activation": ["relu", "gelu", "silu", "swiglu"],
}


@pytest.mark.parametrize("keys", list(itertools.combinations(CHOICES, 2)), ids="-".join)
def test_the_count_of_weights_is_that_of_the_model(keys):
    sizes: dict[str, Any] = {
        "d_model": 8,
        "d_ff": 12,
        "n_heads": 2,
        "n_encoder_layers": 1,
        "n_decoder_layers": 2,
        "max_positions": 9,
        "max_relative_distance": 5,
    }
    for values in itertools.product(*map(CHOICES.__getitem__, keys)):
        cfg = ModelConfig.model_validate(sizes | dict(zip(keys, values, strict=True)))
        vocab_sizes = SRC_VOCAB, SRC_VOCAB if cfg.tie == "all" else TGT_VOCAB
        parameters = Transformer(cfg, *vocab_sizes, PAD).parameters()
        assert count_weights(cfg, *vocab_sizes) == sum(parameter.numel() for parameter in parameters), values


def some_ids(n_sentences: int, length: int, vocab_size: int) -> Tensor:
    return torch.randint(4, vocab_size, (n_sentences, length), generator=torch.Generator().manual_seed(length))


def copy_weights(ours: nn.Module, theirs: nn.Module, names: dict[str, str]) -> None:
    for our_name, their_name in names.items():
        for kind in ("weight", "bias"):
            value = ours.get_parameter(f"{our_name}.{kind}")
            packed = their_name in ("self_attn.in_proj", "multihead_attn.in_proj")
            target = theirs.get_parameter(f"{their_name}_{kind}" if packed else f"{their_name}.{kind}")
            target.copy_(value)


COMMON = {
    "self_attention.qkv_proj": "self_attn.in_proj",
    "self_attention.out_proj": "self_attn.out_proj",
    "self_attention_residual.norm": "norm1",
    "feed_forward.in_proj": "linear1",
    "feed_forward.out_proj": "linear2",
}
ENCODER = COMMON | {"feed_forward_residual.norm": "norm2"}
DECODER = COMMON | {
    "cross_attention.out_proj": "multihead_attn.out_proj",
    "cross_attention_residual.norm": "norm2",
    "feed_forward_residual.norm": "norm3",
}


def torch_twin(model: Transformer) -> nn.Transformer:
    """torch's Transformer with the weights of model."""
    cfg, pre = model.cfg, model.cfg.norm_position == "pre"
    options: dict[str, Any] = {
        "dim_feedforward": cfg.d_ff,
        "dropout": 0.0,
        "activation": cfg.activation,
        "batch_first": True,
    }
    encoder_layer = nn.TransformerEncoderLayer(cfg.d_model, cfg.n_heads, norm_first=pre, **options)
    decoder_layer = nn.TransformerDecoderLayer(cfg.d_model, cfg.n_heads, norm_first=pre, **options)
    final = nn.LayerNorm(cfg.d_model) if pre else None
    encoder = nn.TransformerEncoder(encoder_layer, cfg.n_encoder_layers, final, enable_nested_tensor=False)
    final = nn.LayerNorm(cfg.d_model) if pre else None
    decoder = nn.TransformerDecoder(decoder_layer, cfg.n_decoder_layers, final)
    twin = nn.Transformer(cfg.d_model, cfg.n_heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    with torch.no_grad():
        for ours, theirs in zip(model.encoder_layers, twin.encoder.layers, strict=True):
            copy_weights(ours, theirs, ENCODER)
        for our_layer, theirs in zip(model.decoder_layers, twin.decoder.layers, strict=True):
            copy_weights(our_layer, theirs, DECODER)
            for kind in ("weight", "bias"):
                q, kv = (our_layer.get_parameter(f"cross_attention.{name}.{kind}") for name in ("q_proj", "kv_proj"))
                theirs.get_parameter(f"multihead_attn.in_proj_{kind}").copy_(torch.cat([q, kv]))
        if pre:
            twin.encoder.norm.load_state_dict(model.encoder_norm.state_dict())
            twin.decoder.norm.load_state_dict(model.decoder_norm.state_dict())
    return twin.eval()


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_logits_equal_those_of_torchs_transformer_with_the_same_weights(norm_position: str, activation: str) -> None:
    model = small_model(norm_position=norm_position, activation=activation)
    twin = torch_twin(model)
    src, tgt = some_ids(3, 7, SRC_VOCAB), some_ids(3, 5, TGT_VOCAB)
    src[1, 4:] = PAD

    def embed(ids: Tensor, weight: Tensor) -> Tensor:  # written out again: sqrt(d) x embedding + sinusoid
        position, i = torch.arange(ids.size(1))[:, None], torch.arange(8)
        angle = position / 10000 ** (2 * i / 16)
        return weight[ids] * 4.0 + torch.cat([angle.sin(), angle.cos()], dim=1)

    hidden = twin(
        embed(src, model.src_embedding.weight),
        embed(tgt, model.tgt_embedding.weight),
        tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
        src_key_padding_mask=src == PAD,
        memory_key_padding_mask=src == PAD,
    )
    expected = hidden @ model.output.weight.T + model.output.bias
    torch.testing.assert_close(model(src, tgt), expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("choices", VARIANTS, ids=lambda c: "-".join(c.values()))
class TestEveryVariant:
    def test_a_later_target_never_changes_an_earlier_logit(self, choices: dict[str, str]) -> None:
        model = variant(**choices)
        src, tgt = some_ids(2, 6, SRC_VOCAB), some_ids(2, 8, TGT_VOCAB)
        other = tgt.clone()
        other[:, 4:] = (tgt[:, 4:] - 4 + 3) % (TGT_VOCAB - 4) + 4
        before, after = model(src, tgt), model(src, other)
        torch.testing.assert_close(before[:, :4], after[:, :4], rtol=0, atol=1e-6)
        assert (before[:, 4:] - after[:, 4:]).abs().max() > 1e-3

    def test_padding_changes_nothing(self, choices: dict[str, str]) -> None:
        model = variant(**choices)
        src, tgt = some_ids(1, 6, SRC_VOCAB), some_ids(1, 5, TGT_VOCAB)
        alone = model(src, tgt)
        padded_src = torch.cat([src, torch.full((1, 4), PAD)], dim=1)
        padded_tgt = torch.cat([tgt, torch.full((1, 3), PAD)], dim=1)
        beside = torch.cat([padded_src, some_ids(1, 10, SRC_VOCAB)]), torch.cat([padded_tgt, some_ids(1, 8, TGT_VOCAB)])
        torch.testing.assert_close(model(*beside)[:1, :5], alone, atol=2e-5, rtol=1e-5)

    def test_cached_decoding_equals_full_decoding(self, choices: dict[str, str]) -> None:
        model = variant(**choices)
        src, beam_size, length = some_ids(2, 6, SRC_VOCAB), 3, 18  # 18 positions: the cache grows beyond its first 16
        src[0, 3:] = PAD
        prefixes = some_ids(2 * beam_size, length, TGT_VOCAB)
        cache = model.start_decoding(src, beam_size)
        steps = [model.decode_step(column.view(2, beam_size), cache) for column in prefixes.T]
        stepwise = torch.stack(steps, dim=2).flatten(0, 1)
        full = model(src.repeat_interleave(beam_size, dim=0), prefixes)
        torch.testing.assert_close(stepwise, full, atol=2e-5, rtol=1e-5)

    def test_an_empty_source_gives_numbers_and_gradients(self, choices: dict[str, str]) -> None:
        model = variant(**choices)
        src = torch.tensor([[5, 6, 3], [PAD, PAD, PAD]])
        logits = model(src, some_ids(2, 4, TGT_VOCAB))
        assert logits.isfinite().all()
        logits.sum().backward()
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@torch.no_grad()
def test_with_end_first_the_decoder_reads_end_before_what_it_is_given():
    model, plain = (small_model(positions="fairseq", end_first=value) for value in (True, False))
    plain.load_state_dict(model.state_dict())
    src, tgt = some_ids(2, 6, SRC_VOCAB), some_ids(2, 20, TGT_VOCAB)
    expected, attention = plain.hidden_and_alignment(src, torch.cat([torch.full((2, 1), 3), tgt], dim=1))
    hidden, ours = model.hidden_and_alignment(src, tgt)
    torch.testing.assert_close(hidden, expected[:, 1:])
    torch.testing.assert_close(ours, attention[:, 1:])
    cache = model.start_decoding(src, 1)
    steps = [model.decode_step(column.view(2, 1), cache) for column in tgt.T]
    torch.testing.assert_close(torch.cat(steps, dim=1), model.output(expected[:, 1:]), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "alibi"])
def test_reordered_and_kept_hypotheses_continue_their_own_prefix(positions: str) -> None:
    model = small_model(positions=positions)
    src = some_ids(3, 6, SRC_VOCAB)
    cache = model.start_decoding(src, beam_size=2)
    model.decode_step(torch.tensor([[4, 5], [6, 7], [8, 9]]), cache)
    cache.select(torch.tensor([0, 2]))
    cache.reorder(torch.tensor([[1, 1], [1, 0]]))
    stepped = model.decode_step(torch.tensor([[5, 6], [7, 8]]), cache)
    prefixes = torch.tensor([[5, 5], [5, 6], [9, 7], [8, 8]])
    full = model(src[[0, 0, 2, 2]], prefixes)[:, -1].view(2, 2, -1)
    torch.testing.assert_close(stepped, full, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize(("tie", "n_matrices"), [("none", 3), ("decoder", 2), ("all", 1)])
def test_tying_shares_the_matrices_that_it_names(tie: str, n_matrices: int) -> None:
    model = Transformer(ModelConfig(d_model=16, d_ff=24, n_heads=2, tie=tie), 11, 11)
    ends = [model.src_embedding.weight, model.tgt_embedding.weight, model.output.weight]
    assert len({weight.data_ptr() for weight in ends}) == n_matrices
    assert sum(p.shape == (11, 16) for p in model.parameters()) == n_matrices


def test_tying_all_needs_vocabularies_of_one_size() -> None:
    with pytest.raises(ValueError, match=r"tie=all.* 11 .* 12 "):
        Transformer(ModelConfig(d_model=16, d_ff=24, n_heads=2, tie="all"), 11, 12)


def test_swiglu_gates_one_half_by_the_swish_of_the_other() -> None:
    model = small_model(activation="swiglu")
    layer, x = model.encoder_layers[0].feed_forward, torch.randn(2, 16)
    gate_weight, value_weight = layer.in_proj.weight[:24], layer.in_proj.weight[24:]
    gate, value = x @ gate_weight.T + layer.in_proj.bias[:24], x @ value_weight.T + layer.in_proj.bias[24:]
    expected = (gate / (1 + (-gate).exp()) * value) @ layer.out_proj.weight.T + layer.out_proj.bias
    torch.testing.assert_close(layer(x), expected, atol=1e-6, rtol=1e-5)


def test_dropout_kinds_act_apart_and_only_in_training() -> None:
    src, tgt = some_ids(2, 6, SRC_VOCAB), some_ids(2, 5, TGT_VOCAB)
    kinds = ["embedding_dropout", "residual_dropout", "attention_dropout", "ffn_dropout"]
    for kind in kinds:
        model = small_model(**{other: 0.5 if other == kind else 0.0 for other in kinds})
        without = model(src, tgt)
        assert torch.equal(without, model(src, tgt)), kind
        model.train()
        assert not torch.allclose(without, model(src, tgt)), kind
    model = small_model(**dict.fromkeys(kinds, 0.0))
    without = model(src, tgt)
    assert torch.equal(without, model.train()(src, tgt))


def test_both_sides_have_embedding_dropout_in_training() -> None:
    model = small_model(embedding_dropout=0.5, residual_dropout=0.0).train()
    src, tgt = some_ids(2, 6, SRC_VOCAB), some_ids(2, 5, TGT_VOCAB)
    memory, pad_bias = model.encode(src)
    assert not torch.allclose(model.encode(src)[0], memory)
    assert not torch.allclose(model.decode(tgt, memory, pad_bias), model.decode(tgt, memory, pad_bias))


@pytest.mark.parametrize(
    ("name", "n_matrices", "n_out"),
    [
        ("encoder_layers.0.self_attention.qkv_proj", 3, 128),
        ("decoder_layers.0.cross_attention.q_proj", 1, 128),
        ("decoder_layers.0.cross_attention.kv_proj", 2, 128),
        ("decoder_layers.0.cross_attention.out_proj", 1, 128),
        ("decoder_layers.0.self_attention.in_proj", 2, 128),  # of the recurrent unit
        ("decoder_layers.0.feed_forward.in_proj", 2, 320),  # swiglu's gate and value
        ("decoder_layers.0.feed_forward.out_proj", 1, 128),
    ],
)
def test_each_matrix_is_drawn_by_its_own_size_packed_or_not(name: str, n_matrices: int, n_out: int) -> None:
    torch.manual_seed(0)
    shape: dict[str, Any] = {"d_model": 128, "d_ff": 320, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    model = Transformer(ModelConfig(**shape, activation="swiglu", decoder="ssru"), 9, 9)
    weight = model.get_parameter(f"{name}.weight")
    bound = math.sqrt(6 / (weight.size(1) + n_out))  # Glorot and Bengio 2010, equation 16
    for matrix in weight.detach().split(n_out):
        assert 0.99 * bound < matrix.abs().max().item() <= bound
        assert matrix.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert len(weight) == n_matrices * n_out


@pytest.mark.parametrize(
    ("name", "n_sublayers"),
    [
        ("encoder_layers.5.self_attention.out_proj", 6 * 2),
        ("encoder_layers.0.feed_forward.out_proj", 6 * 2),
        ("decoder_layers.1.cross_attention.out_proj", 2 * 3),
        ("decoder_layers.1.feed_forward.in_proj", None),
    ],
)
@pytest.mark.parametrize("decoder", ["attention", "ssru"])
def test_with_norms_after_them_sublayers_start_small_in_deep_stacks(
    name: str, n_sublayers: int | None, decoder: str
) -> None:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"d_model": 64, "d_ff": 64, "n_encoder_layers": 6, "n_decoder_layers": 2}
    model = Transformer(ModelConfig(**sizes, norm_position="post", decoder=decoder), 9, 9)
    glorot = math.sqrt(6 / (64 + 64))
    expected = glorot if n_sublayers is None else glorot / math.sqrt(n_sublayers)  # Radford et al. 2019, section 2.3
    assert model.get_parameter(f"{name}.weight").abs().max().item() == pytest.approx(expected, rel=0.01)


def key_biases(model: Transformer) -> list[tuple[str, Tensor, Tensor | None]]:
    """The keys' part of each packed bias: its name, value and gradient."""
    found = []
    for name, parameter in model.named_parameters():
        rows = {"qkv_proj.bias": slice(16, 32), "kv_proj.bias": slice(0, 16)}.get(".".join(name.split(".")[-2:]))
        if rows:
            found.append((name, parameter.data[rows], None if parameter.grad is None else parameter.grad[rows]))
    assert len(found) == 2 + 2 * 2  # two encoder layers, two decoder layers with two attentions each
    return found


@pytest.mark.parametrize("positions", ["sinusoidal", "marian", "learned", "rotary", "relative", "alibi"])
def test_a_keys_bias_has_neither_effect_nor_gradient_unless_it_is_rotated(positions: str) -> None:
    model = small_model(positions=positions).double()
    src, tgt = some_ids(3, 7, SRC_VOCAB), some_ids(3, 5, TGT_VOCAB)
    src[1, 4:] = PAD
    before = model(src, tgt)
    before.square().sum().backward()
    largest = max(p.grad.abs().max().item() for p in model.parameters() if p.grad is not None)
    for name, bias, grad in key_biases(model):
        assert grad is not None
        has_effect = positions == "rotary" and "self_attention" in name
        assert (grad.abs().max().item() > 1e-12 * largest) == has_effect, name
        kept = bias.clone()
        bias.normal_(generator=torch.Generator().manual_seed(1))
        assert ((model(src, tgt) - before).abs().max().item() > 1e-10) == has_effect, name
        bias.copy_(kept)


@pytest.mark.parametrize(("positions", "start_is_zero"), [("marian", True), ("sinusoidal", False)])
@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_a_new_model_has_no_key_bias_and_with_marians_positions_starts_from_zeros(
    positions: str, start_is_zero: bool, tie: str
) -> None:
    model = Transformer(ModelConfig(d_model=16, d_ff=24, n_heads=2, positions=positions, tie=tie), 11, 11)
    assert not any(value.any() for name, value in model.state_dict().items() if name.endswith("proj.bias"))
    assert [not row.any() for row in model.tgt_embedding.weight] == [start_is_zero and row == 2 for row in range(11)]


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_a_model_that_starts_translating_hands_on_what_it_looks_at(tie: str, norm_position: str) -> None:
    model = tiny_transformer(TGT_VOCAB, TGT_VOCAB, tie=tie, norm_position=norm_position, n_decoder_layers=4)
    before = model.tgt_embedding.weight.detach().clone()
    translated = nn.functional.normalize(torch.randn(TGT_VOCAB, before.size(1)), dim=1)
    translated[:5] = 0.0
    model.start_translating(translated)
    for matrix in (model.tgt_embedding.weight, model.output.weight):
        cosines = nn.functional.cosine_similarity(matrix, translated, dim=1)
        assert cosines[5:].min() > 0.9
    assert torch.equal(model.tgt_embedding.weight[:5], before[:5])
    assert not torch.equal(model.tgt_embedding.weight[5:], translated[5:])  # those with one translation differ
    memory = torch.randn(3, 1, before.size(1))  # one word, at which all heads look
    for layer, hands_on in zip(model.decoder_layers, [False, False, True, False], strict=True):  # the third aligns
        attention = layer.cross_attention
        seen = attention(torch.randn(3, 2, before.size(1)), *attention.keys_values(memory), None)
        assert torch.allclose(seen, 3 * memory.expand_as(seen), atol=1e-4) == hands_on
