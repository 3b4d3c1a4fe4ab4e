"""Decoding by compiled loops: as the model's own layers decode, and each sentence by itself to the last bit."""

import numpy as np
import pytest
import torch
from searches import MODERN

from mtkit.config.model import ModelConfig
from mtkit.model import ops
from mtkit.model.inference import Decoder
from mtkit.model.quantization import quantize
from mtkit.model.transformer import Transformer

pytest.importorskip("numba")
from mtkit.model.cpu import tiles
from mtkit.model.cpu.compiled import CompiledOutput, CompiledTransformer, can_compile

if not tiles.HAS_FLOATS:
    pytest.skip("this processor lacks the instructions", allow_module_level=True)

TYPES = [np.float32, *tiles.INTEGERS]  # of the inputs of products
PRECISIONS = ["fp32", *(["int8"] if tiles.INTEGERS else [])]
KINDS: list[dict[str, object]] = [
    {},
    {"norm_position": "post"},
    {"decoder": "ssru"},
    {"positions": "learned"},
    {"positions": "marian"},
    {"positions": "fairseq", "end_first": True},
    {"positions": "rotary", "n_heads": 1, "activation": "silu"},
    {"positions": "rotary", "decoder": "ssru", "norm_position": "post"},
    MODERN,
    {"activation": "gelu", "norm": "rmsnorm", "norm_position": "post"},
]
V = 150  # more than two panels of outputs, and not whole ones

every_precision = pytest.mark.parametrize("precision", PRECISIONS)
every_type = pytest.mark.parametrize("kind", TYPES)


def model_of(**choices: object) -> Transformer:
    torch.manual_seed(1)
    sizes = {"d_model": 36, "d_ff": 70, "n_heads": 3, "n_encoder_layers": 2, "n_decoder_layers": 2}
    model = Transformer(ModelConfig.model_validate(sizes | choices), V, V).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:  # biases begin as zeros, gains as ones: a wrong one would not show
                weight.add_(0.1 * torch.randn_like(weight))
    return model


def sources(*lengths: int) -> torch.Tensor:
    ids = torch.randint(4, V, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(2))
    return ids.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], 0)


def walk(decoder, src: torch.Tensor, n_steps: int, keep: list[int]):
    """Decode random tokens with three hypotheses, reordered after each step; yield logits and attention.

    After five steps, only the sentences in keep stay. What a sentence is given depends on its index alone.
    """
    cache, left = decoder.start_decoding(src, 3), torch.arange(len(src))
    cache.attention = torch.empty(0)
    for t in range(n_steps):
        generators = [torch.Generator().manual_seed(1000 * t + int(b)) for b in left]
        yield (
            decoder.decode_step(torch.stack([torch.randint(4, V, (3,), generator=g) for g in generators]), cache),
            cache.attention[..., : src.size(1)],
        )
        if t == 5:
            stay = torch.tensor(keep)
            cache.select(stay)
            left, generators = left[stay], [generators[b] for b in keep]
        cache.reorder(torch.stack([torch.randint(0, 3, (3,), generator=g) for g in generators]))


@pytest.mark.parametrize("is_guided", [False, True])
@torch.no_grad()
def test_the_attention_of_a_step_is_that_by_which_words_align(is_guided):
    model, src = model_of(n_decoder_layers=3), sources(6)
    model.is_guided = is_guided
    tgt = torch.tensor([[2, 7, 9, 5]])
    expected = model.hidden_and_alignment(src, tgt)[1]
    decoders: list[Decoder] = [model, CompiledTransformer(model, "fp32")]
    for decoder in decoders:
        cache = decoder.start_decoding(src, 1)
        cache.attention = torch.empty(0)
        for position, token in enumerate(tgt[0]):
            decoder.decode_step(token.view(1, 1), cache)
            torch.testing.assert_close(cache.attention[0, 0, :6], expected[0, position], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@torch.no_grad()
def test_a_step_gives_the_logits_and_the_attention_of_the_layers(kind):
    model, src = model_of(**kind), sources(7, 3, 9, 1)
    expected = list(walk(model, src, 40, [0, 2, 3]))  # beyond the room that a cache has at first
    for (logits, attention), (ours, looked) in zip(
        expected, walk(CompiledTransformer(model, "fp32"), src, 40, [0, 2, 3]), strict=True
    ):
        torch.testing.assert_close(ours, logits, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(looked, attention, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not tiles.INTEGERS, reason="this processor lacks the instructions")
@pytest.mark.parametrize("kind", [{}, MODERN], ids=str)
@torch.no_grad()
def test_a_step_in_int8_is_as_close_to_the_model_as_the_layers_in_int8_are(kind):
    model, src = model_of(**kind), sources(7, 3, 9, 1)
    exact, plain, ours = (
        torch.stack([logits[0] for logits, _ in walk(decoder, src, 20, [0])])
        for decoder in (model, quantize(model, "int8"), CompiledTransformer(model, "int8"))
    )
    error, usual = (ours - exact).pow(2).mean().sqrt(), (plain - exact).pow(2).mean().sqrt()
    assert 0 < error < 1.5 * usual < 0.1 * exact.std()


@every_precision
@pytest.mark.parametrize("kind", [{}, {"decoder": "ssru"}, MODERN], ids=str)
@torch.no_grad()
def test_a_sentence_does_not_depend_on_its_batch_to_the_last_bit(kind, precision):
    decoder = CompiledTransformer(model_of(**kind), precision)
    lengths = [9, 2, 5, 30, *[4] * 40]  # more rows than go through the layers together
    for index in (0, 3, 20):
        alone = [logits[0] for logits, _ in walk_alone(decoder, lengths, index)]
        together = [logits[index] for logits, _ in walk(decoder, sources(*lengths), 5, [])]
        assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))


def walk_alone(decoder, lengths, index):
    """What `walk` gives the sentence of this index, without the others."""
    src = sources(*lengths)[index : index + 1, : lengths[index]]
    cache = decoder.start_decoding(src, 3)
    for t in range(5):
        generator = torch.Generator().manual_seed(1000 * t + index)
        yield decoder.decode_step(torch.randint(4, V, (1, 3), generator=generator), cache), None
        cache.reorder(torch.randint(0, 3, (1, 3), generator=generator))


@every_type
@pytest.mark.parametrize("n_rows", [*range(1, 14), 100])
def test_a_product_is_right_for_any_number_of_rows(n_rows, kind):
    torch.manual_seed(n_rows)
    weight, bias = torch.randint(-127, 128, (V, 37)).float(), torch.randn(V)
    x = torch.randint(-127, 128, (n_rows, 37)).float()
    weight[:, 0], x[:, 1] = 127.0, -127.0  # the largest magnitude, so that 8-bit integers round nothing
    expected = x.double() @ weight.double().T + bias.double()
    output = CompiledOutput(weight, bias, np.empty(0, kind))
    torch.testing.assert_close(output(x), expected.float(), rtol=1e-6, atol=0.05)


@every_type
@pytest.mark.parametrize("n", [1, 5, 32])
def test_the_likeliest_tokens_are_those_of_the_whole_rows(n, kind):
    output = CompiledOutput(torch.randn(V, 36), torch.randn(V), np.empty(0, kind))
    x = torch.randn(70, 36)
    expected = output(x).log_softmax(1)
    expected[:, [0, 2]] = -torch.inf
    values, ids = expected.topk(n)
    log_probs, chosen = map(torch.from_numpy, output.choose(x.numpy(), n, [0, 2]))
    assert torch.equal(chosen, ids)
    torch.testing.assert_close(log_probs, values)


@every_type
def test_forbidden_tokens_share_no_probability(kind):
    output, n_sentences, n_hypotheses = CompiledOutput(torch.randn(V, 36), torch.randn(V), np.empty(0, kind)), 30, 3
    forbidden = torch.rand(n_sentences, V) < 0.9
    x = torch.randn(n_sentences * n_hypotheses, 36)
    of_rows = forbidden.repeat_interleave(n_hypotheses, 0)
    expected = output(x).masked_fill(of_rows, -torch.inf).log_softmax(1)
    expected[:, 2] = -torch.inf
    values, ids = expected.topk(4)
    log_probs, chosen = map(torch.from_numpy, output.choose(x.numpy(), 4, [2], forbidden.numpy()))
    assert torch.equal(chosen, ids)
    torch.testing.assert_close(log_probs, values)


def test_of_equally_likely_tokens_the_lower_ids_come_first():
    output = CompiledOutput(torch.zeros(V, 36), torch.arange(V) // 50 * 1.0, np.empty(0, np.float32))
    _, chosen = output.choose(torch.randn(2, 36).numpy(), 4, [101])
    assert chosen.tolist() == [[100, 102, 103, 104]] * 2


def test_what_is_not_a_number_stays_so():
    output = CompiledOutput(torch.randn(V, 36), torch.zeros(V), np.empty(0, np.float32))
    x = torch.randn(3, 36)
    x[1, 5] = torch.nan
    log_probs, _ = output.choose(x.numpy(), 2, [])
    assert torch.from_numpy(log_probs).isnan().any(dim=1).tolist() == [False, True, False]


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "swiglu"])
@torch.no_grad()
def test_an_activation_does_not_hide_what_is_not_a_number(activation):
    model = model_of(activation=activation)
    bias = model.decoder_layers[0].get_parameter("feed_forward.in_proj.bias")
    bias[3] = torch.nan
    decoder = CompiledTransformer(model, "fp32")
    assert decoder.decode_step(torch.tensor([[2]]), decoder.start_decoding(sources(3), 1)).isnan().all()


@torch.no_grad()
def test_choosing_among_too_few_tokens_is_left_to_the_search():
    decoder = CompiledTransformer(model_of(), "fp32")
    cache = decoder.start_decoding(sources(3), 1)
    assert decoder.choose(torch.tensor([[2]]), cache, V - 1, [0, 2]) is None
    assert cache.length == 0


def test_an_id_beyond_the_vocabulary_is_refused():
    with pytest.raises(IndexError, match=f"from 5 to {V}, but the vocabulary has {V} tokens"):
        CompiledTransformer(model_of(), "fp32").start_decoding(torch.tensor([[5, V]]), 1)


@pytest.mark.parametrize("kind", ["relative", "alibi"])
def test_what_the_loops_do_not_know_is_left_to_the_layers(kind):
    model = model_of(positions=kind)
    assert not can_compile(model.cfg, "fp32")
    assert model.cfg.without_loops == [f"model.positions={kind}"]
    assert ops.decoder(model, "fp32") is None


@every_type
@pytest.mark.parametrize("ids", [[3, 140, 7], [5], [*range(V)], [*range(V)[::-3]]], ids=len)
def test_selected_outputs_are_computed_as_before(ids, kind):
    output = CompiledOutput(torch.randn(V, 37), torch.randn(V), np.empty(0, kind))
    x, chosen = torch.randn(8, 37), torch.tensor(ids)
    assert torch.equal(output.select_outputs(chosen)(x), output(x)[:, chosen])
    again = torch.randperm(len(ids))
    assert torch.equal(output.select_outputs(chosen).select_outputs(again)(x), output(x)[:, chosen[again]])
